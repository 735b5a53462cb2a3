/* strategy.h: how the devices of a plan train together, as one row of functions. Which devices a
 * job gets, generations, sources, copies, suspicion and incidents are the same for all of them:
 * their code calls the row of the job and knows no strategy. docs/adr/0135. */
#ifndef COORDINATOR_CORE_STRATEGY_H
#define COORDINATOR_CORE_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/core/solution.h"
#include "coordinator/core/traffic.h"
#include "libtrain/memory/memory.h"
#include "schema/assignment.h"
#include "schema/plan.h"
#include "schema/job_preview.h"
#include "schema/submodel.h"

struct core;
struct device_slot;
struct job_slot;
struct planned;
struct planning;

/* What a stage computes of a step. */
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

/* Devices that one device calls to train, at most. */
#define STRATEGY_PEERS_MAX STAGES_MAX

/* The least memory that a job needs. */
struct strategy_memory {
    uint64_t all_bytes; /* on all of its devices together, */
    uint64_t one_bytes; /* and on one of them */
};

struct strategy {
    enum job_strategy strategy; /* that the row is of; others may train as it does */
    bool all_keep;     /* every stage keeps units, so that there are no more stages than units */
    bool takes_shares; /* a request may state how many stages keep units, and shares of the step */

    /* ---- a question to the planner; any thread ---- */
    /* Reserve planning->scratch[strategy], which is only the row's. ERR_MEMORY. */
    int (*scratch_new)(void **out, struct err *err);
    void (*scratch_free)(void *scratch);
    /* Choose among planning->pool and plan their work. The answer is planning->solution.
     * ERR_MEMORY: too little memory; ERR_INVALID: the request cannot be fulfilled. */
    int (*solve)(struct planning *planning, const struct problem_request *request, struct err *err);
    /* Say what the devices of the pool outside of the answer would change, in planning->left_out.
     * Called directly after solve. */
    void (*leave_out)(struct planning *planning);
    /* planning->solution is an earlier answer again: later calls are about it. */
    void (*resume)(struct planning *planning);
    /* Write planning->solution as a plan: units, memory without replicas, times, links, bottleneck.
     * Devices are the caller's. The search is over: planning->pool is overwritten. */
    void (*fill_plan)(struct planning *planning, struct planned *out);
    /* Return the bytes of one version of the units that the stage keeps. */
    uint64_t (*state_bytes)(struct planning *planning, size_t stage);

    /* ---- the core's thread ---- */
    /* Whether a plan of the store is one of this strategy for a model of so many units. */
    bool (*plan_fits)(const struct plan *plan, size_t unit_count);
    /* What a stage computes. */
    struct stage_work (*work)(const struct stage_list *stages, size_t stage);
    /* Whether two stages send tensors to each other, apart from copies. */
    bool (*talk)(const struct stage_list *stages, size_t a, size_t b);
    /* How many transfers use the link of each stage at a time, while `from` transfers with `to`.
     * NULL: one. */
    struct link_users (*link_users)(const struct job_slot *job, size_t from, size_t to);
    /* Whether the plan can stop at a version of all its units without this stage. */
    bool (*survives)(const struct plan *plan, size_t stage);
    /* Write the least memory of any plan. whole: a request for all units on one device that has one
     * micro-batch at a time. UINT64_MAX: no device has so much. */
    void (*least_memory)(const struct job_slot *job, const struct memory_request *whole,
                         struct strategy_memory *out);
    /* Write what users see of the plan beside its stages' devices, units and memory. */
    void (*preview)(const struct planned *planned, struct job_preview *out);
    /* Write what the device does in out->run, with the devices that it calls; let those call it
     * that do so in turn. */
    void (*fill_assignment)(const struct core *core, const struct device_slot *device,
                            struct assignment *out);
    /* List the peers that fill_assignment wrote. Return their count. */
    size_t (*peers)(struct assignment_run *run, struct peer *out[STRATEGY_PEERS_MAX]);
};

/* Return how jobs of a strategy train. The parts of a job of sub-models are pipelines, and so is
 * what the planner is asked about the job itself. */
const struct strategy *strategy_of(enum job_strategy strategy);
/* Return the units that a stage loads: those that it keeps and those that it computes. */
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
/* Return the most stages that a plan for so many units has. */
static inline size_t strategy_stages_max(const struct strategy *strategy, size_t unit_count)
{
    return strategy->all_keep && unit_count < STAGES_MAX ? unit_count : STAGES_MAX;
}

#endif
