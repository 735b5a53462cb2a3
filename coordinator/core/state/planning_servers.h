/* planning_servers.h: the scratch of a question to the planner (planning.h) about servers and
 * workers, of servers_memory.c and servers_problem.c. */
#ifndef COORDINATOR_CORE_STATE_PLANNING_SERVERS_H
#define COORDINATOR_CORE_STATE_PLANNING_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/state/planning.h"
#include "coordinator/plan/servers.h"
#include "libtrain/model/layers.h"
#include "libtrain/model/segments.h"
#include "schema/limits.h"

/* Most layers of the model times devices of the pool. Even the largest model leaves 64 devices. */
#define PLANNING_LAYER_TIMES_MAX (SEGMENTS_LAYERS_MAX * 64)
#define PLANNING_UNIT_TIMES_MAX 16384 /* PLANNING_TIMES_MAX */
#define PLANNING_PARTS_MAX (SEGMENTS_LAYERS_MAX + UNITS_MAX)

/* The share of a layer in the time of a unit. */
struct layer_part {
    size_t layer, unit;
    double forward, backward; /* shares of the unit's seconds */
};

/* The memory of a stage that computes all units. */
struct worker_bytes {
    uint64_t base;            /* of a share of one micro-batch, with one thread */
    uint64_t per_thread;      /* each further thread */
    uint64_t per_buffer;      /* each further gradient of all units */
    uint64_t per_micro_batch; /* each further micro-batch of the share */
    size_t buffers;           /* gradient buffers that `base` includes */
    uint32_t stamp;           /* valid if equal to the planning's stamp */
};

struct servers_answer {
    struct servers_plan plan; /* devices are candidates */
    double gap;               /* step_seconds / a bound of all plans - 1 */
};

struct planning_servers {
    size_t layer_count, part_count;
    struct model_layer layer[SEGMENTS_LAYERS_MAX];
    size_t layer_unit[SEGMENTS_LAYERS_MAX];
    double layer_bytes[SEGMENTS_LAYERS_MAX];
    struct layer_part part[PLANNING_PARTS_MAX];
    uint64_t trained_before[UNITS_MAX + 1]; /* trained bytes of the preceding units */
    /* By device of the pool and by layer or unit. */
    double forward_seconds[PLANNING_LAYER_TIMES_MAX], backward_seconds[PLANNING_LAYER_TIMES_MAX];
    double update_seconds[PLANNING_UNIT_TIMES_MAX], add_seconds[PLANNING_UNIT_TIMES_MAX];
    double bytes_per_second[SERVERS_DEVICES_MAX];
    bool may_serve[SERVERS_DEVICES_MAX], may_work[SERVERS_DEVICES_MAX];
    size_t server_device[SERVERS_MAX], server_end[SERVERS_MAX], share[SERVERS_STAGES_MAX];
    struct worker_bytes worker;
    struct servers_problem problem; /* of the last search */
    struct servers_scratch *scratch;
    struct servers_answer answer; /* the solution */
};

static inline struct planning_servers *planning_servers(const struct planning *planning)
{
    return planning->scratch[STRATEGY_PARAMETER_SERVER];
}

#endif
