#include "coordinator/core/submodel/class_groups.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

#define IMPROVEMENTS_MAX 4096 /* each makes the slowest device faster */

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

/* ---- classes ---- */

/* The state of the search for the group of each class. */
struct division {
    const struct class_problem *problem;
    size_t order[COUNTED_CLASSES_MAX]; /* classes, the largest first */
    size_t group_of[COUNTED_CLASSES_MAX];
    double own[GROUPS_MAX];
    struct group_load load[GROUPS_MAX];
    size_t count[GROUPS_MAX];
    size_t device[GROUPS_MAX], among[GROUPS_MAX]; /* of a group, and the groups that it trains */
    double busy[GROUPS_MAX];                      /* by device: the mean load of its groups */
};

static void begin(struct division *division, const struct class_problem *problem)
{
    *division = (struct division){.problem = problem};
    for (size_t g = 0; g < problem->group_count; g++) {
        division->load[g] = class_loads_fixed(problem, g, 1.0 / (double)problem->group_count);
        division->device[g] = problem->device ? problem->device[g] : g;
        ASSERT(division->device[g] < GROUPS_MAX);
    }
    for (size_t g = 0; g < problem->group_count; g++) {
        for (size_t other = 0; other < problem->group_count; other++) {
            division->among[g] += division->device[other] == division->device[g];
        }
    }
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
            const double load = group_load_of(&division->load[g],
                                              division->own[g] + (double)problem->samples[class]);
            if ((!scarce || division->count[g] < GROUP_CLASSES_MIN) && load < best_load) {
                best = g;
                best_load = load;
            }
        }
        add_class(division, class, best);
    }
}

/* Find the load of each device. Return the device with the largest one. */
static size_t slowest(struct division *division)
{
    size_t slow = division->device[0];
    memset(division->busy, 0, sizeof(division->busy));
    for (size_t g = 0; g < division->problem->group_count; g++) {
        division->busy[division->device[g]] +=
            group_load_of(&division->load[g], division->own[g]) / (double)division->among[g];
    }
    for (size_t d = 0; d < GROUPS_MAX; d++) {
        slow = division->busy[d] > division->busy[slow] ? d : slow;
    }
    return slow;
}

/* The load of the group's device if the group gets so many own samples more. */
static double busy_with(const struct division *division, size_t group, double more)
{
    const double own = division->own[group];
    const struct group_load *load = &division->load[group];
    const double rise = group_load_of(load, own + more) - group_load_of(load, own);
    return division->busy[division->device[group]] + rise / (double)division->among[group];
}

/* Move a class to a group of another device, or swap it for a class of this group (SIZE_MAX: none),
 * if both devices are then faster than the class's device was. */
static bool try_exchange(struct division *division, size_t class, size_t group, size_t other)
{
    const int64_t *samples = division->problem->samples;
    const size_t from = division->group_of[class];
    const double moved = (double)samples[class] - (other == SIZE_MAX ? 0 : (double)samples[other]);
    const double before = division->busy[division->device[from]];
    const double after = fmax(busy_with(division, from, -moved), busy_with(division, group, moved));
    if (after >= before * (1 - 1e-12)) {
        return false;
    }
    division->own[from] -= moved;
    division->own[group] += moved;
    division->group_of[class] = group;
    if (other == SIZE_MAX) {
        division->count[from]--;
        division->count[group]++;
    } else {
        division->group_of[other] = from;
    }
    return true;
}

static bool improve(struct division *division)
{
    const size_t slow = slowest(division), classes = division->problem->class_count;
    for (size_t c = 0; c < classes; c++) {
        const size_t from = division->group_of[c];
        if (division->device[from] != slow) {
            continue;
        }
        for (size_t g = 0;
             division->count[from] > GROUP_CLASSES_MIN && g < division->problem->group_count; g++) {
            if (division->device[g] != slow && try_exchange(division, c, g, SIZE_MAX)) {
                return true;
            }
        }
        for (size_t other = 0; other < classes; other++) {
            const size_t group = division->group_of[other];
            if (division->device[group] != slow && try_exchange(division, c, group, other)) {
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
    int rc = class_widths_check(problem, groups * problem->replicas, err);
    if (rc != 0) {
        return rc;
    }
    struct division division;
    begin(&division, problem);
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
    return class_widths_choose(problem, out, err);
}

bool class_groups_exchange(const struct class_problem *problem, struct class_groups *groups)
{
    struct division division;
    struct class_groups made = {.count = 0};
    int exchanges = 0;
    ASSERT(groups->count == problem->group_count);
    begin(&division, problem);
    for (size_t g = 0; g < groups->count; g++) {
        const struct class_group *group = &groups->group[g];
        division.load[g] = class_loads_fixed(problem, g, group->width);
        for (int64_t c = 0; c < group->class_count; c++) {
            add_class(&division, (size_t)groups->class_of[group->class_first + c], g);
        }
    }
    while (exchanges < IMPROVEMENTS_MAX && improve(&division)) {
        exchanges++;
    }
    for (size_t g = 0; g < groups->count; g++) {
        add_group(&made, &division, g);
        groups->group[g].class_first = made.group[g].class_first;
        groups->group[g].class_count = made.group[g].class_count;
    }
    memcpy(groups->class_of, made.class_of, sizeof(made.class_of));
    return exchanges > 0;
}
