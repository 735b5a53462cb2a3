#include "agent/runtime/shares.h"

#include <stdlib.h>

#include "libtrain/model/cost.h"

/* Seconds by the probe's rates; a device without a probe counts operations only. */
static double predict(double flops, double bytes, const struct device_probe *probe)
{
    if (probe->gemm_gflops <= 0 || probe->memory_bytes_per_second <= 0) {
        return flops + 1;
    }
    const double arithmetic = flops / (probe->gemm_gflops * 1e9);
    const double traffic = bytes / probe->memory_bytes_per_second;
    return (arithmetic > traffic ? arithmetic : traffic) + 1e-12;
}

int shares_predict(const struct model *model, size_t first, size_t end, enum recompute recompute,
                   const struct device_probe *probe, struct timing_share *share, struct err *err)
{
    struct unit_cost *cost = calloc(model->unit_count, sizeof(*cost));
    if (!cost) {
        return err_set(err, ERR_MEMORY, "costs of %zu units", model->unit_count);
    }
    cost_count(model, cost);
    const double again = recompute == RECOMPUTE_UNIT ? 1 : 0;
    struct timing_share sum = {0};
    for (size_t unit = first; unit < end; unit++) {
        struct timing_share *own = &share[unit - first];
        own->forward = predict(cost[unit].forward_flops, cost[unit].forward_bytes, probe);
        own->backward = predict(cost[unit].backward_flops + again * cost[unit].again_flops,
                                cost[unit].backward_bytes + again * cost[unit].again_bytes, probe);
        sum.forward += own->forward;
        sum.backward += own->backward;
    }
    for (size_t unit = first; unit < end; unit++) {
        share[unit - first].forward /= sum.forward;
        share[unit - first].backward /= sum.backward;
    }
    free(cost);
    return 0;
}
