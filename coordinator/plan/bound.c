#include "coordinator/plan/bound.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

/* Usual number of ends tried for each entry. */
#define BOUND_TRIES 8
/* Work of trying one end, and of a unit's boundary to one next group. */
#define TRY_WORK 0.02
#define AFTER_WORK 0.01

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
    double entries = stages_min(BOUND_ENTRIES_MAX, work_max / (TRY_WORK * BOUND_TRIES));
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

struct crossing bound_crossing(const struct kinds *kinds, const struct link_speed *link,
                               size_t first, size_t end)
{
    struct crossing least = stages_cross(kinds, link, 0, first, end);
    for (size_t c = 1; c < kinds->problem->codec_count; c++) {
        const struct crossing other = stages_cross(kinds, link, c, first, end);
        least.forward_seconds = stages_min(least.forward_seconds, other.forward_seconds);
        least.backward_seconds = stages_min(least.backward_seconds, other.backward_seconds);
        least.after_seconds = stages_min(least.after_seconds, other.after_seconds);
    }
    return least;
}

static void fill_crossings(struct bound *bound)
{
    const struct kinds *kinds = bound->kinds;
    const struct partition_problem *problem = kinds->problem;
    for (size_t g = 0; g < kinds->group_count; g++) {
        double fastest = 0;
        for (size_t h = 0; h < kinds->group_count; h++) {
            const struct link_speed *link = &kinds->group_link[g][h];
            fastest = stages_max(fastest, link->bytes_per_second);
            for (size_t end = 1; end < problem->unit_count; end++) {
                const struct crossing least = bound_crossing(kinds, link, end, end);
                bound->crossing[g][h][end] = least.backward_seconds;
                bound->trip[g][h][end] =
                    problem->async ? 0 : 2 * (least.backward_seconds + least.after_seconds);
            }
        }
        /* A single device has no link, and sends nothing. */
        bound->replica_seconds[g] =
            fastest > 0 ? 1 / ((double)problem->micro_batches * fastest) : 0;
    }
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

/* Fill the cost of a stage [first, end) on a group: alone_to[end] - alone_from[first] for all its
 * micro-batches alone, trip_to[end] - trip_from[first] for the time before the next stage. */
static void fill_stages(struct bound *bound, size_t group)
{
    const struct kinds *kinds = bound->kinds;
    const struct partition_problem *problem = kinds->problem;
    const size_t row = kinds->count + group;
    const struct kind_sums *sums = &kinds->sums[row];
    struct bound_sums *out = &bound->sums[group];
    const double count = (double)problem->micro_batches;
    const double each = kinds->kind[row].overhead_seconds;
    for (size_t u = 0; u <= problem->unit_count; u++) {
        const double work = sums->forward[u] + sums->backward[u];
        const double bytes = stages_bytes_seconds(kinds, row, kinds->wire_bytes[u]);
        const double updates = problem->async ? sums->update[u] : 0;
        const double replicas = bound->replica_seconds[group] * kinds->replica_sum[u];
        out->alone_from[u] = count * (work - bytes) + updates;
        out->alone_to[u] = count * (work + bytes + each) + updates;
        out->trip_from[u] = problem->async ? 0 : work - bytes + replicas;
        out->trip_to[u] = problem->async ? 0 : work + bytes + each + replicas;
    }
}

/* Return the end of the longest stage from a unit on that is within the limits. */
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

static struct bound_ends stage_ends(const struct bound *bound, size_t group, size_t first)
{
    struct bound_ends ends = bound_ends(bound->kinds, bound->kinds->count + group, first);
    const size_t longest = bound->sums[group].longest[first];
    ends.most = longest < ends.most ? longest : ends.most;
    return ends;
}

/* By the end of a stage on a group: the bound of all later stages with that stage's time before
 * them, and the running minimum. */
struct after {
    double seconds[PARTITION_UNITS_MAX + 1], least[PARTITION_UNITS_MAX + 1];
};

/* The link of a boundary repeats a pass for all micro-batches but one, before or after its trip. */
static void fill_after_next(const struct bound *bound, size_t group, size_t next,
                            const double *rest, double *out)
{
    const struct partition_problem *problem = bound->kinds->problem;
    const size_t units = problem->unit_count;
    const double *crossing = bound->crossing[group][next], *trip = bound->trip[group][next];
    const double others = problem->async ? 1 : (double)problem->micro_batches - 1;
    const double most = bound->passes.most;
    for (size_t end = 1; end < units; end++) {
        const double busy = others * crossing[end];
        const double seconds = trip[end] + (busy > rest[end] ? busy : rest[end]);
        const double within = crossing[end] > most ? INFINITY : seconds;
        out[end] = within < out[end] ? within : out[end];
    }
}

static void fill_after(struct bound *bound, size_t state, size_t group, size_t used,
                       struct after *out)
{
    const size_t units = bound->kinds->problem->unit_count;
    for (size_t end = 0; end <= units; end++) {
        out->seconds[end] = INFINITY;
    }
    for (size_t next = 0; next < bound->kinds->group_count && used < bound->stages_max; next++) {
        if (used_of(bound, state, next) < bound->count[next]) {
            const size_t with = state + bound->stride[next];
            fill_after_next(bound, group, next, &bound->rest[entry(bound, with, next, 0)],
                            out->seconds);
            bound->work += AFTER_WORK * (double)units;
        }
    }
    const double others =
        bound->kinds->problem->async ? 0 : (double)bound->kinds->problem->micro_batches - 1;
    if (used >= bound->stages_min) {
        out->seconds[units] = others * bound->passes.least;
    }
    for (size_t end = 0; end <= units; end++) {
        out->seconds[end] += bound->sums[group].trip_to[end];
        out->least[end] = end == 0 ? INFINITY : stages_min(out->least[end - 1], out->seconds[end]);
    }
}

/* The best end of a stage, if its bound is below a limit. */
struct scan {
    size_t end; /* 0: none */
    double seconds;
};

/* The last stage has no link that its replicas share. */
static double spared(const struct bound *bound, size_t group, size_t first, size_t end)
{
    const struct kinds *kinds = bound->kinds;
    return end < kinds->problem->unit_count
               ? 0
               : bound->replica_seconds[group] * stages_sum(kinds->replica_sum, first, end);
}

/* Try the ends from `near` upward until the stage alone takes too long, then downward until the
 * rest does. */
static struct scan scan_ends(struct bound *bound, const struct after *after, size_t group,
                             size_t first, size_t near)
{
    const struct bound_sums *sums = &bound->sums[group];
    const double alone = sums->alone_from[first], trip = sums->trip_from[first];
    const struct bound_ends ends = stage_ends(bound, group, first);
    struct scan scan = {0, bound->limit_seconds - bound->before[first]};
    size_t tries = 0;
    if (ends.least > ends.most) {
        return scan;
    }
    near = near < ends.least ? ends.least : near > ends.most ? ends.most : near;
    for (size_t end = near; end <= ends.most && sums->alone_to[end] - alone < scan.seconds; end++) {
        const double through = after->seconds[end] - trip - spared(bound, group, first, end);
        const double seconds = stages_max(sums->alone_to[end] - alone, through);
        if (seconds < scan.seconds) {
            scan = (struct scan){end, seconds};
        }
        tries++;
    }
    for (size_t end = near; end-- > ends.least && after->least[end] - trip < scan.seconds;) {
        const double seconds = stages_max(sums->alone_to[end] - alone, after->seconds[end] - trip);
        if (seconds < scan.seconds) {
            scan = (struct scan){end, seconds};
        }
        tries++;
    }
    bound->work += TRY_WORK * (double)(tries + 1);
    return scan;
}

/* As scan_ends for the first stage, whose update ends a step. */
static struct scan scan_first(struct bound *bound, const struct after *after, size_t group)
{
    const struct kinds *kinds = bound->kinds;
    const struct bound_sums *sums = &bound->sums[group];
    const struct bound_ends ends = stage_ends(bound, group, 0);
    struct scan scan = {0, bound->limit_seconds};
    for (size_t end = ends.least; end <= ends.most; end++) {
        double update = stages_update_seconds(kinds, kinds->count + group, 0, end);
        update = kinds->problem->async ? 0 : update;
        const double through =
            after->seconds[end] - sums->trip_from[0] - spared(bound, group, 0, end);
        const double seconds = stages_max(sums->alone_to[end] - sums->alone_from[0], through);
        if (seconds + update < scan.seconds) {
            scan = (struct scan){end, seconds + update};
        }
    }
    return scan;
}

static size_t used_in_all(const struct bound *bound, size_t state)
{
    size_t used = 0;
    for (size_t g = 0; g < bound->kinds->group_count; g++) {
        used += used_of(bound, state, g);
    }
    return used;
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
    for (size_t g = 0; g < kinds->group_count; g++) {
        fill_stages(bound, g);
    }
}

/* The least time before each unit with the devices of a state; 0: with any. */
static void fill_before(struct bound *bound, size_t state)
{
    const struct kinds *kinds = bound->kinds;
    const size_t units = kinds->problem->unit_count;
    double least[PARTITION_UNITS_MAX];
    for (size_t u = 0; u < units; u++) {
        least[u] = kinds->problem->async ? 0 : INFINITY; /* steps overlap */
    }
    for (size_t g = 0; g < kinds->group_count; g++) {
        if (state == 0 || used_of(bound, state, g) > 0) {
            const struct kind_sums *sums = &kinds->sums[kinds->count + g];
            for (size_t u = 0; u < units; u++) {
                const double work = sums->forward[u + 1] - sums->forward[u] +
                                    sums->backward[u + 1] - sums->backward[u];
                least[u] = work < least[u] ? work : least[u];
            }
        }
    }
    bound->before[0] = 0;
    for (size_t u = 0; u < units; u++) {
        bound->before[u + 1] = bound->before[u] + stages_max(least[u], 0);
    }
}

/* The last unit at which a next stage can begin after the stages of a state. */
static void fill_reach(struct bound *bound)
{
    const struct kinds *kinds = bound->kinds;
    const size_t units = kinds->problem->unit_count;
    uint16_t furthest[KINDS_GROUPS_MAX][PARTITION_UNITS_MAX + 1]; /* from any unit up to one */
    for (size_t g = 0; g < kinds->group_count; g++) {
        size_t most = 0;
        for (size_t first = 0; first < units; first++) {
            const size_t end = longest_stage(bound, g, first);
            most = end > most ? end : most;
            bound->sums[g].longest[first] = (uint16_t)end;
            furthest[g][first] = (uint16_t)most;
        }
        furthest[g][units] = (uint16_t)units;
    }
    bound->reach[0] = 0;
    for (size_t state = 1; state < bound->states; state++) {
        bound->reach[state] = 0;
        for (size_t g = 0; g < kinds->group_count; g++) {
            if (used_of(bound, state, g) > 0) {
                const size_t end = furthest[g][bound->reach[state - bound->stride[g]]];
                bound->reach[state] =
                    end > bound->reach[state] ? (uint16_t)end : bound->reach[state];
            }
        }
    }
}

/* The search is cancelled: nothing can run. */
static void fill_nothing(struct bound *bound, size_t state)
{
    const size_t end = entry(bound, state + 1, 0, 0);
    for (size_t i = entry(bound, state, 0, 0); i < end; i++) {
        bound->rest[i] = INFINITY;
    }
    bound->work = kinds_work(bound->kinds, bound->work);
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
        const size_t used = used_in_all(bound, state);
        if (kinds_cancelled(kinds)) {
            fill_nothing(bound, state);
            continue;
        }
        for (size_t g = 0; g < kinds->group_count && used <= stages_max; g++) {
            if (used_of(bound, state, g) == 0) {
                continue;
            }
            const size_t reach = bound->reach[state - bound->stride[g]];
            struct after after;
            size_t near = units;
            fill_before(bound, state - bound->stride[g]);
            fill_after(bound, state, g, used, &after);
            double *rest = &bound->rest[entry(bound, state, g, 0)];
            rest[units] = INFINITY;
            for (size_t first = 0; first < units; first++) {
                rest[first] = INFINITY;
            }
            if (used == 1) {
                const struct scan scan = scan_first(bound, &after, g);
                rest[0] = scan.end > 0 ? scan.seconds : INFINITY;
            }
            for (size_t first = reach < units ? reach : units - 1; used > 1 && first > 0; first--) {
                const struct scan scan = scan_ends(bound, &after, g, first, near);
                near = scan.end > 0 ? scan.end : near;
                rest[first] = scan.end > 0 ? scan.seconds : INFINITY;
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

/* The best group after a boundary. */
static size_t next_group(const struct bound *bound, size_t state, size_t group, size_t end)
{
    const size_t groups = bound->kinds->group_count;
    double best = INFINITY;
    size_t out = groups;
    for (size_t next = 0; next < groups; next++) {
        if (used_of(bound, state, next) < bound->count[next]) {
            const size_t with = bound_state(bound, state, next);
            double seconds[PARTITION_UNITS_MAX + 1];
            seconds[end] = INFINITY;
            fill_after_next(bound, group, next, &bound->rest[entry(bound, with, next, 0)], seconds);
            out = seconds[end] < best ? next : out;
            best = stages_min(best, seconds[end]);
        }
    }
    ASSERT(out < groups);
    return out;
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
        const size_t used = out->count + 1;
        struct after after;
        fill_after(bound, state, group, used, &after);
        const struct scan scan = first == 0 ? scan_first(bound, &after, group)
                                            : scan_ends(bound, &after, group, first, 0);
        ASSERT(scan.end > first);
        out->kind[out->count] = (uint16_t)(bound->kinds->count + group);
        out->end[out->count] = (uint16_t)scan.end;
        out->codec[out->count++] = 0;
        first = scan.end;
        if (first < units) {
            group = next_group(bound, state, group, first);
            state = bound_state(bound, state, group);
        }
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
