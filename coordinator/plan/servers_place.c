#include "coordinator/plan/servers_place.h"

#include <math.h>

#include "base/assert.h"

bool servers_place_fits(const struct servers_problem *problem, const struct servers_stage *stage)
{
    return !problem->memory_cap_bytes || !problem->stage_memory ||
           problem->stage_memory(problem->arg, stage) <= problem->memory_cap_bytes[stage->device];
}

static bool fits(const struct servers_problem *problem, struct servers_stage stage, bool roomy)
{
    if (roomy) {
        const bool works = !problem->may_work || problem->may_work[stage.device];
        stage.share.end = works ? problem->micro_batches : 0;
        stage.buffers = reduce_waiting_max(problem->micro_batches, stage.share);
        stage.sums = problem->stages_max;
    }
    return servers_place_fits(problem, &stage);
}

bool servers_place(const struct servers_problem *problem, const size_t *device, size_t count,
                   bool roomy, size_t *end)
{
    const size_t units = problem->unit_count;
    double bytes[SERVERS_UNITS_MAX + 1] = {0}; /* of the units before */
    double most[SERVERS_MAX + 1][SERVERS_UNITS_MAX + 1];
    uint16_t from[SERVERS_MAX][SERVERS_UNITS_MAX + 1];
    ASSERT(count >= 1 && count <= SERVERS_MAX && units <= SERVERS_UNITS_MAX);
    for (size_t l = 0; l < problem->layer_count; l++) {
        bytes[problem->layer_unit[l] + 1] += problem->layer_bytes[l];
    }
    for (size_t u = 0; u < units; u++) {
        bytes[u + 1] += bytes[u];
        most[0][u + 1] = INFINITY;
    }
    most[0][0] = 0;
    for (size_t s = 0; s < count; s++) {
        const double rate = problem->bytes_per_second[device[s]];
        for (size_t u = 0; u <= units; u++) {
            double best = INFINITY;
            from[s][u] = 0;
            /* The range grows: so do its seconds. */
            for (size_t v = u; v-- > 0 && (bytes[u] - bytes[v]) / rate < best;) {
                const double own = (bytes[u] - bytes[v]) / rate;
                const double larger = own > most[s][v] ? own : most[s][v];
                const struct servers_stage stage = {
                    .device = device[s], .first = v, .end = u, .sums = 1};
                if (larger < best && fits(problem, stage, roomy)) {
                    best = larger;
                    from[s][u] = (uint16_t)v;
                }
            }
            most[s + 1][u] = best;
        }
    }
    if (!isfinite(most[count][units])) {
        return false;
    }
    for (size_t s = count, u = units; s-- > 0; u = from[s][u]) {
        end[s] = u;
    }
    return true;
}
