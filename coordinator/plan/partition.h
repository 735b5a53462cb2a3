/* partition.h: chooses devices for the stages of a chain of units, their order, the stage
 * boundaries, the in-flight limits and the codec of each boundary, to minimise the step time. Pure:
 * numbers in, plan out. Source: FTPipeHD (arXiv 2110.02781), dynamic model partition; the
 * recurrence as bound, the timeline as objective (docs/adr/0011, 0068, 0069). */
#ifndef COORDINATOR_PLAN_PARTITION_H
#define COORDINATOR_PLAN_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/schedule/link.h"

#define PARTITION_STAGES_MAX 32
#define PARTITION_DEVICES_MAX 1024
#define PARTITION_UNITS_MAX 256
#define PARTITION_PAIRS_MAX 65535
#define PARTITION_CODECS_MAX 16
#define PARTITION_LEFT_OUT_MAX 32

/* The link between devices a and b, in both directions. */
struct partition_pair {
    size_t a, b;
    struct link_speed link;
};

/* A way to encode the tensors of a boundary. Rates count bytes before encoding; INFINITY: encoding
 * takes no time. */
struct partition_codec {
    double ratio; /* bytes before coding / after */
    double encode_bytes_per_second, decode_bytes_per_second;
};

/* The order of work of the stages in synchronous steps (libtrain/schedule). The greedy order has
 * anomalies: a faster device or link can lengthen a step. The strict one has none. */
enum partition_order {
    PARTITION_GREEDY,
    PARTITION_STRICT,
    /* Search in the greedy order, then play its fastest plans in the strict order. The strict order
     * wins if it is faster by more than the tie rule's share. */
    PARTITION_EITHER,
};

/* All times are per micro-batch, finite and >= 0. Arrays by device have device_count entries,
 * arrays by unit unit_count. */
struct partition_problem {
    size_t unit_count, device_count;
    size_t stages_min, stages_max;  /* one device for each stage */
    const double *forward_seconds;  /* [device_count][unit_count] */
    const double *backward_seconds; /* [device_count][unit_count] */
    const double *update_seconds;   /* [device_count][unit_count], per step */
    const size_t *row; /* by device: its row in the three arrays above; NULL: device d has row d */
    /* By device, in (0, 1]: the part of the time for which it has its processor in the long run.
     * All other times exclude the stops. NULL: 1. */
    const double *processor_share;
    const double *overhead_seconds; /* by device, of a micro-batch, both passes; NULL: none */
    const double *overhead_seconds_per_byte; /* by device: for bytes sent or received; NULL: none */
    /* By unit: float32 bytes of a micro-batch's tensor after unit u, in each direction. */
    const uint64_t *border_bytes;
    const double *replica_bytes; /* by unit: mean bytes per step to the next stage; NULL: none */
    const uint64_t *state_bytes; /* by unit: moved if the unit changes its device; NULL: equal */
    struct link_speed usual_link;
    /* [pair_count]; the later entry of a pair counts. Pairs that are not listed have the usual
     * link. */
    const struct partition_pair *pair;
    size_t pair_count;
    const struct partition_codec *codec; /* [codec_count]; none: no encoding */
    size_t codec_count;
    /* The codecs are sorted by ratio. A boundary takes a later codec only if the step without it
     * exceeds the fastest step by more than this share. 0: always the fastest. */
    double codec_gain;
    const uint64_t *memory_cap_bytes; /* by device; UINT64_MAX: none */
    const uint64_t *memory_class;     /* by device: stage_memory returns the same for equal classes;
                                         NULL: one class */
    /* Bytes of a stage [first, end) on `device` that holds in_flight micro-batches, of a plan of
     * stage_count stages; arg is the caller's. The result should not fall when the stage, in_flight
     * or stage_count grows. If it does (a smaller boundary tensor), the search may miss a plan
     * close to a cap, but every plan that it returns fits. */
    uint64_t (*stage_memory)(void *arg, size_t device, size_t first, size_t end, size_t in_flight,
                             size_t stage_count);
    void *arg;
    /* Work of stage_memory so far, in units of PARTITION_MEMORY_WORK_MAX; it rises with each new
     * stage. NULL: calls cost nothing. */
    const double *memory_work;
    /* Bounds of the work of the search and of stage_memory; 0: PARTITION_WORK_MAX and
     * PARTITION_MEMORY_WORK_MAX. */
    double work_max, memory_work_max;
    size_t micro_batches;
    bool clips_norm; /* every update waits for the norm of all gradients (timeline.h) */
    enum partition_order order;
    /* Steps overlap, in the strict order: micro_batches is 1, and at least the usual in-flight
     * limits must fit into memory. */
    bool async;
    bool one_version; /* async: at most as many in flight as stages from this one to the last */
    bool first_fit;   /* stop at the first plan that fits */
    bool in_order;    /* every device has one stage, in the order of the arrays */
    /* Given stage boundaries: end[end_count], rising to unit_count. NULL: the search chooses. */
    const size_t *end;
    size_t end_count;
    /* The present plan, which wins ties; a count of 0: none. SIZE_MAX: a device that is not in the
     * problem. */
    const size_t *present_device, *present_end;
    size_t present_count;
    /* Another thread may set it to end the search with ERR_CANCELLED. NULL: never. */
    const _Atomic bool *cancelled;
    /* Names for the text of an error; NULL: numbers. */
    const char *const *unit_name;
    const char *const *device_name;
};

struct partition_plan {
    size_t stage_count;
    size_t device[PARTITION_STAGES_MAX];
    size_t end[PARTITION_STAGES_MAX];   /* one past the last unit of each stage */
    size_t codec[PARTITION_STAGES_MAX]; /* of the boundary after each stage but the last */
    size_t in_flight[PARTITION_STAGES_MAX];
    bool strict; /* the order of work */
    uint64_t memory_bytes[PARTITION_STAGES_MAX];
    double busy[PARTITION_STAGES_MAX];            /* share of the step each stage computes */
    struct link_speed link[PARTITION_STAGES_MAX]; /* after each stage but the last */
    double
        link_busy[PARTITION_STAGES_MAX]; /* share of the step its busier direction encodes, sends */
    double step_seconds;                 /* by the timeline */
    double fluid_seconds; /* all work / sum of the capacities of the plan's devices */
    /* For the order of the search (PARTITION_EITHER: the greedy one): */
    double lower_seconds; /* no plan is faster (proven) */
    bool optimal;         /* no plan is faster by more than the tie rule's share */
    double gap;           /* step of the fastest plan found / lower_seconds - 1 */
    double work;          /* of the search */
};

/* Memory of a search: about 40 MB of address space, of which small problems touch little. No search
 * depends on its earlier content. */
struct partition_scratch;
NODISCARD int partition_scratch_new(struct partition_scratch **out, struct err *err);
void partition_scratch_free(struct partition_scratch **scratch);

/* Find the fastest plan. Among plans within PARTITION_TIE of it: the fewest devices, then the
 * fewest moved bytes, then the present plan. ERR_INVALID: sizes out of bounds or boundaries that do
 * not rise. ERR_MEMORY: no plan fits; err names the unit that does not fit, its device and the
 * missing bytes. ERR_CANCELLED: cancelled before there was a plan. Exact (equal to trying every
 * plan) if out->optimal is set; the search ends after work_max in any case. Deterministic.
 * Allocates nothing but `scratch`. */
NODISCARD int partition_solve(const struct partition_problem *problem,
                              struct partition_scratch *scratch, struct partition_plan *out,
                              struct err *err);

/* Play a plan with the times of `problem` and set its step_seconds, busy and link_busy. Its devices
 * are those of this problem. Short work runs without stops here (timeline.h), whereas the search
 * divides all times of a device by its processor share. */
void partition_play(const struct partition_problem *problem, struct partition_scratch *scratch,
                    struct partition_plan *plan);

/* Why a plan leaves a device out. */
enum partition_reason {
    PARTITION_SLOWER,      /* the fastest plan found with it is slower */
    PARTITION_NO_GAIN,     /* ... is faster by less than the tie rule's share */
    PARTITION_NO_MEMORY,   /* no unit fits on the device, or no plan with it fits */
    PARTITION_STAGES_FULL, /* ... is no better, and the plan has the most devices allowed */
};

struct partition_left_out {
    size_t device;
    enum partition_reason reason;
    double step_seconds_with; /* of the fastest plan found with the device; INFINITY: none */
};

/* List the devices outside of `plan` with the reasons, the fastest device first. Return their
 * count, at most PARTITION_LEFT_OUT_MAX. Call it after partition_solve, with its problem and
 * scratch. */
size_t partition_left_out(const struct partition_problem *problem,
                          struct partition_scratch *scratch, const struct partition_plan *plan,
                          struct partition_left_out out[PARTITION_LEFT_OUT_MAX]);

/* Plans whose times differ by less, relatively, count as equally fast. */
#define PARTITION_TIE 0.01
/* Bound of the search's work: 1 is a micro-batch played on a stage, about 0.15 us. */
#define PARTITION_WORK_MAX 6e6
/* Bound of the work of stage_memory, a third of a second. Half of it finds the longest stage that
 * fits on each device; devices that are not reached by then count as devices with less memory. The
 * other half is for trying plans. Models of some hundred ops stay far below. */
#define PARTITION_MEMORY_WORK_MAX 2e6

#endif
