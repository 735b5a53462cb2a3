/* servers.h: plans a parameter server: which devices keep which units, which devices compute which
 * micro-batches, and how long a step takes. Pure: numbers in, plan out. The model and the methods
 * are our own derivation (libtrain/model/segments.h, reduce.h; shares.h).
 *
 * A step. Each worker pulls the parameters in forward order, computes its share of the
 * micro-batches and pushes one sum for each of its blocks. When all blocks have arrived, the lead
 * (the first server) commits the step; the servers add the remaining sums and update. */
#ifndef COORDINATOR_PLAN_SERVERS_H
#define COORDINATOR_PLAN_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/plan/partition.h"
#include "libtrain/model/reduce.h"
#include "libtrain/model/segments.h"
#include "libtrain/schedule/link.h"

#define SERVERS_MAX 8
#define SERVERS_STAGES_MAX 32 /* devices of a plan */
#define SERVERS_DEVICES_MAX PARTITION_DEVICES_MAX
#define SERVERS_WORK_MAX 2e6
#define SERVERS_UNITS_MAX PARTITION_UNITS_MAX

/* How the micro-batches are divided. */
enum servers_shares {
    SERVERS_SPEED, /* minimise the time of the slowest worker */
    SERVERS_EQUAL, /* as equally as possible; the number of workers is planned */
    SERVERS_GIVEN,
};

/* A device of a plan: the units that it keeps, [first, end), and its share of the micro-batches;
 * either may be empty. */
struct servers_stage {
    size_t device;
    size_t first, end;
    struct reduce_range share;
    size_t buffers; /* whole-model gradients that its share needs (reduce_waiting_max) */
    size_t sums;    /* kept units: contributions of a step that may wait at once */
};

/* All times are finite and >= 0. Arrays by device have device_count entries, by unit unit_count, by
 * layer layer_count. */
struct servers_problem {
    size_t unit_count, device_count, layer_count, micro_batches;
    const size_t *layer_unit;       /* by layer: of its op with parameters; never falls */
    const double *layer_bytes;      /* by layer: of trained parameters */
    const double *forward_seconds;  /* [device_count][layer_count], of a micro-batch */
    const double *backward_seconds; /* [device_count][layer_count] */
    const double *update_seconds;   /* [device_count][unit_count], per step */
    const double *add_seconds;      /* [device_count][unit_count], of adding one sum to another */
    const double *bytes_per_second; /* by device: of its own link, in each direction; > 0 */
    /* The link between two devices. A transfer has the lowest rate on its way. A request costs the
     * latency; the first pull of a step is parked and costs half of it. */
    struct link_speed usual_link;
    const struct partition_pair *pair; /* [pair_count]; the later entry of a pair counts */
    size_t pair_count;
    const bool *may_serve, *may_work; /* by device; NULL: all may */
    const uint64_t *memory_cap_bytes; /* by device; NULL: none */
    /* Bytes of a stage; arg is the caller's. It is called some ten thousand times, so it should use
     * precomputed sums. NULL: 0. */
    uint64_t (*stage_memory)(void *arg, const struct servers_stage *stage);
    void *arg;
    /* The most work of the search, in timed shares of about a microsecond each; 0:
     * SERVERS_WORK_MAX. The search for a first plan may take ten times as much. */
    double work_max;
    /* Another thread may set it to end the search; NULL: never. */
    const _Atomic bool *cancelled;
    size_t stages_min, stages_max; /* devices; 1 to SERVERS_STAGES_MAX, stages_min also 0 */
    bool clips_norm; /* the norm's parts travel along the servers and back before the update */
    /* How layers are joined into requests; automatic: the faster of OPTIMAL and STREAM. */
    bool automatic;
    enum segments_transfers transfers;
    double segment_bytes; /* of SEGMENTS_FIXED */
    /* Given servers. server_count: how many; 0: planned. With server_end also which devices, in the
     * order of their units, and one past the last unit of each. NULL: planned. */
    size_t server_count;
    const size_t *server_device, *server_end;
    enum servers_shares shares;
    /* SERVERS_GIVEN: micro-batches of each worker, all above 0, in the order of falling speed. */
    const size_t *share;
    size_t share_count;
};

/* Why a plan gives a device no share. */
enum servers_reason {
    SERVERS_SLOWER,      /* the fastest plan found with it is not faster */
    SERVERS_NO_MEMORY,   /* no share fits on it */
    SERVERS_STAGES_FULL, /* the plan has the most devices or workers allowed */
};

struct servers_idle {
    size_t device;
    enum servers_reason reason;
    double
        step_seconds_with; /* of the fastest plan found in which it has a share; INFINITY: none */
};

/* Seconds of a worker's step; 0 in a stage without a share. */
struct servers_work {
    double pull_seconds;   /* from its first request to the end of its first forward pass */
    double middle_seconds; /* then until its last backward pass begins */
    double push_seconds;   /* from there until its last sum is answered */
    size_t pull_segments, push_segments; /* requests of a pull, and of the push of one block */
};

struct servers_plan {
    size_t stage_count, server_count; /* servers first, in the order of their units */
    struct servers_stage stage[SERVERS_STAGES_MAX];
    struct servers_work work[SERVERS_STAGES_MAX];
    uint64_t memory_bytes[SERVERS_STAGES_MAX];
    enum segments_transfers transfers;
    double step_seconds;
    double workers_seconds; /* of the step, until the slowest worker is done */
    double commit_seconds;  /* of the step, from then until the next step's parameters are ready */
    double link_seconds;    /* of the busiest server's link in a step: no step is shorter */
    size_t busiest_link;    /* the server */
    /* Devices that may work but have no share, the fastest first. */
    size_t idle_count;
    struct servers_idle idle[PARTITION_LEFT_OUT_MAX];
};

/* Memory of the search. Only the count of its work outlives a search. */
struct servers_scratch;
/* Allocate the memory. ERR_INVALID: more layers than SEGMENTS_LAYERS_MAX; ERR_MEMORY. */
NODISCARD int servers_scratch_new(size_t layers, struct servers_scratch **out, struct err *err);
void servers_scratch_free(struct servers_scratch **scratch);
/* Return the work of the last search, as work_max counts it. */
double servers_scratch_work(const struct servers_scratch *scratch);

/* Find a fast plan. Among those within PARTITION_TIE of the fastest found: the fewest servers.
 *
 * For each number k of servers, the k devices with the fastest links serve, the fastest first, and
 * the boundaries minimise the largest bytes / rate of a server, within memory. For each number of
 * workers, the fastest devices work, and shares.h divides the micro-batches: exactly, except that
 * steps of more than 64 are searched in coarser parts and only the answer's shares are exact. Then
 * single changes of servers, boundaries and workers are tried while they help. SEGMENTS_GREEDY is
 * planned, and idle devices are judged, with optimal segments; the answer's seconds are its own. So
 * the answer is not always the best: tests/unit/coordinator_plan/test_servers.c prints by how much.
 *
 * ERR_INVALID: sizes out of bounds, servers or shares that do not fit together. ERR_MEMORY: no plan
 * fits, or none was found. ERR_CANCELLED: cancelled before there was one. Deterministic. Allocates
 * nothing but `scratch`. */
NODISCARD int servers_solve(const struct servers_problem *problem, struct servers_scratch *scratch,
                            struct servers_plan *out, struct err *err);

#endif
