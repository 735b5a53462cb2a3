/* pool.h: writes the devices of planning->pool in the form of the strategies' problems. Any thread.
 */
#ifndef COORDINATOR_CORE_PLACEMENT_POOL_H
#define COORDINATOR_CORE_PLACEMENT_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/kernels/conv2d_kernel.h"

struct planning;

/* Write the numbers of the pool's devices to planning->pool_*, device_name and pool_of. */
void pool_take(struct planning *planning);
/* Write the links of the pool to planning->pair: first estimates for all pairs of devices with
 * other known links, then the measured links, which override them. Return their count. */
size_t pool_links(struct planning *planning);
/* Return the compute threads of a candidate. */
size_t pool_threads(const struct planning *planning, size_t device);
/* Return the backend of the pool's devices. */
enum conv2d_backend pool_backend(const struct planning *planning);
/* Return the bytes of the copies of a stage's state in addition to the one in memory_of_stage.
 * snapshot: bytes of one snapshot. */
uint64_t pool_snapshots(const struct planning *planning, uint64_t snapshot);

#endif
