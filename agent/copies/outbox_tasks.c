#include "agent/copies/outbox_tasks.h"

#include <stdlib.h>

#include "base/assert.h"

/* A stop may need one more. */
#define SETS_USUAL 3
#define FULL_RETRY_MS 500

enum set_state { SET_NONE, SET_PREPARING, SET_READY, SET_FILLING, SET_FILLED };

struct outbox_tasks {
    struct outbox_tasks_config config;
    struct outbox_queue *queue;
    struct {
        enum set_state state;
        int64_t version; /* FILLING, FILLED */
    } set[OUTBOX_SETS_MAX];
    bool no_memory;     /* no memory for another set until something is dropped */
    unsigned released;  /* origins whose release was requested since the last change */
    int64_t wanted;     /* the version of a stop, 0: none */
    int64_t held;       /* the newest version of which every unit is held */
    int64_t failed;     /* the newest version that could not be kept */
    int64_t collecting; /* 0: nothing */
    uint64_t skipped;
};

int outbox_tasks_new(const struct outbox_tasks_config *config, struct outbox_tasks **out,
                     struct err *err)
{
    struct outbox_tasks *tasks = calloc(1, sizeof(*tasks));
    if (!tasks) {
        return err_set(err, ERR_MEMORY, "snapshots to send");
    }
    tasks->config = *config;
    int rc = outbox_queue_new(&config->queue, &tasks->queue, err);
    if (rc != 0) {
        free(tasks);
        return rc;
    }
    *out = tasks;
    return 0;
}

void outbox_tasks_free(struct outbox_tasks **tasks)
{
    if (*tasks) {
        outbox_queue_free(&(*tasks)->queue);
        free(*tasks);
        *tasks = NULL;
    }
}

const struct outbox_queue *outbox_tasks_queue(const struct outbox_tasks *tasks)
{
    return tasks->queue;
}

/* ---- sets ---- */

/* Return the oldest set in that state, or OUTBOX_SETS_MAX. */
static size_t find_set(const struct outbox_tasks *tasks, enum set_state state)
{
    size_t found = OUTBOX_SETS_MAX;
    for (size_t i = 0; i < OUTBOX_SETS_MAX; i++) {
        if (tasks->set[i].state == state &&
            (found == OUTBOX_SETS_MAX || tasks->set[i].version < tasks->set[found].version)) {
            found = i;
        }
    }
    return found;
}

/* Return whether a set has that version, or is being filled with it. */
static bool is_under_way(const struct outbox_tasks *tasks, int64_t version)
{
    for (size_t i = 0; i < OUTBOX_SETS_MAX; i++) {
        const enum set_state state = tasks->set[i].state;
        if ((state == SET_FILLING || state == SET_FILLED) && tasks->set[i].version == version) {
            return true;
        }
    }
    return false;
}

/* Whether the bound allows another set now. */
static bool may_prepare(const struct outbox_tasks *tasks, const struct snapshot_bytes *own)
{
    const bool stops = tasks->wanted > tasks->held && !is_under_way(tasks, tasks->wanted);
    if (tasks->config.stops_only) {
        return stops;
    }
    int64_t in_hand = 0;
    for (size_t i = 0; i < OUTBOX_SETS_MAX; i++) {
        in_hand += tasks->set[i].state != SET_NONE;
    }
    const int64_t bytes = tasks->config.set_bytes;
    const bool fits = own->held + (in_hand + 1) * bytes <= SETS_USUAL * bytes;
    /* Snapshots of an earlier plan are dropped only after the first round of this plan. That round
     * needs a set in addition to the one in use. */
    const bool first = in_hand * bytes + own->present <= bytes;
    return fits || first || stops;
}

static bool release(struct outbox_tasks *tasks, enum snapshot_origin origin,
                    struct outbox_task *out)
{
    if (tasks->released & 1u << origin) {
        return false; /* the last release freed all it could */
    }
    tasks->released |= 1u << origin;
    *out = (struct outbox_task){.work = OUTBOX_RELEASE, .origin = origin};
    return true;
}

static bool wants_set(const struct outbox_tasks *tasks)
{
    return find_set(tasks, SET_NONE) != OUTBOX_SETS_MAX &&
           find_set(tasks, SET_READY) == OUTBOX_SETS_MAX && !tasks->no_memory;
}

/* Prepare a set if none is ready and there is room, or make room. */
static bool prepare(struct outbox_tasks *tasks, const struct outbox_room *room,
                    struct outbox_task *out)
{
    if (!wants_set(tasks)) {
        return false;
    }
    if (!may_prepare(tasks, &room->own)) {
        return release(tasks, SNAPSHOT_OWN, out);
    }
    const size_t set = find_set(tasks, SET_NONE);
    tasks->set[set].state = SET_PREPARING;
    tasks->set[set].version = 0;
    *out = (struct outbox_task){.work = OUTBOX_PREPARE, .set = set};
    return true;
}

/* Keep a filled set once a further set of replicas of the previous stage also fits. */
static void keep(struct outbox_tasks *tasks, size_t set, const struct outbox_room *room,
                 struct outbox_task *out)
{
    const int64_t bound = tasks->config.replica_bytes;
    if (snapshot_bytes_fit(bound, &room->replicas, bound / 2) ||
        !release(tasks, SNAPSHOT_REPLICA, out)) {
        *out = (struct outbox_task){
            .work = OUTBOX_KEEP, .set = set, .version = tasks->set[set].version};
    }
}

/* ---- the next task ---- */

static bool end_collection(struct outbox_tasks *tasks, struct outbox_task *out)
{
    const int64_t version = tasks->collecting;
    if (version == 0 || !outbox_queue_is_whole(tasks->queue, REPLICA_CENTER, version)) {
        return false;
    }
    tasks->collecting = 0;
    *out = (struct outbox_task){.work = OUTBOX_COLLECTED, .version = version};
    return true;
}

bool outbox_tasks_needs_room(const struct outbox_tasks *tasks)
{
    return wants_set(tasks) || find_set(tasks, SET_FILLED) != OUTBOX_SETS_MAX;
}

void outbox_tasks_next(struct outbox_tasks *tasks, int64_t now_ms, const struct outbox_room *room,
                       struct outbox_task *out)
{
    const size_t filled = find_set(tasks, SET_FILLED);
    const bool stops = tasks->wanted > 0;
    *out = (struct outbox_task){.work = OUTBOX_WAIT, .due_ms = INT64_MAX};
    if (filled != OUTBOX_SETS_MAX) {
        /* Prepare the next set first, because the next snapshot may be due before this one is
         * hashed. */
        if (stops || !prepare(tasks, room, out)) {
            keep(tasks, filled, room, out);
        }
    } else if (prepare(tasks, room, out) || end_collection(tasks, out) || stops) {
        return;
    } else if (outbox_queue_next(tasks->queue, now_ms, &out->send)) {
        out->work = OUTBOX_SEND;
    } else {
        out->due_ms = outbox_queue_due_ms(tasks->queue);
    }
}

/* ---- results ---- */

/* Allow releases again after a change, which may have made snapshots expendable. */
static void reconsider(struct outbox_tasks *tasks)
{
    tasks->released = 0;
}

void outbox_tasks_prepared(struct outbox_tasks *tasks, size_t set, bool done)
{
    tasks->set[set].state = done ? SET_READY : SET_NONE;
    tasks->no_memory = !done;
    if (!done && tasks->wanted > 0) {
        tasks->failed = tasks->wanted;
    }
    reconsider(tasks);
}

void outbox_tasks_hold(struct outbox_tasks *tasks, const struct holding *holding)
{
    outbox_queue_hold(tasks->queue, holding->version, (size_t)holding->unit, holding->sha256,
                      holding->bytes);
}

void outbox_tasks_kept(struct outbox_tasks *tasks, size_t set, enum outbox_kept kept)
{
    const int64_t version = tasks->set[set].version;
    switch (kept) {
    case OUTBOX_HELD: tasks->held = version; break;
    case OUTBOX_NOT_HELD: tasks->failed = version; break;
    case OUTBOX_CANCELLED: break;
    }
    tasks->set[set].state = SET_NONE;
    reconsider(tasks);
}

int outbox_tasks_judge(enum replica_kind kind, int status, int64_t *retry_ms)
{
    switch (status) {
    case 404: return ERR_NOT_FOUND;
    /* The center may not know yet of a round that stage 0 has just opened. */
    case 409: return kind == REPLICA_CENTER ? ERR_STATE : ERR_STALE;
    case 429:
    case 500:
    case 502:
    case 503: return ERR_STATE;
    case 507: *retry_ms = FULL_RETRY_MS; return ERR_FULL;
    default: return ERR_PROTOCOL;
    }
}

static enum outbox_answer abandon(struct outbox_tasks *tasks, const struct outbox_send *send)
{
    outbox_queue_refused(tasks->queue, send);
    if (send->kind != REPLICA_CENTER || send->version != tasks->collecting) {
        return OUTBOX_ABANDONED;
    }
    tasks->collecting = 0;
    return OUTBOX_NOT_COLLECTED;
}

enum outbox_answer outbox_tasks_answered(struct outbox_tasks *tasks, const struct outbox_send *send,
                                         int rc, int64_t now_ms, int64_t retry_ms)
{
    reconsider(tasks);
    switch (rc) {
    case 0: outbox_queue_sent(tasks->queue, send); break;
    case ERR_NOT_FOUND:
        if (!send->whole) {
            outbox_queue_unknown(tasks->queue, send);
            break;
        }
        outbox_queue_failed(tasks->queue, send, now_ms, retry_ms);
        break;
    case ERR_STATE:
    case ERR_NETWORK:
    case ERR_TIMEOUT:
    case ERR_FULL: outbox_queue_failed(tasks->queue, send, now_ms, retry_ms); break;
    case ERR_CANCELLED: break;
    default: return abandon(tasks, send);
    }
    return OUTBOX_GOES_ON;
}

/* ---- events ---- */

bool outbox_tasks_take(struct outbox_tasks *tasks, int64_t version, const struct round_mark *mark,
                       size_t *set)
{
    reconsider(tasks);
    outbox_queue_take(tasks->queue, version, mark);
    const size_t ready = find_set(tasks, SET_READY);
    if (ready == OUTBOX_SETS_MAX) {
        tasks->skipped++;
        return false;
    }
    tasks->set[ready].state = SET_FILLING;
    tasks->set[ready].version = version;
    *set = ready;
    return true;
}

void outbox_tasks_filled(struct outbox_tasks *tasks, size_t set)
{
    ASSERT(tasks->set[set].state == SET_FILLING);
    tasks->set[set].state = SET_FILLED;
    reconsider(tasks);
}

uint64_t outbox_tasks_skipped(const struct outbox_tasks *tasks)
{
    return tasks->skipped;
}

enum outbox_stop outbox_tasks_stop(struct outbox_tasks *tasks, int64_t version, size_t *set)
{
    static const struct round_mark none;
    if (tasks->wanted != version) {
        tasks->wanted = version;
        tasks->no_memory = false;
        reconsider(tasks);
    }
    if (version > 0 && tasks->failed >= version) {
        return OUTBOX_STOP_FAILED;
    }
    if (version == 0 || tasks->held >= version) { /* version 0 follows from the seed */
        return OUTBOX_STOP_HELD;
    }
    const size_t ready = find_set(tasks, SET_READY);
    if (is_under_way(tasks, version) || ready == OUTBOX_SETS_MAX) {
        return OUTBOX_STOP_WAITS;
    }
    outbox_queue_take(tasks->queue, version, &none);
    tasks->set[ready].state = SET_FILLING;
    tasks->set[ready].version = version;
    *set = ready;
    return OUTBOX_STOP_FILL;
}

void outbox_tasks_end_stop(struct outbox_tasks *tasks)
{
    tasks->wanted = 0;
    reconsider(tasks);
}

void outbox_tasks_collect(struct outbox_tasks *tasks, int64_t version)
{
    reconsider(tasks);
    tasks->collecting = version;
    outbox_queue_collect(tasks->queue, version);
}

void outbox_tasks_drop(struct outbox_tasks *tasks, int64_t below_version)
{
    reconsider(tasks);
    outbox_queue_drop(tasks->queue, below_version);
    tasks->no_memory = false;
}
