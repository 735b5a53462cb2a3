#include "coordinator/core/submodel/class_loads.h"

#include <math.h>

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

struct class_samples class_loads_data(const struct class_problem *problem, size_t group)
{
    return problem->data
               ? problem->data[group]
               : (struct class_samples){.samples = problem->samples, .count = problem->class_count};
}

double class_loads_samples(const struct class_problem *problem, size_t group, double own)
{
    const struct class_samples data = class_loads_data(problem, group);
    return class_samples_epoch(own, (double)class_samples_all(&data), problem->negatives);
}

double class_loads_own(const struct class_problem *problem, const struct class_groups *groups,
                       size_t group)
{
    const struct class_group *one = &groups->group[group];
    const struct class_samples data = class_loads_data(problem, group);
    double own = 0;
    for (int64_t c = 0; c < one->class_count; c++) {
        own += (double)class_samples_of(&data, (size_t)groups->class_of[one->class_first + c]);
    }
    return own;
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

struct group_load class_loads_fixed(const struct class_problem *problem, size_t group, double width)
{
    const struct class_samples data = class_loads_data(problem, group);
    return (struct group_load){.all = (double)class_samples_all(&data),
                               .sample = sample_load(&problem->cost[group], width),
                               .negatives = problem->negatives};
}

double group_load_of(const struct group_load *load, double own)
{
    return class_samples_epoch(own, load->all, load->negatives) * load->sample;
}

double class_loads_of(const struct class_problem *problem, size_t group, double own, double width)
{
    const struct group_load load = class_loads_fixed(problem, group, width);
    return group_load_of(&load, own);
}
