#include <inttypes.h>
#include <string.h>

#include "agent/copies/outbox_parts.h"
#include "base/log.h"

/* Sets of a stage that the plan counts. A stop may need one more. */
#define SETS_USUAL 3
#define PAGE_BYTES 4096 /* or more */

size_t replicate_unit_bytes(const struct replicate *replicate, size_t index)
{
    return stage_unit_bytes(replicate->stage, replicate->at->first + index);
}

struct set *replicate_find_set(struct replicate *replicate, enum set_state state)
{
    struct set *found = NULL;
    for (size_t i = 0; i < SETS_MAX; i++) {
        struct set *set = &replicate->set[i];
        if (set->state == state && (!found || set->version < found->version)) {
            found = set;
        }
    }
    return found;
}

void replicate_free_blocks(const struct replicate *replicate, const struct set *set)
{
    for (size_t i = 0; i < replicate->units; i++) {
        snapshot_block_free(replicate->config.snapshots, set->block[i],
                            replicate_unit_bytes(replicate, i));
        set->block[i] = NULL;
    }
}

int replicate_fill_blocks(const struct replicate *replicate, const struct set *set, struct err *err)
{
    for (size_t i = 0; i < replicate->units; i++) {
        const size_t size = replicate_unit_bytes(replicate, i);
        set->block[i] = snapshot_block(replicate->config.snapshots, size);
        if (!set->block[i]) {
            replicate_free_blocks(replicate, set);
            return err_set(err, ERR_MEMORY, "a snapshot of %" PRId64 " bytes",
                           replicate->set_bytes);
        }
        char *block = set->block[i];
        for (size_t offset = 0; offset < size; offset += PAGE_BYTES) {
            block[offset] = 0;
        }
    }
    return 0;
}

/* Whether another set may be made now. The lock is held: nobody takes or fills meanwhile. */
static bool may_make_set(struct replicate *replicate)
{
    int64_t in_hand = 0;
    for (size_t i = 0; i < SETS_MAX; i++) {
        in_hand += replicate->set[i].state != SET_NONE;
    }
    const struct stage_config *at = replicate->at;
    const struct snapshot_bytes own = snapshot_count_bytes(
        replicate->config.snapshots, SNAPSHOT_OWN, true, &at->job, at->generation);
    const bool fits =
        own.held + (in_hand + 1) * replicate->set_bytes <= SETS_USUAL * replicate->set_bytes;
    /* Snapshots of an earlier plan go with the first round of this one, which needs a set beside
     * the one at hand. */
    const bool first = in_hand * replicate->set_bytes + own.present <= replicate->set_bytes;
    return fits || first || replicate->wanted > replicate->held;
}

static bool is_expendable(const void *arg, int64_t version)
{
    return replication_is_expendable(arg, version);
}

/* Versions of rounds that were abandoned go when there is no room for the next one. Under the lock.
 */
static void release_own(struct replicate *replicate)
{
    const struct stage_config *at = replicate->at;
    (void)snapshot_release(replicate->config.snapshots, SNAPSHOT_OWN, &at->job, at->generation,
                           is_expendable, replicate->core);
}

void replicate_release_replicas(struct replicate *replicate)
{
    const struct stage_config *at = replicate->at;
    const int64_t bound = replicate->config.replica_bytes;
    const struct snapshot_bytes others = snapshot_count_bytes(
        replicate->config.snapshots, SNAPSHOT_REPLICA, false, &at->job, at->generation);
    if (!replication_has_room(bound, others.held, others.present, bound / 2)) {
        (void)snapshot_release(replicate->config.snapshots, SNAPSHOT_REPLICA, &at->job,
                               at->generation, is_expendable, replicate->core);
    }
}

bool replicate_make_ready(struct replicate *replicate)
{
    struct set *set = replicate_find_set(replicate, SET_NONE);
    if (!set || replicate_find_set(replicate, SET_READY) || replicate->no_memory) {
        return false;
    }
    if (!may_make_set(replicate)) {
        release_own(replicate);
        if (!may_make_set(replicate)) {
            return false;
        }
    }
    set->state = SET_FILLING;
    (void)pthread_mutex_unlock(&replicate->lock);
    struct err err = {0};
    const int rc = replicate_fill_blocks(replicate, set, &err);
    (void)pthread_mutex_lock(&replicate->lock);
    set->state = rc == 0 ? SET_READY : SET_NONE;
    set->version = 0;
    replicate->no_memory = rc != 0;
    if (rc != 0) {
        log_warn("snapshot_skipped", "error=%s", log_quote(err.text).text);
        replicate->failed = replicate->wanted > 0 ? replicate->wanted : replicate->failed;
        replicate->why = err;
    }
    (void)pthread_cond_broadcast(&replicate->done);
    return rc == 0;
}
