/* problem.h: states the placement of a job as a partition problem, and solves it. */
#ifndef COORDINATOR_CORE_PROBLEM_H
#define COORDINATOR_CORE_PROBLEM_H

#include "coordinator/core/core.h"
#include "coordinator/core/device.h"
#include "coordinator/plan/partition.h"
#include "libtrain/memory/memory.h"
#include "libtrain/model/cost.h"

struct device_slot;
struct job_slot;

/* The memory of a stage, cached by its range of units. */
struct stage_bytes {
    struct memory_growth bytes; /* base: including all snapshots */
    uint32_t stamp;             /* valid if equal to the planning's stamp */
};

/* One attempt to place a job: inputs, answer and scratch. */
struct planning {
    const struct job_spec *spec;
    const struct model *model;
    struct device_slot *device[STAGES_MAX]; /* in the order of the stages */
    size_t device_count;
    enum recompute recompute;   /* the spec's, or a trial of one that needs less memory */
    bool first_fit;             /* stop at the first plan that fits */
    bool caps;                  /* respect the limits of devices that ran out of memory */
    struct partition_plan plan; /* the answer */
    double work;                /* work of all searches of this step */
    double memory_work;         /* work of computing the memory of this job's stages */

    struct unit_cost cost[UNITS_MAX];
    double forward_seconds[STAGES_MAX * UNITS_MAX], backward_seconds[STAGES_MAX * UNITS_MAX];
    double update_seconds[STAGES_MAX * UNITS_MAX];
    uint64_t border_bytes[UNITS_MAX];
    struct partition_link link[STAGES_MAX];
    uint64_t cap_bytes[STAGES_MAX];
    const char *unit_name[UNITS_MAX], *device_name[STAGES_MAX];
    struct stage_bytes stage_bytes[UNITS_MAX + 1][UNITS_MAX + 1];
    /* stage_bytes of this stamp are valid for this backend, and for the job and recompute above. */
    enum conv2d_backend backend;
    uint32_t stamp;
    struct arena_scratch *scratch; /* for computing memory */
};

/* Split the model across planning->device[] at the boundaries `end`; NULL: at the best ones. Errors
 * as partition_solve. */
NODISCARD int problem_solve(struct core *core, const struct job_slot *job, const size_t *end,
                            struct err *err);
/* Return the memory of the planned stage by use, without replicas. */
struct plan_memory problem_memory(const struct planning *planning, size_t device);

#endif
