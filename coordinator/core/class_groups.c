#include "coordinator/core/class_groups.h"

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

/* The device of which a group gets the largest part: a further group divides its time. */
static size_t largest_part(const double *device, const size_t *share, size_t device_count)
{
    size_t most = 0;
    for (size_t d = 1; d < device_count; d++) {
        most = device[d] * (double)share[most] > device[most] * (double)share[d] ? d : most;
    }
    return most;
}

/* The device whose next group begins first; of several the fastest. */
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
                        double *speed)
{
    size_t share[GROUPS_MAX] = {0}, begun[GROUPS_MAX] = {0};
    const size_t used = device_count < group_count ? device_count : group_count;
    for (size_t g = 0; g < group_count; g++) {
        speed[g] = 1;
        if (used > 0) {
            share[g < used ? g : largest_part(device, share, used)]++;
        }
    }
    for (size_t g = 0; used > 0 && g < group_count; g++) {
        const size_t d = next_begin(share, begun, used);
        speed[g] = device[d] / (double)share[d];
        begun[d]++;
    }
}

static double all_samples(const struct class_problem *problem)
{
    double all = 0;
    for (size_t c = 0; c < problem->class_count; c++) {
        all += (double)problem->samples[c];
    }
    return all;
}

double class_groups_samples(const struct class_problem *problem, double own)
{
    const double others = all_samples(problem) - own, drawn = own * problem->negatives;
    return own + (drawn < others ? drawn : others);
}

double class_groups_load(const struct class_problem *problem, double own, double width)
{
    const struct slice_cost *cost = &problem->cost;
    return class_groups_samples(problem, own) *
           (cost->stem + 3 * (cost->linear * width + cost->square * width * width));
}

/* ---- classes ---- */

/* Which group each class belongs to, while it is searched for. */
struct division {
    const struct class_problem *problem;
    size_t order[COUNTED_CLASSES_MAX]; /* classes, the largest first */
    size_t group_of[COUNTED_CLASSES_MAX];
    double own[GROUPS_MAX];
    size_t count[GROUPS_MAX];
};

static double seconds_of(const struct division *division, size_t group, double own)
{
    const struct class_problem *problem = division->problem;
    return class_groups_load(problem, own, 1.0 / (double)problem->group_count) /
           problem->speed[group];
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

/* Whether groups that have too few classes need all that are left. */
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
        double best_seconds = INFINITY;
        for (size_t g = 0; g < problem->group_count; g++) {
            const double seconds =
                seconds_of(division, g, division->own[g] + (double)problem->samples[class]);
            if ((!scarce || division->count[g] < GROUP_CLASSES_MIN) && seconds < best_seconds) {
                best = g;
                best_seconds = seconds;
            }
        }
        add_class(division, class, best);
    }
}

static size_t slowest(const struct division *division)
{
    size_t slow = 0;
    for (size_t g = 1; g < division->problem->group_count; g++) {
        if (seconds_of(division, g, division->own[g]) >
            seconds_of(division, slow, division->own[slow])) {
            slow = g;
        }
    }
    return slow;
}

/* Move a class out of the slowest group, or swap it for another's (SIZE_MAX: none), if both groups
 * are then faster than it was. */
static bool try_exchange(struct division *division, size_t slow, size_t class, size_t group,
                         size_t other)
{
    const int64_t *samples = division->problem->samples;
    const double gives = (double)samples[class],
                 takes = other == SIZE_MAX ? 0 : (double)samples[other];
    const double before = seconds_of(division, slow, division->own[slow]);
    const double after = fmax(seconds_of(division, slow, division->own[slow] - gives + takes),
                              seconds_of(division, group, division->own[group] + gives - takes));
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

/* The second half of each group's classes and the first half of the next one's. */
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

int class_groups_room(const struct class_problem *problem, size_t count, struct err *err)
{
    const double least = ceil(problem->width_min * WIDTH_UNITS - 1e-9) / WIDTH_UNITS;
    if (least * (double)count > 1 + 1e-9) {
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
    double own = 0;
    for (int64_t c = 0; c < one->class_count; c++) {
        own += (double)problem->samples[groups->class_of[one->class_first + c]];
    }
    return own;
}

/* The greatest width with which the group needs at most these seconds. */
static double width_within(const struct class_problem *problem, double own, double speed,
                           double seconds)
{
    double low = problem->width_min, high = 1;
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = (low + high) / 2;
        if (class_groups_load(problem, own, middle) / speed <= seconds) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static double sum_within(const struct class_problem *problem, const double *own, size_t count,
                         double seconds, double *width)
{
    double sum = 0;
    for (size_t g = 0; g < count; g++) {
        width[g] = width_within(problem, own[g], problem->speed[g], seconds);
        sum += width[g];
    }
    return sum;
}

/* Round down to multiples, none below the least, and give what is left to the largest remainders:
 * the sum is exactly one. */
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

int class_groups_widths(const struct class_problem *problem, struct class_groups *groups,
                        struct err *err)
{
    double own[GROUPS_MAX], width[GROUPS_MAX], low = 0, high = 0, sum = 0;
    int rc = class_groups_room(problem, groups->count, err);
    if (rc != 0) {
        return rc;
    }
    for (size_t g = 0; g < groups->count; g++) {
        own[g] = class_groups_own(problem, groups, g);
        high = fmax(high, class_groups_load(problem, own[g], 1) / problem->speed[g]);
    }
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = (low + high) / 2;
        if (sum_within(problem, own, groups->count, middle, width) >= 1) {
            high = middle;
        } else {
            low = middle;
        }
    }
    sum = sum_within(problem, own, groups->count, high, width);
    for (size_t g = 0; g < groups->count; g++) { /* the least width may leave more than one */
        width[g] =
            problem->width_min + (width[g] - problem->width_min) *
                                     (1 - problem->width_min * (double)groups->count) /
                                     (sum - problem->width_min * (double)groups->count + 1e-300);
    }
    round_widths(groups, width, problem->width_min);
    return 0;
}
