#include <stdlib.h>
#include <string.h>

#include "agent/copies/snapshot_parts.h"

void *snapshot_block(struct snapshot_store *store, size_t size)
{
    struct spare old[SNAPSHOT_SPARES_MAX];
    size_t old_count = 0;
    void *block = NULL;
    (void)pthread_mutex_lock(&store->lock);
    for (size_t i = store->spare_count; i > 0 && !block; i--) {
        if (store->spare[i - 1].size == size) {
            block = store->spare[i - 1].block;
            store->spare[i - 1] = store->spare[--store->spare_count];
        }
    }
    if (!block) {
        /* The same sizes recur in every round. A new size means a new plan, which cannot use the
         * spares. */
        old_count = store->spare_count;
        memcpy(old, store->spare, old_count * sizeof(old[0]));
        store->spare_count = 0;
    }
    (void)pthread_mutex_unlock(&store->lock);
    for (size_t i = 0; i < old_count; i++) {
        free(old[i].block);
    }
    return block ? block : malloc(size > 0 ? size : 1);
}

void snapshot_block_free(struct snapshot_store *store, void *block, size_t size)
{
    if (!block) {
        return;
    }
    (void)pthread_mutex_lock(&store->lock);
    if (store->retains && store->spare_count < SNAPSHOT_SPARES_MAX) {
        store->spare[store->spare_count++] = (struct spare){block, size};
        block = NULL;
    }
    (void)pthread_mutex_unlock(&store->lock);
    free(block);
}

void snapshot_retain(struct snapshot_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    store->retains = true;
    (void)pthread_mutex_unlock(&store->lock);
}

void snapshot_trim(struct snapshot_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    store->retains = false;
    for (size_t i = 0; i < store->spare_count; i++) {
        free(store->spare[i].block);
    }
    store->spare_count = 0;
    (void)pthread_mutex_unlock(&store->lock);
}
