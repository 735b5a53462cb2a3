/* partition.h: splits a chain of units into stages for a given order of devices. Mathematics only:
 * numbers in, plan out; knows nothing of devices' lives. Pure. Source: FTPipeHD (arXiv 2110.02781),
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
    const uint64_t *border_bytes; /* [unit_count]: float32 bytes of a micro-batch behind unit u; the
                                     same forward and backward */
    const struct partition_link *link; /* [device_count - 1]; bytes_per_second > 0 */
    const uint64_t *memory_cap_bytes;  /* [device_count]; UINT64_MAX: none */
    /* Bytes of a stage [first, end) on `device` that holds in_flight micro-batches; arg is the
     * caller's. It should not fall when the stage or in_flight grows: where it does (a smaller
     * border tensor), a plan at the very edge of a cap may be missed, but never is one proposed
     * that does not fit. */
    uint64_t (*stage_memory)(void *arg, size_t device, size_t first, size_t end, size_t in_flight);
    void *arg;
    /* Work that stage_memory has done so far, in that of PARTITION_MEMORY_WORK_MAX; it rises where
     * it is asked for a stage anew. NULL: its answers cost nothing. */
    const double *memory_work;
    size_t micro_batches;
    bool clips_norm; /* every update waits for the norm of all gradients (timeline.h) */
    bool first_fit;  /* is there a plan at all? The first one that the search comes upon will do */
    /* For the text of an error; NULL: numbers are told. */
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
    double work;                        /* of the search; 0: none was made */
};

/* The best cut of all units over all devices in the given order, each stage at least one unit. The
 * in-flight limit of a stage is what keeps it busy while a micro-batch travels to the last stage
 * and back, as far as memory allows. ERR_INVALID for sizes out of bounds or more devices than
 * units; ERR_MEMORY when no cut fits: err says which unit does not fit where and by how much. Exact
 * (equal to trying every cut) unless the search is cut short: PARTITION_WORK_MAX bounds it, and
 * small problems (10 units on 5 devices) are far below. Stack: about 300 KB. No allocation. */
NODISCARD int partition_solve(const struct partition_problem *problem, struct partition_plan *out,
                              struct err *err);
/* The same figures for cuts that the caller wants: end[device_count], rising, the last one
 * unit_count. */
NODISCARD int partition_evaluate(const struct partition_problem *problem, const size_t *end,
                                 struct partition_plan *out, struct err *err);

/* The search stops improving after so much work (a micro-batch played on a stage is 1, some 0.15
 * us): less than a tenth of a second, for meanwhile its caller hears nobody. */
#define PARTITION_WORK_MAX 500000.0
/* In the same unit, the work of stage_memory, a third of a second: half of it says how much fits
 * where, and a device that is left is taken for one with less memory. Then cuts are tried until the
 * other half is done. Models of some hundred ops stay far below. */
#define PARTITION_MEMORY_WORK_MAX 2e6

#endif
