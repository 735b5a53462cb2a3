#include "agent/copies/outbox.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "agent/copies/outbox_parts.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/hash.h"

#define NS_PER_MS INT64_C(1000000)

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

static int keep_unit(struct outbox *outbox, struct set *set, size_t index, struct holding *holding,
                     struct err *err)
{
    const struct snapshot_waiter waiter = {.done = written, .arg = outbox};
    void *block = set->block[index];
    const struct stage_config *at = outbox->at;
    *holding = (struct holding){.job = at->job,
                                .generation = at->generation,
                                .version = set->version,
                                .unit = (int64_t)(at->first + index),
                                .bytes = (int64_t)outbox_unit_bytes(outbox, index)};
    sha256_text(block, (size_t)holding->bytes, holding->sha256);
    set->block[index] = NULL;
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

/* Hash and keep a filled set, unit by unit; each can be sent from then on. Stops when cancelled:
 * the rest would delay the next generation. Called with the lock, which it releases meanwhile. */
static void keep_set(struct outbox *outbox, struct set *set)
{
    struct err err = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < outbox->units && !outbox->cancelled; i++) {
        struct holding holding;
        (void)pthread_mutex_unlock(&outbox->lock);
        rc = keep_unit(outbox, set, i, &holding, &err);
        (void)pthread_mutex_lock(&outbox->lock);
        if (rc == 0) {
            outbox_queue_hold(outbox->queue, set->version, (size_t)holding.unit, holding.sha256,
                              holding.bytes);
        }
    }
    (void)pthread_mutex_unlock(&outbox->lock);
    outbox_free_blocks(outbox, set);
    (void)pthread_mutex_lock(&outbox->lock);
    if (rc == 0 && !outbox->cancelled) {
        outbox->held = set->version;
    } else if (rc != 0) {
        outbox->failed = set->version;
        outbox->why = err;
        log_warn("snapshot_not_kept", "version=%" PRId64 " error=%s", set->version,
                 log_quote(err.text).text);
    }
    set->state = SET_NONE;
    (void)pthread_cond_broadcast(&outbox->done);
}

/* ---- sending ---- */

/* The target will not get that version. Called with the lock, which it releases meanwhile. */
static void abandon(struct outbox *outbox, const struct outbox_send *send, const struct err *why)
{
    outbox_queue_refused(outbox->queue, send);
    if (send->kind == REPLICA_CENTER && send->version == outbox->collecting) {
        outbox->collecting = 0;
        (void)pthread_mutex_unlock(&outbox->lock);
        outbox->config.failed(outbox->config.arg, why);
        (void)pthread_mutex_lock(&outbox->lock);
    }
}

static void take_result(struct outbox *outbox, const struct outbox_send *send, int rc,
                        int64_t retry_ms, const struct err *why)
{
    switch (rc) {
    case 0: outbox_queue_sent(outbox->queue, send); break;
    case ERR_NOT_FOUND:
        if (!send->whole) {
            outbox_queue_unknown(outbox->queue, send);
            break;
        }
        outbox_queue_failed(outbox->queue, send, clock_now_ms(), retry_ms);
        break;
    case ERR_STATE:
    case ERR_NETWORK:
    case ERR_TIMEOUT:
    case ERR_FULL: outbox_queue_failed(outbox->queue, send, clock_now_ms(), retry_ms); break;
    case ERR_CANCELLED: break;
    case ERR_STALE:
        abandon(outbox, send, why);
        break; /* a newer assignment is on its way, or the snapshot was dropped */
    default:
        log_warn("replica_refused", "version=%" PRId64 " unit=%zu error=%s", send->version,
                 send->unit, log_quote(why->text).text);
        abandon(outbox, send, why);
        break;
    }
}

/* Called with the lock, which it releases while it sends. */
static void send_one(struct outbox *outbox, const struct outbox_send *send)
{
    const struct stage_config *at = outbox->at;
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

/* The collection ends when the center has every unit. Called with the lock, which it releases
 * meanwhile. */
static bool end_collection(struct outbox *outbox)
{
    const int64_t version = outbox->collecting;
    if (version == 0 || !outbox_queue_is_whole(outbox->queue, REPLICA_CENTER, version)) {
        return false;
    }
    outbox->collecting = 0;
    (void)pthread_mutex_unlock(&outbox->lock);
    outbox->config.collected(outbox->config.arg, version);
    (void)pthread_mutex_lock(&outbox->lock);
    return true;
}

static void wait_for_work(struct outbox *outbox)
{
    const int64_t due_ms = outbox_queue_due_ms(outbox->queue);
    if (due_ms == INT64_MAX || outbox->wanted > 0) {
        (void)pthread_cond_wait(&outbox->work, &outbox->lock);
        return;
    }
    const int64_t left_ms = due_ms - clock_now_ms();
    if (left_ms > 0) {
        (void)thread_condition_wait(&outbox->work, &outbox->lock, left_ms * NS_PER_MS);
    }
}

static void *work(void *arg)
{
    struct outbox *outbox = arg;
    struct outbox_send send;
    thread_set_name("replicate");
    thread_be_nice();
    (void)pthread_mutex_lock(&outbox->lock);
    while (!outbox->cancelled) {
        struct set *filled = outbox_find_set(outbox, SET_FILLED);
        if (filled && outbox->wanted == 0 && outbox_make_ready(outbox)) {
            continue; /* first: the next snapshot may be due before this one is hashed */
        }
        if (filled) {
            outbox_release_replicas(outbox);
            keep_set(outbox, filled);
        } else if (outbox_make_ready(outbox) || end_collection(outbox)) {
            continue;
        } else if (outbox->wanted == 0 && outbox_queue_next(outbox->queue, clock_now_ms(), &send)) {
            send_one(outbox, &send);
        } else {
            wait_for_work(outbox);
        }
    }
    (void)pthread_cond_broadcast(&outbox->done);
    (void)pthread_mutex_unlock(&outbox->lock);
    return NULL;
}

/* ---- the compute thread ---- */

/* Copy the units into a ready set. Called with the lock, which it releases while it copies. */
static void fill(struct outbox *outbox, struct set *set, int64_t version)
{
    set->state = SET_FILLING;
    set->version = version;
    (void)pthread_mutex_unlock(&outbox->lock);
    for (size_t i = 0; i < outbox->units; i++) {
        stage_save_unit(outbox->stage, outbox->at->first + i, set->block[i]);
    }
    (void)pthread_mutex_lock(&outbox->lock);
    set->state = SET_FILLED;
    (void)pthread_cond_signal(&outbox->work);
}

void outbox_take(struct outbox *outbox, int64_t version, const struct round_mark *mark)
{
    (void)pthread_mutex_lock(&outbox->lock);
    outbox_queue_take(outbox->queue, version, mark);
    struct set *set = outbox_find_set(outbox, SET_READY);
    if (set) {
        fill(outbox, set, version);
    } else {
        outbox->skipped++;
        (void)pthread_cond_signal(&outbox->work); /* the mark may say what can go */
    }
    (void)pthread_mutex_unlock(&outbox->lock);
}

static bool is_under_way(struct outbox *outbox, int64_t version)
{
    for (size_t i = 0; i < SETS_MAX; i++) {
        if (outbox->set[i].state == SET_FILLED && outbox->set[i].version == version) {
            return true;
        }
    }
    return outbox->held == version;
}

int outbox_keep(struct outbox *outbox, int64_t version, struct err *err)
{
    static const struct round_mark none;
    (void)pthread_mutex_lock(&outbox->lock);
    outbox->wanted = version;
    outbox->no_memory = false;
    atomic_store(outbox->config.interrupt,
                 true); /* the rest of a blob that is being sent can wait */
    (void)pthread_cond_signal(&outbox->work);
    bool filled = version == 0 || is_under_way(outbox, version);
    while (!filled && !outbox->cancelled && outbox->failed < version) {
        struct set *set = outbox_find_set(outbox, SET_READY);
        if (set) {
            outbox_queue_take(outbox->queue, version, &none);
            fill(outbox, set, version);
            filled = true;
        } else {
            (void)pthread_cond_wait(&outbox->done, &outbox->lock);
        }
    }
    while (version > 0 && !outbox->cancelled && outbox->failed < version &&
           outbox->held < version) {
        (void)pthread_cond_wait(&outbox->done, &outbox->lock);
    }
    int rc = 0;
    if (outbox->failed >= version && version > 0) {
        *err = outbox->why;
        rc = err->code;
    } else if (outbox->cancelled) {
        rc = err_set(err, ERR_CANCELLED, "cancelled");
    }
    outbox->wanted = 0;
    (void)pthread_cond_signal(&outbox->work);
    (void)pthread_mutex_unlock(&outbox->lock);
    return rc;
}

/* ---- any thread ---- */

void outbox_collect(struct outbox *outbox, int64_t version)
{
    (void)pthread_mutex_lock(&outbox->lock);
    outbox->collecting = version;
    outbox_queue_collect(outbox->queue, version);
    (void)pthread_cond_signal(&outbox->work);
    (void)pthread_mutex_unlock(&outbox->lock);
}

void outbox_drop(struct outbox *outbox, const struct drop *drop)
{
    (void)pthread_mutex_lock(&outbox->lock);
    if (id_equal(drop->job.text, outbox->at->job.text)) {
        outbox_queue_drop(outbox->queue, drop->below_version);
    }
    outbox->no_memory = false;
    (void)pthread_cond_signal(&outbox->work);
    (void)pthread_mutex_unlock(&outbox->lock);
}

uint64_t outbox_skipped(struct outbox *outbox)
{
    (void)pthread_mutex_lock(&outbox->lock);
    const uint64_t skipped = outbox->skipped;
    (void)pthread_mutex_unlock(&outbox->lock);
    return skipped;
}

/* ---- life ---- */

static void free_outbox(struct outbox *outbox)
{
    for (size_t i = 0; i < SETS_MAX; i++) {
        if (outbox->set[i].block) {
            outbox_free_blocks(outbox, &outbox->set[i]);
        }
        free(outbox->set[i].block);
    }
    outbox_queue_free(&outbox->queue);
    stage_release(&outbox->stage);
    (void)pthread_cond_destroy(&outbox->work);
    (void)pthread_cond_destroy(&outbox->done);
    (void)pthread_mutex_destroy(&outbox->lock);
    free(outbox);
}

static int fill_outbox(struct outbox *outbox, struct err *err)
{
    const struct outbox_queue_config queue = {.first = outbox->at->first,
                                              .end = outbox->at->end,
                                              .resume_version = outbox->at->resume_version};
    int rc = outbox_queue_new(&queue, &outbox->queue, err);
    for (size_t i = 0; rc == 0 && i < SETS_MAX; i++) {
        outbox->set[i].block = calloc(outbox->units, sizeof(void *));
        rc =
            outbox->set[i].block ? 0 : err_set(err, ERR_MEMORY, "sets of %zu units", outbox->units);
    }
    for (size_t i = 0; rc == 0 && i < outbox->units; i++) {
        outbox->set_bytes += (int64_t)outbox_unit_bytes(outbox, i);
    }
    rc = rc ? rc : outbox_fill_blocks(outbox, &outbox->set[0], err);
    if (rc == 0) {
        outbox->set[0].state = SET_READY;
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
    outbox->stage = stage_retain(config->stage);
    outbox->at = stage_config(outbox->stage);
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
