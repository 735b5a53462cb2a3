#include "coordinator/core/submodel/savings.h"

#include <math.h>

#include "libtrain/model/cost.h"

double savings_flops(const struct model *model, size_t first, size_t end)
{
    const size_t trained = model_first_trained(model);
    double flops = 0;
    for (size_t u = first; u < end; u++) {
        struct unit_cost cost;
        const int passes = !model->unit[u].frozen ? 3 : u > trained ? 2 : 1;
        cost_count_unit(&model->unit[u], u > trained, sizeof(float), &cost);
        flops += passes * cost.forward_flops;
    }
    return flops;
}

void savings_add(struct submodel_work *work, const struct device_id *device, double flops)
{
    size_t d = 0;
    while (d < work->device_count && !id_equal(work->device[d].device.text, device->text)) {
        d++;
    }
    work->flops += flops;
    if (d == WORK_DEVICES_MAX) {
        return;
    }
    if (d == work->device_count) {
        work->device[work->device_count++] = (struct device_work){.device = *device};
    }
    work->device[d].flops += flops;
}

/* Return the quotient, or 0 for a divisor of 0. */
static double ratio(double dividend, double divisor)
{
    return divisor > 0 ? dividend / divisor : 0;
}

void savings_compare(const struct savings_base *base, const struct submodel_work *work,
                     const double *group_flops, size_t group_count, struct submodel_compute *out)
{
    double least = INFINITY, most = 0, busiest = 0;
    for (size_t g = 0; g < group_count; g++) {
        least = group_flops[g] > 0 ? fmin(least, group_flops[g]) : least;
        most = fmax(most, group_flops[g]);
    }
    for (size_t d = 0; d < work->device_count; d++) {
        busiest = fmax(busiest, work->device[d].flops);
    }
    *out = (struct submodel_compute){.per_sample_least = ratio(base->sample_flops, most),
                                     .per_sample_most = ratio(base->sample_flops, least),
                                     .total = ratio(base->flops, work->flops),
                                     .busiest = ratio(base->flops, busiest),
                                     .flops = work->flops};
}
