#include "cli/job.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/progress.h"
#include "schema/device.h"
#include "schema/groups_view.h"
#include "schema/limits.h"

#define LINE_MAX_BYTES 1024
#define CLASSES_MAX_BYTES 200 /* of the classes of a group */
#define WAIT_SECONDS 30
/* A coordinator that is away: how often it is asked again, and for how long. */
#define AWAY_PAUSE_MS 500
#define AWAY_MINUTES 5
/* Between two lines of mere progress. */
#define PROGRESS_MS 1000

static int check_id(const char *id, struct err *err)
{
    if (id_valid(id, "job_")) {
        return 0;
    }
    return err_set(err, ERR_INVALID, "'%s' is not the id of a job; expected job_ and 26 characters",
                   id);
}

static void path_of(char out[API_PATH_SIZE], const char *id)
{
    (void)snprintf(out, API_PATH_SIZE, "/v1/jobs/%s", id);
}

static void job_release(struct job *job)
{
    record_done(&job_record, job);
}

int job_submit(struct api *api, const char *path, FILE *out, struct job_id *id, struct err *err)
{
    BUF_AUTO struct buf body;
    buf_init(&body, JSON_BODY_MAX);
    int rc = file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &body, err);
    if (rc) {
        return rc;
    }
    if (body.size == 0) {
        return err_set(err, ERR_INVALID, "%s is empty; expected the description of a job", path);
    }
    rc = api_call(api, "POST", "/v1/jobs", body.data, body.size, 0, err);
    if (rc == ERR_INVALID) {
        return err_wrap(err, "%s", path);
    }
    AUTO(job_release) struct job job = {0};
    if (!rc) {
        rc = api_read(api, &job_record, &job, err);
    }
    if (rc) {
        return rc;
    }
    fprintf(out, "%s\n", job.id.text);
    (void)fflush(out);
    *id = job.id;
    return 0;
}

int job_get(struct api *api, const char *id, FILE *out, struct err *err)
{
    char path[API_PATH_SIZE];
    path_of(path, id);
    int rc = check_id(id, err);
    if (!rc) {
        rc = api_call(api, "GET", path, NULL, 0, 0, err);
    }
    return rc ? rc : api_print(api, out, err);
}

/* ---- jobs and their plans ---- */

/* The name of a device, or its id: a line of progress must not fail for a missing name. */
static void name_of(struct api *api, const char *id, char out[NAME_SIZE])
{
    char path[API_PATH_SIZE];
    struct device device = {0};
    struct err err = {0};
    (void)snprintf(path, sizeof(path), "/v1/devices/%s", id);
    bool known = api_call(api, "GET", path, NULL, 0, 0, &err) == 0 &&
                 api_read(api, &device_record, &device, &err) == 0;
    (void)snprintf(out, NAME_SIZE, "%s", known && device.name[0] != '\0' ? device.name : id);
}

static int read_shares(struct api *api, const struct job *job, struct progress_shares *out,
                       struct err *err)
{
    char path[API_PATH_SIZE];
    struct plan plan = {0};
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/plans/%" PRId64, job->id.text, job->generation);
    int rc = api_call(api, "GET", path, NULL, 0, 0, err);
    if (!rc) {
        rc = api_read(api, &plan_record, &plan, err);
    }
    if (rc) {
        return rc;
    }
    *out = (struct progress_shares){.generation = job->generation, .count = plan.stage_count};
    for (size_t i = 0; i < plan.stage_count; i++) {
        name_of(api, plan.stage[i].device.text, out->device[i].name);
        out->device[i].units = plan.stage[i].end - plan.stage[i].first;
    }
    return 0;
}

/* Get the job when its revision is above `after` (-1: at once), at the latest after
 * wait_seconds. */
static int read_job(struct api *api, const char *id, int64_t after, int wait_seconds,
                    struct job *out, struct err *err)
{
    char path[API_PATH_SIZE];
    path_of(path, id);
    if (after >= 0) {
        size_t used = strlen(path);
        (void)snprintf(path + used, sizeof(path) - used, "?after=%" PRId64 "&wait=%d", after,
                       wait_seconds);
    }
    int rc = api_call(api, "GET", path, NULL, 0, after >= 0 ? wait_seconds : 0, err);
    return rc ? rc : api_read(api, &job_record, out, err);
}

/* ---- groups ---- */

/* The progress of a part, or how it ended. */
static int describe_part(struct api *api, const struct part_view *part, char *out, size_t size,
                         struct err *err)
{
    AUTO(job_release) struct job job = {0};
    struct progress_shares shares = {0};
    int rc = read_job(api, part->job.text, -1, 0, &job, err);
    if (rc == 0 && job_state_ended(job.state)) {
        progress_end(&job, out, size);
        return 0;
    }
    if (rc == 0 && job.generation > 0) {
        rc = read_shares(api, &job, &shares, err);
    }
    if (rc == 0) {
        progress_line(&job, &shares, 0, out, size);
    }
    return rc;
}

/* "group 1  classes 3-5  width 0.250  running  step 12/40  units kitchen 5/5" */
static int write_part(struct api *api, const char *name, const char *classes,
                      const struct part_view *part, FILE *out, struct err *err)
{
    char line[LINE_MAX_BYTES];
    int rc = 0;
    (void)snprintf(line, sizeof(line), "%s", part_state_names[part->state]);
    if (part->job.text[0] != '\0') {
        rc = describe_part(api, part, line, sizeof(line), err);
    }
    if (rc == 0) {
        fprintf(out, "%-8s%s  %s\n", name, classes, line);
    }
    return rc;
}

static int write_group(struct api *api, const struct group_view *group, FILE *out, struct err *err)
{
    char name[32], classes[CLASSES_MAX_BYTES], item[CLASSES_MAX_BYTES + 40];
    progress_numbers(group->class_of, group->class_count, classes, sizeof(classes));
    (void)snprintf(name, sizeof(name), "group %" PRId64, group->group);
    (void)snprintf(item, sizeof(item), "  classes %s  width %.3f", classes, group->width);
    return write_part(api, name, item, &group->part, out, err);
}

static int write_groups(struct api *api, const struct groups_view *view, FILE *out, struct err *err)
{
    char missing[CLASSES_MAX_BYTES];
    fprintf(out, "phase %s\n", parent_phase_names[view->phase]);
    int rc = write_part(api, "stem", "", &view->stem, out, err);
    for (size_t g = 0; rc == 0 && g < view->group_count; g++) {
        rc = write_group(api, &view->group[g], out, err);
    }
    if (rc == 0 && view->harvest.text[0] != '\0') {
        fprintf(out, "%-8s  checkpoint %s\n", "harvest", view->harvest.text);
    }
    rc = rc ? rc : write_part(api, "joint", "", &view->joint, out, err);
    if (rc == 0 && view->missing_count > 0) {
        progress_numbers(view->missing, view->missing_count, missing, sizeof(missing));
        fprintf(out, "missing classes %s\n", missing);
    }
    return rc;
}

int job_groups(struct api *api, const char *id, FILE *out, struct err *err)
{
    char path[API_PATH_SIZE];
    int rc = check_id(id, err);
    if (rc) {
        return rc;
    }
    struct groups_view *view = calloc(1, sizeof(*view)); /* too large for a stack */
    if (!view) {
        return err_set(err, ERR_MEMORY, "groups: out of memory");
    }
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/groups", id);
    rc = api_call(api, "GET", path, NULL, 0, 0, err);
    rc = rc ? rc : api_read(api, &groups_view_record, view, err);
    rc = rc ? rc : write_groups(api, view, out, err);
    free(view);
    return rc;
}

/* ---- watch ---- */

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
    int rc = read_job(watch->api, watch->id, after,
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
        rc = read_shares(watch->api, job, &watch->shares, err);
    }
    if (!rc) {
        show(job, &watch->shares, screen);
    }
    return rc;
}

/* Whether a failed look is worth another; then a moment has passed. */
static bool try_again(struct watch *watch, int rc)
{
    int64_t now = clock_now_ms();
    struct screen *screen = &watch->screen;
    if (!watch->api->answered || (rc != ERR_NETWORK && rc != ERR_TIMEOUT && rc != ERR_STATE)) {
        return false;
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
        return false;
    }
    /* Nothing more to do for a reader that has closed its end of the pipe. */
    struct pollfd reader = {.fd = fileno(screen->out)};
    return poll(&reader, 1, AWAY_PAUSE_MS) == 0;
}

int job_watch(struct api *api, const char *id, FILE *out, FILE *complaints, bool *succeeded,
              struct err *err)
{
    int rc = check_id(id, err);
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
        if (rc && try_again(&watch, rc)) {
            rc = 0;
        }
    }
    screen_end(&watch.screen);
    return rc;
}
