#include "coordinator/core/placement/pool.h"

#include <string.h>

#include "coordinator/core/state/planning.h"
#include "libtrain/memory/memory.h"
#include "libtrain/schedule/link.h"
#include "schema/job_check.h"

/* Copies of the state beside the one that memory_of_stage counts. Replication takes one copy while
 * it sends another and a third is committed. A stop may coincide with all of them (outbox_tasks.h).
 */
#define SNAPSHOTS_MORE 3

/* The devices of a generation have one numeric class, unless no single class suffices. The backend
 * of any device counts for all. */
enum conv2d_backend pool_backend(const struct planning *planning)
{
    return planning->pool_count > 0
               ? conv2d_backend_of(planning->device[planning->pool[0]].numeric_class)
               : CONV2D_BACKEND_OWN;
}

uint64_t pool_snapshots(const struct planning *planning, uint64_t snapshot)
{
    bool replicates = planning->spec.neighbor_every > 0 || job_center_rounds(&planning->spec);
    return replicates ? SNAPSHOTS_MORE * snapshot : 0;
}

size_t pool_threads(const struct planning *planning, size_t device)
{
    size_t threads = planning->device[device].threads;
    return threads < MEMORY_THREADS_MAX ? threads : MEMORY_THREADS_MAX;
}

void pool_take(struct planning *planning)
{
    memset(planning->pool_of, 0, planning->device_count * sizeof(planning->pool_of[0]));
    for (size_t i = 0; i < planning->pool_count; i++) {
        const size_t d = planning->pool[i];
        const struct planning_device *device = &planning->device[d];
        planning->pool_cap_bytes[i] = planning->caps ? device->cap_bytes : device->memory_bytes;
        planning->pool_threads[i] = pool_threads(planning, d);
        planning->pool_share[i] = device->processor_share;
        planning->pool_overhead[i] = device->overhead_seconds;
        planning->pool_overhead_per_byte[i] = device->overhead_seconds_per_byte;
        planning->device_name[i] = device->name;
        planning->pool_of[d] = i + 1;
    }
}

size_t pool_links(struct planning *planning)
{
    size_t count = 0;
    const size_t estimates =
        planning->pool_count <= PLANNING_ESTIMATES_MAX ? planning->pool_count : 0;
    for (size_t i = 0; i < estimates; i++) {
        const struct planning_device *first = &planning->device[planning->pool[i]];
        for (size_t k = i + 1; k < estimates && first->has_link; k++) {
            const struct planning_device *second = &planning->device[planning->pool[k]];
            if (second->has_link) {
                planning->pair[count++] = (struct partition_pair){
                    .a = i, .b = k, .link = link_slower(first->link, second->link)};
            }
        }
    }
    for (size_t i = 0; i < planning->measured_count; i++) {
        const struct partition_pair *pair = &planning->measured[i];
        const size_t a = planning->pool_of[pair->a], b = planning->pool_of[pair->b];
        if (a > 0 && b > 0) {
            planning->pair[count++] =
                (struct partition_pair){.a = a - 1, .b = b - 1, .link = pair->link};
        }
    }
    return count;
}
