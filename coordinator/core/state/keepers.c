#include "coordinator/core/state/keepers.h"

bool keepers_has(const struct plan_stage *stage)
{
    return stage->first < stage->end;
}

static size_t from(const struct plan *plan, size_t stage)
{
    while (stage < plan->stage_count && !keepers_has(&plan->stage[stage])) {
        stage++;
    }
    return stage;
}

size_t keepers_first(const struct plan *plan)
{
    return from(plan, 0);
}

size_t keepers_next(const struct plan *plan, size_t stage)
{
    return from(plan, stage + 1);
}

size_t keepers_count(const struct plan *plan)
{
    size_t count = 0;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        count++;
    }
    return count;
}

bool keepers_cover(const struct plan *plan, size_t unit_count)
{
    int64_t first = 0;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        if (plan->stage[s].first != first) {
            return false;
        }
        first = plan->stage[s].end;
    }
    return first == (int64_t)unit_count;
}

size_t keepers_holder(const struct plan_stage *stages, size_t count, size_t stage)
{
    size_t at = stage;
    do {
        at = (at + 1) % count;
    } while (at != stage && !keepers_has(&stages[at]));
    const bool alone = at == stage && keepers_has(&stages[stage]);
    return alone ? (stage + 1) % count : keepers_has(&stages[stage]) ? at : stage;
}

size_t keepers_held(const struct plan_stage *stages, size_t count, size_t stage)
{
    for (size_t s = 0; s < count; s++) {
        if (s != stage && keepers_holder(stages, count, s) == stage) {
            return s;
        }
    }
    return stage;
}
