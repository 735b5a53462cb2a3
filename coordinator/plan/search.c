#include "coordinator/plan/search.h"

#include <math.h>
#include <string.h>

/* A plan this close to the limit justifies a search of its in-flight limits. */
#define CLOSE 1.1
/* Share of the best plan's longest pass. A better plan hardly has a shorter one. */
#define PASS_SHARE 0.95

bool search_faster(const struct search *search, double seconds)
{
    return seconds < search->limit_seconds * (1 - KINDS_EQUAL);
}

static void play_all(struct search *search, struct flights *flights)
{
    const double limit = stages_min(search->limit_seconds, flights->step_seconds);
    const double left = search->work_max - search->work;
    if (!flights_all(flights, limit, left)) {
        search->complete = false;
    }
}

static bool keep(struct search *search, const struct flights *flights)
{
    if (!search_faster(search, flights->step_seconds)) {
        return false;
    }
    search->best = *flights->layout;
    search->recent[search->keeps++ % SEARCH_RECENT] = search->best;
    flights_plan(flights, &search->plan);
    search->limit_seconds = search->plan.step_seconds;
    search->best_pass = 0;
    for (size_t i = 0; i < search->best.count; i++) {
        const struct timeline_stage *stage = &flights->stage[i];
        search->best_pass = stages_max(search->best_pass,
                                       stages_max(stage->forward_seconds, stage->backward_seconds));
    }
    return true;
}

bool search_try(struct search *search, const struct layout *layout, bool thorough)
{
    struct flights flights;
    search->work += BOUND_WORK * (double)layout->count;
    if (!flights_init(&flights, &search->kinds, layout) ||
        !search_faster(search, stages_bound(search->kinds.problem, flights.stage, layout->count))) {
        return false;
    }
    if (thorough) {
        play_all(search, &flights);
    } else {
        flights_try(&flights);
        if (search_faster(search, flights.step_seconds / CLOSE)) {
            flights_improve(&flights, search->work_max - search->work);
        }
    }
    search->work += flights.work;
    return keep(search, &flights);
}

/* The boundaries are the best by the bound of plans whose longest pass is about the best plan's. */
bool search_try_order(struct search *search, const uint16_t *kind, size_t count)
{
    const double pass = search->best.count > 0 ? search->best_pass : 0;
    const struct bound_passes passes = {pass * PASS_SHARE, INFINITY};
    struct layout layout;
    double bound =
        order_cut(&search->kinds, kind, count, passes, search->trial_rest, &layout, &search->work);
    return search_faster(search, bound) && search_try(search, &layout, false);
}

void search_init(struct search *search, const struct partition_problem *problem)
{
    kinds_init(&search->kinds, problem);
    memset(search->used, 0, sizeof(search->used));
    search->work = search->work_max = 0;
    search->keeps = 0;
}
