#include "tests/unit/coordinator_core/class_problems.h"

#include <math.h>

static struct slice_cost cost_of(double speed)
{
    struct slice_cost cost = {.count = SLICE_WIDTHS_MAX};
    for (size_t i = 0; i < cost.count; i++) {
        const double exponent = 1 - (double)i / (double)(cost.count - 1);
        const double width = pow(CLASS_PROBLEM_WIDTH_MIN, exponent);
        cost.width[i] = width;
        cost.load[i] = (0.05 + 3 * (0.2 * width + width * width)) / speed;
    }
    return cost;
}

struct class_problem class_problem_of(struct class_setting *setting)
{
    const size_t replicas = setting->replicas > 0 ? setting->replicas : 1;
    for (size_t g = 0; g < setting->groups * replicas; g++) {
        setting->cost[g] = cost_of(setting->speed[g]);
        setting->cost[g].width_max = setting->width_max ? setting->width_max[g] : 0;
    }
    return (struct class_problem){.samples = setting->samples,
                                  .class_count = setting->classes,
                                  .cost = setting->cost,
                                  .group_count = setting->groups,
                                  .negatives = 1,
                                  .replicas = replicas,
                                  .width_min = CLASS_PROBLEM_WIDTH_MIN};
}

double class_problem_load(const struct class_problem *problem, const struct class_groups *groups,
                          size_t group)
{
    return class_loads_of(problem, group, class_loads_own(problem, groups, group),
                          groups->group[group].width);
}

double class_problem_slowest(const struct class_problem *problem, const struct class_groups *groups)
{
    double slowest = 0;
    for (size_t g = 0; g < groups->count; g++) {
        slowest = fmax(slowest, class_problem_load(problem, groups, g));
    }
    return slowest;
}
