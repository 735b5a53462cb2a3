/* partition.h: splits a chain of units into stages for a given order of devices. Pure: numbers in,
 * plan out. Source: FTPipeHD (arXiv 2110.02781),
 * dynamic model partition; the recurrence as bound, the timeline as objective (docs/adr/0011). */
#ifndef COORDINATOR_PLAN_PARTITION_H
#define COORDINATOR_PLAN_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PARTITION_DEVICES_MAX 32
#define PARTITION_UNITS_MAX 256

/* A link between two neighbours in the order: seconds = latency + bytes / bandwidth. */
struct partition_link {
    double latency_seconds;
    double bytes_per_second;
};

/* All times are per micro-batch, finite and >= 0. */
struct partition_problem {
    size_t unit_count, device_count;
    const double *forward_seconds;  /* [device_count][unit_count] */
    const double *backward_seconds; /* [device_count][unit_count] */
    const double *update_seconds;   /* [device_count][unit_count], per step */
    /* [unit_count]: float32 bytes of a micro-batch after unit u, equal forward and backward. */
    const uint64_t *border_bytes;
    const struct partition_link *link; /* [device_count - 1]; bytes_per_second > 0 */
    const uint64_t *memory_cap_bytes;  /* [device_count]; UINT64_MAX: none */
    /* Bytes of a stage [first, end) on `device` that holds in_flight micro-batches; arg is the
     * caller's. It should not fall when the stage or in_flight grows. If it does (a smaller
     * boundary tensor), a plan close to a cap may be missed, but every plan fits. */
    uint64_t (*stage_memory)(void *arg, size_t device, size_t first, size_t end, size_t in_flight);
    void *arg;
    /* Work of stage_memory so far, in units of PARTITION_MEMORY_WORK_MAX; it rises with each new
     * stage. NULL: its answers cost nothing. */
    const double *memory_work;
    /* Bounds of the search's work and of that of stage_memory; 0: PARTITION_WORK_MAX and
     * PARTITION_MEMORY_WORK_MAX. */
    double work_max, memory_work_max;
    size_t micro_batches;
    bool clips_norm; /* every update waits for the norm of all gradients (timeline.h) */
    bool async; /* steps overlap (libtrain/schedule): micro_batches is 1; all usual limits must fit
                   into memory */
    bool one_version; /* async: no more in flight than the stages from this one on */
    bool first_fit;   /* stop at the first plan that fits */
    /* Names for the text of an error; NULL: numbers. */
    const char *const *unit_name;   /* [unit_count] */
    const char *const *device_name; /* [device_count] */
};

struct partition_plan {
    size_t end[PARTITION_DEVICES_MAX]; /* one past the last unit of each stage */
    size_t in_flight[PARTITION_DEVICES_MAX];
    uint64_t memory_bytes[PARTITION_DEVICES_MAX];
    double busy[PARTITION_DEVICES_MAX]; /* share of the step each stage computes */
    double step_seconds;                /* by the timeline */
    double bound_seconds;               /* fluid bound: all work / sum of capacities */
    double work;                        /* work of the search; 0: no search */
};

/* Find the fastest split of all units across all devices in the given order, with at least one unit
 * in each stage. The in-flight limit of a stage keeps it busy while a micro-batch travels to the
 * last stage and back, as far as memory allows. ERR_INVALID: sizes out of bounds, or more devices
 * than units. ERR_MEMORY: no split fits; err says which unit does not fit where and by how much.
 * Exact (equal to trying every split) within PARTITION_WORK_MAX; small problems (10 units on 5
 * devices) are far below it. Stack: about 300 KB. No allocation. */
NODISCARD int partition_solve(const struct partition_problem *problem, struct partition_plan *out,
                              struct err *err);
/* Evaluate given stage boundaries: end[device_count], rising, the last one equal to unit_count. */
NODISCARD int partition_evaluate(const struct partition_problem *problem, const size_t *end,
                                 struct partition_plan *out, struct err *err);

/* Bound of the search's work: 1 is a micro-batch played on a stage, about 0.15 us. It takes less
 * than a tenth of a second, in which the coordinator handles no event. */
#define PARTITION_WORK_MAX 500000.0
/* Bound of the work of stage_memory, a third of a second. Half of it finds the longest stages that
 * fit; a device left over is treated as one with less memory. The other half is for trying splits.
 * Models of some hundred ops stay far below. */
#define PARTITION_MEMORY_WORK_MAX 2e6

#endif
