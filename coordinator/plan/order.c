#include "coordinator/plan/order.h"

#include <math.h>

/* Stages on kinds in a given order, for plans with these passes. */
struct order {
    const struct kinds *kinds;
    const uint16_t *kind;
    size_t count;
    struct bound_passes passes;
    double work;
};

/* The bound of a stage on kind[index] and all after it. */
static double order_end(const struct order *order, size_t index, size_t first, size_t end,
                        double rest)
{
    const struct kinds *kinds = order->kinds;
    const uint16_t *kind = &order->kind[index];
    const struct stage_bound none = {0, 0};
    double work =
        stages_units_seconds(kinds, *kind, first, end) +
        stages_bytes_seconds(kinds, *kind, kinds->wire_bytes[first] + kinds->wire_bytes[end]);
    const struct stage_cost cost = {work, stages_update_seconds(kinds, *kind, first, end),
                                    first == 0};
    if (index + 1 == order->count) {
        return bound_last(kinds->problem, cost, order->passes);
    }
    const struct crossing crossing =
        bound_crossing(kinds, kinds_link(kinds, kind[0], kind[1]), first, end);
    if (crossing.backward_seconds > order->passes.most) {
        return INFINITY;
    }
    struct stage_bound with = stages_bound_add(kinds->problem, none, cost, &crossing);
    return stages_max(with.most, with.before + rest);
}

/* The best end of stage `index` from a unit on; *end stays if none fits. */
static double order_scan(struct order *order, size_t index, const double *rest, size_t first,
                         size_t *end)
{
    const struct kinds *kinds = order->kinds;
    const size_t kind = order->kind[index], units = kinds->problem->unit_count;
    const double micro_batches = (double)kinds->problem->micro_batches;
    const bool last = index + 1 == order->count;
    const struct bound_ends ends = bound_ends(kinds, kind, first);
    size_t most = units - (order->count - 1 - index);
    most = ends.most < most ? ends.most : most;
    double best = INFINITY;
    for (size_t e = last && ends.least < units ? units : ends.least; e <= most; e++) {
        if (micro_batches * stages_units_seconds(kinds, kind, first, e) >= best ||
            !bound_passes_fit(kinds, kind, first, e, order->passes)) {
            break;
        }
        order->work += kinds_work(kinds, BOUND_WORK);
        if (last || rest[e] < best) {
            double seconds = order_end(order, index, first, e, last ? 0 : rest[e]);
            *end = seconds < best ? e : *end;
            best = stages_min(best, seconds);
        }
    }
    return best;
}

double order_cut(const struct kinds *kinds, const uint16_t *kind, size_t count,
                 struct bound_passes passes, double rest[][PARTITION_UNITS_MAX + 1],
                 struct layout *out, double *work)
{
    const size_t units = kinds->problem->unit_count;
    struct order order = {.kinds = kinds, .kind = kind, .count = count, .passes = passes};
    for (size_t i = count; i-- > 0;) {
        rest[i][units] = INFINITY;
        for (size_t first = 0; first < units; first++) {
            const bool may_begin = i == 0 ? first == 0 : first >= i;
            size_t end = 0;
            rest[i][first] =
                may_begin ? order_scan(&order, i, i + 1 < count ? rest[i + 1] : NULL, first, &end)
                          : INFINITY;
        }
    }
    out->count = count;
    size_t first = 0;
    for (size_t i = 0; i < count && isfinite(rest[0][0]); i++) {
        size_t end = units;
        (void)order_scan(&order, i, i + 1 < count ? rest[i + 1] : NULL, first, &end);
        out->kind[i] = kind[i];
        out->end[i] = (uint16_t)end;
        out->codec[i] = 0;
        if (i + 1 < count) {
            out->codec[i] =
                (uint8_t)stages_codec(kinds, kinds_link(kinds, kind[i], kind[i + 1]), first, end);
        }
        first = end;
    }
    *work += order.work;
    return rest[0][0];
}
