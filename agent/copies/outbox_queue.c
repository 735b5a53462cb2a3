#include "agent/copies/outbox_queue.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define RETRY_MS_FIRST 50
#define RETRY_MS_MAX 2000

enum blob_state { BLOB_HERE, BLOB_UNKNOWN /* to the target */, BLOB_SENT };

struct blob {
    bool held;
    char sha256[SHA256_SIZE];
    int64_t bytes;
    enum blob_state at[REPLICA_KINDS];
};

struct set {
    int64_t version;   /* 0: unused */
    unsigned refused;  /* kinds that rejected it */
    bool collected;    /* it goes to the center as the end of the job or its pause */
    struct blob *blob; /* [end - first] */
};

struct target {
    int64_t newest; /* version marked last, 0: none */
    int64_t due_ms;
    unsigned failures; /* in a row */
};

struct outbox_queue {
    struct outbox_queue_config config;
    struct set set[OUTBOX_SETS_MAX];
    struct target target[REPLICA_KINDS];
    int64_t marked; /* the newest version with a mark, 0: none */
    struct round_mark mark;
};

int outbox_queue_new(const struct outbox_queue_config *config, struct outbox_queue **out,
                     struct err *err)
{
    if (config->first >= config->end || config->end > UNITS_MAX) {
        return err_set(err, ERR_INVALID, "units %zu to %zu", config->first, config->end);
    }
    struct outbox_queue *queue = calloc(1, sizeof(*queue));
    if (!queue) {
        return err_set(err, ERR_MEMORY, "snapshots to send");
    }
    queue->config = *config;
    for (size_t i = 0; i < OUTBOX_SETS_MAX; i++) {
        queue->set[i].blob = calloc(config->end - config->first, sizeof(struct blob));
        if (!queue->set[i].blob) {
            outbox_queue_free(&queue);
            return err_set(err, ERR_MEMORY, "snapshots of %zu units", config->end - config->first);
        }
    }
    *out = queue;
    return 0;
}

void outbox_queue_free(struct outbox_queue **queue)
{
    if (*queue) {
        for (size_t i = 0; i < OUTBOX_SETS_MAX; i++) {
            free((*queue)->set[i].blob);
        }
        free(*queue);
        *queue = NULL;
    }
}

/* ---- snapshots of this stage ---- */

static size_t unit_count(const struct outbox_queue *queue)
{
    return queue->config.end - queue->config.first;
}

static struct set *find_set(const struct outbox_queue *queue, int64_t version)
{
    for (size_t i = 0; i < OUTBOX_SETS_MAX; i++) {
        if (version > 0 && queue->set[i].version == version) {
            return (struct set *)(uintptr_t)&queue->set[i];
        }
    }
    return NULL;
}

static struct blob *find_blob(const struct outbox_queue *queue, int64_t version, size_t unit)
{
    struct set *set = find_set(queue, version);
    const struct outbox_queue_config *config = &queue->config;
    return set && unit >= config->first && unit < config->end ? &set->blob[unit - config->first]
                                                              : NULL;
}

static void clear_set(const struct outbox_queue *queue, struct set *set)
{
    struct blob *blob = set->blob;
    memset(blob, 0, unit_count(queue) * sizeof(*blob));
    *set = (struct set){.blob = blob};
}

/* Take an unused set, or the oldest. */
static struct set *make_set(struct outbox_queue *queue, int64_t version)
{
    struct set *oldest = &queue->set[0];
    for (size_t i = 1; i < OUTBOX_SETS_MAX; i++) {
        if (queue->set[i].version < oldest->version) {
            oldest = &queue->set[i];
        }
    }
    clear_set(queue, oldest);
    oldest->version = version;
    return oldest;
}

static void add(struct outbox_queue *queue, int64_t version, unsigned kinds)
{
    ASSERT(version > 0);
    struct set *set = find_set(queue, version);
    if (!set) {
        set = make_set(queue, version);
    }
    set->refused &= ~kinds;
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        struct target *target = &queue->target[kind];
        if ((kinds & REPLICA_MARK(kind)) && version > target->newest) {
            target->newest = version;
        }
    }
}

void outbox_queue_take(struct outbox_queue *queue, int64_t version, const struct round_mark *mark)
{
    add(queue, version, mark->kinds);
    if (mark->kinds != 0 && version > queue->marked) {
        queue->marked = version;
        queue->mark = *mark;
    }
}

void outbox_queue_collect(struct outbox_queue *queue, int64_t version)
{
    add(queue, version, REPLICA_MARK(REPLICA_CENTER));
    struct set *set = find_set(queue, version);
    set->collected = true;
    for (size_t i = 0; i < unit_count(queue); i++) {
        set->blob[i].at[REPLICA_CENTER] = BLOB_HERE;
    }
}

void outbox_queue_hold(struct outbox_queue *queue, int64_t version, size_t unit,
                       const char sha256[SHA256_SIZE], int64_t bytes)
{
    struct blob *blob = find_blob(queue, version, unit);
    if (blob) {
        blob->held = true;
        blob->bytes = bytes;
        memcpy(blob->sha256, sha256, SHA256_SIZE);
    }
}

void outbox_queue_drop(struct outbox_queue *queue, int64_t below_version)
{
    for (size_t i = 0; i < OUTBOX_SETS_MAX; i++) {
        struct set *set = &queue->set[i];
        if (set->version > 0 && set->version < below_version) {
            clear_set(queue, set);
        }
    }
}

/* ---- sending ---- */

/* The first unit of the kind's newest round that the target lacks; NULL: none now. */
static const struct blob *find_unsent(const struct outbox_queue *queue, enum replica_kind kind,
                                      size_t *unit)
{
    const int64_t version = queue->target[kind].newest;
    const struct set *set = find_set(queue, version);
    if (!set || (set->refused & REPLICA_MARK(kind))) {
        return NULL;
    }
    for (size_t i = 0; i < unit_count(queue); i++) {
        if (set->blob[i].held && set->blob[i].at[kind] != BLOB_SENT) {
            *unit = queue->config.first + i;
            return &set->blob[i];
        }
    }
    return NULL;
}

static bool is_collected(const struct outbox_queue *queue, enum replica_kind kind, int64_t version)
{
    const struct set *set = find_set(queue, version);
    return kind == REPLICA_CENTER && set && set->collected;
}

bool outbox_queue_next(const struct outbox_queue *queue, int64_t now_ms, struct outbox_send *out)
{
    for (int i = 0; i < REPLICA_KINDS; i++) {
        const enum replica_kind kind = (enum replica_kind)i;
        const int64_t version = queue->target[kind].newest;
        size_t unit = 0;
        if (queue->target[kind].due_ms > now_ms) {
            continue;
        }
        const struct blob *blob = find_unsent(queue, kind, &unit);
        if (blob) {
            *out = (struct outbox_send){.kind = kind,
                                        .version = version,
                                        .unit = unit,
                                        .bytes = blob->bytes,
                                        .whole = blob->at[kind] == BLOB_UNKNOWN,
                                        .collects = is_collected(queue, kind, version)};
            memcpy(out->sha256, blob->sha256, sizeof(out->sha256));
            return true;
        }
    }
    return false;
}

static void works(struct outbox_queue *queue, enum replica_kind kind)
{
    queue->target[kind].failures = 0;
    queue->target[kind].due_ms = 0;
}

/* An answer to a send of before the collection says nothing about what the center has now. */
static void set_state(struct outbox_queue *queue, const struct outbox_send *send,
                      enum blob_state state)
{
    struct blob *blob = find_blob(queue, send->version, send->unit);
    if (blob) {
        const bool late = is_collected(queue, send->kind, send->version) && !send->collects;
        blob->at[send->kind] = late ? BLOB_HERE : state;
    }
}

void outbox_queue_sent(struct outbox_queue *queue, const struct outbox_send *send)
{
    works(queue, send->kind);
    set_state(queue, send, BLOB_SENT);
}

void outbox_queue_unknown(struct outbox_queue *queue, const struct outbox_send *send)
{
    works(queue, send->kind);
    set_state(queue, send, BLOB_UNKNOWN);
}

void outbox_queue_failed(struct outbox_queue *queue, const struct outbox_send *send, int64_t now_ms,
                         int64_t retry_ms)
{
    struct target *target = &queue->target[send->kind];
    int64_t wait_ms = RETRY_MS_FIRST;
    for (unsigned i = 0; i < target->failures && wait_ms < RETRY_MS_MAX; i++) {
        wait_ms *= 2;
    }
    wait_ms = retry_ms > 0 ? retry_ms : wait_ms;
    target->failures++;
    target->due_ms = now_ms + (wait_ms < RETRY_MS_MAX ? wait_ms : RETRY_MS_MAX);
    /* Ask the target again whether it has these bytes, because another device may have answered
     * before. */
    set_state(queue, send, BLOB_HERE);
}

void outbox_queue_refused(struct outbox_queue *queue, const struct outbox_send *send)
{
    struct set *set = find_set(queue, send->version);
    if (set) {
        set->refused |= REPLICA_MARK(send->kind);
    }
}

int64_t outbox_queue_due_ms(const struct outbox_queue *queue)
{
    int64_t due_ms = INT64_MAX;
    for (int i = 0; i < REPLICA_KINDS; i++) {
        const enum replica_kind kind = (enum replica_kind)i;
        size_t unit = 0;
        if (find_unsent(queue, kind, &unit) && queue->target[kind].due_ms < due_ms) {
            due_ms = queue->target[kind].due_ms;
        }
    }
    return due_ms;
}

bool outbox_queue_is_whole(const struct outbox_queue *queue, enum replica_kind kind,
                           int64_t version)
{
    const struct set *set = find_set(queue, version);
    for (size_t i = 0; set && i < unit_count(queue); i++) {
        if (!set->blob[i].held || set->blob[i].at[kind] != BLOB_SENT) {
            return false;
        }
    }
    return set != NULL;
}

int64_t outbox_queue_newest(const struct outbox_queue *queue, enum replica_kind kind)
{
    return queue->target[kind].newest;
}

/* ---- room ---- */

bool outbox_queue_is_expendable(const struct outbox_queue *queue, int64_t version)
{
    if (version <= queue->config.resume_version || version >= queue->marked) {
        return false;
    }
    for (size_t i = 0; i < ROUND_KEEP_MAX; i++) {
        if (queue->mark.keep[i] == version) {
            return false;
        }
    }
    return true;
}
