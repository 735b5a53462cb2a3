/* heartbeat.h: the report of a device: POST /v1/agent/heartbeat and its reply. A report is
 * complete, so the next one makes up for a lost one. */
#ifndef SCHEMA_HEARTBEAT_H
#define SCHEMA_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "libtrain/kernels/kernel_text.h"
#include "schema/assignment.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/mix_duty.h"

/* Mean seconds per micro-batch of one unit over the last window, without the time in which the
 * compute thread was stopped. */
struct unit_seconds {
    int64_t unit;
    double forward_seconds, backward_seconds;
};

/* Where the time of a stage went: mean seconds per step over the last window. Waits and computing
 * do not add up to the step: none of them includes copies, snapshots and bookkeeping. */
struct stage_seconds {
    double step;          /* from one update to the next; 0: not measured */
    double compute;       /* forward, backward, sums and the update, with the stops */
    double stopped;       /* part of `compute`: a quota or other programs had the processor */
    double wait_input;    /* nothing to do until an activation arrives */
    double wait_gradient; /* nothing to do until a gradient arrives */
    double wait_room;     /* nothing to do until an outgoing tensor leaves its buffer */
};

/* What a link carried. */
enum link_kind {
    LINK_TENSOR,  /* activations and gradients, on the thread of a direction */
    LINK_REPLICA, /* copies of snapshots to a neighbour */
    LINK_FETCH,   /* units that this device fetched from the other */
    LINK_SHARED,  /* tensors while several devices used the other's link: each counts as if it had
                     been alone. Never in a report: only the coordinator knows who used it */
};
extern const char *const link_kind_names[];

/* Transfers to a device, or from it (LINK_FETCH), since the last report. The sums are enough for a
 * least-squares fit of seconds = a + bytes / B. Bytes are counted on the wire. */
struct link_report {
    struct device_id device;
    int kind;       /* enum link_kind */
    char codec[16]; /* of the tensors (libtrain/quant); "": none */
    int64_t count;
    double seconds_sum, bytes_sum, bytes_squared_sum, bytes_seconds_sum;
};

enum metric_name {
    METRIC_LOSS,         /* of a step: mean over the batch */
    METRIC_STEP_SECONDS, /* stage 0: from one update to the next */
    METRIC_TEST_LOSS,    /* step = version evaluated */
    METRIC_TEST_ACCURACY,
    METRIC_RECALL,        /* the mean recall of a view's own classes on its hold-out */
    METRIC_LEAST_RECALL,  /* the least of them; classes with few samples do not count */
    METRIC_PULL_SECONDS,  /* the worker with the first micro-batches: from its first pull of a step
                             to the end of its first forward pass, without the time for which the
                             pull was parked; not for a step that begins with an evaluation */
    METRIC_PUSH_SECONDS,  /* the same worker: from its last backward pass to the last answer */
    METRIC_SEGMENTS_PULL, /* the same worker: requests per direction; reported on each change */
    METRIC_SEGMENTS_PUSH,
    /* Of groups that train apart; the coordinator derives them from reports. */
    METRIC_MIX_SECONDS,
    METRIC_DISTANCE,
    METRIC_PERIOD_CV,
    METRIC_GAP_SECONDS,
};
extern const char *const metric_name_names[];

struct metric {
    int64_t step;
    int name; /* enum metric_name */
    double value;
};

/* A verified snapshot this device holds. */
struct holding {
    struct job_id job;
    int64_t generation; /* in which the state was computed */
    int64_t version;
    int64_t unit;
    char sha256[SHA256_SIZE];
    int64_t bytes;
};

/* Why a device cannot carry out its assignment: "diverged", "memory", "disk", "data", "peer",
 * "snapshot", "format", "internal". */
struct device_error {
    char code[REASON_SIZE];
    char message[MESSAGE_SIZE];
};

/* A device that this one cannot reach. */
enum peer_trouble {
    PEER_REFUSED, /* no process listens at its address */
    PEER_BROKEN,  /* the connection broke */
    PEER_STALLED, /* no answer in time */
};
extern const char *const peer_trouble_names[];

struct peer_report {
    struct device_id device;
    int kind;       /* enum peer_trouble */
    int64_t for_ms; /* since the first failure */
};

/* A round of replication; version 0: no round. */
enum round_state { ROUND_NONE, ROUND_OPEN, ROUND_COMMITTED, ROUND_ABANDONED, ROUND_PAUSED };
extern const char *const round_state_names[];

struct round {
    int64_t version;
    int state; /* enum round_state */
};

/* A short probe of an idle device, in place of the one at its enrolment. */
struct idle_probe {
    double gemm_gflops, memory_bytes_per_second;
    double processor_share; /* as of device_probe */
    int64_t age_ms;         /* since it was taken */
};

struct heartbeat {
    struct device_id device;
    char boot[ID_SIZE];
    int64_t revision; /* of the assignment that it carries out */
    struct job_id job;
    int64_t generation;
    struct plan_id plan; /* plan of the generation */
    int64_t highest_generation;
    int phase;               /* enum phase */
    int64_t step;            /* last step applied by this stage */
    int64_t stopped_version; /* with PHASE_STOPPED and PHASE_FINISHED */
    bool unevaluated; /* stopped_version is the job's last step, and its evaluation was abandoned */
    char address[URL_SIZE];
    char challenge[ID_SIZE];
    struct unit_seconds unit_seconds[UNITS_MAX];
    size_t unit_seconds_count;
    double update_seconds;
    struct stage_seconds stage_seconds;
    struct link_report link[LINK_REPORTS_MAX];
    size_t link_count;
    int64_t resident_bytes;
    int64_t free_memory_bytes; /* without the memory that the agent has allocated; 0: unknown */
    bool has_probe;
    struct idle_probe probe;
    bool leaving;                 /* the agent leaves on purpose: drain the device */
    struct early_stop early_stop; /* has_early_stop: as the stage has judged */
    bool has_early_stop;
    int64_t bytes_moved;  /* snapshots fetched for this generation */
    double fetch_seconds; /* time to fetch all units in this generation's prepare */
    int64_t busy_ms; /* since the compute thread began its present task or, while it waits for a
                        task, since bytes last moved; 0: no task, and no bytes for 2 s */
    int64_t round_neighbor, round_center; /* stage 0: version of its open round, 0: none */
    struct peer_report peer_report[PEER_REPORTS_MAX];
    size_t peer_report_count;
    struct device_id relayed[RELAYED_MAX]; /* devices that this one reaches only through a relay */
    size_t relayed_count;
    char kernels[KERNEL_TEXT_SIZE]; /* kernels of the stage, as measured (kernel_text.h); "": not
                                       measured */
    int64_t replica_bytes_sent; /* snapshots sent since the boot, to neighbors and to the center */
    int64_t replica_bytes_written; /* to --replica-dir since the boot */
    struct mix_report mix;         /* of a group of a gossip job; has_mix */
    bool has_mix;
    struct metric metric[METRICS_MAX]; /* kept by the agent until a reply acknowledges them */
    size_t metric_count;
    struct job_id
        metrics_job; /* the job in which they were measured; "": `job`, in its highest generation */
    int64_t metrics_generation;
    bool all_holdings; /* holding is the whole list (on connecting and after each change) */
    struct holding holding[HOLDINGS_MAX];
    size_t holding_count;
    bool has_error;
    struct device_error error;
};

struct heartbeat_reply {
    int64_t interval_ms;
    int64_t revision; /* of the device's assignment: poll if it is newer */
    int64_t start_id; /* of the coordinator's present start; 0: unknown */
    bool reenroll; /* the coordinator does not know this device or its holdings: enrol (again) and
                      list them */
    bool drained;  /* the device drains or leaves, and no job or copy needs it any more */
    struct round neighbor, center; /* the results of the rounds that the heartbeat named */
};

extern const struct record metric_record;
extern const struct record heartbeat_record;
extern const struct record heartbeat_reply_record;

#endif
