#include "agent/copies/outbox.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "agent/copies/outbox_tasks.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/hash.h"

#define PAGE_BYTES 4096 /* or more */

struct outbox {
    struct outbox_config config;
    const struct keeper_config *at; /* the keeper's */
    size_t units;
    pthread_t thread;

    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t work;  /* for the thread */
    pthread_cond_t done;  /* for a stop, and for the end of a write */
    struct outbox_tasks *tasks;
    void **block[OUTBOX_SETS_MAX]; /* [units]; a set in use belongs to its user, without the lock */
    bool cancelled;
    struct err why; /* the last snapshot could not be kept */
    bool writing;   /* a file */
    int write_rc;
    struct err write_why;
};

/* ---- blocks ---- */

static size_t unit_bytes(const struct outbox *outbox, size_t index)
{
    return keeper_unit_bytes(outbox->config.keeper, outbox->at->first + index);
}

static int64_t set_bytes(const struct outbox *outbox)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < outbox->units; i++) {
        bytes += (int64_t)unit_bytes(outbox, i);
    }
    return bytes;
}

static void free_blocks(const struct outbox *outbox, void **block)
{
    for (size_t i = 0; i < outbox->units; i++) {
        snapshot_block_free(outbox->config.snapshots, block[i], unit_bytes(outbox, i));
        block[i] = NULL;
    }
}

/* Allocate the blocks and touch their pages, so that the compute thread causes no page faults. */
static int make_blocks(const struct outbox *outbox, void **block, struct err *err)
{
    for (size_t i = 0; i < outbox->units; i++) {
        const size_t size = unit_bytes(outbox, i);
        block[i] = snapshot_block(outbox->config.snapshots, size);
        if (!block[i]) {
            free_blocks(outbox, block);
            return err_set(err, ERR_MEMORY, "a snapshot of %" PRId64 " bytes", set_bytes(outbox));
        }
        char *bytes = block[i];
        for (size_t offset = 0; offset < size; offset += PAGE_BYTES) {
            bytes[offset] = 0;
        }
    }
    return 0;
}

/* Called with the lock, which it releases meanwhile. */
static void prepare(struct outbox *outbox, size_t set)
{
    struct err err = {0};
    (void)pthread_mutex_unlock(&outbox->lock);
    const int rc = make_blocks(outbox, outbox->block[set], &err);
    (void)pthread_mutex_lock(&outbox->lock);
    if (rc != 0) {
        log_warn("snapshot_skipped", "error=%s", log_quote(err.text).text);
        outbox->why = err;
    }
    outbox_tasks_prepared(outbox->tasks, set, rc == 0);
    (void)pthread_cond_broadcast(&outbox->done);
}

/* ---- keeping ---- */

/* On the store's thread. */
static void written(void *arg, int rc, const struct err *why)
{
    struct outbox *outbox = arg;
    (void)pthread_mutex_lock(&outbox->lock);
    outbox->writing = false;
    outbox->write_rc = rc;
    if (rc != 0) {
        outbox->write_why = *why;
    }
    (void)pthread_cond_broadcast(&outbox->done);
    (void)pthread_mutex_unlock(&outbox->lock);
}

static int keep_unit(struct outbox *outbox, const struct outbox_task *task, size_t index,
                     struct holding *holding, struct err *err)
{
    const struct snapshot_waiter waiter = {.done = written, .arg = outbox};
    void *block = outbox->block[task->set][index];
    const struct keeper_config *at = outbox->at;
    *holding = (struct holding){.job = at->job,
                                .generation = at->generation,
                                .version = task->version,
                                .unit = (int64_t)(at->first + index),
                                .bytes = (int64_t)unit_bytes(outbox, index)};
    sha256_text(block, (size_t)holding->bytes, holding->sha256);
    outbox->block[task->set][index] = NULL;
    (void)pthread_mutex_lock(&outbox->lock);
    outbox->writing = true;
    (void)pthread_mutex_unlock(&outbox->lock);
    int rc = snapshot_keep(outbox->config.snapshots, holding, SNAPSHOT_OWN, block, &waiter, err);
    (void)pthread_mutex_lock(&outbox->lock);
    if (rc == SNAPSHOT_LATER) {
        while (outbox->writing) {
            (void)pthread_cond_wait(&outbox->done, &outbox->lock);
        }
        rc = outbox->write_rc;
        if (rc != 0) {
            *err = outbox->write_why;
        }
    }
    outbox->writing = false;
    (void)pthread_mutex_unlock(&outbox->lock);
    return rc;
}

/* Hash and keep a filled set, unit by unit. Each unit can be sent as soon as it is kept. Stops when
 * cancelled, because the remaining units would delay the next generation. Called with the lock,
 * which it releases for the time of this work. */
static void keep_set(struct outbox *outbox, const struct outbox_task *task)
{
    struct err err = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < outbox->units && !outbox->cancelled; i++) {
        struct holding holding;
        (void)pthread_mutex_unlock(&outbox->lock);
        rc = keep_unit(outbox, task, i, &holding, &err);
        (void)pthread_mutex_lock(&outbox->lock);
        if (rc == 0) {
            outbox_tasks_hold(outbox->tasks, &holding);
        }
    }
    (void)pthread_mutex_unlock(&outbox->lock);
    free_blocks(outbox, outbox->block[task->set]);
    (void)pthread_mutex_lock(&outbox->lock);
    if (rc != 0) {
        outbox->why = err;
        log_warn("snapshot_not_kept", "version=%" PRId64 " error=%s", task->version,
                 log_quote(err.text).text);
    }
    outbox_tasks_kept(outbox->tasks, task->set,
                      rc != 0             ? OUTBOX_NOT_HELD
                      : outbox->cancelled ? OUTBOX_CANCELLED
                                          : OUTBOX_HELD);
    (void)pthread_cond_broadcast(&outbox->done);
}

/* ---- sending ---- */

/* Called with the lock, which it releases meanwhile. */
static void take_result(struct outbox *outbox, const struct outbox_send *send, int rc,
                        int64_t retry_ms, const struct err *why)
{
    const enum outbox_answer answer =
        outbox_tasks_answered(outbox->tasks, send, rc, clock_now_ms(), retry_ms);
    if (answer != OUTBOX_GOES_ON && rc != ERR_STALE) {
        log_warn("replica_refused", "version=%" PRId64 " unit=%zu error=%s", send->version,
                 send->unit, log_quote(why->text).text);
    }
    if (answer == OUTBOX_NOT_COLLECTED) {
        (void)pthread_mutex_unlock(&outbox->lock);
        outbox->config.failed(outbox->config.arg, why);
        (void)pthread_mutex_lock(&outbox->lock);
    }
}

/* Called with the lock, which it releases while it sends. */
static void send_one(struct outbox *outbox, const struct outbox_send *send)
{
    const struct keeper_config *at = outbox->at;
    struct err err = {0};
    int64_t retry_ms = 0;
    atomic_store(outbox->config.interrupt, outbox->cancelled);
    (void)pthread_mutex_unlock(&outbox->lock);
    const struct snapshot *snapshot =
        snapshot_get(outbox->config.snapshots, at->job.text, send->version, (int64_t)send->unit);
    int rc;
    if (snapshot && snapshot->holding.generation == at->generation) {
        rc = outbox->config.send(outbox->config.arg, send, snapshot, &retry_ms, &err);
    } else {
        rc = err_set(&err, ERR_STALE, "version %" PRId64 " of unit %zu is no longer held",
                     send->version, send->unit);
    }
    if (snapshot) {
        snapshot_put_back(snapshot);
    }
    (void)pthread_mutex_lock(&outbox->lock);
    take_result(outbox, send, rc, retry_ms, &err);
}

/* ---- the thread ---- */

static struct outbox_room count_room(const struct outbox *outbox)
{
    const struct keeper_config *at = outbox->at;
    struct snapshot_store *snapshots = outbox->config.snapshots;
    return (struct outbox_room){
        .own = snapshot_count_bytes(snapshots, SNAPSHOT_OWN, true, &at->job, at->generation),
        .replicas =
            snapshot_count_bytes(snapshots, SNAPSHOT_REPLICA, false, &at->job, at->generation)};
}

static void wait_for_work(struct outbox *outbox, int64_t due_ms)
{
    if (due_ms == INT64_MAX) {
        (void)pthread_cond_wait(&outbox->work, &outbox->lock);
        return;
    }
    const int64_t left_ms = due_ms - clock_now_ms();
    if (left_ms > 0) {
        (void)thread_condition_wait(&outbox->work, &outbox->lock, left_ms * NS_PER_MS);
    }
}

/* Called with the lock, which it may release meanwhile. */
static void do_task(struct outbox *outbox, const struct outbox_task *task)
{
    switch (task->work) {
    case OUTBOX_WAIT: wait_for_work(outbox, task->due_ms); break;
    case OUTBOX_PREPARE: prepare(outbox, task->set); break;
    case OUTBOX_RELEASE:
        (void)snapshot_release(outbox->config.snapshots, task->origin, &outbox->at->job,
                               outbox->at->generation, outbox_tasks_queue(outbox->tasks));
        break;
    case OUTBOX_KEEP: keep_set(outbox, task); break;
    case OUTBOX_SEND: send_one(outbox, &task->send); break;
    case OUTBOX_COLLECTED:
        (void)pthread_mutex_unlock(&outbox->lock);
        outbox->config.collected(outbox->config.arg, task->version);
        (void)pthread_mutex_lock(&outbox->lock);
        break;
    }
}

static void *work(void *arg)
{
    struct outbox *outbox = arg;
    thread_set_name("replicate");
    thread_be_nice();
    (void)pthread_mutex_lock(&outbox->lock);
    while (!outbox->cancelled) {
        struct outbox_room room = {0};
        if (outbox_tasks_needs_room(outbox->tasks)) {
            room = count_room(outbox);
        }
        struct outbox_task task;
        outbox_tasks_next(outbox->tasks, clock_now_ms(), &room, &task);
        do_task(outbox, &task);
    }
    (void)pthread_cond_broadcast(&outbox->done);
    (void)pthread_mutex_unlock(&outbox->lock);
    return NULL;
}

/* ---- the compute thread ---- */

/* Copy the units into a set. Called with the lock, which it releases while it copies. */
static void fill(struct outbox *outbox, size_t set)
{
    (void)pthread_mutex_unlock(&outbox->lock);
    for (size_t i = 0; i < outbox->units; i++) {
        keeper_save_unit(outbox->config.keeper, outbox->at->first + i, outbox->block[set][i]);
    }
    (void)pthread_mutex_lock(&outbox->lock);
    outbox_tasks_filled(outbox->tasks, set);
    (void)pthread_cond_signal(&outbox->work);
}

void outbox_take(struct outbox *outbox, int64_t version, const struct round_mark *mark)
{
    size_t set = 0;
    (void)pthread_mutex_lock(&outbox->lock);
    if (outbox_tasks_take(outbox->tasks, version, mark, &set)) {
        fill(outbox, set);
    } else {
        (void)pthread_cond_signal(&outbox->work); /* the mark may make snapshots expendable */
    }
    (void)pthread_mutex_unlock(&outbox->lock);
}

int outbox_keep(struct outbox *outbox, int64_t version, struct err *err)
{
    (void)pthread_mutex_lock(&outbox->lock);
    atomic_store(outbox->config.interrupt,
                 true); /* the stop goes before the blob that is being sent */
    (void)pthread_cond_signal(&outbox->work);
    size_t set = 0;
    enum outbox_stop stop = outbox_tasks_stop(outbox->tasks, version, &set);
    while ((stop == OUTBOX_STOP_FILL || stop == OUTBOX_STOP_WAITS) && !outbox->cancelled) {
        if (stop == OUTBOX_STOP_FILL) {
            fill(outbox, set);
        } else {
            (void)pthread_cond_wait(&outbox->done, &outbox->lock);
        }
        stop = outbox_tasks_stop(outbox->tasks, version, &set);
    }
    int rc = 0;
    if (stop == OUTBOX_STOP_FAILED) {
        *err = outbox->why;
        rc = err->code;
    } else if (outbox->cancelled) {
        rc = err_set(err, ERR_CANCELLED, "cancelled");
    }
    outbox_tasks_end_stop(outbox->tasks);
    (void)pthread_cond_signal(&outbox->work);
    (void)pthread_mutex_unlock(&outbox->lock);
    return rc;
}

/* ---- any thread ---- */

void outbox_collect(struct outbox *outbox, int64_t version)
{
    (void)pthread_mutex_lock(&outbox->lock);
    outbox_tasks_collect(outbox->tasks, version);
    (void)pthread_cond_signal(&outbox->work);
    (void)pthread_mutex_unlock(&outbox->lock);
}

void outbox_drop(struct outbox *outbox, const struct drop *drop)
{
    (void)pthread_mutex_lock(&outbox->lock);
    const bool ours = id_equal(drop->job.text, outbox->at->job.text);
    outbox_tasks_drop(outbox->tasks, ours ? drop->below_version : 0);
    (void)pthread_cond_signal(&outbox->work);
    (void)pthread_mutex_unlock(&outbox->lock);
}

uint64_t outbox_skipped(struct outbox *outbox)
{
    (void)pthread_mutex_lock(&outbox->lock);
    const uint64_t skipped = outbox_tasks_skipped(outbox->tasks);
    (void)pthread_mutex_unlock(&outbox->lock);
    return skipped;
}

/* ---- life ---- */

static void free_outbox(struct outbox *outbox)
{
    for (size_t i = 0; i < OUTBOX_SETS_MAX; i++) {
        if (outbox->block[i]) {
            free_blocks(outbox, outbox->block[i]);
        }
        free(outbox->block[i]);
    }
    outbox_tasks_free(&outbox->tasks);
    (void)pthread_cond_destroy(&outbox->work);
    (void)pthread_cond_destroy(&outbox->done);
    (void)pthread_mutex_destroy(&outbox->lock);
    free(outbox);
}

static int fill_outbox(struct outbox *outbox, struct err *err)
{
    const struct outbox_tasks_config tasks = {
        .queue = {.first = outbox->at->first,
                  .end = outbox->at->end,
                  .resume_version = outbox->at->resume_version},
        .set_bytes = set_bytes(outbox),
        .replica_bytes = outbox->config.replica_bytes,
        .stops_only = outbox->config.stops_only,
    };
    int rc = outbox_tasks_new(&tasks, &outbox->tasks, err);
    for (size_t i = 0; rc == 0 && i < OUTBOX_SETS_MAX; i++) {
        outbox->block[i] = calloc(outbox->units, sizeof(void *));
        rc = outbox->block[i] ? 0 : err_set(err, ERR_MEMORY, "sets of %zu units", outbox->units);
    }
    rc = rc ? rc : make_blocks(outbox, outbox->block[0], err);
    if (rc == 0) {
        outbox_tasks_prepared(outbox->tasks, 0, true);
    }
    return rc;
}

int outbox_start(const struct outbox_config *config, struct outbox **out, struct err *err)
{
    struct outbox *outbox = calloc(1, sizeof(*outbox));
    if (!outbox || pthread_mutex_init(&outbox->lock, NULL) != 0) {
        free(outbox);
        return err_set(err, ERR_MEMORY, "snapshots to send");
    }
    (void)pthread_cond_init(&outbox->done, NULL);
    int rc = thread_condition_init(&outbox->work, err);
    if (rc != 0) {
        (void)pthread_cond_destroy(&outbox->done);
        (void)pthread_mutex_destroy(&outbox->lock);
        free(outbox);
        return rc;
    }
    outbox->config = *config;
    outbox->at = keeper_config(config->keeper);
    outbox->units = outbox->at->end - outbox->at->first;
    rc = fill_outbox(outbox, err);
    rc = rc ? rc : thread_start(&outbox->thread, work, outbox, err);
    if (rc != 0) {
        free_outbox(outbox);
        return rc;
    }
    *out = outbox;
    return 0;
}

void outbox_cancel(struct outbox *outbox)
{
    (void)pthread_mutex_lock(&outbox->lock);
    outbox->cancelled = true;
    atomic_store(outbox->config.interrupt, true);
    (void)pthread_cond_broadcast(&outbox->work);
    (void)pthread_cond_broadcast(&outbox->done);
    (void)pthread_mutex_unlock(&outbox->lock);
}

void outbox_free(struct outbox **outbox)
{
    if (*outbox) {
        (void)pthread_join((*outbox)->thread, NULL);
        free_outbox(*outbox);
        *outbox = NULL;
    }
}
