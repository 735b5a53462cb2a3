#include "agent/generation.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/build.h"
#include "agent/calls.h"
#include "agent/peer/sender.h"
#include "agent/runtime/fetch.h"
#include "agent/runtime/stage_loop.h"
#include "agent/runtime/thread.h"

#define UPLOAD_PATIENCE_MS 600000
#define AGENT_URL_MAX 768
#define FOREVER_NS INT64_C(3600000000000)

struct generation {
    struct generation_config config;
    struct device_context device; /* a copy: the control thread may enrol again meanwhile */
    struct assignment *assignment;
    const struct assignment_run *run; /* its run */
    struct generation *previous;
    struct cancel cancel;
    pthread_t thread;
    atomic_bool ended;
    atomic_bool failed; /* an error was reported: the first one counts */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t told;
    struct built built;
    struct sender *sender[2];
    bool run_asked, stop_asked, held, upload_asked;
    int64_t upload_version;
};

/* ---- reports ---- */

static void tell(const struct generation *generation, enum session_event_type type, int64_t version)
{
    const struct session_event event = {.type = type, .serial = generation->config.serial, .version = version};
    reports_event(generation->config.reports, &event);
}

static void tell_error(struct generation *generation, const char *code, const struct err *why)
{
    if (!atomic_exchange(&generation->failed, true)) {
        reports_error(generation->config.reports, generation->config.serial, code, why);
    }
}

static void take_metric(void *arg, const struct metric *metric)
{
    const struct generation *generation = arg;
    reports_metric(generation->config.reports, generation->config.serial, metric);
}

/* On a sender's thread. */
static void sender_failed(void *arg, const struct err *why)
{
    tell_error(arg, "peer", why);
}

/* ---- the thread ---- */

static int start_sender(struct generation *generation, enum stage_direction direction, const struct peer *peer,
                        struct err *err)
{
    const struct sender_config config = {
        .stage = generation->built.stage,
        .direction = direction,
        .peer = *peer,
        .peer_ms = generation->run->peer_ms,
        .failed = sender_failed,
        .arg = generation,
    };
    struct sender *sender = NULL;
    int rc = sender_start(&config, &sender, err);
    (void)pthread_mutex_lock(&generation->lock);
    generation->sender[direction] = sender;
    (void)pthread_mutex_unlock(&generation->lock);
    return rc;
}

/* The stage exists: what was told meanwhile holds for it, and it can be seen by the other threads. */
static void publish(struct generation *generation, struct built *built)
{
    (void)pthread_mutex_lock(&generation->lock);
    generation->built = *built;
    if (built->stage) {
        if (generation->run_asked) {
            stage_run(built->stage);
        }
        if (generation->stop_asked) {
            stage_stop(built->stage);
        }
        stage_hold(built->stage, generation->held);
        if (cancel_is_set(&generation->cancel)) {
            stage_cancel(built->stage);
        }
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

static int prepare(struct generation *generation, const char **code, struct err *err)
{
    const struct assignment_run *run = generation->run;
    struct built built = {0};
    int rc = build_stage(&generation->device, run, &generation->cancel, &built, code, err);
    publish(generation, &built);
    if (rc != 0) {
        return rc;
    }
    *code = "internal";
    access_set_stage(generation->device.access, built.stage);
    if (run->has_next) {
        rc = start_sender(generation, STAGE_TO_NEXT, &run->next, err);
    }
    if (rc == 0 && run->has_previous) {
        rc = start_sender(generation, STAGE_TO_PREVIOUS, &run->previous, err);
    }
    return rc ? rc : build_ping(run, &generation->cancel, code, err);
}

static int keep_units(struct generation *generation, int64_t version, struct err *err)
{
    const struct assignment_run *run = generation->run;
    const struct stage *stage = generation->built.stage;
    for (int64_t unit = run->first; unit < run->end; unit++) {
        const size_t size = stage_unit_bytes(stage, (size_t)unit);
        void *blob = malloc(size);
        if (!blob) {
            return err_set(err, ERR_MEMORY, "snapshot of unit %" PRId64 ": %zu bytes", unit, size);
        }
        stage_save_unit(stage, (size_t)unit, blob);
        int rc = snapshot_keep(generation->device.snapshots, &run->job, version, unit, blob, size, err);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int train(struct generation *generation, const char **code, struct err *err)
{
    const struct stage_listener listener = {.metric = take_metric, .arg = generation};
    int64_t version = 0;
    *code = "internal";
    thread_set_name("compute");
    int rc = stage_loop(generation->built.stage, &listener, &version, err);
    if (rc == ERR_DIVERGED) {
        *code = "diverged";
    } else if (rc == ERR_INVALID) {
        *code = "data";
    }
    rc = rc ? rc : keep_units(generation, version, err);
    if (rc == ERR_MEMORY) {
        *code = "memory";
    }
    if (rc == 0) {
        tell(generation, SESSION_STOPPED, version);
    }
    return rc;
}

/* Wait to be told to upload: the version, or -1 when cancelled. */
static int64_t wait_for_upload(struct generation *generation)
{
    (void)pthread_mutex_lock(&generation->lock);
    while (!generation->upload_asked && !cancel_is_set(&generation->cancel)) {
        (void)pthread_cond_wait(&generation->told, &generation->lock);
    }
    const int64_t version = cancel_is_set(&generation->cancel) ? -1 : generation->upload_version;
    (void)pthread_mutex_unlock(&generation->lock);
    return version;
}

static int upload_unit(const struct generation *generation, struct fetch *fetch, int64_t version, int64_t unit,
                       struct err *err)
{
    const struct device_context *device = &generation->device;
    const struct assignment_run *run = generation->run;
    const struct snapshot *snapshot = snapshot_get(device->snapshots, run->job.text, version, unit);
    if (!snapshot) {
        return err_set(err, ERR_NOT_FOUND, "version %" PRId64 " of unit %" PRId64 " is not held", version, unit);
    }
    char url[AGENT_URL_MAX];
    (void)snprintf(url, sizeof(url),
                   "%s/v1/agent/blobs/%s?device=%s&boot=%s&job=%s&generation=%" PRId64 "&version=%" PRId64
                   "&unit=%" PRId64,
                   device->coordinator, snapshot->holding.sha256, device->id.text, device->boot, run->job.text,
                   run->generation, version, unit);
    int rc = fetch_put(fetch, url, snapshot->data, (size_t)snapshot->holding.bytes, err);
    snapshot_put_back(snapshot);
    return rc;
}

static int upload(struct generation *generation, const char **code, struct err *err)
{
    thread_set_name("upload");
    const int64_t version = wait_for_upload(generation);
    if (version < 0) {
        return err_set(err, ERR_CANCELLED, "cancelled");
    }
    *code = "internal";
    struct fetch *fetch AUTO(fetch_free) = NULL;
    int rc = fetch_new(&generation->cancel, UPLOAD_PATIENCE_MS, &fetch, err);
    for (int64_t unit = generation->run->first; rc == 0 && unit < generation->run->end; unit++) {
        rc = upload_unit(generation, fetch, version, unit, err);
    }
    if (rc == 0) {
        tell(generation, SESSION_UPLOADED, version);
    }
    return rc;
}

static void release(struct generation *generation)
{
    struct stage *stage = generation->built.stage;
    if (stage) {
        access_clear_stage(generation->device.access, stage);
        stage_cancel(stage);
    }
    /* The control thread looks at stage and senders under the lock: it must find them whole, or gone. */
    (void)pthread_mutex_lock(&generation->lock);
    struct sender *sender[2] = {generation->sender[0], generation->sender[1]};
    struct built built = generation->built;
    generation->sender[0] = generation->sender[1] = NULL;
    memset(&generation->built, 0, sizeof(generation->built));
    (void)pthread_mutex_unlock(&generation->lock);
    sender_free(&sender[0]);
    sender_free(&sender[1]);
    built_done(&built);
    (void)malloc_trim(0);
}

static void *work(void *arg)
{
    struct generation *generation = arg;
    struct err err = {0};
    const char *code = "internal";
    generation_free(&generation->previous);
    thread_set_name("prepare");
    int rc = prepare(generation, &code, &err);
    if (rc == 0) {
        tell(generation, SESSION_PREPARED, 0);
        rc = train(generation, &code, &err);
    }
    rc = rc ? rc : upload(generation, &code, &err);
    if (rc != 0 && rc != ERR_CANCELLED) {
        tell_error(generation, code, &err);
    }
    /* Done; but the stop mark may still be on its way to the next stage. */
    while (rc == 0 && !cancel_wait(&generation->cancel, FOREVER_NS)) {
    }
    release(generation);
    atomic_store(&generation->ended, true);
    return NULL;
}

/* ---- the control thread's side ---- */

static void free_generation(struct generation *generation)
{
    assignment_free(&generation->assignment);
    (void)pthread_cond_destroy(&generation->told);
    (void)pthread_mutex_destroy(&generation->lock);
    cancel_done(&generation->cancel);
    free(generation);
}

static int make(const struct generation_config *config, struct generation **out, struct err *err)
{
    struct generation *generation = calloc(1, sizeof(*generation));
    if (!generation) {
        return err_set(err, ERR_MEMORY, "generation");
    }
    int rc = cancel_init(&generation->cancel, err);
    if (rc != 0) {
        free(generation);
        return rc;
    }
    (void)pthread_mutex_init(&generation->lock, NULL);
    (void)pthread_cond_init(&generation->told, NULL);
    generation->config = *config;
    generation->device = *config->device;
    *out = generation;
    return 0;
}

int generation_start(const struct generation_config *config, struct assignment **assignment,
                     struct generation **previous, struct generation **out, struct err *err)
{
    struct generation *generation = NULL;
    if (*previous) {
        generation_cancel(*previous);
    }
    int rc = make(config, &generation, err);
    if (rc != 0) {
        assignment_free(assignment);
        generation_free(previous);
        return rc;
    }
    generation->assignment = *assignment;
    generation->run = &generation->assignment->run;
    generation->previous = *previous;
    *assignment = NULL;
    *previous = NULL;
    rc = thread_start(&generation->thread, work, generation, err);
    if (rc != 0) {
        generation_free(&generation->previous);
        free_generation(generation);
        return rc;
    }
    *out = generation;
    return 0;
}

void generation_cancel(struct generation *generation)
{
    cancel_set(&generation->cancel);
    (void)pthread_mutex_lock(&generation->lock);
    if (generation->built.stage) {
        stage_cancel(generation->built.stage);
    }
    (void)pthread_cond_signal(&generation->told);
    (void)pthread_mutex_unlock(&generation->lock);
}

bool generation_ended(struct generation *generation)
{
    return atomic_load(&generation->ended);
}

void generation_free(struct generation **generation)
{
    if (*generation) {
        generation_cancel(*generation);
        (void)pthread_join((*generation)->thread, NULL);
        free_generation(*generation);
        *generation = NULL;
    }
}

void generation_run(struct generation *generation)
{
    (void)pthread_mutex_lock(&generation->lock);
    generation->run_asked = true;
    if (generation->built.stage) {
        stage_run(generation->built.stage);
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

void generation_stop(struct generation *generation)
{
    (void)pthread_mutex_lock(&generation->lock);
    generation->stop_asked = true;
    if (generation->built.stage) {
        stage_stop(generation->built.stage);
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

void generation_hold(struct generation *generation, bool held)
{
    (void)pthread_mutex_lock(&generation->lock);
    generation->held = held;
    if (generation->built.stage) {
        stage_hold(generation->built.stage, held);
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

void generation_upload(struct generation *generation, int64_t version)
{
    (void)pthread_mutex_lock(&generation->lock);
    generation->upload_asked = true;
    generation->upload_version = version;
    (void)pthread_cond_signal(&generation->told);
    (void)pthread_mutex_unlock(&generation->lock);
}

void generation_measure(struct generation *generation, struct heartbeat *out)
{
    (void)pthread_mutex_lock(&generation->lock);
    if (generation->built.stage) {
        out->step = stage_step(generation->built.stage);
        out->bytes_moved = generation->built.bytes_moved;
        stage_measure(generation->built.stage, out);
    }
    for (int direction = 0; direction < 2; direction++) {
        struct sender *sender = generation->sender[direction];
        if (sender && sender_take_link(sender, &out->link[out->link_count])) {
            out->link_count++;
        }
    }
    (void)pthread_mutex_unlock(&generation->lock);
}
