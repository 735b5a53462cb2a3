#include <inttypes.h>
#include <string.h>

#include "agent/copies/outbox_parts.h"
#include "base/log.h"

/* Sets of a stage that the plan counts. A stop may need one more. */
#define SETS_USUAL 3
#define PAGE_BYTES 4096 /* or more */

size_t outbox_unit_bytes(const struct outbox *outbox, size_t index)
{
    return stage_unit_bytes(outbox->stage, outbox->at->first + index);
}

struct set *outbox_find_set(struct outbox *outbox, enum set_state state)
{
    struct set *found = NULL;
    for (size_t i = 0; i < SETS_MAX; i++) {
        struct set *set = &outbox->set[i];
        if (set->state == state && (!found || set->version < found->version)) {
            found = set;
        }
    }
    return found;
}

void outbox_free_blocks(const struct outbox *outbox, const struct set *set)
{
    for (size_t i = 0; i < outbox->units; i++) {
        snapshot_block_free(outbox->config.snapshots, set->block[i], outbox_unit_bytes(outbox, i));
        set->block[i] = NULL;
    }
}

int outbox_fill_blocks(const struct outbox *outbox, const struct set *set, struct err *err)
{
    for (size_t i = 0; i < outbox->units; i++) {
        const size_t size = outbox_unit_bytes(outbox, i);
        set->block[i] = snapshot_block(outbox->config.snapshots, size);
        if (!set->block[i]) {
            outbox_free_blocks(outbox, set);
            return err_set(err, ERR_MEMORY, "a snapshot of %" PRId64 " bytes", outbox->set_bytes);
        }
        char *block = set->block[i];
        for (size_t offset = 0; offset < size; offset += PAGE_BYTES) {
            block[offset] = 0;
        }
    }
    return 0;
}

/* Whether another set may be made now. Called with the lock, so no set changes meanwhile. */
static bool may_make_set(struct outbox *outbox)
{
    int64_t in_hand = 0;
    for (size_t i = 0; i < SETS_MAX; i++) {
        in_hand += outbox->set[i].state != SET_NONE;
    }
    const struct stage_config *at = outbox->at;
    const struct snapshot_bytes own = snapshot_count_bytes(outbox->config.snapshots, SNAPSHOT_OWN,
                                                           true, &at->job, at->generation);
    const bool fits =
        own.held + (in_hand + 1) * outbox->set_bytes <= SETS_USUAL * outbox->set_bytes;
    /* Snapshots of an earlier plan are dropped after the first round of this one, which needs a set
     * beside the one at hand. */
    const bool first = in_hand * outbox->set_bytes + own.present <= outbox->set_bytes;
    return fits || first || outbox->wanted > outbox->held;
}

/* Drop versions of abandoned rounds, to make room for the next one. Called with the lock. */
static void release_own(struct outbox *outbox)
{
    const struct stage_config *at = outbox->at;
    (void)snapshot_release(outbox->config.snapshots, SNAPSHOT_OWN, &at->job, at->generation,
                           outbox->queue);
}

void outbox_release_replicas(struct outbox *outbox)
{
    const struct stage_config *at = outbox->at;
    const int64_t bound = outbox->config.replica_bytes;
    const struct snapshot_bytes others = snapshot_count_bytes(
        outbox->config.snapshots, SNAPSHOT_REPLICA, false, &at->job, at->generation);
    if (!snapshot_bytes_fit(bound, &others, bound / 2)) {
        (void)snapshot_release(outbox->config.snapshots, SNAPSHOT_REPLICA, &at->job, at->generation,
                               outbox->queue);
    }
}

bool outbox_make_ready(struct outbox *outbox)
{
    struct set *set = outbox_find_set(outbox, SET_NONE);
    if (!set || outbox_find_set(outbox, SET_READY) || outbox->no_memory) {
        return false;
    }
    if (!may_make_set(outbox)) {
        release_own(outbox);
        if (!may_make_set(outbox)) {
            return false;
        }
    }
    set->state = SET_FILLING;
    (void)pthread_mutex_unlock(&outbox->lock);
    struct err err = {0};
    const int rc = outbox_fill_blocks(outbox, set, &err);
    (void)pthread_mutex_lock(&outbox->lock);
    set->state = rc == 0 ? SET_READY : SET_NONE;
    set->version = 0;
    outbox->no_memory = rc != 0;
    if (rc != 0) {
        log_warn("snapshot_skipped", "error=%s", log_quote(err.text).text);
        outbox->failed = outbox->wanted > 0 ? outbox->wanted : outbox->failed;
        outbox->why = err;
    }
    (void)pthread_cond_broadcast(&outbox->done);
    return rc == 0;
}
