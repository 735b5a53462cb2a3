#include "coordinator/core/placement/question.h"

#include "base/pages.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/planning.h"
#include "libtrain/memory/arena.h"

int question_new(struct planning **out, struct err *err)
{
    AUTO(question_free) struct planning *planning = pages_new(1, sizeof(*planning));
    if (!planning) {
        return err_set(err, ERR_MEMORY, "out of memory for a question to the planner");
    }
    int rc = arena_scratch_new(&planning->arena, err);
    for (int i = 0; rc == 0 && i < STRATEGY_COUNT; i++) {
        const struct strategy *row = strategy_of((enum job_strategy)i);
        rc = (int)row->strategy == i ? row->scratch_new(&planning->scratch[i], err) : 0;
    }
    if (rc != 0) {
        return rc;
    }
    *out = planning;
    planning = NULL;
    return 0;
}

void question_free(struct planning **pointer)
{
    struct planning *planning = *pointer;
    for (int i = 0; planning && i < STRATEGY_COUNT; i++) {
        if (planning->scratch[i]) {
            strategy_of((enum job_strategy)i)->scratch_free(planning->scratch[i]);
        }
    }
    if (planning) {
        arena_scratch_free(&planning->arena);
        pages_free(planning);
        *pointer = NULL;
    }
}
