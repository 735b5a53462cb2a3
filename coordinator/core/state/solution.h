/* solution.h: a request of the planner to a strategy about the devices of a pool, and the solution,
 * from which the plan is made. Values; planning.h owns them. */
#ifndef COORDINATOR_CORE_STATE_SOLUTION_H
#define COORDINATOR_CORE_STATE_SOLUTION_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/model/segments.h"
#include "schema/limits.h"

struct plan_stage;

/* The requested stages for the devices in planning->pool. */
struct problem_request {
    size_t stages_min, stages_max;
    bool in_order;     /* each device gets a stage, in the order of the pool */
    const size_t *end; /* [end_count]: given stage boundaries; NULL: free */
    size_t end_count;
    const struct plan_stage *given; /* [stages_max] the stages, with their shares; NULL: free */
    size_t servers;                 /* stages that keep units; 0: as the job says */
    double work_share;              /* of planning->work_max */
};

#define SOLUTION_OWN_MAX 8192

/* The answer of a strategy. Choices between answers need only the first three members. */
struct solution {
    size_t stage_count;
    size_t chosen[STAGES_MAX]; /* candidates in the order of the stages */
    double step_seconds;       /* as searched: with the margins of units not measured */
    /* The rest of the answer, as bytes: `solve` copies it here from its scratch, `resume` back. */
    unsigned char own[SOLUTION_OWN_MAX];
};

/* The transfers of a parameter server's plan, and the expected step seconds with each kind of
 * transfers. */
struct planned_transfers {
    enum segments_transfers chosen;
    double optimal_seconds, whole_seconds, layer_seconds, layer_window_seconds;
};

#endif
