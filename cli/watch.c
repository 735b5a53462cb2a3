#include "cli/watch.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/job_read.h"
#include "cli/progress.h"
#include "schema/limits.h"

#define LINE_MAX_BYTES 1024
#define WAIT_SECONDS 30
/* A coordinator that is away: how often it is asked again, and for how long. */
#define AWAY_PAUSE_MS 500
#define AWAY_MINUTES 5
/* Between two lines of mere progress. */
#define PROGRESS_MS 1000

/* Where progress is written: over one line of a terminal, or as line after line. */
struct screen {
    FILE *out;
    bool terminal;
    char last[LINE_MAX_BYTES];
    int64_t shown_ms;           /* when that was; 0: nothing is there */
    int state;                  /* of the job, in that line */
    char message[MESSAGE_SIZE]; /* likewise */
    int64_t generation;         /* the newest one that is known to run */
    bool late;                  /* there is progress that is not shown yet */
};

/* A line that wraps could not be written over. 0: lines may have any length. */
static size_t screen_columns(const struct screen *screen)
{
    struct winsize window = {0};
    if (!screen->terminal) {
        return 0;
    }
    return ioctl(fileno(screen->out), TIOCGWINSZ, &window) == 0 && window.ws_col > 1
               ? window.ws_col - 1u
               : 79;
}

static void screen_show(struct screen *screen, const char *line)
{
    if (strcmp(line, screen->last) == 0) {
        return;
    }
    (void)snprintf(screen->last, sizeof(screen->last), "%s", line);
    if (!screen->terminal) {
        fprintf(screen->out, "%s\n", line);
    } else {
        fprintf(screen->out, "\r\033[K%s", line);
    }
    (void)fflush(screen->out);
}

/* Take the line that is written over away. */
static void screen_end(struct screen *screen)
{
    if (screen->terminal && screen->last[0] != '\0') {
        (void)fputs("\r\033[K", screen->out);
    }
    screen->last[0] = '\0';
    screen->shown_ms = 0;
}

/* A line that stays. */
static void screen_say(struct screen *screen, const char *line)
{
    screen_end(screen);
    fprintf(screen->out, "%s\n", line);
    (void)fflush(screen->out);
}

/* Whether only the numbers of the job differ from the line before. */
static bool too_soon(const struct screen *screen, const struct job *job)
{
    return screen->shown_ms != 0 && clock_now_ms() - screen->shown_ms < PROGRESS_MS &&
           (int)job->state == screen->state && strcmp(job->message, screen->message) == 0;
}

static void show(const struct job *job, const struct progress_shares *shares, struct screen *screen)
{
    char line[LINE_MAX_BYTES];
    /* The first one has no story. */
    if (job->state == JOB_RUNNING && job->generation > 1 && job->generation != screen->generation) {
        screen->generation = job->generation;
        progress_news(job, line, sizeof(line));
        screen_say(screen, line);
    }
    screen->late = too_soon(screen, job);
    if (screen->late) {
        return;
    }
    progress_line(job, shares, screen_columns(screen), line, sizeof(line));
    screen_show(screen, line);
    screen->shown_ms = clock_now_ms();
    screen->state = (int)job->state;
    memcpy(screen->message, job->message, MESSAGE_SIZE);
}

/* A running watch. */
struct watch {
    struct api *api;
    const char *id;
    struct screen screen;
    struct progress_shares shares;
    FILE *complaints;
    int64_t away_since; /* when the coordinator went away; 0: it is there */
};

static void say_back(struct watch *watch)
{
    if (watch->away_since != 0) {
        watch->away_since = 0;
        fprintf(watch->complaints, "paceline: %s answers again\n", watch->api->server);
        (void)fflush(watch->complaints);
    }
}

/* One look: read the job (as read_job) and show it, its end as a line that stays. */
static int look(struct watch *watch, int64_t after, struct job *job, struct err *err)
{
    struct screen *screen = &watch->screen;
    char line[LINE_MAX_BYTES];
    int rc = job_read(watch->api, watch->id, after,
                      screen->late ? PROGRESS_MS / 1000 : WAIT_SECONDS, job, err);
    if (rc) {
        return rc;
    }
    say_back(watch);
    if (job_state_ended(job->state)) {
        progress_end(job, line, sizeof(line));
        screen_say(screen, line);
        return 0;
    }
    if (job->generation > 0 && job->generation != watch->shares.generation) {
        rc = job_read_shares(watch->api, job, &watch->shares, err);
    }
    if (!rc) {
        show(job, &watch->shares, screen);
    }
    return !rc && ferror(screen->out) ? err_set(err, ERR_IO, "write the progress: failed") : rc;
}

/* After a failed look: 0 if another one is due, after a moment; else its error. */
static int try_again(struct watch *watch, int rc, struct err *err)
{
    int64_t now = clock_now_ms();
    struct screen *screen = &watch->screen;
    if (!watch->api->answered || (rc != ERR_NETWORK && rc != ERR_TIMEOUT && rc != ERR_STATE)) {
        return rc;
    }
    if (watch->away_since == 0) {
        watch->away_since = now;
        screen_end(screen);
        (void)fflush(screen->out);
        fprintf(watch->complaints, "paceline: %s does not answer; retrying for %d minutes\n",
                watch->api->server, AWAY_MINUTES);
        (void)fflush(watch->complaints);
    }
    if (now - watch->away_since > (int64_t)AWAY_MINUTES * 60000) {
        return rc;
    }
    return api_pause(watch->api, screen->out, AWAY_PAUSE_MS, err);
}

int watch_job(struct api *api, const char *id, FILE *out, FILE *complaints, bool *succeeded,
              struct err *err)
{
    int rc = 0;
    struct watch watch = {.api = api,
                          .id = id,
                          .screen = {.out = out, .terminal = isatty(fileno(out)) == 1},
                          .complaints = complaints};
    for (int64_t after = -1; !rc;) {
        AUTO(job_release) struct job job = {0};
        rc = look(&watch, after, &job, err);
        if (!rc && job_state_ended(job.state)) {
            *succeeded = job.state == JOB_SUCCEEDED;
            return 0;
        }
        /* Ask a restarted coordinator for the current job, without a wait. */
        after = rc ? -1 : job.revision;
        rc = rc ? try_again(&watch, rc, err) : 0;
    }
    screen_end(&watch.screen);
    return rc;
}
