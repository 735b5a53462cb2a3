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
    }
    return (struct class_problem){.samples = setting->samples,
                                  .class_count = setting->classes,
                                  .cost = setting->cost,
                                  .group_count = setting->groups,
                                  .negatives = 1,
                                  .replicas = replicas,
                                  .width_min = CLASS_PROBLEM_WIDTH_MIN};
}
