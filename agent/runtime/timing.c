#include "agent/runtime/timing.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/model/cost.h"

void timing_window_add(struct timing_window *window, double seconds)
{
    window->seconds[window->next] = seconds;
    window->next = (window->next + 1) % TIMING_WINDOW;
    if (window->count < TIMING_WINDOW) {
        window->count++;
    }
}

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

static void sort(const struct timing_window *window, double sorted[TIMING_WINDOW])
{
    memcpy(sorted, window->seconds, window->count * sizeof(sorted[0]));
    qsort(sorted, window->count, sizeof(sorted[0]), by_value);
}

double timing_window_clipped_mean(const struct timing_window *window)
{
    if (window->count == 0) {
        return 0;
    }
    double sorted[TIMING_WINDOW];
    sort(window, sorted);
    const double most = TIMING_CLIP * sorted[window->count / 2];
    double sum = 0;
    for (size_t i = 0; i < window->count; i++) {
        sum += sorted[i] < most ? sorted[i] : most;
    }
    return sum / (double)window->count;
}

void timing_add(struct timing *timing, enum timing_kind kind, double seconds)
{
    timing_window_add(&timing->window[kind], seconds);
}

double timing_mean(const struct timing *timing, enum timing_kind kind)
{
    const struct timing_window *window = &timing->window[kind];
    if (window->count == 0) {
        return 0;
    }
    double sorted[TIMING_WINDOW];
    sort(window, sorted);
    const size_t trimmed = window->count / 4;
    double sum = 0;
    for (size_t i = trimmed; i < window->count - trimmed; i++) {
        sum += sorted[i];
    }
    return sum / (double)(window->count - 2 * trimmed);
}

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

int timing_shares(const struct model *model, size_t first, size_t end, enum recompute recompute,
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
