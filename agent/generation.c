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
#include "agent/copies/outbox_upload.h"
#include "agent/copies/outbox.h"
#include "agent/core/needs.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "base/log.h"

#define FOREVER_NS INT64_C(3600000000000)
#define PEER_MS_MIN 100 /* also where the assignment states no deadline */

struct generation {
    struct device_context device; /* a copy: the control thread may enrol again meanwhile */
    struct assignment *assignment;
    const struct assignment_run *run; /* its run */
    struct generation *previous;
    struct cancel cancel;
    pthread_t thread;
    atomic_bool ended;
    struct reporter reporter;
    struct troubles *troubles;
    struct outbox_upload *upload; /* of `outbox` */
    atomic_bool interrupt;        /* of the upload */

    pthread_mutex_t lock; /* guards the members below */
    struct built built;
    struct outbox *outbox;
    struct orders orders;
    struct mix_duty *mix;           /* of its newest assignment; NULL: of the one that began it */
    char kernels[KERNEL_TEXT_SIZE]; /* measured; only if the generation measures kernels */
};

/* ---- callbacks ---- */

static void trouble_changed(void *arg)
{
    const struct generation *generation = arg;
    reports_note(generation->reporter.reports, SESSION_TROUBLE_CHANGED);
}

static void mix_changed(void *arg, bool awaited)
{
    const struct generation *generation = arg;
    reports_note(generation->reporter.reports, awaited ? SESSION_MIX_AWAITED : SESSION_MIX_CHANGED);
}

static void round_opened(void *arg)
{
    const struct generation *generation = arg;
    reports_note(generation->reporter.reports, SESSION_ROUND_OPENED);
}

static void take_metric(void *arg, const struct metric *metric)
{
    const struct generation *generation = arg;
    reports_metric(generation->reporter.reports, generation->reporter.serial, metric);
}

/* On the thread that replicates. */
static void collected(void *arg, int64_t version)
{
    const struct generation *generation = arg;
    reporter_event(&generation->reporter, SESSION_UPLOADED, version);
}

static void collection_failed(void *arg, const struct err *why)
{
    struct generation *generation = arg;
    reporter_error(&generation->reporter, "internal", why);
    cancel_set(&generation->cancel);
}

static int send_copy(void *arg, const struct outbox_send *send, const struct snapshot *snapshot,
                     int64_t *retry_ms, struct err *err)
{
    const struct generation *generation = arg;
    return outbox_upload_send(generation->upload, send, snapshot, retry_ms, err);
}

/* On a thread of the work. */
static void peer_refused(void *arg, const struct err *why)
{
    struct generation *generation = arg;
    reporter_error(&generation->reporter, "peer", why);
}

/* ---- the thread ---- */

/* A stage that only computes for others has no state of its own. */
static bool keeps_units(const struct generation *generation)
{
    return generation->run->first < generation->run->end;
}

static int start_outbox(struct generation *generation, struct err *err)
{
    const struct assignment_run *run = generation->run;
    const struct device_context *device = &generation->device;
    struct outbox_upload_config upload = {
        .keeper = generation->built.work->keeper,
        .has_neighbor = run->has_neighbor,
        .neighbor = run->neighbor,
        .plan = run->plan,
        .ways = device->ways,
        .peer_ms = run->peer_ms,
        .coordinator = device->coordinator,
        .trust = device->trust,
        .device = device->id,
        .troubles = generation->troubles,
        .links = device->links,
        .sent = device->replica_sent,
        .interrupt = &generation->interrupt,
    };
    memcpy(upload.boot, device->boot, sizeof(upload.boot));
    int rc = outbox_upload_new(&upload, &generation->upload, err);
    if (rc != 0) {
        return rc;
    }
    const struct outbox_config config = {
        .keeper = generation->built.work->keeper,
        .snapshots = device->snapshots,
        .replica_bytes = run->replica_bytes,
        .stops_only = !needs_rounds(run),
        .send = send_copy,
        .interrupt = &generation->interrupt,
        .collected = collected,
        .failed = collection_failed,
        .arg = generation,
    };
    struct outbox *outbox = NULL;
    rc = outbox_start(&config, &outbox, err);
    (void)pthread_mutex_lock(&generation->lock);
    generation->outbox = outbox;
    if (outbox && cancel_is_set(&generation->cancel)) {
        outbox_cancel(outbox);
    }
    (void)pthread_mutex_unlock(&generation->lock);
    return rc;
}

/* Apply earlier calls to the new work, and publish it to the other threads. */
static void publish(struct generation *generation, struct built *built)
{
    (void)pthread_mutex_lock(&generation->lock);
    generation->built = *built;
    struct work *work = built->work;
    if (work) {
        work->row->follow(work, &generation->orders);
        if (generation->mix && work->row->mix) {
            work->row->mix(work, generation->mix);
        }
        if (cancel_is_set(&generation->cancel)) {
            work->row->cancel(work);
        }
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

static int prepare(struct generation *generation, const char **code, struct err *err)
{
    const struct assignment_run *run = generation->run;
    const struct device_context *device = &generation->device;
    struct work_config config = {
        .run = run,
        .threads = device->threads,
        .slowdown = device->slowdown,
        .room_fd = device->room_fd,
        .ways = device->ways,
        .trust = device->trust,
        .troubles = generation->troubles,
        .links = device->links,
        .coordinator = device->coordinator,
        .device = &device->id,
        .boot = device->boot,
        .mix_changed = mix_changed,
        .failed = peer_refused,
        .arg = generation,
    };
    struct built built = {0};
    int rc = build_work(device, &config, &generation->cancel, &built, code, err);
    publish(generation, &built);
    if (rc != 0) {
        return rc;
    }
    *code = "internal";
    rc = keeps_units(generation) ? start_outbox(generation, err) : 0;
    if (rc != 0) {
        return rc;
    }
    access_set_work(device->access, built.work);
    rc = built.work->row->start(built.work, &config, err);
    return rc ? rc : build_ping(device, run, &generation->cancel, generation->troubles, code, err);
}

/* On the compute thread. */
static void take_snapshot(void *arg, int64_t version, const struct round_mark *mark)
{
    const struct generation *generation = arg;
    outbox_take(generation->outbox, version, mark);
}

static int train(struct generation *generation, const char **code, struct err *err)
{
    const struct work_listener listener = {.metric = take_metric,
                                           .snapshot = take_snapshot,
                                           .round_opened = round_opened,
                                           .arg = generation};
    int64_t version = 0;
    *code = "internal";
    thread_set_name("compute");
    struct work *work = generation->built.work;
    int rc = work->row->loop(work, &listener, &version, err);
    if (rc == ERR_INVALID) {
        *code = "data";
    }
    if (rc == 0 && keeps_units(generation)) {
        rc = outbox_keep(generation->outbox, version, err);
    }
    if (rc == 0) {
        reporter_event(&generation->reporter, SESSION_STOPPED, version);
    }
    return rc;
}

static void release(struct generation *generation)
{
    struct work *work = generation->built.work;
    if (work) {
        access_clear_work(generation->device.access, work);
        work->row->cancel(work);
    }
    /* The control thread reads the work under the lock, and must see either complete work or
     * none. */
    (void)pthread_mutex_lock(&generation->lock);
    struct built built = generation->built;
    struct outbox *outbox = generation->outbox;
    generation->outbox = NULL;
    memset(&generation->built, 0, sizeof(generation->built));
    (void)pthread_mutex_unlock(&generation->lock);
    if (outbox) {
        const uint64_t skipped = outbox_skipped(outbox);
        if (skipped > 0) {
            log_warn("snapshots_skipped", "count=%" PRIu64 " reason=%s", skipped, "no_room");
        }
        outbox_cancel(outbox);
        outbox_free(&outbox);
    }
    outbox_upload_free(&generation->upload);
    if (work) {
        work->row->release(work);
    }
    built_done(&built);
    snapshot_trim(generation->device.snapshots);
    (void)malloc_trim(0);
}

static int measure_kernels(struct generation *generation, const char **code, struct err *err)
{
    char kernels[KERNEL_TEXT_SIZE];
    int rc = build_kernels(&generation->device, generation->run, &generation->cancel, kernels, code,
                           err);
    if (rc == 0) {
        (void)pthread_mutex_lock(&generation->lock);
        memcpy(generation->kernels, kernels, sizeof(kernels));
        (void)pthread_mutex_unlock(&generation->lock);
    }
    return rc;
}

static void *live(void *arg)
{
    struct generation *generation = arg;
    struct err err = {0};
    const char *code = "internal";
    generation_free(&generation->previous);
    thread_set_name("prepare");
    snapshot_retain(generation->device.snapshots);
    /* Cut again, because the previous generation may have kept a snapshot since the first cut. */
    snapshot_cut(generation->device.snapshots, &generation->run->job, generation->run->generation,
                 generation->run->resume_version);
    const bool tunes = generation->run->tune;
    int rc = tunes ? measure_kernels(generation, &code, &err) : prepare(generation, &code, &err);
    if (rc == 0) {
        reporter_event(&generation->reporter, SESSION_PREPARED, 0);
        rc = tunes ? 0 : train(generation, &code, &err);
    }
    if (rc != 0 && rc != ERR_CANCELLED) {
        reporter_error(&generation->reporter, code, &err);
    }
    /* The work is done, but the stop mark may still be on its way to the next stage, and snapshots
     * to their targets. */
    const struct work *work = generation->built.work;
    if (rc == 0 && work && work->row->linger) {
        work->row->linger(generation->built.work);
    }
    while (rc == 0 && !cancel_wait(&generation->cancel, FOREVER_NS)) {
    }
    release(generation);
    atomic_store(&generation->ended, true);
    return NULL;
}

/* ---- the control thread's side ---- */

static void free_generation(struct generation *generation)
{
    free(generation->mix);
    assignment_free(&generation->assignment);
    troubles_free(&generation->troubles);
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
    rc = troubles_new(trouble_changed, generation, &generation->troubles, err);
    if (rc != 0) {
        cancel_done(&generation->cancel);
        free(generation);
        return rc;
    }
    (void)pthread_mutex_init(&generation->lock, NULL);
    generation->reporter.reports = config->reports;
    generation->reporter.serial = config->serial;
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
    *assignment = NULL;
    if (generation->assignment->run.peer_ms < PEER_MS_MIN) {
        generation->assignment->run.peer_ms = PEER_MS_MIN;
    }
    generation->run = &generation->assignment->run;
    generation->previous = *previous;
    *previous = NULL;
    rc = thread_start(&generation->thread, live, generation, err);
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
    struct work *work = generation->built.work;
    if (work) {
        work->row->cancel(work);
    }
    if (generation->outbox) {
        outbox_cancel(generation->outbox);
    }
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

static void collect(struct generation *generation, int64_t version)
{
    /* Version 0 follows from the seed. */
    if (version == 0 || !keeps_units(generation)) {
        reporter_event(&generation->reporter, SESSION_UPLOADED, version);
        return;
    }
    (void)pthread_mutex_lock(&generation->lock);
    if (generation->outbox) {
        outbox_collect(generation->outbox, version);
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

void generation_tell(struct generation *generation, const struct session_action *action)
{
    if (action->type == SESSION_DO_UPLOAD) {
        collect(generation, action->version);
        return;
    }
    (void)pthread_mutex_lock(&generation->lock);
    orders_take(&generation->orders, action);
    struct work *work = generation->built.work;
    if (work) {
        work->row->follow(work, &generation->orders);
        if (action->type == SESSION_DO_ROUNDS) {
            work->row->take_rounds(work, action->round);
        }
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

void generation_mix(struct generation *generation, const struct mix_duty *duty)
{
    struct mix_duty *copy = malloc(sizeof(*copy));
    if (!copy) {
        return; /* the next assignment names the matches again, or they expire */
    }
    *copy = *duty;
    (void)pthread_mutex_lock(&generation->lock);
    free(generation->mix);
    generation->mix = copy;
    struct work *work = generation->built.work;
    if (work && work->row->mix) {
        work->row->mix(work, duty);
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

void generation_mixes_stored(struct generation *generation, const struct mix_report *report)
{
    (void)pthread_mutex_lock(&generation->lock);
    struct work *work = generation->built.work;
    if (work && work->row->mixes_stored) {
        work->row->mixes_stored(work, report);
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

void generation_check_disk(struct generation *generation)
{
    struct err err = {0};
    if (disk_watch_check(generation->device.disk, clock_now_ms(), &err) != 0) {
        reporter_error(&generation->reporter, "disk", &err);
        generation_cancel(generation);
    }
}

void generation_drop(struct generation *generation, const struct drop *drop)
{
    (void)pthread_mutex_lock(&generation->lock);
    if (generation->outbox) {
        outbox_drop(generation->outbox, drop);
    }
    (void)pthread_mutex_unlock(&generation->lock);
}

void generation_measure(struct generation *generation, struct heartbeat *out)
{
    troubles_list(generation->troubles, out);
    (void)pthread_mutex_lock(&generation->lock);
    struct work *work = generation->built.work;
    if (work) {
        out->bytes_moved = generation->built.bytes_moved;
        out->fetch_seconds = generation->built.fetch_seconds;
        work->row->measure(work, out);
    }
    memcpy(out->kernels, generation->kernels, sizeof(out->kernels));
    (void)pthread_mutex_unlock(&generation->lock);
}
