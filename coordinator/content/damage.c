#include "coordinator/content/damage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"

struct search {
    const char *sha256;
    struct event_blob_damaged *out;
};

static void add(struct event_blob_damaged *out, const char *what, const char *name)
{
    const size_t length = strlen(out->message);
    snprintf(out->message + length, sizeof(out->message) - length, "%s%s %.64s",
             length > 0 ? ", " : "", what, name);
}

static bool name_checkpoint(void *arg, const struct state_row *row)
{
    const struct search *search = arg;
    if (memmem(row->document, row->document_size, search->sha256, SHA256_SIZE - 1)) {
        add(search->out, "checkpoint", row->id);
    }
    return true;
}

static bool name_unit(void *arg, const struct state_row *row)
{
    const struct search *search = arg;
    if (memmem(row->document, row->document_size, search->sha256, SHA256_SIZE - 1)) {
        add(search->out, "unit", row->id);
    }
    return true;
}

/* The owners of that content: "checkpoint ckpt_..., data set digits". */
static void name_owners(struct coordinator *coordinator, struct event_blob_damaged *out)
{
    struct search search = {out->sha256, out};
    struct err err = {0};
    for (size_t i = 0; i < core_dataset_count(coordinator->core); i++) {
        const struct dataset *dataset = core_dataset_at(coordinator->core, i);
        if (strcmp(dataset->sha256, out->sha256) == 0) {
            add(out, "data set", dataset->name);
        }
    }
    if (state_list(coordinator->state, STATE_CHECKPOINTS, NULL, "", SIZE_MAX, false,
                   name_checkpoint, &search, &err) ||
        state_list(coordinator->state, STATE_CENTER_UNITS, NULL, "", SIZE_MAX, false, name_unit,
                   &search, &err)) {
        log_warn("damage_not_named", "sha256=%s error=%s", out->sha256, log_quote(err.text).text);
    }
}

void damage_report(struct coordinator *coordinator, const char *sha256)
{
    if (coordinator->stopping || !blob_tell_damage(coordinator->blobs, sha256)) {
        return;
    }
    struct event event = {.type = EVENT_BLOB_DAMAGED};
    struct event_blob_damaged *damaged = &event.blob_damaged;
    snprintf(damaged->sha256, sizeof(damaged->sha256), "%s", sha256);
    name_owners(coordinator, damaged);
    log_error("blob_damaged", "sha256=%s of=%s", sha256, log_quote(damaged->message).text);
    const size_t length = strlen(damaged->message);
    snprintf(damaged->message + length, sizeof(damaged->message) - length,
             "%s damaged in checkpoints.db", length > 0 ? ":" : "a blob is");
    turn_event(coordinator->turn, &event, NULL, NULL);
}

/* ---- all blobs ---- */

struct sweep {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct err err;
};

static bool goes_on(void *arg)
{
    const struct sweep *sweep = arg;
    return !work_stopping(sweep->coordinator->work);
}

static bool check_one(void *arg, const char *sha256, uint64_t size)
{
    struct sweep *sweep = arg;
    struct err err = {0};
    (void)size;
    int rc = blob_check(sweep->coordinator->blobs, sha256, goes_on, sweep, &err);
    if (rc && rc != ERR_NOT_FOUND && rc != ERR_CANCELLED) {
        log_warn("blob_check_failed", "sha256=%s error=%s", sha256, log_quote(err.text).text);
    }
    return true;
}

static void sweep_run(struct work_job *job)
{
    struct sweep *sweep = (struct sweep *)job;
    if (blob_sweep(sweep->coordinator->blobs, check_one, sweep, &sweep->err)) {
        log_warn("blob_check_failed", "error=%s", log_quote(sweep->err.text).text);
    }
}

static void sweep_done(struct work_job *job)
{
    struct sweep *sweep = (struct sweep *)job;
    struct coordinator *coordinator = sweep->coordinator;
    char sha256[SHA256_SIZE];
    while (!coordinator->stopping && blob_untold_damage(coordinator->blobs, sha256)) {
        damage_report(coordinator, sha256);
    }
    free(sweep);
}

int damage_search(struct coordinator *coordinator, struct err *err)
{
    struct sweep *sweep = calloc(1, sizeof(*sweep));
    if (!sweep) {
        return err_set(err, ERR_MEMORY, "out of memory");
    }
    sweep->coordinator = coordinator;
    sweep->job = (struct work_job){.run = sweep_run, .done = sweep_done};
    work_submit(coordinator->work, &sweep->job);
    return 0;
}
