#include "coordinator/plan/flights.h"

#include <math.h>
#include <string.h>

/* The share that more batches in flight than usual must gain if steps overlap. */
#define ASYNC_GAIN 0.05

static struct timeline_rules rules_of(const struct flights *flights)
{
    const struct partition_problem *problem = flights->kinds->problem;
    return (struct timeline_rules){.micro_batches = problem->micro_batches,
                                   .clips_norm = problem->clips_norm,
                                   .strict = flights->strict,
                                   .async = problem->async};
}

/* The most micro-batches in flight that fit; 0: none. */
static size_t most_that_fit(const struct flights *flights, size_t index, size_t most)
{
    const struct kinds *kinds = flights->kinds;
    const uint64_t cap = kinds->kind[flights->layout->kind[index]].cap_bytes;
    if (cap == UINT64_MAX || stages_memory(kinds, flights->layout, index, most) <= cap) {
        return most;
    }
    size_t fits = 0, beyond = most;
    while (fits + 1 < beyond) {
        size_t middle = fits + (beyond - fits) / 2;
        if (stages_memory(kinds, flights->layout, index, middle) <= cap) {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    return fits;
}

/* If steps overlap, all stages have at least the usual limits, and at most twice these. */
static bool init_async(struct flights *flights)
{
    const struct partition_problem *problem = flights->kinds->problem;
    const size_t count = flights->layout->count;
    for (size_t i = 0; i < count; i++) {
        const size_t usual = count - i;
        const size_t most = problem->one_version || usual == 1 ? usual : 2 * usual;
        flights->most[i] = most_that_fit(flights, i, most);
        if (flights->most[i] < usual) {
            return false;
        }
        if (i > 0 && flights->most[i] > flights->most[i - 1]) {
            flights->most[i] = flights->most[i - 1];
        }
    }
    return true;
}

bool flights_init(struct flights *flights, const struct kinds *kinds, const struct layout *layout)
{
    size_t most = kinds->problem->micro_batches;
    most = most < TIMELINE_IN_FLIGHT_MAX ? most : TIMELINE_IN_FLIGHT_MAX;
    flights->kinds = kinds;
    flights->layout = layout;
    flights->strict = kinds->problem->async || kinds->problem->order == PARTITION_STRICT;
    flights->step_seconds = INFINITY;
    flights->work = 0;
    if (kinds->problem->async) {
        stages_fill(kinds, layout, flights->stage);
        return init_async(flights);
    }
    for (size_t i = 0; i < layout->count; i++) {
        most = most_that_fit(flights, i, i + 1 < layout->count ? most : 1);
        flights->most[i] = most;
        if (most == 0) {
            return false;
        }
    }
    stages_fill(kinds, layout, flights->stage);
    return true;
}

/* Play the limits in `stage`. Return the stages that a limit held up, as bits. */
static uint32_t play_for(struct flights *flights, double gain)
{
    const struct timeline_rules rules = rules_of(flights);
    const size_t count = flights->layout->count;
    struct timeline_result result;
    timeline_play(flights->stage, count, &rules, &result);
    flights->work += kinds_work(flights->kinds, timeline_work(count, &rules));
    if (result.step_seconds < flights->step_seconds * (1 - gain)) {
        flights->step_seconds = result.step_seconds;
        for (size_t i = 0; i < count; i++) {
            flights->best[i] = flights->stage[i].in_flight;
        }
    }
    return result.held;
}

static uint32_t play(struct flights *flights)
{
    return play_for(flights, KINDS_EQUAL);
}

/* Set a limit between that of the next stage and the largest that fits. */
static void set_limit(struct flights *flights, size_t index, double wanted)
{
    const size_t last = flights->layout->count - 1;
    size_t least = index < last ? flights->stage[index + 1].in_flight : 1;
    double most = (double)flights->most[index];
    size_t limit = wanted < most ? (size_t)stages_max(wanted, 1) : flights->most[index];
    flights->stage[index].in_flight = limit > least ? limit : least;
}

/* Set the limits to the number of micro-batches that are past the stage while the slowest stage or
 * link works on one, times `share`; at least `turns` for each stage from here on. */
static void fill_limits(struct flights *flights, double turns, double share)
{
    const struct timeline_stage *stage = flights->stage;
    const size_t count = flights->layout->count;
    double slowest = 0, travel = 0;
    for (size_t i = 0; i < count; i++) {
        slowest = stages_max(slowest, stage[i].forward_seconds + stage[i].backward_seconds);
        slowest = stages_max(slowest, i + 1 < count ? stages_max(stage[i].send_forward_seconds,
                                                                 stage[i].send_backward_seconds)
                                                    : 0);
    }
    for (size_t i = count; i-- > 0;) {
        if (i + 1 < count) {
            travel += stage[i].send_forward_seconds + stage[i].send_backward_seconds +
                      2 * stage[i].after_seconds;
        }
        double wanted = turns * (double)(count - i);
        if (share > 0 && slowest > 0) {
            wanted = stages_max(wanted, share * (1 + ceil(travel / slowest - 1e-9)));
        }
        set_limit(flights, i, wanted);
        travel += stage[i].forward_seconds + stage[i].backward_seconds;
    }
}

static void try_async(struct flights *flights)
{
    fill_limits(flights, 1, 0);
    (void)play(flights);
    fill_limits(flights, 1, 1);
    (void)play_for(flights, ASYNC_GAIN);
}

void flights_try(struct flights *flights)
{
    static const struct {
        double turns, share;
    } ways[] = {{1, 0}, {1, 1}, {1.5, 1.5}, {2, 2}, {TIMELINE_IN_FLIGHT_MAX, 0}};
    size_t before[PARTITION_STAGES_MAX] = {0};
    const size_t count = flights->layout->count;
    if (flights->kinds->problem->async) {
        try_async(flights);
        return;
    }
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        bool same = w > 0;
        fill_limits(flights, ways[w].turns, ways[w].share);
        for (size_t i = 0; i < count; i++) {
            same = same && flights->stage[i].in_flight == before[i];
            before[i] = flights->stage[i].in_flight;
        }
        if (!same) {
            (void)play(flights);
        }
    }
}

static bool in_range(const struct flights *flights, size_t index, size_t limit)
{
    return limit >= flights->best[index + 1] && limit <= flights->most[index] &&
           (index == 0 || limit <= flights->best[index - 1]);
}

void flights_improve(struct flights *flights, double work_max)
{
    const size_t count = flights->layout->count;
    bool better = isfinite(flights->step_seconds) && !flights->kinds->problem->async;
    while (better) {
        better = false;
        for (size_t i = 0; i + 1 < count; i++) {
            for (size_t up = 0; up <= 1; up++) {
                const double before = flights->step_seconds;
                size_t limit = up ? flights->best[i] + 1 : flights->best[i] - 1;
                if (!in_range(flights, i, limit) || flights->work >= work_max) {
                    continue;
                }
                for (size_t k = 0; k < count; k++) {
                    flights->stage[k].in_flight = k == i ? limit : flights->best[k];
                }
                (void)play(flights);
                better = better || flights->step_seconds < before;
            }
        }
    }
}

struct sweep {
    double work_max;
    size_t least[PARTITION_STAGES_MAX];
    bool complete;
};

/* Play all limits of the stages from `index` on. In the greedy order a limit that held up nothing
 * need not grow; in the strict order a larger one changes the order of work. */
static uint32_t sweep_from(struct flights *flights, struct sweep *sweep, size_t index)
{
    const size_t count = flights->layout->count;
    if (index + 1 == count) {
        if (flights->work >= sweep->work_max) {
            sweep->complete = false;
            return 0;
        }
        flights->stage[index].in_flight = 1;
        return play(flights);
    }
    size_t most = flights->most[index];
    if (index > 0 && flights->stage[index - 1].in_flight < most) {
        most = flights->stage[index - 1].in_flight;
    }
    uint32_t all = 0;
    for (size_t limit = sweep->least[index]; limit <= most && sweep->complete; limit++) {
        flights->stage[index].in_flight = limit;
        uint32_t held = sweep_from(flights, sweep, index + 1);
        all |= held;
        if (!flights->strict && !(held >> index & 1)) {
            break;
        }
    }
    return all;
}

bool flights_all(struct flights *flights, double limit_seconds, double work_max)
{
    const struct partition_problem *problem = flights->kinds->problem;
    const size_t count = flights->layout->count;
    if (problem->async) {
        flights_try(flights);
        return true;
    }
    struct sweep sweep = {.work_max = work_max, .complete = true};
    for (size_t i = 0; i < count; i++) {
        sweep.least[i] = stages_in_flight(problem, flights->stage, count, i, limit_seconds);
        if (sweep.least[i] > flights->most[i] && i + 1 < count) {
            return true;
        }
    }
    (void)sweep_from(flights, &sweep, 0);
    return sweep.complete;
}

void flights_plan(const struct flights *flights, struct partition_plan *out)
{
    const struct layout *layout = flights->layout;
    const struct timeline_rules rules = rules_of(flights);
    struct timeline_stage stage[PARTITION_STAGES_MAX];
    struct timeline_result result;
    memset(out, 0, sizeof(*out));
    out->strict = flights->strict;
    for (size_t i = 0; i < layout->count; i++) {
        stage[i] = flights->stage[i];
        stage[i].in_flight = flights->best[i];
    }
    timeline_play(stage, layout->count, &rules, &result);
    out->stage_count = layout->count;
    out->step_seconds = result.step_seconds;
    for (size_t i = 0; i < layout->count; i++) {
        out->device[i] = layout->kind[i];
        out->end[i] = layout->end[i];
        out->codec[i] = layout->codec[i];
        out->in_flight[i] = flights->best[i];
        out->memory_bytes[i] = stages_memory(flights->kinds, layout, i, flights->best[i]);
        out->busy[i] = result.busy[i];
    }
}
