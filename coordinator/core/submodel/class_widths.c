#include "coordinator/core/submodel/class_widths.h"

#include <math.h>

#include "base/assert.h"

#define BISECTIONS 200

/* The least width, as a multiple of the widths' unit. */
static double least_width(double width_min)
{
    return ceil(width_min * WIDTH_UNITS - 1e-9) / WIDTH_UNITS;
}

size_t class_widths_most(double width_min)
{
    return (size_t)floor(1 / least_width(width_min) + 1e-9);
}

/* The greatest width of a group, as a multiple of the widths' unit. Groups that their devices
 * cannot hold at all have the least width. */
static double greatest_width(const struct slice_cost *cost, double width_min)
{
    const double most =
        cost->width_max > 0 ? floor(cost->width_max * WIDTH_UNITS + 1e-9) / WIDTH_UNITS : 1;
    return fmax(most, least_width(width_min));
}

static int check_memory(const struct class_problem *problem, size_t count, struct err *err)
{
    double sum = 0;
    for (size_t g = 0; g < count; g++) {
        sum += greatest_width(&problem->cost[g], problem->width_min);
    }
    return sum > 1 - 0.5 / WIDTH_UNITS
               ? 0
               : err_set(err, ERR_MEMORY,
                         "the devices of %zu groups have memory for %.3f of the channels", count,
                         sum);
}

int class_widths_check(const struct class_problem *problem, size_t count, struct err *err)
{
    const double least = least_width(problem->width_min);
    if (count > class_widths_most(problem->width_min)) {
        return err_set(err, ERR_INVALID,
                       "%zu groups are too many: each needs at least %.3f of the channels", count,
                       least);
    }
    return check_memory(problem, count, err);
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
    const double width_max = greatest_width(cost, width_min);
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
    const double most =
        fmin(top < cost->count ? crossing(cost, top - 1, limit) : cost->width[top - 1], width_max);
    const double least = low > 0 ? crossing(cost, low - 1, limit) : width_min;
    return (struct span){fmin(fmax(least, width_min), width_max), fmax(most, width_min)};
}

/* Write the spans of all groups for a largest load. Return the sum of the greatest widths. */
static double spans_within(const struct class_problem *problem, const double *samples, size_t count,
                           double load, struct span *span)
{
    double sum = 0;
    for (size_t g = 0; g < count; g++) {
        span[g] = span_within(&problem->cost[g], problem->width_min, load / samples[g]);
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
 * remainders, so that the sum is exactly one. No group gets more than its device can hold. */
static void round_widths(const struct class_problem *problem, struct class_groups *groups,
                         const double *width)
{
    int64_t units[GROUPS_MAX], most[GROUPS_MAX], left = WIDTH_UNITS;
    const int64_t least = (int64_t)ceil(problem->width_min * WIDTH_UNITS - 1e-9);
    for (size_t g = 0; g < groups->count; g++) {
        units[g] = (int64_t)floor(width[g] * WIDTH_UNITS + 1e-9);
        units[g] = units[g] < least ? least : units[g];
        most[g] = llround(greatest_width(&problem->cost[g], problem->width_min) * WIDTH_UNITS);
        left -= units[g];
    }
    while (left != 0) {
        size_t best = SIZE_MAX;
        const int64_t step = left > 0 ? 1 : -1;
        double best_rest = -INFINITY;
        for (size_t g = 0; g < groups->count; g++) {
            const double rest = (double)step * (width[g] * WIDTH_UNITS - (double)units[g]);
            if (units[g] + step >= least && units[g] + step <= most[g] && rest > best_rest) {
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

int class_widths_choose(const struct class_problem *problem, struct class_groups *groups,
                        struct err *err)
{
    struct span span[GROUPS_MAX];
    double samples[GROUPS_MAX], width[GROUPS_MAX], low = 0, high = 0;
    int rc = class_widths_check(problem, groups->count, err);
    if (rc != 0) {
        return rc;
    }
    for (size_t g = 0; g < groups->count; g++) {
        const double own = class_loads_own(problem, groups, g);
        samples[g] = class_loads_samples(problem, g, own);
        low = fmax(low, least_load(&problem->cost[g]) * samples[g]);
        high = fmax(high, class_loads_of(problem, g, own, 1));
    }
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = (low + high) / 2;
        if (spans_within(problem, samples, groups->count, middle, span) >= 1) {
            high = middle;
        } else {
            low = middle;
        }
    }
    (void)spans_within(problem, samples, groups->count, high, span);
    shrink(span, groups->count, problem->width_min, width);
    round_widths(problem, groups, width);
    return 0;
}
