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
    unsigned refused;  /* kinds that were given up */
    struct blob *blob; /* [end - first] */
};

struct target {
    int64_t newest; /* version marked last, 0: none */
    int64_t due_ms;
    unsigned failures; /* in a row */
};

struct replication {
    struct replication_config config;
    struct set set[REPLICATION_SETS_MAX];
    struct target target[REPLICA_KINDS];
    int64_t marked; /* the newest version with a mark, 0: none */
    struct round_mark mark;
};

int replication_new(const struct replication_config *config, struct replication **out,
                    struct err *err)
{
    if (config->first >= config->end || config->end > UNITS_MAX) {
        return err_set(err, ERR_INVALID, "units %zu to %zu", config->first, config->end);
    }
    struct replication *replication = calloc(1, sizeof(*replication));
    if (!replication) {
        return err_set(err, ERR_MEMORY, "replication");
    }
    replication->config = *config;
    for (size_t i = 0; i < REPLICATION_SETS_MAX; i++) {
        replication->set[i].blob = calloc(config->end - config->first, sizeof(struct blob));
        if (!replication->set[i].blob) {
            replication_free(&replication);
            return err_set(err, ERR_MEMORY, "replication of %zu units",
                           config->end - config->first);
        }
    }
    *out = replication;
    return 0;
}

void replication_free(struct replication **replication)
{
    if (*replication) {
        for (size_t i = 0; i < REPLICATION_SETS_MAX; i++) {
            free((*replication)->set[i].blob);
        }
        free(*replication);
        *replication = NULL;
    }
}

/* ---- what is here ---- */

static size_t unit_count(const struct replication *replication)
{
    return replication->config.end - replication->config.first;
}

static struct set *find_set(const struct replication *replication, int64_t version)
{
    for (size_t i = 0; i < REPLICATION_SETS_MAX; i++) {
        if (version > 0 && replication->set[i].version == version) {
            return (struct set *)(uintptr_t)&replication->set[i];
        }
    }
    return NULL;
}

static struct blob *find_blob(const struct replication *replication, int64_t version, size_t unit)
{
    struct set *set = find_set(replication, version);
    const struct replication_config *config = &replication->config;
    return set && unit >= config->first && unit < config->end ? &set->blob[unit - config->first]
                                                              : NULL;
}

static void clear_set(const struct replication *replication, struct set *set)
{
    struct blob *blob = set->blob;
    memset(blob, 0, unit_count(replication) * sizeof(*blob));
    *set = (struct set){.blob = blob};
}

/* An unused one, or the oldest. */
static struct set *make_set(struct replication *replication, int64_t version)
{
    struct set *oldest = &replication->set[0];
    for (size_t i = 1; i < REPLICATION_SETS_MAX; i++) {
        if (replication->set[i].version < oldest->version) {
            oldest = &replication->set[i];
        }
    }
    clear_set(replication, oldest);
    oldest->version = version;
    return oldest;
}

static void add(struct replication *replication, int64_t version, unsigned kinds)
{
    ASSERT(version > 0);
    struct set *set = find_set(replication, version);
    if (!set) {
        set = make_set(replication, version);
    }
    set->refused &= ~kinds;
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        struct target *target = &replication->target[kind];
        if ((kinds & REPLICA_MARK(kind)) && version > target->newest) {
            target->newest = version;
        }
    }
}

void replication_take(struct replication *replication, int64_t version,
                      const struct round_mark *mark)
{
    add(replication, version, mark->kinds);
    if (mark->kinds != 0 && version > replication->marked) {
        replication->marked = version;
        replication->mark = *mark;
    }
}

void replication_collect(struct replication *replication, int64_t version)
{
    add(replication, version, REPLICA_MARK(REPLICA_CENTER));
}

void replication_hold(struct replication *replication, int64_t version, size_t unit,
                      const char sha256[SHA256_SIZE], int64_t bytes)
{
    struct blob *blob = find_blob(replication, version, unit);
    if (blob) {
        blob->held = true;
        blob->bytes = bytes;
        memcpy(blob->sha256, sha256, SHA256_SIZE);
    }
}

void replication_drop(struct replication *replication, int64_t below_version)
{
    for (size_t i = 0; i < REPLICATION_SETS_MAX; i++) {
        struct set *set = &replication->set[i];
        if (set->version > 0 && set->version < below_version) {
            clear_set(replication, set);
        }
    }
}

/* ---- what is to be sent ---- */

/* The first unit of the kind's newest round that is here and not there; NULL: none now. */
static const struct blob *find_unsent(const struct replication *replication, enum replica_kind kind,
                                      size_t *unit)
{
    const int64_t version = replication->target[kind].newest;
    const struct set *set = find_set(replication, version);
    if (!set || (set->refused & REPLICA_MARK(kind))) {
        return NULL;
    }
    for (size_t i = 0; i < unit_count(replication); i++) {
        if (set->blob[i].held && set->blob[i].at[kind] != BLOB_SENT) {
            *unit = replication->config.first + i;
            return &set->blob[i];
        }
    }
    return NULL;
}

bool replication_next(const struct replication *replication, int64_t now_ms,
                      struct replication_send *out)
{
    for (int i = 0; i < REPLICA_KINDS; i++) {
        const enum replica_kind kind = (enum replica_kind)i;
        size_t unit = 0;
        if (replication->target[kind].due_ms > now_ms) {
            continue;
        }
        const struct blob *blob = find_unsent(replication, kind, &unit);
        if (blob) {
            *out = (struct replication_send){.kind = kind,
                                             .version = replication->target[kind].newest,
                                             .unit = unit,
                                             .bytes = blob->bytes,
                                             .whole = blob->at[kind] == BLOB_UNKNOWN};
            memcpy(out->sha256, blob->sha256, sizeof(out->sha256));
            return true;
        }
    }
    return false;
}

static void works(struct replication *replication, enum replica_kind kind)
{
    replication->target[kind].failures = 0;
    replication->target[kind].due_ms = 0;
}

static void set_state(struct replication *replication, const struct replication_send *send,
                      enum blob_state state)
{
    struct blob *blob = find_blob(replication, send->version, send->unit);
    if (blob) {
        blob->at[send->kind] = state;
    }
}

void replication_sent(struct replication *replication, const struct replication_send *send)
{
    works(replication, send->kind);
    set_state(replication, send, BLOB_SENT);
}

void replication_unknown(struct replication *replication, const struct replication_send *send)
{
    works(replication, send->kind);
    set_state(replication, send, BLOB_UNKNOWN);
}

void replication_failed(struct replication *replication, const struct replication_send *send,
                        int64_t now_ms, int64_t retry_ms)
{
    struct target *target = &replication->target[send->kind];
    int64_t wait_ms = RETRY_MS_FIRST;
    for (unsigned i = 0; i < target->failures && wait_ms < RETRY_MS_MAX; i++) {
        wait_ms *= 2;
    }
    wait_ms = retry_ms > 0 ? retry_ms : wait_ms;
    target->failures++;
    target->due_ms = now_ms + (wait_ms < RETRY_MS_MAX ? wait_ms : RETRY_MS_MAX);
    /* Whether it has these bytes is asked anew: it may have been another one that answered before.
     */
    set_state(replication, send, BLOB_HERE);
}

void replication_refused(struct replication *replication, const struct replication_send *send)
{
    struct set *set = find_set(replication, send->version);
    if (set) {
        set->refused |= REPLICA_MARK(send->kind);
    }
}

int64_t replication_due_ms(const struct replication *replication)
{
    int64_t due_ms = INT64_MAX;
    for (int i = 0; i < REPLICA_KINDS; i++) {
        const enum replica_kind kind = (enum replica_kind)i;
        size_t unit = 0;
        if (find_unsent(replication, kind, &unit) && replication->target[kind].due_ms < due_ms) {
            due_ms = replication->target[kind].due_ms;
        }
    }
    return due_ms;
}

bool replication_is_whole(const struct replication *replication, enum replica_kind kind,
                          int64_t version)
{
    const struct set *set = find_set(replication, version);
    for (size_t i = 0; set && i < unit_count(replication); i++) {
        if (!set->blob[i].held || set->blob[i].at[kind] != BLOB_SENT) {
            return false;
        }
    }
    return set != NULL;
}

int64_t replication_newest(const struct replication *replication, enum replica_kind kind)
{
    return replication->target[kind].newest;
}

/* ---- room ---- */

bool replication_has_room(int64_t bound, int64_t held, int64_t present, int64_t bytes)
{
    return bytes <= bound - held || bytes <= bound / 2 - present;
}

bool replication_is_expendable(const struct replication *replication, int64_t version)
{
    if (version <= replication->config.resume_version || version >= replication->marked) {
        return false;
    }
    for (size_t i = 0; i < ROUND_KEEP_MAX; i++) {
        if (replication->mark.keep[i] == version) {
            return false;
        }
    }
    return true;
}

/* ---- what a device holds ---- */

void replication_units_count(struct replication_units *units, const struct holding *other)
{
    const bool older = units->here_before > 0 && other->version < units->before;
    if (other->version > units->of->version || older ||
        strcmp(other->job.text, units->of->job.text) != 0) {
        return;
    }
    if (other->version == units->of->version) {
        units->here++;
    } else if (units->here_before > 0 && other->version == units->before) {
        units->here_before++;
    } else {
        units->before = other->version;
        units->here_before = 1;
    }
}
