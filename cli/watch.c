#include "cli/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/groups.h"
#include "cli/job_read.h"
#include "cli/live_read.h"
#include "cli/progress.h"
#include "cli/screen.h"
#include "schema/limits.h"

#define LINE_MAX_BYTES 1024
#define PAGE_MAX_BYTES 65536
#define WAIT_SECONDS 30
/* An unreachable coordinator: the pause between two requests, and the time until the watch
 * fails. */
#define AWAY_PAUSE_MS 500
#define AWAY_MINUTES 5
/* The interval between two lines that differ in numbers only, and between two checks of the size of
 * the terminal. */
#define PROGRESS_MS 1000
/* The least interval between two drawings of the live view. */
#define DRAW_MS 250

/* A running watch. */
struct watch {
    struct api *api;
    const char *id;
    struct screen screen;
    struct live live;
    struct groups_view *groups; /* groups that train apart; allocated when first read */
    FILE *complaints;
    int64_t away_since; /* when the coordinator became unreachable; 0: reachable */
    /* What was shown last. */
    char line[LINE_MAX_BYTES];
    int64_t shown_ms; /* when it was shown; 0: nothing is shown */
    int state;        /* state of the job as shown; -1: nothing was shown */
    char message[MESSAGE_SIZE];
    int64_t generation; /* newest generation known to run */
    bool late;          /* some progress is not shown yet */
};

/* Write a line that stays on the screen. */
static void say(struct watch *watch, const char *line)
{
    screen_erase(&watch->screen);
    fprintf(watch->screen.out, "%s\n", line);
    (void)fflush(watch->screen.out);
    watch->line[0] = '\0';
    watch->shown_ms = 0;
}

/* Read the groups of a job whose groups train apart. */
static int read_groups(struct watch *watch, const struct job *job, struct err *err)
{
    if (job->spec.strategy != STRATEGY_GOSSIP) {
        return 0;
    }
    if (!watch->groups) {
        watch->groups = malloc(sizeof(*watch->groups));
    }
    watch->live.groups = watch->groups;
    return watch->groups ? groups_read(watch->api, watch->id, watch->groups, err)
                         : err_set(err, ERR_MEMORY, "no memory for the groups of a job");
}

static int say_groups(struct watch *watch, const struct job *job, struct err *err)
{
    char line[LINE_MAX_BYTES];
    int rc = read_groups(watch, job, err);
    for (size_t g = 0; rc == 0 && watch->groups && g < watch->groups->group_count; g++) {
        progress_group(&watch->groups->group[g], line, sizeof(line));
        say(watch, line);
    }
    return rc;
}

/* Whether only the numbers of the job differ from those shown last. */
static bool same_but_numbers(const struct watch *watch, const struct job *job)
{
    return (int)job->state == watch->state && strcmp(job->message, watch->message) == 0;
}

/* Write the job as a line, unless the line is the same or comes too soon. */
static int show_line(struct watch *watch, const struct job *job, struct err *err)
{
    char line[LINE_MAX_BYTES];
    int rc = 0;
    /* The first generation is no news: it has no cause to report. */
    if (job->state == JOB_RUNNING && job->generation > 1 && job->generation != watch->generation) {
        watch->generation = job->generation;
        progress_news(job, line, sizeof(line));
        say(watch, line);
    }
    watch->late = watch->shown_ms != 0 && clock_now_ms() - watch->shown_ms < PROGRESS_MS &&
                  same_but_numbers(watch, job);
    if (watch->late) {
        return 0;
    }
    progress_line(job, &watch->live.shares, 0, line, sizeof(line));
    if (strcmp(line, watch->line) != 0) {
        say(watch, line);
        rc = say_groups(watch, job, err);
        memcpy(watch->line, line, sizeof(line));
    }
    watch->shown_ms = clock_now_ms();
    watch->state = (int)job->state;
    memcpy(watch->message, job->message, MESSAGE_SIZE);
    return rc;
}

/* Draw the job on a terminal, over the previous drawing. */
static int show_live(struct watch *watch, const struct job *job, struct err *err)
{
    struct live_style style = {.colour = watch->screen.colour, .unicode = watch->screen.unicode};
    bool changed = !same_but_numbers(watch, job) || job->generation != watch->generation;
    BUF_AUTO struct buf page;
    buf_init(&page, PAGE_MAX_BYTES);
    screen_size(&watch->screen, &style.columns, &style.rows);
    int rc = live_read(watch->api, job, changed, &watch->live, err);
    rc = rc ? rc : read_groups(watch, job, err);
    rc = rc ? rc : live_render(&watch->live, job, &style, &page, err);
    if (rc) {
        return rc;
    }
    screen_draw(&watch->screen, page.data);
    watch->state = (int)job->state;
    watch->generation = job->generation;
    memcpy(watch->message, job->message, MESSAGE_SIZE);
    return api_pause(watch->api, watch->screen.out, DRAW_MS, err);
}

static void say_back(struct watch *watch)
{
    if (watch->away_since != 0) {
        watch->away_since = 0;
        fprintf(watch->complaints, "paceline: %s answers again\n", watch->api->server);
        (void)fflush(watch->complaints);
    }
}

/* Read the job once (as job_read) and show it. The end of the job becomes a line that stays. */
static int look(struct watch *watch, int64_t after, struct job *job, struct err *err)
{
    char line[LINE_MAX_BYTES];
    bool brief = watch->late || watch->screen.terminal;
    int rc =
        job_read(watch->api, watch->id, after, brief ? PROGRESS_MS / 1000 : WAIT_SECONDS, job, err);
    if (rc) {
        return rc;
    }
    say_back(watch);
    if (job_state_ended(job->state)) {
        progress_end(job, line, sizeof(line));
        say(watch, line);
        return 0;
    }
    if (job->generation > 0 && job->generation != watch->live.shares.generation) {
        rc = job_read_shares(watch->api, job, &watch->live.shares, err);
    }
    if (!rc && watch->screen.terminal) {
        rc = show_live(watch, job, err);
    } else if (!rc) {
        rc = show_line(watch, job, err);
    }
    return !rc && ferror(watch->screen.out) ? err_set(err, ERR_IO, "write the progress: failed")
                                            : rc;
}

/* After a failed look: pause and return 0 if the watch should retry, else return the error. */
static int try_again(struct watch *watch, int rc, struct err *err)
{
    int64_t now = clock_now_ms();
    if (!watch->api->answered || (rc != ERR_NETWORK && rc != ERR_TIMEOUT && rc != ERR_STATE)) {
        return rc;
    }
    if (watch->away_since == 0) {
        watch->away_since = now;
        screen_erase(&watch->screen);
        fprintf(watch->complaints, "paceline: %s does not answer; retrying for %d minutes\n",
                watch->api->server, AWAY_MINUTES);
        (void)fflush(watch->complaints);
    }
    if (now - watch->away_since > (int64_t)AWAY_MINUTES * 60000) {
        return rc;
    }
    return api_pause(watch->api, watch->screen.out, AWAY_PAUSE_MS, err);
}

/* Read and show the job until it has ended. */
static int follow(struct watch *watch, bool *succeeded, struct checkpoint_id *checkpoint,
                  struct err *err)
{
    int rc = 0;
    for (int64_t after = -1; !rc;) {
        AUTO(job_release) struct job job = {0};
        rc = look(watch, after, &job, err);
        if (!rc && job_state_ended(job.state)) {
            *succeeded = job.state == JOB_SUCCEEDED;
            *checkpoint = job.checkpoint;
            return 0;
        }
        /* Ask a restarted coordinator for the current job, without a wait. */
        after = rc ? -1 : job.revision;
        rc = rc ? try_again(watch, rc, err) : 0;
    }
    return rc;
}

int watch_job(struct api *api, const char *id, FILE *out, FILE *complaints, bool *succeeded,
              struct checkpoint_id *checkpoint, struct err *err)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    if (!watch) {
        return err_set(err, ERR_MEMORY, "no memory to watch a job");
    }
    watch->api = api;
    watch->id = id;
    watch->complaints = complaints;
    watch->state = -1;
    screen_init(&watch->screen, out);
    int rc = follow(watch, succeeded, checkpoint, err);
    free(watch->groups);
    free(watch);
    return rc;
}
