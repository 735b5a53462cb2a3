/* problem.h: the partition problem of a placement, and its solution. */
#ifndef COORDINATOR_CORE_PROBLEM_H
#define COORDINATOR_CORE_PROBLEM_H

#include "coordinator/core/core.h"
#include "coordinator/core/device.h"
#include "coordinator/plan/partition.h"
#include "libtrain/memory/memory.h"
#include "libtrain/model/cost.h"

struct device_slot;
struct job_slot;

/* Memory of a stage by its range of units. */
struct stage_bytes {
    struct memory_growth bytes; /* the base with all snapshots there are */
    uint32_t stamp;
};

/* Everything about one attempt to place a job. */
struct planning {
    const struct job_spec *spec;
    const struct model *model;
    struct device_slot *device[STAGES_MAX]; /* in the order of the stages */
    size_t device_count;
    enum recompute recompute;   /* the spec's, or what might fit better */
    bool first_fit;             /* any plan will do */
    bool caps;                  /* devices that ran out of memory in the job are given less */
    struct partition_plan plan; /* the answer */
    double work;                /* of all searches of this step */
    double memory_work;         /* of the questions for the memory of this job */

    struct unit_cost cost[UNITS_MAX];
    double forward_seconds[STAGES_MAX * UNITS_MAX], backward_seconds[STAGES_MAX * UNITS_MAX];
    double update_seconds[STAGES_MAX * UNITS_MAX];
    uint64_t border_bytes[UNITS_MAX];
    struct partition_link link[STAGES_MAX];
    uint64_t cap_bytes[STAGES_MAX];
    const char *unit_name[UNITS_MAX], *device_name[STAGES_MAX];
    struct stage_bytes stage_bytes[UNITS_MAX + 1][UNITS_MAX + 1];
    enum conv2d_backend
        backend; /* stage_bytes of this stamp are of it, and of the job and recompute above */
    uint32_t stamp;
    struct arena_scratch *scratch; /* of the questions for memory */
};

/* Cut the model over planning->device[]; end NULL: the best cuts. */
NODISCARD int problem_solve(struct core *core, const struct job_slot *job, const size_t *end,
                            struct err *err);
/* What the memory of the planned stage goes to, but for replicas. */
struct plan_memory problem_memory(const struct planning *planning, size_t device);

#endif
