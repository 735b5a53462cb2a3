#include "agent/copies/snapshot_list.h"

#include <inttypes.h>
#include <string.h>

/* ---- finding ---- */

static bool is_of_job(const struct snapshot *snapshot, const char *job)
{
    return id_equal(snapshot->holding.job.text, job);
}

/* Return the snapshot's index, or count. */
static size_t find(const struct snapshot_list *list, const char *job, int64_t version, int64_t unit)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct holding *holding = &list->item[i]->holding;
        if (holding->unit == unit && holding->version == version && is_of_job(list->item[i], job)) {
            return i;
        }
    }
    return list->count;
}

struct snapshot *snapshot_list_find(const struct snapshot_list *list, const char *job,
                                    int64_t version, int64_t unit)
{
    const size_t index = find(list, job, version, unit);
    return index < list->count ? list->item[index] : NULL;
}

struct snapshot *snapshot_list_find_same(const struct snapshot_list *list,
                                         const struct holding *holding)
{
    for (size_t i = 0; i < list->count; i++) {
        struct snapshot *other = list->item[i];
        if (other->holding.unit == holding->unit &&
            strcmp(other->holding.sha256, holding->sha256) == 0 &&
            is_of_job(other, holding->job.text)) {
            return other;
        }
    }
    return NULL;
}

/* ---- entering ---- */

static bool is_abandoned(const struct snapshot_list *list, const struct holding *holding)
{
    for (size_t i = 0; i < SNAPSHOT_STARTS_MAX; i++) {
        const struct snapshot_start *start = &list->start[i];
        if (holding->version > start->version && holding->generation < start->generation &&
            id_equal(holding->job.text, start->job.text)) {
            return true;
        }
    }
    return false;
}

/* Check whether the snapshot may be put at that index. */
static int check(const struct snapshot_list *list, const struct snapshot *snapshot, size_t index,
                 struct err *err)
{
    const struct holding *holding = &snapshot->holding;
    const size_t most =
        snapshot->origin == SNAPSHOT_REPLICA ? HOLDINGS_MAX - UNITS_MAX : HOLDINGS_MAX;
    if (is_abandoned(list, holding)) {
        return err_set(err, ERR_STALE,
                       "version %" PRId64 " of generation %" PRId64 " was abandoned",
                       holding->version, holding->generation);
    }
    if (index < list->count && list->item[index]->holding.generation > holding->generation) {
        return err_set(err, ERR_STALE, "version %" PRId64 " is held of a later generation",
                       holding->version);
    }
    if (index == list->count && index >= most) {
        return err_set(err, ERR_LIMIT, "unit %" PRId64 ": %zu snapshots are held already",
                       holding->unit, most);
    }
    return 0;
}

int snapshot_list_check(const struct snapshot_list *list, const struct snapshot *snapshot,
                        struct err *err)
{
    const struct holding *holding = &snapshot->holding;
    return check(list, snapshot, find(list, holding->job.text, holding->version, holding->unit),
                 err);
}

/* Return whether the device has as many units of that version as of the job's newest version before
 * it. */
static bool is_whole(const struct snapshot_list *list, const struct holding *of)
{
    int64_t before = 0; /* the newest version below, if here_before > 0 */
    size_t here = 0;
    size_t here_before = 0;
    for (size_t i = 0; i < list->count; i++) {
        const int64_t version = list->item[i]->holding.version;
        if (version > of->version || (here_before > 0 && version < before) ||
            !is_of_job(list->item[i], of->job.text)) {
            continue;
        }
        if (version == of->version) {
            here++;
        } else if (here_before > 0 && version == before) {
            here_before++;
        } else {
            before = version;
            here_before = 1;
        }
    }
    return here >= here_before;
}

int snapshot_list_insert(struct snapshot_list *list, struct snapshot *snapshot,
                         struct snapshot **old, struct err *err)
{
    const struct holding *holding = &snapshot->holding;
    const size_t index = find(list, holding->job.text, holding->version, holding->unit);
    int rc = check(list, snapshot, index, err);
    if (rc != 0) {
        return rc;
    }
    *old = index < list->count ? list->item[index] : NULL;
    list->count += index == list->count;
    list->item[index] = snapshot;
    list->whole = list->whole || is_whole(list, holding);
    list->revision++;
    return 0;
}

int snapshot_list_status(int rc)
{
    switch (rc) {
    case 0: return 204;
    case ERR_NOT_FOUND: return 404;
    case ERR_STALE: return 409;
    case ERR_FORMAT: return 422;
    default: return 507;
    }
}

/* ---- leaving ---- */

typedef bool (*leaves_fn)(const struct snapshot *snapshot, const void *arg);

static size_t remove_all(struct snapshot_list *list, leaves_fn leaves, const void *arg,
                         struct snapshot *gone[HOLDINGS_MAX])
{
    size_t gone_count = 0;
    size_t stay = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (leaves(list->item[i], arg)) {
            gone[gone_count++] = list->item[i];
        } else {
            list->item[stay++] = list->item[i];
        }
    }
    list->count = stay;
    list->revision += gone_count > 0;
    return gone_count;
}

static bool is_dropped(const struct snapshot *snapshot, const void *arg)
{
    const struct drop *drop = arg;
    return snapshot->holding.version < drop->below_version && is_of_job(snapshot, drop->job.text);
}

size_t snapshot_list_drop(struct snapshot_list *list, const struct drop *drop,
                          struct snapshot *gone[HOLDINGS_MAX])
{
    return remove_all(list, is_dropped, drop, gone);
}

static bool is_newer(const struct snapshot *snapshot, const void *arg)
{
    const struct snapshot_start *start = arg;
    return snapshot->holding.version > start->version && is_of_job(snapshot, start->job.text);
}

size_t snapshot_list_start(struct snapshot_list *list, const struct snapshot_start *start,
                           struct snapshot *gone[HOLDINGS_MAX])
{
    list->start[list->starts++ % SNAPSHOT_STARTS_MAX] = *start;
    return remove_all(list, is_newer, start, gone);
}

struct release {
    enum snapshot_origin origin;
    const struct job_id *job;
    int64_t generation;
    const struct outbox_queue *queue;
};

static bool is_released(const struct snapshot *snapshot, const void *arg)
{
    const struct release *release = arg;
    return snapshot->origin == release->origin &&
           snapshot->holding.generation == release->generation &&
           is_of_job(snapshot, release->job->text) &&
           outbox_queue_is_expendable(release->queue, snapshot->holding.version);
}

size_t snapshot_list_release(struct snapshot_list *list, enum snapshot_origin origin,
                             const struct job_id *job, int64_t generation,
                             const struct outbox_queue *queue, struct snapshot *gone[HOLDINGS_MAX])
{
    const struct release release = {origin, job, generation, queue};
    return remove_all(list, is_released, &release, gone);
}

static bool is_that(const struct snapshot *snapshot, const void *arg)
{
    return snapshot == arg;
}

size_t snapshot_list_discard(struct snapshot_list *list, const struct snapshot *snapshot,
                             struct snapshot *gone[HOLDINGS_MAX])
{
    return remove_all(list, is_that, snapshot, gone);
}

/* ---- room ---- */

void snapshot_bytes_add(struct snapshot_bytes *bytes, const struct holding *holding,
                        const struct job_id *job, int64_t generation)
{
    const bool present =
        holding->generation == generation && id_equal(holding->job.text, job->text);
    bytes->held += holding->bytes;
    bytes->present += present ? holding->bytes : 0;
}

bool snapshot_bytes_fit(int64_t bound, const struct snapshot_bytes *replicas, int64_t bytes)
{
    return bytes <= bound - replicas->held || bytes <= bound / 2 - replicas->present;
}
