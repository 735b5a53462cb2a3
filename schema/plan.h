/* plan.h: a plan: stages on devices, with its reason, prediction and outcome, which stay side by
 * side. */
#ifndef SCHEMA_PLAN_H
#define SCHEMA_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/part_of.h"

enum plan_state { PLAN_PREPARING, PLAN_RUNNING, PLAN_STOPPING, PLAN_DONE, PLAN_DISCARDED };
extern const char *const plan_state_names[];

/* Why this plan was made. */
enum plan_reason {
    PLAN_FIRST,
    PLAN_REQUESTED,
    PLAN_RESUMED,
    PLAN_DEVICE_LOST,
    PLAN_PREPARE_FAILED,
    PLAN_RESTARTED,
    PLAN_LINK,          /* two of its devices did not reach each other */
    PLAN_STALLED,       /* a stage held work and made no progress */
    PLAN_DEVICE_JOINED, /* one more device makes the job faster */
    PLAN_TUNED, /* the preceding plan measured the kernels of the job's convolutions and trained
                   nothing */
    PLAN_DRIFT, /* measured speeds differ from the preceding plan's prediction */
    PLAN_DEVICE_LEFT,   /* the agent of one of its devices announced that it leaves */
    PLAN_DRAINED,       /* a user drained one of its devices */
    PLAN_ROLLED_BACK,   /* it replaces a later, slower plan */
    PLAN_DATA_APPENDED, /* its device has more samples of its own */
    PLAN_REASONS
};
extern const char *const plan_reason_names[];
/* Return whether the preceding plan ended without a failure. */
bool plan_reason_is_planned(int reason);

/* The outcome of a plan. */
enum plan_verdict {
    VERDICT_NONE,
    VERDICT_KEPT,        /* its steps confirmed it, or it trained to the end */
    VERDICT_ROLLED_BACK, /* it was slower than the plan before */
    VERDICT_SUPERSEDED,
    VERDICT_FAILED,
};
extern const char *const plan_verdict_names[];

/* The memory of a stage by purpose; the parts add up to its memory_bytes. */
struct plan_memory {
    int64_t parameters_bytes; /* with the statistics of batch-norm, twice */
    int64_t gradients_bytes;
    int64_t optimizer_bytes;   /* momentum and the like */
    int64_t activations_bytes; /* kept for the micro-batches in flight */
    int64_t workspace_bytes; /* of one call: gradients between ops, recomputed activations, kernels'
                                scratch, weights in the kernels' layouts */
    int64_t borders_bytes;   /* samples, labels and boundary tensors */
    int64_t snapshots_bytes; /* copies of its own state */
    int64_t replicas_bytes;  /* = replica_bytes */
};
extern const struct record plan_memory_record;

struct plan_stage {
    struct device_id device;
    int64_t first, end; /* units [first, end) */
    int64_t in_flight;
    int64_t share_first, share_end; /* parameter_server: its micro-batches; equal: none */
    int codec;                      /* enum codec: of the tensors to and from the next stage */
    int64_t memory_bytes;           /* everything: arena, snapshots, replicas */
    int64_t replica_bytes; /* part of memory_bytes: the most it holds for the preceding stage in the
                              ring */
    struct plan_memory
        memory; /* the parts of memory_bytes; all 0 in a plan of an earlier version */
    double predicted_forward_seconds; /* per micro-batch */
    double predicted_backward_seconds;
    double predicted_busy; /* share of the step it computes */
    /* parameter_server, of a worker. Pull: from its first request of a step to the end of its first
     * forward pass. Push: from its last backward pass to the answer to its last sum. Segments:
     * requests of a pull, and of the push of one block. */
    double predicted_pull_seconds, predicted_push_seconds;
    int64_t pull_segments, push_segments;
    double measured_forward_seconds; /* per micro-batch, 0 before the first report */
    double measured_backward_seconds;
};

/* The link between a stage and the next one. */
struct plan_link {
    int codec;                /* enum codec, as of the preceding stage */
    int64_t bytes;            /* of a micro-batch's activations on the wire; gradients: as many */
    double predicted_seconds; /* of their transfer */
    double measured_seconds;  /* of the newest transfers in both directions; 0: none yet */
};

/* What a step spends most of its time on. */
enum plan_part { PART_NONE, PART_STAGE, PART_LINK };
extern const char *const plan_part_names[];

struct plan_bottleneck {
    int part;      /* enum plan_part; PART_NONE: a plan of an earlier version */
    int64_t index; /* of the stage, or of the stage before the link */
    double busy;   /* share of the step */
};
extern const struct record plan_link_record, plan_bottleneck_record;

/* Why a plan leaves a device out, in the order of enum partition_reason. */
#define PLAN_LEFT_OUT_UNAVAILABLE                                                                  \
    4 /* in addition: a device of a question cannot work for the job */
extern const char *const plan_left_out_names[];

struct plan_left_out {
    struct device_id device;
    int reason;
    double step_seconds_with; /* of the fastest plan found with it; 0: none */
};

/* The faster plan with fewer devices than devices.min. */
struct plan_unbound {
    int64_t devices; /* 0: no fewer are faster */
    double step_seconds;
};
extern const struct record plan_unbound_record;

struct plan {
    struct plan_id id;
    struct job_id job;
    struct part_of of;
    int64_t revision;
    int64_t generation;
    int state;  /* enum plan_state */
    int reason; /* enum plan_reason */
    int64_t resume_version;
    int64_t last_version;       /* where it stopped, or 0 while it runs */
    bool unevaluated;           /* it stopped at the job's last step, before its evaluation */
    int verdict;                /* enum plan_verdict */
    char failure[MESSAGE_SIZE]; /* why its generation failed; "": no failure */
    struct plan_stage stage[STAGES_MAX];
    size_t stage_count;
    struct plan_link link[STAGES_MAX]; /* after each stage but the last */
    size_t link_count;
    struct plan_bottleneck bottleneck;
    bool strict; /* stages work in the strict order (libtrain/schedule) */
    double predicted_step_seconds;
    double predicted_efficiency; /* fluid bound / predicted step */
    bool optimal;                /* no plan in the greedy order is faster (proven) */
    double gap;                  /* predicted step / proven bound of all plans - 1 */
    struct plan_left_out left_out[PLAN_LEFT_OUT_MAX];
    size_t left_out_count;
    struct plan_unbound unbound;
    double measured_step_seconds;   /* median of reported steps, 0 before */
    double measured_over_predicted; /* 0 before */
    int64_t measured_steps;
    int64_t bytes_moved;    /* state transferred between devices for it */
    double prepare_seconds; /* from the decision to run */
    int64_t created_ms, started_ms, ended_ms;
};
extern const struct record plan_record;

#endif
