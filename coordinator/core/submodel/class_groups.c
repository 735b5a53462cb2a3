#include "coordinator/core/submodel/class_groups.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

#define BISECTIONS 200
#define IMPROVEMENTS_MAX 4096 /* each makes the slowest group faster */

size_t class_groups_count(size_t class_count, size_t device_count)
{
    const size_t set_max = GROUPS_MAX / 2;
    size_t count = device_count < GROUP_CLASSES_MIN ? GROUP_CLASSES_MIN : device_count;
    count = count > set_max ? set_max : count;
    count = count > class_count / GROUP_CLASSES_MIN ? class_count / GROUP_CLASSES_MIN : count;
    return count < GROUP_CLASSES_MIN ? 0 : count;
}

/* The device with the most speed per group: a further group divides its time. */
static size_t largest_part(const double *device, const size_t *share, size_t device_count)
{
    size_t most = 0;
    for (size_t d = 1; d < device_count; d++) {
        most = device[d] * (double)share[most] > device[most] * (double)share[d] ? d : most;
    }
    return most;
}

/* The device whose next group begins first; of equal ones the fastest. */
static size_t next_begin(const size_t *share, const size_t *begun, size_t device_count)
{
    size_t next = SIZE_MAX;
    for (size_t d = 0; d < device_count; d++) {
        if (begun[d] < share[d] &&
            (next == SIZE_MAX || begun[d] * share[next] < begun[next] * share[d])) {
            next = d;
        }
    }
    ASSERT(next != SIZE_MAX);
    return next;
}

void class_groups_queue(const double *device, size_t device_count, size_t group_count,
                        size_t *place, size_t *among)
{
    size_t share[GROUPS_MAX] = {0}, begun[GROUPS_MAX] = {0};
    const size_t used = device_count < group_count ? device_count : group_count;
    ASSERT(used > 0);
    for (size_t g = 0; g < group_count; g++) {
        share[g < used ? g : largest_part(device, share, used)]++;
    }
    for (size_t g = 0; g < group_count; g++) {
        place[g] = next_begin(share, begun, used);
        among[g] = share[place[g]];
        begun[place[g]]++;
    }
}

/* ---- samples ---- */

int64_t class_samples_of(const struct class_samples *data, size_t class)
{
    return class < data->count ? data->samples[class] : 0;
}

int64_t class_samples_all(const struct class_samples *data)
{
    int64_t all = 0;
    for (size_t c = 0; c < data->count; c++) {
        all += data->samples[c];
    }
    return all;
}

double class_samples_epoch(double own, double all, double negatives)
{
    return own + fmin(own * negatives, all - own);
}

struct class_samples class_groups_data(const struct class_problem *problem, size_t group)
{
    return problem->data
               ? problem->data[group]
               : (struct class_samples){.samples = problem->samples, .count = problem->class_count};
}

double class_groups_samples(const struct class_problem *problem, size_t group, double own)
{
    const struct class_samples data = class_groups_data(problem, group);
    return class_samples_epoch(own, (double)class_samples_all(&data), problem->negatives);
}

/* ---- loads ---- */

/* The last known width that is not above this one. */
static size_t known_below(const struct slice_cost *cost, double width)
{
    size_t at = 0;
    while (at + 1 < cost->count && cost->width[at + 1] <= width) {
        at++;
    }
    return at;
}

static double sample_load(const struct slice_cost *cost, double width)
{
    const size_t at = known_below(cost, width);
    if (at + 1 == cost->count || width <= cost->width[at]) {
        return cost->load[at];
    }
    const double part = (width - cost->width[at]) / (cost->width[at + 1] - cost->width[at]);
    return cost->load[at] + part * (cost->load[at + 1] - cost->load[at]);
}

double class_groups_load(const struct class_problem *problem, size_t group, double own,
                         double width)
{
    return class_groups_samples(problem, group, own) * sample_load(&problem->cost[group], width);
}

/* ---- classes ---- */

/* The state of the search for the group of each class. */
struct division {
    const struct class_problem *problem;
    size_t order[COUNTED_CLASSES_MAX]; /* classes, the largest first */
    size_t group_of[COUNTED_CLASSES_MAX];
    double own[GROUPS_MAX];
    size_t count[GROUPS_MAX];
};

static double load_of(const struct division *division, size_t group, double own)
{
    return class_groups_load(division->problem, group, own,
                             1.0 / (double)division->problem->group_count);
}

static void sort_classes(struct division *division)
{
    const int64_t *samples = division->problem->samples;
    for (size_t c = 0; c < division->problem->class_count; c++) {
        size_t at = c;
        while (at > 0 && samples[division->order[at - 1]] < samples[c]) {
            division->order[at] = division->order[at - 1];
            at--;
        }
        division->order[at] = c;
    }
}

/* Whether the groups that have too few classes need all remaining classes. */
static bool is_scarce(const struct division *division, size_t left)
{
    size_t missing = 0;
    for (size_t g = 0; g < division->problem->group_count; g++) {
        missing +=
            division->count[g] < GROUP_CLASSES_MIN ? GROUP_CLASSES_MIN - division->count[g] : 0;
    }
    return missing >= left;
}

static void add_class(struct division *division, size_t class, size_t group)
{
    division->group_of[class] = group;
    division->own[group] += (double)division->problem->samples[class];
    division->count[group]++;
}

static void divide(struct division *division)
{
    const struct class_problem *problem = division->problem;
    for (size_t i = 0; i < problem->class_count; i++) {
        const size_t class = division->order[i];
        const bool scarce = is_scarce(division, problem->class_count - i);
        size_t best = SIZE_MAX;
        double best_load = INFINITY;
        for (size_t g = 0; g < problem->group_count; g++) {
            const double load =
                load_of(division, g, division->own[g] + (double)problem->samples[class]);
            if ((!scarce || division->count[g] < GROUP_CLASSES_MIN) && load < best_load) {
                best = g;
                best_load = load;
            }
        }
        add_class(division, class, best);
    }
}

static size_t slowest(const struct division *division)
{
    size_t slow = 0;
    for (size_t g = 1; g < division->problem->group_count; g++) {
        if (load_of(division, g, division->own[g]) > load_of(division, slow, division->own[slow])) {
            slow = g;
        }
    }
    return slow;
}

/* Move a class out of the slowest group, or swap it for a class of another group (SIZE_MAX: none),
 * if both groups are then faster than the slowest group was. */
static bool try_exchange(struct division *division, size_t slow, size_t class, size_t group,
                         size_t other)
{
    const int64_t *samples = division->problem->samples;
    const double gives = (double)samples[class],
                 takes = other == SIZE_MAX ? 0 : (double)samples[other];
    const double before = load_of(division, slow, division->own[slow]);
    const double after = fmax(load_of(division, slow, division->own[slow] - gives + takes),
                              load_of(division, group, division->own[group] + gives - takes));
    if (after >= before * (1 - 1e-12)) {
        return false;
    }
    division->own[slow] += takes - gives;
    division->own[group] += gives - takes;
    division->group_of[class] = group;
    if (other == SIZE_MAX) {
        division->count[slow]--;
        division->count[group]++;
    } else {
        division->group_of[other] = slow;
    }
    return true;
}

static bool improve(struct division *division)
{
    const size_t slow = slowest(division), classes = division->problem->class_count;
    for (size_t c = 0; c < classes; c++) {
        if (division->group_of[c] != slow) {
            continue;
        }
        for (size_t g = 0;
             division->count[slow] > GROUP_CLASSES_MIN && g < division->problem->group_count; g++) {
            if (g != slow && try_exchange(division, slow, c, g, SIZE_MAX)) {
                return true;
            }
        }
        for (size_t other = 0; other < classes; other++) {
            if (division->group_of[other] != slow &&
                try_exchange(division, slow, c, division->group_of[other], other)) {
                return true;
            }
        }
    }
    return false;
}

static void add_group(struct class_groups *out, const struct division *division, size_t group)
{
    struct class_group *made = &out->group[out->count++];
    *made = (struct class_group){.class_first = (int64_t)out->class_count};
    for (size_t c = 0; c < division->problem->class_count; c++) {
        if (division->group_of[c] == group) {
            out->class_of[out->class_count++] = (int64_t)c;
        }
    }
    made->class_count = (int64_t)out->class_count - made->class_first;
}

/* Each replica has the second half of a group's classes and the first half of the next group's. */
static void add_replicas(struct class_groups *out, size_t set)
{
    for (size_t g = 0; g < set; g++) {
        const struct class_group *one = &out->group[g], *next = &out->group[(g + 1) % set];
        struct class_group *made = &out->group[out->count++];
        *made = (struct class_group){.class_first = (int64_t)out->class_count};
        for (int64_t c = one->class_count / 2; c < one->class_count; c++) {
            out->class_of[out->class_count++] = out->class_of[one->class_first + c];
        }
        for (int64_t c = 0; c < next->class_count / 2; c++) {
            out->class_of[out->class_count++] = out->class_of[next->class_first + c];
        }
        made->class_count = (int64_t)out->class_count - made->class_first;
    }
}

/* The least width, as a multiple of the widths' unit. */
static double least_width(double width_min)
{
    return ceil(width_min * WIDTH_UNITS - 1e-9) / WIDTH_UNITS;
}

size_t class_groups_most(double width_min)
{
    return (size_t)floor(1 / least_width(width_min) + 1e-9);
}

int class_groups_room(const struct class_problem *problem, size_t count, struct err *err)
{
    const double least = least_width(problem->width_min);
    if (count > class_groups_most(problem->width_min)) {
        return err_set(err, ERR_INVALID,
                       "%zu groups are too many: each needs at least %.3f of the channels", count,
                       least);
    }
    return 0;
}

int class_groups_solve(const struct class_problem *problem, struct class_groups *out,
                       struct err *err)
{
    const size_t groups = problem->group_count;
    if (groups < 2 || groups * problem->replicas > GROUPS_MAX ||
        problem->class_count > COUNTED_CLASSES_MAX ||
        problem->class_count < GROUP_CLASSES_MIN * groups) {
        return err_set(err, ERR_INVALID, "%zu classes cannot be divided among %zu groups",
                       problem->class_count, groups);
    }
    int rc = class_groups_room(problem, groups * problem->replicas, err);
    if (rc != 0) {
        return rc;
    }
    struct division division = {.problem = problem};
    sort_classes(&division);
    divide(&division);
    for (int i = 0; i < IMPROVEMENTS_MAX && improve(&division); i++) {
    }
    memset(out, 0, sizeof(*out));
    for (size_t g = 0; g < groups; g++) {
        add_group(out, &division, g);
    }
    if (problem->replicas == 2) {
        add_replicas(out, groups);
    }
    return class_groups_widths(problem, out, err);
}

/* ---- widths ---- */

double class_groups_own(const struct class_problem *problem, const struct class_groups *groups,
                        size_t group)
{
    const struct class_group *one = &groups->group[group];
    const struct class_samples data = class_groups_data(problem, group);
    double own = 0;
    for (int64_t c = 0; c < one->class_count; c++) {
        own += (double)class_samples_of(&data, (size_t)groups->class_of[one->class_first + c]);
    }
    return own;
}

/* The range of widths with at most one load. */
struct span {
    double least, most;
};

/* The width between the known widths k and k + 1 at which the load reaches the limit. */
static double crossing(const struct slice_cost *cost, size_t k, double limit)
{
    const double low = cost->load[k], high = cost->load[k + 1];
    return cost->width[k] + (limit - low) / (high - low) * (cost->width[k + 1] - cost->width[k]);
}

/* The greatest width with at most this load of a sample, and the end of the contiguous range of
 * such widths below it. If there is no such width, both are the least width. */
static struct span span_within(const struct slice_cost *cost, double width_min, double limit)
{
    size_t top = cost->count;
    while (top > 0 && cost->load[top - 1] > limit) {
        top--;
    }
    if (top == 0) {
        return (struct span){width_min, width_min};
    }
    size_t low = top - 1;
    while (low > 0 && cost->load[low - 1] <= limit) {
        low--;
    }
    const double most = top < cost->count ? crossing(cost, top - 1, limit) : cost->width[top - 1];
    const double least = low > 0 ? crossing(cost, low - 1, limit) : width_min;
    return (struct span){fmax(least, width_min), fmax(most, width_min)};
}

/* Write the spans of all groups for a largest load. Return the sum of the greatest widths. */
static double spans_within(const struct class_problem *problem, const double *own, size_t count,
                           double load, struct span *span)
{
    double sum = 0;
    for (size_t g = 0; g < count; g++) {
        span[g] = span_within(&problem->cost[g], problem->width_min,
                              load / class_groups_samples(problem, g, own[g]));
        sum += span[g].most;
    }
    return sum;
}

/* Reduce the widths of all groups proportionally until their sum is one, without a rise of any
 * load. */
static void shrink(const struct span *span, size_t count, double width_min, double *width)
{
    double most = 0, least = 0;
    for (size_t g = 0; g < count; g++) {
        most += span[g].most;
        least += span[g].least;
    }
    const bool fits = least <= 1; /* else a rise of loads is inevitable */
    least = fits ? least : width_min * (double)count;
    for (size_t g = 0; g < count; g++) {
        const double low = fits ? span[g].least : width_min;
        width[g] = low + (span[g].most - low) * (1 - least) / (most - least + 1e-300);
    }
}

/* Round widths down to multiples, but not below the least width, and give the rest to the largest
 * remainders, so that the sum is exactly one. */
static void round_widths(struct class_groups *groups, const double *width, double width_min)
{
    int64_t units[GROUPS_MAX], left = WIDTH_UNITS;
    const int64_t least = (int64_t)ceil(width_min * WIDTH_UNITS - 1e-9);
    for (size_t g = 0; g < groups->count; g++) {
        units[g] = (int64_t)floor(width[g] * WIDTH_UNITS + 1e-9);
        units[g] = units[g] < least ? least : units[g];
        left -= units[g];
    }
    while (left != 0) {
        size_t best = SIZE_MAX;
        const int64_t step = left > 0 ? 1 : -1;
        double best_rest = -INFINITY;
        for (size_t g = 0; g < groups->count; g++) {
            const double rest = (double)step * (width[g] * WIDTH_UNITS - (double)units[g]);
            if (units[g] + step >= least && rest > best_rest) {
                best = g;
                best_rest = rest;
            }
        }
        ASSERT(best != SIZE_MAX);
        units[best] += step;
        left -= step;
    }
    for (size_t g = 0; g < groups->count; g++) {
        groups->group[g].width = (double)units[g] / WIDTH_UNITS;
    }
}

static double least_load(const struct slice_cost *cost)
{
    double least = INFINITY;
    for (size_t i = 0; i < cost->count; i++) {
        least = fmin(least, cost->load[i]);
    }
    return least;
}

int class_groups_widths(const struct class_problem *problem, struct class_groups *groups,
                        struct err *err)
{
    struct span span[GROUPS_MAX];
    double own[GROUPS_MAX], width[GROUPS_MAX], low = 0, high = 0;
    int rc = class_groups_room(problem, groups->count, err);
    if (rc != 0) {
        return rc;
    }
    for (size_t g = 0; g < groups->count; g++) {
        own[g] = class_groups_own(problem, groups, g);
        low = fmax(low, least_load(&problem->cost[g]) * class_groups_samples(problem, g, own[g]));
        high = fmax(high, class_groups_load(problem, g, own[g], 1));
    }
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = (low + high) / 2;
        if (spans_within(problem, own, groups->count, middle, span) >= 1) {
            high = middle;
        } else {
            low = middle;
        }
    }
    (void)spans_within(problem, own, groups->count, high, span);
    shrink(span, groups->count, problem->width_min, width);
    round_widths(groups, width, problem->width_min);
    return 0;
}
