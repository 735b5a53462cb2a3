/* strategy.h: how the devices of a plan train together, as one row of functions per strategy.
 * Choice of devices, generations, sources, copies, suspicion and incidents are common to all
 * strategies: their code calls the row of the job and depends on no strategy. docs/adr/0135. */
#ifndef COORDINATOR_CORE_PLACEMENT_STRATEGY_H
#define COORDINATOR_CORE_PLACEMENT_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/core/capacity/traffic.h"
#include "coordinator/core/state/solution.h"
#include "libtrain/memory/memory.h"
#include "schema/assignment.h"
#include "schema/job_preview.h"
#include "schema/plan.h"
#include "schema/submodel.h"

struct core;
struct device_slot;
struct job_slot;
struct planned;
struct planning;

/* The part of a step that a stage computes. */
struct stage_work {
    int64_t first, end;    /* units, possibly none */
    int64_t micro_batches; /* of a step */
};

/* The stages of a plan. */
struct stage_list {
    const struct plan_stage *stage; /* [count] */
    size_t count;
    int64_t micro_batches; /* of the job's step */
};

/* Most devices that one device calls to train. */
#define STRATEGY_PEERS_MAX STAGES_MAX

/* The least memory that a job needs. */
struct strategy_memory {
    uint64_t all_bytes; /* on all of its devices together */
    uint64_t one_bytes; /* on at least one of them */
};

struct strategy {
    enum job_strategy strategy; /* of the row; other strategies may use the same row */
    bool all_keep;     /* every stage keeps units, so there are at most as many stages as units */
    bool takes_shares; /* a request may state how many stages keep units, and shares of the step */

    /* ---- a question to the planner; any thread ---- */
    /* Reserve planning->scratch[strategy], which only this row uses. ERR_MEMORY. */
    int (*scratch_new)(void **out, struct err *err);
    void (*scratch_free)(void *scratch);
    /* Choose among planning->pool and plan their work. The answer is planning->solution.
     * ERR_MEMORY: too little memory; ERR_INVALID: the request cannot be fulfilled. */
    int (*solve)(struct planning *planning, const struct problem_request *request, struct err *err);
    /* Write to planning->left_out what the unused devices of the pool would change. Called directly
     * after solve. */
    void (*leave_out)(struct planning *planning);
    /* Restore the scratch for planning->solution, an earlier answer. Later calls are about it. */
    void (*resume)(struct planning *planning);
    /* Write planning->solution as a plan: units, memory without replicas, times, links, bottleneck.
     * The caller writes the devices. The search is over: planning->pool is overwritten. */
    void (*fill_plan)(struct planning *planning, struct planned *out);
    /* Return the bytes of one version of the units that the stage keeps. */
    uint64_t (*state_bytes)(struct planning *planning, size_t stage);

    /* ---- the core's thread ---- */
    /* Return whether a stored plan is valid for this strategy and a model of unit_count units. */
    bool (*plan_fits)(const struct plan *plan, size_t unit_count);
    /* Return the work of a stage. */
    struct stage_work (*work)(const struct stage_list *stages, size_t stage);
    /* Return whether two stages send tensors to each other, apart from copies. */
    bool (*talk)(const struct stage_list *stages, size_t a, size_t b);
    /* Return how many transfers use the link of each stage at a time, while `from` transfers with
     * `to`. NULL: one. */
    struct link_users (*link_users)(const struct job_slot *job, size_t from, size_t to);
    /* Return whether the plan can stop at a version of all its units without this stage. */
    bool (*survives)(const struct plan *plan, size_t stage);
    /* Write the least memory of any plan. whole: a request for all units on one device that
     * computes one micro-batch at a time. UINT64_MAX: no device has enough memory. */
    void (*least_memory)(const struct job_slot *job, const struct memory_request *whole,
                         struct strategy_memory *out);
    /* Write the members of the preview other than the stages' devices, units and memory. */
    void (*preview)(const struct planned *planned, struct job_preview *out);
    /* Write the work of the device and the devices that it calls to out->run. Allow the calls of
     * devices that call it. */
    void (*fill_assignment)(const struct core *core, const struct device_slot *device,
                            struct assignment *out);
    /* List the peers that fill_assignment wrote. Return their count. */
    size_t (*peers)(struct assignment_run *run, struct peer *out[STRATEGY_PEERS_MAX]);
};

/* Return the row of a strategy. The parts of a job of sub-models are pipelines. Questions to the
 * planner about such a job are for a pipeline too. */
const struct strategy *strategy_of(enum job_strategy strategy);
/* Return the units that a stage loads: its kept units and its computed units. */
static inline struct stage_work strategy_loads(const struct strategy *strategy,
                                               const struct stage_list *stages, size_t stage)
{
    const struct plan_stage *kept = &stages->stage[stage];
    struct stage_work loads = strategy->work(stages, stage);
    const bool keeps = kept->first < kept->end, computes = loads.first < loads.end;
    loads.first = keeps && (!computes || kept->first < loads.first) ? kept->first : loads.first;
    loads.end = keeps && (!computes || kept->end > loads.end) ? kept->end : loads.end;
    return loads;
}
/* Return the most stages of a plan for a model of unit_count units. */
static inline size_t strategy_stages_max(const struct strategy *strategy, size_t unit_count)
{
    return strategy->all_keep && unit_count < STAGES_MAX ? unit_count : STAGES_MAX;
}

#endif
