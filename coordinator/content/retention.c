#include "coordinator/content/retention.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "coordinator/content/deletion.h"
#include "coordinator/coordinator.h"
#include "schema/job.h"
#include "schema/wire.h"

#define ROWS 20 /* read in a piece */
#define PIECE_MS 1000
#define WALK_MS 600000 /* between the end of a walk and the next */
#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* The rows of a piece. */
struct rows {
    struct {
        char id[ID_SIZE];
        int64_t ended_ms; /* 0: not yet */
    } row[ROWS];
    size_t count;
    struct job *job; /* read into; too large for the stack */
};

static bool read_row(void *arg, const struct state_row *row)
{
    struct rows *rows = arg;
    struct record_faults faults = {0};
    struct err err = {0};
    *rows->job = (struct job){.spec = job_spec_default};
    if (strlen(row->id) >= ID_SIZE) {
        return true;
    }
    memcpy(rows->row[rows->count].id, row->id, strlen(row->id) + 1);
    /* An unreadable row is kept: the next start reports it. */
    const bool ended =
        wire_read(&job_record, row->document, row->document_size, rows->job, &faults, &err) == 0 &&
        job_state_ended(rows->job->state);
    rows->row[rows->count++].ended_ms = ended ? rows->job->ended_ms : 0;
    return true;
}

static bool is_due(const struct coordinator_config *config, const struct retention *retention,
                   int64_t ended_ms, int64_t wall_ms)
{
    return (config->keep_jobs > 0 && retention->ended > (size_t)config->keep_jobs) ||
           (config->keep_days > 0 && ended_ms < wall_ms - config->keep_days * DAY_MS);
}

/* If a job cannot be deleted, because a live one starts from its checkpoint, the next walk retries
 * it. */
static bool delete_job(struct coordinator *coordinator, const char *id)
{
    struct err err = {0};
    const int rc = deletion_run(coordinator, DELETE_JOB, id, 0, NULL, NULL, &err);
    if (rc) {
        log_warn("job_not_deleted", "job=%s error=%s", id, log_quote(err.text).text);
    }
    return rc == 0;
}

static bool thin(struct coordinator *coordinator, const char *id)
{
    struct err err = {0};
    size_t thinned = 0;
    const size_t keep = (size_t)coordinator->config->keep_points;
    if (state_thin_metrics(coordinator->state, id, keep, &thinned, &err)) {
        log_warn("metrics_not_thinned", "job=%s error=%s", id, log_quote(err.text).text);
    } else if (thinned > 0) {
        log_info("metrics_thinned", "job=%s points=%zu", id, thinned);
    }
    return thinned > 0;
}

/* Delete the job or thin its metrics, if due. Returns whether a row was changed, which is enough
 * for one piece. */
static bool keep_or_delete(struct coordinator *coordinator, const struct retention *retention,
                           const char *id, int64_t ended_ms, int64_t wall_ms)
{
    const struct coordinator_config *config = coordinator->config;
    if (is_due(config, retention, ended_ms, wall_ms)) {
        return delete_job(coordinator, id);
    }
    return config->keep_points > 0 && ended_ms >= retention->thinned_ms && thin(coordinator, id);
}

static int64_t end_walk(struct retention *retention)
{
    *retention = (struct retention){.thinned_ms = retention->started_ms -
                                                  DAY_MS}; /* clocks are set back, too */
    return WALK_MS;
}

static int64_t walk(struct coordinator *coordinator, struct retention *retention,
                    const struct rows *rows, int64_t wall_ms)
{
    bool written = false;
    for (size_t i = 0; i < rows->count && !written; i++) {
        memcpy(retention->after, rows->row[i].id, ID_SIZE);
        if (rows->row[i].ended_ms > 0) {
            retention->ended++;
            written = keep_or_delete(coordinator, retention, rows->row[i].id, rows->row[i].ended_ms,
                                     wall_ms);
        }
    }
    return written || rows->count == ROWS ? PIECE_MS : end_walk(retention);
}

int64_t retention_step(struct coordinator *coordinator, struct retention *retention,
                       int64_t wall_ms)
{
    const struct coordinator_config *config = coordinator->config;
    struct rows rows = {.count = 0};
    struct err err = {0};
    if (config->keep_days == 0 && config->keep_jobs == 0 && config->keep_points == 0) {
        return WALK_MS;
    }
    rows.job = malloc(sizeof(*rows.job));
    if (!rows.job) {
        return PIECE_MS;
    }
    if (retention->started_ms == 0) {
        retention->started_ms = wall_ms;
    }
    int64_t wait_ms = PIECE_MS;
    if (state_list(coordinator->state, STATE_JOBS, "", retention->after, ROWS, true, read_row,
                   &rows, &err)) {
        log_warn("jobs_not_kept", "error=%s", log_quote(err.text).text);
        wait_ms = end_walk(retention);
    } else {
        wait_ms = walk(coordinator, retention, &rows, wall_ms);
    }
    free(rows.job);
    return wait_ms;
}
