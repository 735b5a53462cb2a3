#include "coordinator/plan/bound.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

/* Ends tried for each entry and next group, usually. */
#define BOUND_TRIES 8

struct bound_ends bound_ends(const struct kinds *kinds, size_t row, size_t first)
{
    const struct partition_problem *problem = kinds->problem;
    struct bound_ends ends = {.least = first + 1, .most = kinds->fits_end[row][first]};
    if (!problem->end) {
        return ends;
    }
    bool begins = first == 0;
    for (size_t i = 0; i < problem->end_count; i++) {
        if (problem->end[i] > first) {
            ends.least = problem->end[i];
            break;
        }
        begins = begins || problem->end[i] == first;
    }
    ends.most = begins && ends.least <= ends.most ? ends.least : ends.least - 1;
    return ends;
}

size_t bound_states_max(size_t unit_count, double work_max)
{
    /* Each entry is tried with each next group. */
    double entries =
        stages_min(BOUND_ENTRIES_MAX, work_max / (BOUND_WORK * BOUND_TRIES * KINDS_GROUPS_MAX));
    double states = entries / (double)(unit_count + 1);
    return states < 4 ? 4 : states < BOUND_STATES_MAX ? (size_t)states : BOUND_STATES_MAX;
}

/* ---- any order ---- */

static size_t entry(const struct bound *bound, size_t state, size_t group, size_t unit)
{
    return (state * bound->kinds->group_count + group) * (bound->kinds->problem->unit_count + 1) +
           unit;
}

static size_t used_of(const struct bound *bound, size_t state, size_t group)
{
    return state / bound->stride[group] % (bound->count[group] + 1);
}

struct crossing bound_crossing(const struct kinds *kinds, const struct partition_link *link,
                               size_t first, size_t end)
{
    struct crossing least = stages_cross(kinds, link, 0, first, end);
    for (size_t c = 1; c < kinds->problem->codec_count; c++) {
        const struct crossing other = stages_cross(kinds, link, c, first, end);
        least.forward_seconds = stages_min(least.forward_seconds, other.forward_seconds);
        least.backward_seconds = stages_min(least.backward_seconds, other.backward_seconds);
        least.latency_seconds = stages_min(least.latency_seconds, other.latency_seconds);
    }
    return least;
}

static void fill_crossings(struct bound *bound)
{
    const struct kinds *kinds = bound->kinds;
    const struct partition_problem *problem = kinds->problem;
    bound->decode = INFINITY;
    for (size_t c = 0; c < problem->codec_count; c++) {
        bound->decode = fmin(bound->decode, 1 / problem->codec[c].decode_bytes_per_second);
    }
    bound->decode = problem->codec_count == 0 ? 0 : bound->decode;
    for (size_t g = 0; g < kinds->group_count; g++) {
        for (size_t h = 0; h < kinds->group_count; h++) {
            const struct partition_link *link = &kinds->group_link[g][h];
            bound->latency[g][h] = link->latency_seconds;
            for (size_t end = 1; end < problem->unit_count; end++) {
                bound->crossing[g][h][end] = bound_crossing(kinds, link, end, end).backward_seconds;
            }
        }
    }
}

static struct crossing crossing_of(const struct bound *bound, size_t group, size_t next,
                                   size_t first, size_t end)
{
    const struct kinds *kinds = bound->kinds;
    const double tensor = bound->crossing[group][next][end];
    const double replicas = stages_sum(kinds->replica_sum, first, end);
    return (struct crossing){
        .forward_seconds =
            tensor + (replicas > 0 ? replicas / ((double)kinds->problem->micro_batches *
                                                 kinds->group_link[group][next].bytes_per_second)
                                   : 0),
        .backward_seconds = tensor,
        .latency_seconds = bound->latency[group][next] +
                           bound->decode * (double)kinds->problem->border_bytes[end - 1]};
}

double bound_last(const struct partition_problem *problem, struct stage_cost cost,
                  struct bound_passes passes)
{
    const struct stage_bound none = {0, 0};
    const struct stage_bound with = stages_bound_add(problem, none, cost, NULL);
    const double others = (double)problem->micro_batches - 1;
    return stages_max(with.most, with.before + others * passes.least);
}

bool bound_passes_fit(const struct kinds *kinds, size_t row, size_t first, size_t end,
                      struct bound_passes passes)
{
    const struct kind_sums *sums = &kinds->sums[row];
    const double each = kinds->kind[row].overhead_seconds / 2;
    return stages_max(stages_sum(sums->forward, first, end),
                      stages_sum(sums->backward, first, end)) +
               each <=
           passes.most;
}

/* The bound of a stage [first, end) on `group` and all after it, the next of them on `next`. The
 * first stage's update ends a step. */
static double through_end(const struct bound *bound, size_t group, size_t first, size_t end,
                          size_t next, double rest)
{
    const struct kinds *kinds = bound->kinds;
    const struct stage_bound none = {0, 0};
    const size_t row = kinds->count + group;
    double work =
        stages_units_seconds(kinds, row, first, end) +
        stages_bytes_seconds(kinds, row, kinds->wire_bytes[first] + kinds->wire_bytes[end]);
    const struct stage_cost cost = {work, stages_update_seconds(kinds, row, first, end),
                                    first == 0};
    if (end == kinds->problem->unit_count) {
        return bound_last(kinds->problem, cost, bound->passes);
    }
    const struct crossing crossing = crossing_of(bound, group, next, first, end);
    if (crossing.backward_seconds > bound->passes.most) {
        return INFINITY;
    }
    struct stage_bound with = stages_bound_add(kinds->problem, none, cost, &crossing);
    return stages_max(with.most, with.before + rest);
}

struct scan {
    size_t state, group, first;
    struct bound_ends ends;
    double best;
    size_t end, next; /* of the best */
};

/* Try the ends of a stage whose next one is on group `next`, from `near` upward until the stage
 * alone takes too long, then downward until the rest does. */
static void scan_ends(struct bound *bound, struct scan *scan, size_t next, size_t near)
{
    const struct kinds *kinds = bound->kinds;
    const double count = (double)kinds->problem->micro_batches;
    const size_t units = kinds->problem->unit_count;
    const size_t at = entry(bound, scan->state + bound->stride[next], next, 0);
    const size_t row = kinds->count + scan->group;
    const double *rest = &bound->rest[at], *least = &bound->least[at];
    size_t most = scan->ends.most < units ? scan->ends.most : units - 1;
    near = near < scan->ends.least ? scan->ends.least : near > most ? most : near;
    for (size_t end = near; end <= most; end++) {
        if (count * stages_units_seconds(kinds, row, scan->first, end) >= scan->best ||
            !bound_passes_fit(kinds, row, scan->first, end, bound->passes)) {
            break;
        }
        bound->work += BOUND_WORK;
        double seconds = through_end(bound, scan->group, scan->first, end, next, rest[end]);
        if (seconds < scan->best) {
            scan->best = seconds;
            scan->end = end;
            scan->next = next;
        }
    }
    for (size_t end = near; end-- > scan->ends.least && least[end] < scan->best;) {
        bound->work += BOUND_WORK;
        if (!bound_passes_fit(kinds, row, scan->first, end, bound->passes)) {
            continue;
        }
        double seconds = through_end(bound, scan->group, scan->first, end, next, rest[end]);
        if (seconds < scan->best) {
            scan->best = seconds;
            scan->end = end;
            scan->next = next;
        }
    }
}

static size_t used_in_all(const struct bound *bound, size_t state)
{
    size_t used = 0;
    for (size_t g = 0; g < bound->kinds->group_count; g++) {
        used += used_of(bound, state, g);
    }
    return used;
}

/* near[next]: where the best end was for the unit after. */
static struct scan scan_all(struct bound *bound, size_t state, size_t group, size_t first,
                            size_t used, size_t *near)
{
    const struct kinds *kinds = bound->kinds;
    const size_t units = kinds->problem->unit_count;
    struct scan scan = {.state = state, .group = group, .first = first};
    scan.best = bound->limit_seconds - bound->before[first];
    scan.ends = bound_ends(kinds, kinds->count + group, first);
    if (scan.ends.least <= scan.ends.most && scan.ends.most == units && used >= bound->stages_min) {
        scan.best = through_end(bound, group, first, units, 0, 0);
        scan.end = units;
    }
    for (size_t next = 0; next < kinds->group_count && used < bound->stages_max; next++) {
        if (used_of(bound, state, next) < bound->count[next] && scan.ends.least <= scan.ends.most &&
            scan.ends.least < units) {
            double before = scan.best;
            scan_ends(bound, &scan, next, near[next]);
            near[next] = scan.best < before ? scan.end : near[next];
        }
    }
    return scan;
}

void bound_init(struct bound *bound, const struct kinds *kinds, size_t stages_min,
                size_t stages_max)
{
    const size_t units = kinds->problem->unit_count;
    bound->kinds = kinds;
    bound->stages_min = stages_min;
    bound->stages_max = stages_max;
    bound->states = 1;
    for (size_t g = 0; g < kinds->group_count; g++) {
        size_t count = kinds->kind[kinds->count + g].count;
        bound->count[g] = count < stages_max ? count : stages_max;
        bound->stride[g] = bound->states;
        bound->states *= bound->count[g] + 1;
    }
    ASSERT(bound->states <= BOUND_STATES_MAX &&
           bound->states * kinds->group_count * (units + 1) <= BOUND_ENTRIES_MAX);
    fill_crossings(bound);
}

/* The least time before each unit with the devices of a state; 0: with any. */
static void fill_before(struct bound *bound, size_t state)
{
    const struct kinds *kinds = bound->kinds;
    const struct kind_sums *sums[KINDS_GROUPS_MAX];
    size_t count = 0;
    for (size_t g = 0; g < kinds->group_count; g++) {
        if (state == 0 || used_of(bound, state, g) > 0) {
            sums[count++] = &kinds->sums[kinds->count + g];
        }
    }
    bound->before[0] = 0;
    for (size_t u = 0; u < kinds->problem->unit_count; u++) {
        double least = kinds->problem->async ? 0 : INFINITY; /* steps overlap */
        for (size_t i = 0; i < count; i++) {
            least = stages_min(least, stages_sum(sums[i]->forward, u, u + 1) +
                                          stages_sum(sums[i]->backward, u, u + 1));
        }
        bound->before[u + 1] = bound->before[u] + least;
    }
}

/* The end of the longest stage from a unit on that keeps the limit. */
static size_t longest_stage(const struct bound *bound, size_t group, size_t first)
{
    const struct kinds *kinds = bound->kinds;
    const size_t row = kinds->count + group;
    const double count = (double)kinds->problem->micro_batches;
    size_t end = first, most = kinds->fits_end[row][first];
    while (end < most &&
           count * stages_units_seconds(kinds, row, first, end + 1) <
               bound->limit_seconds - bound->before[first] &&
           bound_passes_fit(kinds, row, first, end + 1, bound->passes)) {
        end++;
    }
    return end;
}

/* The last unit that the stages of a state can begin a next stage at. */
static void fill_reach(struct bound *bound)
{
    const struct kinds *kinds = bound->kinds;
    const size_t units = kinds->problem->unit_count;
    uint16_t longest[KINDS_GROUPS_MAX][PARTITION_UNITS_MAX + 1];
    for (size_t g = 0; g < kinds->group_count; g++) {
        size_t furthest = 0;
        for (size_t first = 0; first < units; first++) {
            const size_t end = longest_stage(bound, g, first);
            furthest = end > furthest ? end : furthest;
            longest[g][first] = (uint16_t)furthest; /* from any unit up to this one */
        }
        longest[g][units] = (uint16_t)units;
    }
    bound->reach[0] = 0;
    for (size_t state = 1; state < bound->states; state++) {
        bound->reach[state] = 0;
        for (size_t g = 0; g < kinds->group_count; g++) {
            if (used_of(bound, state, g) > 0) {
                const size_t end = longest[g][bound->reach[state - bound->stride[g]]];
                bound->reach[state] =
                    end > bound->reach[state] ? (uint16_t)end : bound->reach[state];
            }
        }
    }
}

void bound_fill(struct bound *bound, struct bound_passes passes, double limit_seconds)
{
    const struct kinds *kinds = bound->kinds;
    const size_t units = kinds->problem->unit_count, stages_max = bound->stages_max;
    bound->passes = passes;
    bound->limit_seconds = limit_seconds;
    fill_before(bound, 0);
    fill_reach(bound);
    for (size_t state = bound->states; state-- > 1;) {
        size_t used = used_in_all(bound, state);
        for (size_t g = 0; g < kinds->group_count && used <= stages_max; g++) {
            if (used_of(bound, state, g) == 0) {
                continue;
            }
            const size_t reach = bound->reach[state - bound->stride[g]];
            size_t near[KINDS_GROUPS_MAX];
            fill_before(bound, state - bound->stride[g]);
            bound->work += BOUND_WORK * (double)units;
            double *rest = &bound->rest[entry(bound, state, g, 0)];
            double *least = &bound->least[entry(bound, state, g, 0)];
            for (size_t next = 0; next < KINDS_GROUPS_MAX; next++) {
                near[next] = units;
            }
            rest[units] = INFINITY;
            for (size_t first = units; first-- > 0;) {
                bool may_begin = used == 1 ? first == 0 : first > 0 && first <= reach;
                struct scan scan = {.end = 0};
                if (may_begin) {
                    scan = scan_all(bound, state, g, first, used, near);
                }
                rest[first] = scan.end > 0 ? scan.best : INFINITY;
            }
            for (size_t u = 0; u <= units; u++) {
                least[u] = u > 0 && least[u - 1] < rest[u] ? least[u - 1] : rest[u];
            }
        }
    }
}

size_t bound_state(const struct bound *bound, size_t state, size_t group)
{
    return state + bound->stride[group];
}

double bound_rest(const struct bound *bound, size_t state, size_t group, size_t first)
{
    return bound->rest[entry(bound, state, group, first)];
}

double bound_root(const struct bound *bound)
{
    double best = INFINITY;
    for (size_t g = 0; g < bound->kinds->group_count; g++) {
        best = stages_min(best, bound_rest(bound, bound->stride[g], g, 0));
    }
    return best;
}

void bound_path(struct bound *bound, struct layout *out)
{
    const size_t units = bound->kinds->problem->unit_count;
    size_t group = 0, first = 0;
    for (size_t g = 1; g < bound->kinds->group_count; g++) {
        if (bound_rest(bound, bound->stride[g], g, 0) <
            bound_rest(bound, bound->stride[group], group, 0)) {
            group = g;
        }
    }
    size_t state = bound->stride[group];
    out->count = 0;
    while (first < units && out->count < PARTITION_STAGES_MAX) {
        size_t near[KINDS_GROUPS_MAX] = {0};
        struct scan scan = scan_all(bound, state, group, first, out->count + 1, near);
        ASSERT(scan.end > first);
        out->kind[out->count] = (uint16_t)(bound->kinds->count + group);
        out->end[out->count] = (uint16_t)scan.end;
        out->codec[out->count++] = 0;
        first = scan.end;
        group = scan.next;
        state = bound_state(bound, state, group);
    }
}

double bound_least_pass(const struct kinds *kinds)
{
    double pass = 0;
    for (size_t u = 0; u < kinds->problem->unit_count; u++) {
        double least = INFINITY;
        for (size_t k = 0; k < kinds->count; k++) {
            const struct kind_sums *sums = &kinds->sums[k];
            least = stages_min(least, stages_max(stages_sum(sums->forward, u, u + 1),
                                                 stages_sum(sums->backward, u, u + 1)));
        }
        pass = stages_max(pass, least);
    }
    return pass;
}
