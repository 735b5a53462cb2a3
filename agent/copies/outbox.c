#include "agent/copies/outbox.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
    struct replicate *replicate = arg;
    (void)pthread_mutex_lock(&replicate->lock);
    replicate->writing = false;
    replicate->write_rc = rc;
    if (rc != 0) {
        replicate->write_why = *why;
    }
    (void)pthread_cond_broadcast(&replicate->done);
    (void)pthread_mutex_unlock(&replicate->lock);
}

static int keep_unit(struct replicate *replicate, struct set *set, size_t index,
                     struct holding *holding, struct err *err)
{
    const struct snapshot_waiter waiter = {.done = written, .arg = replicate};
    void *block = set->block[index];
    const struct stage_config *at = replicate->at;
    *holding = (struct holding){.job = at->job,
                                .generation = at->generation,
                                .version = set->version,
                                .unit = (int64_t)(at->first + index),
                                .bytes = (int64_t)replicate_unit_bytes(replicate, index)};
    sha256_text(block, (size_t)holding->bytes, holding->sha256);
    set->block[index] = NULL;
    (void)pthread_mutex_lock(&replicate->lock);
    replicate->writing = true;
    (void)pthread_mutex_unlock(&replicate->lock);
    int rc = snapshot_keep(replicate->config.snapshots, holding, SNAPSHOT_OWN, block, &waiter, err);
    (void)pthread_mutex_lock(&replicate->lock);
    if (rc == SNAPSHOT_LATER) {
        while (replicate->writing) {
            (void)pthread_cond_wait(&replicate->done, &replicate->lock);
        }
        rc = replicate->write_rc;
        if (rc != 0) {
            *err = replicate->write_why;
        }
    }
    replicate->writing = false;
    (void)pthread_mutex_unlock(&replicate->lock);
    return rc;
}

/* Hash and keep a filled set, unit by unit; each may be sent from then on. The rest of a generation
 * that is over would only delay the next one. Under the lock, which it lets go of. */
static void keep_set(struct replicate *replicate, struct set *set)
{
    struct err err = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < replicate->units && !replicate->cancelled; i++) {
        struct holding holding;
        (void)pthread_mutex_unlock(&replicate->lock);
        rc = keep_unit(replicate, set, i, &holding, &err);
        (void)pthread_mutex_lock(&replicate->lock);
        if (rc == 0) {
            replication_hold(replicate->core, set->version, (size_t)holding.unit, holding.sha256,
                             holding.bytes);
        }
    }
    (void)pthread_mutex_unlock(&replicate->lock);
    replicate_free_blocks(replicate, set);
    (void)pthread_mutex_lock(&replicate->lock);
    if (rc == 0 && !replicate->cancelled) {
        replicate->held = set->version;
    } else if (rc != 0) {
        replicate->failed = set->version;
        replicate->why = err;
        log_warn("snapshot_not_kept", "version=%" PRId64 " error=%s", set->version,
                 log_quote(err.text).text);
    }
    set->state = SET_NONE;
    (void)pthread_cond_broadcast(&replicate->done);
}

/* ---- sending ---- */

/* That version will not get there. Under the lock, which it lets go of meanwhile. */
static void give_up(struct replicate *replicate, const struct replication_send *send,
                    const struct err *why)
{
    replication_refused(replicate->core, send);
    if (send->kind == REPLICA_CENTER && send->version == replicate->collecting) {
        replicate->collecting = 0;
        (void)pthread_mutex_unlock(&replicate->lock);
        replicate->config.failed(replicate->config.arg, why);
        (void)pthread_mutex_lock(&replicate->lock);
    }
}

static void take_result(struct replicate *replicate, const struct replication_send *send, int rc,
                        int64_t retry_ms, const struct err *why)
{
    switch (rc) {
    case 0: replication_sent(replicate->core, send); break;
    case ERR_NOT_FOUND:
        if (!send->whole) {
            replication_unknown(replicate->core, send);
            break;
        }
        replication_failed(replicate->core, send, clock_now_ms(), retry_ms);
        break;
    case ERR_STATE:
    case ERR_NETWORK:
    case ERR_TIMEOUT:
    case ERR_FULL: replication_failed(replicate->core, send, clock_now_ms(), retry_ms); break;
    case ERR_CANCELLED: break;
    case ERR_STALE:
        give_up(replicate, send, why);
        break; /* a newer assignment is on its way, or it was let go of */
    default:
        log_warn("replica_refused", "version=%" PRId64 " unit=%zu error=%s", send->version,
                 send->unit, log_quote(why->text).text);
        give_up(replicate, send, why);
        break;
    }
}

/* Under the lock, which it lets go of while it sends. */
static void send_one(struct replicate *replicate, const struct replication_send *send)
{
    const struct stage_config *at = replicate->at;
    struct err err = {0};
    int64_t retry_ms = 0;
    atomic_store(replicate->config.interrupt, replicate->cancelled);
    (void)pthread_mutex_unlock(&replicate->lock);
    const struct snapshot *snapshot =
        snapshot_get(replicate->config.snapshots, at->job.text, send->version, (int64_t)send->unit);
    int rc;
    if (snapshot && snapshot->holding.generation == at->generation) {
        rc = replicate->config.send(replicate->config.arg, send, snapshot, &retry_ms, &err);
    } else {
        rc = err_set(&err, ERR_STALE, "version %" PRId64 " of unit %zu is no longer held",
                     send->version, send->unit);
    }
    if (snapshot) {
        snapshot_put_back(snapshot);
    }
    (void)pthread_mutex_lock(&replicate->lock);
    take_result(replicate, send, rc, retry_ms, &err);
}

/* The collection is over when the center has all. Under the lock, which it lets go of meanwhile. */
static bool end_collection(struct replicate *replicate)
{
    const int64_t version = replicate->collecting;
    if (version == 0 || !replication_is_whole(replicate->core, REPLICA_CENTER, version)) {
        return false;
    }
    replicate->collecting = 0;
    (void)pthread_mutex_unlock(&replicate->lock);
    replicate->config.collected(replicate->config.arg, version);
    (void)pthread_mutex_lock(&replicate->lock);
    return true;
}

static void wait_for_work(struct replicate *replicate)
{
    const int64_t due_ms = replication_due_ms(replicate->core);
    if (due_ms == INT64_MAX || replicate->wanted > 0) {
        (void)pthread_cond_wait(&replicate->work, &replicate->lock);
        return;
    }
    const int64_t left_ms = due_ms - clock_now_ms();
    if (left_ms > 0) {
        (void)thread_condition_wait(&replicate->work, &replicate->lock, left_ms * NS_PER_MS);
    }
}

static void *work(void *arg)
{
    struct replicate *replicate = arg;
    struct replication_send send;
    thread_set_name("replicate");
    thread_be_nice();
    (void)pthread_mutex_lock(&replicate->lock);
    while (!replicate->cancelled) {
        struct set *filled = replicate_find_set(replicate, SET_FILLED);
        if (filled && replicate->wanted == 0 && replicate_make_ready(replicate)) {
            continue; /* first of all: the next snapshot may be due before this one is hashed */
        }
        if (filled) {
            replicate_release_replicas(replicate);
            keep_set(replicate, filled);
        } else if (replicate_make_ready(replicate) || end_collection(replicate)) {
            continue;
        } else if (replicate->wanted == 0 &&
                   replication_next(replicate->core, clock_now_ms(), &send)) {
            send_one(replicate, &send);
        } else {
            wait_for_work(replicate);
        }
    }
    (void)pthread_cond_broadcast(&replicate->done);
    (void)pthread_mutex_unlock(&replicate->lock);
    return NULL;
}

/* ---- the compute thread ---- */

/* Copy the units into a set that is ready. Under the lock, which it lets go of while it copies. */
static void fill(struct replicate *replicate, struct set *set, int64_t version)
{
    set->state = SET_FILLING;
    set->version = version;
    (void)pthread_mutex_unlock(&replicate->lock);
    for (size_t i = 0; i < replicate->units; i++) {
        stage_save_unit(replicate->stage, replicate->at->first + i, set->block[i]);
    }
    (void)pthread_mutex_lock(&replicate->lock);
    set->state = SET_FILLED;
    (void)pthread_cond_signal(&replicate->work);
}

void replicate_take(struct replicate *replicate, int64_t version, const struct round_mark *mark)
{
    (void)pthread_mutex_lock(&replicate->lock);
    replication_take(replicate->core, version, mark);
    struct set *set = replicate_find_set(replicate, SET_READY);
    if (set) {
        fill(replicate, set, version);
    } else {
        replicate->skipped++;
        (void)pthread_cond_signal(&replicate->work); /* the mark may say what can go */
    }
    (void)pthread_mutex_unlock(&replicate->lock);
}

static bool is_under_way(struct replicate *replicate, int64_t version)
{
    for (size_t i = 0; i < SETS_MAX; i++) {
        if (replicate->set[i].state == SET_FILLED && replicate->set[i].version == version) {
            return true;
        }
    }
    return replicate->held == version;
}

int replicate_keep(struct replicate *replicate, int64_t version, struct err *err)
{
    static const struct round_mark none;
    (void)pthread_mutex_lock(&replicate->lock);
    replicate->wanted = version;
    replicate->no_memory = false;
    atomic_store(replicate->config.interrupt,
                 true); /* the rest of a blob that is being sent can wait */
    (void)pthread_cond_signal(&replicate->work);
    bool filled = version == 0 || is_under_way(replicate, version);
    while (!filled && !replicate->cancelled && replicate->failed < version) {
        struct set *set = replicate_find_set(replicate, SET_READY);
        if (set) {
            replication_take(replicate->core, version, &none);
            fill(replicate, set, version);
            filled = true;
        } else {
            (void)pthread_cond_wait(&replicate->done, &replicate->lock);
        }
    }
    while (version > 0 && !replicate->cancelled && replicate->failed < version &&
           replicate->held < version) {
        (void)pthread_cond_wait(&replicate->done, &replicate->lock);
    }
    int rc = 0;
    if (replicate->failed >= version && version > 0) {
        *err = replicate->why;
        rc = err->code;
    } else if (replicate->cancelled) {
        rc = err_set(err, ERR_CANCELLED, "cancelled");
    }
    replicate->wanted = 0;
    (void)pthread_cond_signal(&replicate->work);
    (void)pthread_mutex_unlock(&replicate->lock);
    return rc;
}

/* ---- any thread ---- */

void replicate_collect(struct replicate *replicate, int64_t version)
{
    (void)pthread_mutex_lock(&replicate->lock);
    replicate->collecting = version;
    replication_collect(replicate->core, version);
    (void)pthread_cond_signal(&replicate->work);
    (void)pthread_mutex_unlock(&replicate->lock);
}

void replicate_drop(struct replicate *replicate, const struct drop *drop)
{
    (void)pthread_mutex_lock(&replicate->lock);
    if (strcmp(drop->job.text, replicate->at->job.text) == 0) {
        replication_drop(replicate->core, drop->below_version);
    }
    replicate->no_memory = false;
    (void)pthread_cond_signal(&replicate->work);
    (void)pthread_mutex_unlock(&replicate->lock);
}

uint64_t replicate_skipped(struct replicate *replicate)
{
    (void)pthread_mutex_lock(&replicate->lock);
    const uint64_t skipped = replicate->skipped;
    (void)pthread_mutex_unlock(&replicate->lock);
    return skipped;
}

/* ---- life ---- */

static void free_replicate(struct replicate *replicate)
{
    for (size_t i = 0; i < SETS_MAX; i++) {
        if (replicate->set[i].block) {
            replicate_free_blocks(replicate, &replicate->set[i]);
        }
        free(replicate->set[i].block);
    }
    replication_free(&replicate->core);
    stage_release(&replicate->stage);
    (void)pthread_cond_destroy(&replicate->work);
    (void)pthread_cond_destroy(&replicate->done);
    (void)pthread_mutex_destroy(&replicate->lock);
    free(replicate);
}

static int fill_replicate(struct replicate *replicate, struct err *err)
{
    const struct replication_config core = {.first = replicate->at->first,
                                            .end = replicate->at->end,
                                            .resume_version = replicate->at->resume_version};
    int rc = replication_new(&core, &replicate->core, err);
    for (size_t i = 0; rc == 0 && i < SETS_MAX; i++) {
        replicate->set[i].block = calloc(replicate->units, sizeof(void *));
        rc = replicate->set[i].block
                 ? 0
                 : err_set(err, ERR_MEMORY, "sets of %zu units", replicate->units);
    }
    for (size_t i = 0; rc == 0 && i < replicate->units; i++) {
        replicate->set_bytes += (int64_t)replicate_unit_bytes(replicate, i);
    }
    rc = rc ? rc : replicate_fill_blocks(replicate, &replicate->set[0], err);
    if (rc == 0) {
        replicate->set[0].state = SET_READY;
    }
    return rc;
}

int replicate_start(const struct replicate_config *config, struct replicate **out, struct err *err)
{
    struct replicate *replicate = calloc(1, sizeof(*replicate));
    if (!replicate || pthread_mutex_init(&replicate->lock, NULL) != 0) {
        free(replicate);
        return err_set(err, ERR_MEMORY, "replication");
    }
    (void)pthread_cond_init(&replicate->done, NULL);
    int rc = thread_condition_init(&replicate->work, err);
    if (rc != 0) {
        (void)pthread_cond_destroy(&replicate->done);
        (void)pthread_mutex_destroy(&replicate->lock);
        free(replicate);
        return rc;
    }
    replicate->config = *config;
    replicate->stage = stage_retain(config->stage);
    replicate->at = stage_config(replicate->stage);
    replicate->units = replicate->at->end - replicate->at->first;
    rc = fill_replicate(replicate, err);
    rc = rc ? rc : thread_start(&replicate->thread, work, replicate, err);
    if (rc != 0) {
        free_replicate(replicate);
        return rc;
    }
    *out = replicate;
    return 0;
}

void replicate_cancel(struct replicate *replicate)
{
    (void)pthread_mutex_lock(&replicate->lock);
    replicate->cancelled = true;
    atomic_store(replicate->config.interrupt, true);
    (void)pthread_cond_broadcast(&replicate->work);
    (void)pthread_cond_broadcast(&replicate->done);
    (void)pthread_mutex_unlock(&replicate->lock);
}

void replicate_free(struct replicate **replicate)
{
    if (*replicate) {
        (void)pthread_join((*replicate)->thread, NULL);
        free_replicate(*replicate);
        *replicate = NULL;
    }
}
