/* planning.h: a question to the planner and its answer, as plain values: ids, names, numbers. The
 * core fills the question (core_planning), placement_solve answers it on any thread, and the answer
 * comes back as an event. Nothing points into the core; the asker keeps the model alive, and the
 * rows of strategies are constants. */
#ifndef COORDINATOR_CORE_STATE_PLANNING_H
#define COORDINATOR_CORE_STATE_PLANNING_H

#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/placement/codecs.h"
#include "coordinator/core/placement/matching.h"
#include "coordinator/core/placement/shortage.h"
#include "coordinator/core/state/solution.h"
#include "coordinator/plan/partition.h"
#include "libtrain/memory/memory.h"
#include "libtrain/model/cost.h"
#include "schema/job.h"
#include "schema/plan.h"
#include "schema/what_if.h"

/* Candidates of one question: the fastest devices, and the present devices of the job. */
#define PLANNING_DEVICES_MAX 1024
/* Most units of the model times candidates. Filling in each of their times takes about a
 * microsecond, within a turn. Even the largest model leaves 64 candidates. */
#define PLANNING_TIMES_MAX 16384
/* The most work of one search inside a step of the core, about 20 ms; its unit is that of
 * PARTITION_WORK_MAX. The computation of the memory of stages has the same bound. */
#define PLANNING_WORK_AT_ONCE 60000.0

/* Links between candidates: all measured links that the core keeps, and the links that a question
 * states. */
#define PLANNING_LINKS_MAX (32768 + WHAT_IF_LINKS_MAX)
/* Up to this many candidates, each unused link gets an estimate of its own. With more candidates,
 * unused links get the usual estimate. All pairs and the measured links together stay below
 * PARTITION_PAIRS_MAX. */
#define PLANNING_ESTIMATES_MAX 256

#define PLANNING_CLASS_SIZE 128 /* of a numeric class, as in struct device */

struct strategy;

/* A candidate. */
struct planning_device {
    struct device_id id;
    char name[NAME_SIZE];
    char numeric_class[PLANNING_CLASS_SIZE];
    double gemm_gflops;
    uint64_t memory_bytes; /* free */
    uint64_t cap_bytes;    /* at most memory_bytes; with more, it has run out of memory before */
    size_t threads;
    enum codecs codecs;
    bool may_serve, may_work; /* it has the labels of servers; of workers */
    bool strict;              /* its agent knows the strict order (libtrain/schedule) */
    bool busy;                /* it works for another job, or is reserved for one */
    bool avoided;             /* the job excludes it for a while */
    bool failed;              /* the job excludes it because it failed by itself */
    double processor_share, overhead_seconds, overhead_seconds_per_byte; /* of partition_problem */
    bool has_link;          /* its transfers with others are known */
    struct link_speed link; /* estimate by these transfers, also for unused links */
};

/* The stages that an attempt may choose. */
enum planning_stages {
    STAGES_ANY,
    STAGES_WANTED, /* those of `wanted` */
    STAGES_STAY,   /* those of `stay` */
};

/* One way to place a job. */
struct planning_attempt {
    enum planning_stages stages;
    enum avoid_level avoid;
    enum candidates candidates;
};
#define PLANNING_ATTEMPTS_MAX 6

/* The memory of a stage, cached by its range of units. */
struct stage_bytes {
    struct memory_growth bytes; /* base: including all snapshots */
    uint32_t stamp;             /* valid if equal to the planning's stamp */
};

struct planning {
    /* The question. */
    struct job_spec spec; /* without JSON */
    const struct strategy *strategy;
    const struct model *model;
    char numeric_class[PLANNING_CLASS_SIZE]; /* of the job so far; "": none */
    bool is_new;                             /* the job has not been submitted yet */
    bool is_active;                          /* devices work for it */
    /* Attempts in the order in which they are tried. The first success is the answer. */
    struct planning_attempt attempt[PLANNING_ATTEMPTS_MAX];
    size_t attempt_count;
    struct replan_request wanted, stay;
    struct replan_request present; /* stages whose step time the answer states too */
    bool has_present;
    bool present_coded;          /* the job's links have codecs */
    struct shortage shortage;    /* why there are no more candidates */
    double work_max, memory_max; /* bounds of one search; PARTITION_WORK_MAX */
    struct planning_device device[PLANNING_DEVICES_MAX]; /* in the order of ids */
    size_t device_count;
    /* [device_count][unit_count], per micro-batch; the update: per step. The search uses times with
     * a margin for units without measurements; the answer states the expected times. */
    double forward_seconds[PLANNING_DEVICES_MAX * UNITS_MAX];
    double backward_seconds[PLANNING_DEVICES_MAX * UNITS_MAX];
    double expected_forward_seconds[PLANNING_DEVICES_MAX * UNITS_MAX];
    double expected_backward_seconds[PLANNING_DEVICES_MAX * UNITS_MAX];
    double update_seconds[PLANNING_DEVICES_MAX * UNITS_MAX];
    /* Links between candidates, by their indices: measured ones, each once, then stated ones. */
    struct partition_pair measured[PLANNING_LINKS_MAX];
    size_t measured_count;

    /* Another thread sets it to end the search; NULL: never. Owned by the asker. */
    const _Atomic bool *cancelled;
    bool at_once; /* solved within a step of the core */

    /* Scratch of the solution. */
    double work;                       /* of all searches */
    bool hasty;                        /* a bound was reached: "does not fit" is not certain */
    size_t pool[PLANNING_DEVICES_MAX]; /* candidates of the problem */
    size_t pool_count;
    size_t uncoded_pool[PLANNING_DEVICES_MAX]; /* the pool before devices without codecs left it */
    struct solution solution;                  /* of the last search */
    enum recompute recompute; /* the spec's, or a trial of another that needs less memory */
    bool first_fit;           /* stop at the first plan that fits */
    bool caps;                /* respect cap_bytes */
    bool codes;               /* links may have codecs */
    enum codec widest;        /* the codec that needs most memory in a stage */
    struct partition_codec codec[CODECS_AUTO];
    struct partition_problem problem;                           /* of the last search */
    struct partition_left_out left_out[PARTITION_LEFT_OUT_MAX]; /* of the pool's devices */
    size_t left_out_count;
    double memory_work; /* work of computing the memory of this job's stages */
    uint64_t mix_bytes; /* per device, for copies that groups exchange; 0: the job is no group */
    struct unit_cost cost[UNITS_MAX];
    uint64_t border_bytes[UNITS_MAX], state_bytes[UNITS_MAX];
    struct partition_pair pair[PARTITION_PAIRS_MAX];
    uint64_t pool_cap_bytes[PLANNING_DEVICES_MAX], pool_threads[PLANNING_DEVICES_MAX];
    double pool_overhead[PLANNING_DEVICES_MAX], pool_overhead_per_byte[PLANNING_DEVICES_MAX];
    double pool_share[PLANNING_DEVICES_MAX];
    size_t pool_of[PLANNING_DEVICES_MAX]; /* index + 1 in the pool of a candidate; 0: not in it */
    const char *unit_name[UNITS_MAX], *device_name[PLANNING_DEVICES_MAX];
    size_t present_device[STAGES_MAX], present_end[STAGES_MAX];
    struct stage_bytes stage_bytes[UNITS_MAX + 1][UNITS_MAX + 1];
    enum conv2d_backend backend; /* stage_bytes of this stamp are of this backend and recompute */
    uint32_t stamp;
    struct arena_scratch *arena;   /* for computing memory */
    void *scratch[STRATEGY_COUNT]; /* of each strategy that has a row of its own */
};

/* The answer. */
struct planned {
    const struct strategy *strategy;
    struct plan_stage stage[STAGES_MAX];
    size_t stage_count;
    struct plan_link link[STAGES_MAX]; /* of struct plan */
    size_t link_count;
    struct plan_bottleneck bottleneck;
    double step_seconds, efficiency; /* as searched: with the margins of units not measured */
    double expected_seconds;         /* of a step, without them */
    bool strict;                     /* the order of work (libtrain/schedule) */
    bool optimal;                    /* no plan is faster */
    double gap;                      /* to a proven bound: step time / bound - 1 */
    struct plan_left_out left_out[PLAN_LEFT_OUT_MAX];
    size_t left_out_count;
    struct plan_unbound unbound;        /* without devices.min; 0 devices: it costs nothing */
    struct planned_transfers transfers; /* parameter_server */
    double present_seconds;             /* of the present stages; 0: not requested or impossible */
    int64_t state_bytes;                /* of one version of all units */
    struct replication_periods replication;  /* the memory includes the copies of these periods */
    char numeric_class[PLANNING_CLASS_SIZE]; /* of all its devices; "mixed": they differ */
    struct planning_attempt attempt;         /* that succeeded */
    size_t attempt_index;
    char first_failure[MESSAGE_SIZE]; /* why the first attempt failed; "": it succeeded */
};

/* Write the part of a plan that the planner decides. */
void planning_write(const struct planned *planned, struct plan *out);
/* Return the index of the candidate; device_count: not a candidate. */
size_t planning_find(const struct planning *planning, const char *device_id);
/* Return the micro-batches per second that a candidate trains alone, if the first `frozen` units
 * are frozen. The times of its units are measured or, without measurements, predicted. */
double planning_speed(const struct planning *planning, size_t device, size_t frozen);
/* Compute the seconds that a tensor takes between candidates. The link is the measured or stated
 * one; else an estimate by the transfers of both with others; else the usual link.
 *
 *     candidate  [count] their indices
 *     seconds    out: [count][count], equal in both directions; the diagonal is 0
 *     rate       out: [count] bytes per second of the link of each candidate; 0: unknown */
void planning_copies(const struct planning *planning, const size_t *candidate, size_t count,
                     double bytes, double *seconds, double *rate);
/* Add an attempt. */
void planning_try(struct planning *planning, enum planning_stages stages, enum avoid_level avoid,
                  enum candidates candidates);
/* Return whether the attempt may use the candidate. */
bool planning_may_use(const struct planning_device *device, const struct planning_attempt *attempt);

#endif
