#include "coordinator/plan/kinds.h"

#include <math.h>
#include <string.h>

/* Share of the work of stage_memory for finding the longest stages that fit. */
#define FITS_SHARE 0.5

/* ---- kinds ---- */

static const struct link_speed *device_link(const struct kinds *kinds, size_t a, size_t b)
{
    const struct partition_problem *problem = kinds->problem;
    size_t pair = kinds->pair_of[a * problem->device_count + b];
    return pair == 0 ? &problem->usual_link : &problem->pair[pair - 1].link;
}

static void fill_pairs(struct kinds *kinds)
{
    const struct partition_problem *problem = kinds->problem;
    size_t count = problem->device_count;
    memset(kinds->pair_of, 0, count * count * sizeof(kinds->pair_of[0]));
    for (size_t i = 0; i < problem->pair_count; i++) {
        size_t a = problem->pair[i].a, b = problem->pair[i].b;
        kinds->pair_of[a * count + b] = kinds->pair_of[b * count + a] = (uint16_t)(i + 1);
    }
}

static size_t row_of(const struct partition_problem *problem, size_t device)
{
    return (problem->row ? problem->row[device] : device) * problem->unit_count;
}

static bool same_times(const struct partition_problem *problem, const double *times, size_t a,
                       size_t b)
{
    return memcmp(times + row_of(problem, a), times + row_of(problem, b),
                  problem->unit_count * sizeof(*times)) == 0;
}

static bool same_value(const double *value, size_t a, size_t b)
{
    return !value || !(value[a] < value[b] || value[a] > value[b]);
}

static bool same_links(const struct kinds *kinds, size_t a, size_t b)
{
    for (size_t x = 0; x < kinds->problem->device_count; x++) {
        const struct link_speed *to_a = device_link(kinds, a, x);
        const struct link_speed *to_b = device_link(kinds, b, x);
        if (x != a && x != b && to_a != to_b && memcmp(to_a, to_b, sizeof(*to_a)) != 0) {
            return false;
        }
    }
    return true;
}

static bool same_kind(const struct kinds *kinds, size_t a, size_t b)
{
    const struct partition_problem *problem = kinds->problem;
    return problem->memory_cap_bytes[a] == problem->memory_cap_bytes[b] &&
           (!problem->memory_class || problem->memory_class[a] == problem->memory_class[b]) &&
           same_value(problem->processor_share, a, b) &&
           same_value(problem->overhead_seconds, a, b) &&
           same_value(problem->overhead_seconds_per_byte, a, b) &&
           same_times(problem, problem->forward_seconds, a, b) &&
           same_times(problem, problem->backward_seconds, a, b) &&
           same_times(problem, problem->update_seconds, a, b) && same_links(kinds, a, b);
}

static double share_of(const struct partition_problem *problem, size_t device)
{
    return problem->processor_share ? problem->processor_share[device] : 1;
}

static void fill_sums(const struct partition_problem *problem, size_t device,
                      struct kind_sums *sums)
{
    const double share = share_of(problem, device);
    const size_t row = row_of(problem, device);
    sums->forward[0] = sums->backward[0] = sums->update[0] = 0;
    for (size_t u = 0; u < problem->unit_count; u++) {
        sums->forward[u + 1] = sums->forward[u] + problem->forward_seconds[row + u] / share;
        sums->backward[u + 1] = sums->backward[u] + problem->backward_seconds[row + u] / share;
        sums->update[u + 1] = sums->update[u] + problem->update_seconds[row + u] / share;
    }
}

static void add_device(struct kinds *kinds, size_t device)
{
    const struct partition_problem *problem = kinds->problem;
    size_t k = 0;
    while (k < kinds->count &&
           (problem->in_order || !same_kind(kinds, kinds->kind[k].device, device))) {
        k++;
    }
    kinds->kind_of[device] = (uint16_t)k;
    if (k < kinds->count) {
        kinds->kind[k].count++;
        return;
    }
    const double share = share_of(problem, device);
    kinds->count++;
    kinds->kind[k] = (struct kind){
        .count = 1,
        .device = device,
        .cap_bytes = problem->memory_cap_bytes[device],
        .processor_share = share,
        .overhead_seconds =
            problem->overhead_seconds ? problem->overhead_seconds[device] / share : 0,
        .overhead_seconds_per_byte = problem->overhead_seconds_per_byte
                                         ? problem->overhead_seconds_per_byte[device] / share
                                         : 0,
    };
    fill_sums(problem, device, &kinds->sums[k]);
    kinds->kind[k].total_seconds = kinds->kind[k].overhead_seconds +
                                   kinds->sums[k].forward[problem->unit_count] +
                                   kinds->sums[k].backward[problem->unit_count];
}

static void sort_by_speed(struct kinds *kinds)
{
    for (size_t k = 0; k < kinds->count; k++) {
        size_t at = k;
        for (; at > 0 &&
               kinds->kind[kinds->by_speed[at - 1]].total_seconds > kinds->kind[k].total_seconds;
             at--) {
            kinds->by_speed[at] = kinds->by_speed[at - 1];
        }
        kinds->by_speed[at] = (uint16_t)k;
    }
}

/* ---- memory ---- */

/* Far above any bound of work, but small enough that sums of it stay finite. */
#define CANCELLED_WORK 1e200

bool kinds_cancelled(const struct kinds *kinds)
{
    const _Atomic bool *cancelled = kinds->problem->cancelled;
    return cancelled && *cancelled;
}

double kinds_work(const struct kinds *kinds, double work)
{
    return kinds_cancelled(kinds) ? CANCELLED_WORK : work;
}

bool kinds_may_ask(const struct kinds *kinds, double share)
{
    const struct partition_problem *problem = kinds->problem;
    const double most =
        problem->memory_work_max > 0 ? problem->memory_work_max : PARTITION_MEMORY_WORK_MAX;
    return !kinds_cancelled(kinds) &&
           (!problem->memory_work || *problem->memory_work < share * most);
}

/* The end of the longest stage from `first` on that fits. The search starts just after `near` and
 * continues in growing steps, because one call of stage_memory may take a millisecond. */
static size_t longest_fit(const struct kinds *kinds, const struct kind *kind, size_t first,
                          size_t near)
{
    const struct partition_problem *problem = kinds->problem;
    const size_t units = problem->unit_count;
    size_t fits = first, beyond = units + 1, step = 1;
    size_t end = near < units ? near + 1 : units;
    while (fits + 1 < beyond) {
        if (problem->stage_memory(problem->arg, kind->device, first, end, 1, 1) <=
            kind->cap_bytes) {
            fits = end;
            end += step;
        } else {
            beyond = end;
            end = end > step ? end - step : 0;
        }
        step *= 2;
        end = end > fits && end < beyond ? end : fits + (beyond - fits) / 2;
    }
    return fits;
}

/* Whether the longest stages of two kinds are certainly the same. */
static bool same_fits(const struct kinds *kinds, size_t a, size_t b)
{
    const struct partition_problem *problem = kinds->problem;
    const struct kind *kind = kinds->kind;
    return kind[a].cap_bytes == kind[b].cap_bytes &&
           (kind[a].cap_bytes == UINT64_MAX || !problem->memory_class ||
            problem->memory_class[kind[a].device] == problem->memory_class[kind[b].device]);
}

/* The smallest device first: when the work is used up, stages that fit a device count as the
 * longest of the larger ones too. */
static void fill_fits(struct kinds *kinds)
{
    const size_t units = kinds->problem->unit_count;
    uint16_t order[PARTITION_DEVICES_MAX];
    for (size_t k = 0; k < kinds->count; k++) {
        size_t at = k;
        for (; at > 0 && kinds->kind[order[at - 1]].cap_bytes > kinds->kind[k].cap_bytes; at--) {
            order[at] = order[at - 1];
        }
        order[at] = (uint16_t)k;
    }
    for (size_t i = 0; i < kinds->count; i++) {
        size_t k = order[i], fits = units;
        bool same = i > 0 && same_fits(kinds, k, order[i - 1]);
        if (i > 0 && (same || !kinds_may_ask(kinds, FITS_SHARE))) {
            memcpy(kinds->fits_end[k], kinds->fits_end[order[i - 1]], sizeof(kinds->fits_end[k]));
            continue;
        }
        for (size_t first = 0; first < units; first++) {
            if (kinds->kind[k].cap_bytes != UINT64_MAX) {
                fits = longest_fit(kinds, &kinds->kind[k], first, fits);
            }
            kinds->fits_end[k][first] = (uint16_t)fits;
        }
    }
}

/* ---- groups ---- */

static size_t capped(size_t count, size_t most)
{
    return count < most ? count : most;
}

/* Kinds by_speed[first[g]] to by_speed[first[g + 1] - 1] are group g. */
struct grouping {
    size_t count;
    size_t first[PARTITION_DEVICES_MAX + 1];
    size_t devices[PARTITION_DEVICES_MAX];
};

static double states_of(const struct grouping *grouping, size_t stages_max)
{
    double states = (double)grouping->count;
    for (size_t g = 0; g < grouping->count && states < 1e12; g++) {
        states *= (double)capped(grouping->devices[g], stages_max) + 1;
    }
    return states;
}

/* Merge the neighbours whose speeds differ least. A difference among fast devices counts more,
 * because the answer uses them. */
static void merge_two(const struct kinds *kinds, struct grouping *grouping)
{
    size_t merged = 0;
    double least = INFINITY;
    for (size_t g = 0; g + 1 < grouping->count; g++) {
        const struct kind *fast = &kinds->kind[kinds->by_speed[grouping->first[g]]];
        const struct kind *slow = &kinds->kind[kinds->by_speed[grouping->first[g + 2] - 1]];
        double ratio = slow->total_seconds / fmax(fast->total_seconds, 1e-300);
        double cost = log(fmax(ratio, 1)) / (double)(1 + grouping->first[g]);
        if (cost < least) {
            least = cost;
            merged = g;
        }
    }
    grouping->devices[merged] += grouping->devices[merged + 1];
    grouping->count--;
    for (size_t g = merged + 1; g < grouping->count; g++) {
        grouping->devices[g] = grouping->devices[g + 1];
    }
    for (size_t g = merged + 1; g <= grouping->count; g++) {
        grouping->first[g] = grouping->first[g + 1];
    }
}

/* Make row `group` at least as good as row `kind` in every respect. */
static void join_group(struct kinds *kinds, size_t group, size_t kind)
{
    struct kind *to = &kinds->kind[group];
    const struct kind *from = &kinds->kind[kind];
    struct kind_sums *sums = &kinds->sums[group];
    const struct kind_sums *more = &kinds->sums[kind];
    to->count += from->count;
    to->cap_bytes = to->cap_bytes > from->cap_bytes ? to->cap_bytes : from->cap_bytes;
    to->overhead_seconds = fmin(to->overhead_seconds, from->overhead_seconds);
    to->overhead_seconds_per_byte =
        fmin(to->overhead_seconds_per_byte, from->overhead_seconds_per_byte);
    double forward = 0, backward = 0, update = 0;
    for (size_t u = 0; u < kinds->problem->unit_count; u++) {
        double next[] = {
            fmin(sums->forward[u + 1] - forward, more->forward[u + 1] - more->forward[u]),
            fmin(sums->backward[u + 1] - backward, more->backward[u + 1] - more->backward[u]),
            fmin(sums->update[u + 1] - update, more->update[u + 1] - more->update[u])};
        forward = sums->forward[u + 1];
        backward = sums->backward[u + 1];
        update = sums->update[u + 1];
        sums->forward[u + 1] = sums->forward[u] + next[0];
        sums->backward[u + 1] = sums->backward[u] + next[1];
        sums->update[u + 1] = sums->update[u] + next[2];
        if (kinds->fits_end[kind][u] > kinds->fits_end[group][u]) {
            kinds->fits_end[group][u] = kinds->fits_end[kind][u];
        }
    }
}

static void fill_group_links(struct kinds *kinds)
{
    for (size_t g = 0; g < kinds->group_count; g++) {
        for (size_t h = 0; h < kinds->group_count; h++) {
            kinds->group_link[g][h] = (struct link_speed){INFINITY, 0};
        }
    }
    for (size_t a = 0; a < kinds->count; a++) {
        for (size_t b = 0; b < kinds->count; b++) {
            if (a == b && kinds->kind[a].count == 1) {
                continue;
            }
            struct link_speed *best = &kinds->group_link[kinds->group_of[a] - kinds->count]
                                                        [kinds->group_of[b] - kinds->count];
            const struct link_speed *link = kinds_link(kinds, a, b);
            best->latency_seconds = fmin(best->latency_seconds, link->latency_seconds);
            best->bytes_per_second = fmax(best->bytes_per_second, link->bytes_per_second);
        }
    }
}

void kinds_group(struct kinds *kinds, size_t stages_max, size_t states_max)
{
    struct grouping grouping = {.count = kinds->count};
    for (size_t i = 0; i < kinds->count; i++) {
        grouping.first[i] = i;
        grouping.devices[i] = kinds->kind[kinds->by_speed[i]].count;
    }
    grouping.first[kinds->count] = kinds->count;
    while (grouping.count > 1 && (grouping.count > KINDS_GROUPS_MAX ||
                                  states_of(&grouping, stages_max) > (double)states_max)) {
        merge_two(kinds, &grouping);
    }
    kinds->group_count = grouping.count;
    for (size_t g = 0; g < grouping.count; g++) {
        size_t row = kinds->count + g, first = kinds->by_speed[grouping.first[g]];
        kinds->kind[row] = kinds->kind[first];
        kinds->sums[row] = kinds->sums[first];
        memcpy(kinds->fits_end[row], kinds->fits_end[first], sizeof(kinds->fits_end[row]));
        kinds->group_of[first] = (uint16_t)row;
        for (size_t i = grouping.first[g] + 1; i < grouping.first[g + 1]; i++) {
            join_group(kinds, row, kinds->by_speed[i]);
            kinds->group_of[kinds->by_speed[i]] = (uint16_t)row;
        }
    }
    fill_group_links(kinds);
}

bool kinds_exact(const struct kinds *kinds)
{
    return kinds->group_count == kinds->count;
}

const struct link_speed *kinds_link(const struct kinds *kinds, size_t a, size_t b)
{
    size_t device = kinds->kind[a].device, other = kinds->kind[b].device;
    if (a == b) {
        for (other = device + 1; other < kinds->problem->device_count; other++) {
            if (kinds->kind_of[other] == a) {
                break;
            }
        }
        if (other == kinds->problem->device_count) {
            return &kinds->problem->usual_link;
        }
    }
    return device_link(kinds, device, other);
}

void kinds_init(struct kinds *kinds, const struct partition_problem *problem)
{
    kinds->problem = problem;
    kinds->count = kinds->group_count = 0;
    fill_pairs(kinds);
    for (size_t d = 0; d < problem->device_count; d++) {
        add_device(kinds, d);
    }
    sort_by_speed(kinds);
    fill_fits(kinds);
    double narrowest = 1;
    for (size_t c = 0; c < problem->codec_count; c++) {
        double ratio = problem->codec[c].ratio;
        narrowest = c == 0 || ratio > narrowest ? ratio : narrowest;
    }
    kinds->replica_sum[0] = kinds->wire_bytes[0] = 0;
    for (size_t u = 0; u < problem->unit_count; u++) {
        kinds->replica_sum[u + 1] =
            kinds->replica_sum[u] + (problem->replica_bytes ? problem->replica_bytes[u] : 0);
        kinds->wire_bytes[u + 1] = (double)problem->border_bytes[u] / narrowest;
    }
    kinds->wire_bytes[problem->unit_count] = 0;
}
