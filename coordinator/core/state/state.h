/* state.h: the state of the core: a slot for each device and each live job, composed of the state
 * of the modules, and the scratch memory of a step. core_new reserves everything; a step allocates
 * nothing. */
#ifndef COORDINATOR_CORE_STATE_STATE_H
#define COORDINATOR_CORE_STATE_STATE_H

#include "coordinator/core/capacity/capacity.h"
#include "coordinator/core/capacity/profile.h"
#include "coordinator/core/capacity/traffic.h"
#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/held.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/copies/sources.h"
#include "coordinator/core/core.h"
#include "coordinator/core/devices/identity.h"
#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/failures/challenge.h"
#include "coordinator/core/failures/charges.h"
#include "coordinator/core/failures/failure.h"
#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/failures/lease.h"
#include "coordinator/core/failures/links.h"
#include "coordinator/core/failures/stall.h"
#include "coordinator/core/failures/suspicion.h"
#include "coordinator/core/generation/drift.h"
#include "coordinator/core/generation/generations.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/generation/tuning.h"
#include "coordinator/core/generation/waiting.h"
#include "coordinator/core/gossip/gossip_job.h"
#include "coordinator/core/gossip/gossip_records.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/placement/asking.h"
#include "coordinator/core/placement/scheduler.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/table.h"
#include "coordinator/core/state/timers.h"

#define DATASETS_MAX 1024
#define MODELS_MAX 1024
#define KEPT_MAX 16384            /* blobs of failed jobs */
#define GENERATION_MAX 1000000000 /* greatest generation believed from a report */
#define REVISION_MAX (1ll << 52)  /* greatest revision of an assignment believed from a report */

struct device_slot {
    struct device device;
    struct job_slot *job; /* the job that it works for; NULL: free */
    size_t stage;
    int64_t assignment_revision;
    int64_t asked_bytes; /* scratch of sources_choose: bytes that others fetch from it */
    uint64_t reserved;   /* pass of the scheduler that reserved it for a waiting job */
    struct device_marks mark;
    struct identity identity;
    struct lease lease;
    struct challenge challenge;
    struct device_holdings holdings;
    struct metric_mark metrics_taken;
    int64_t free_bytes;   /* memory beside its stage, by its last heartbeat; 0: unknown */
    double probed_gflops; /* the last probe, while idle, that counted as a change of speed */
};

struct stage_report {
    bool ready;
    bool left;           /* its agent restarted and takes no part in the generation, which stops */
    bool failed_at_peer; /* could not prepare: it did not reach another device */
    double fetch_seconds;
    bool stopped;
    int64_t stopped_version;
    int64_t step;
};

struct job_slot {
    struct job job;
    const struct strategy *strategy; /* how it trains */
    const struct model *model;
    size_t unit_count;
    int64_t total_steps;
    struct plan plan;     /* the newest; valid if has_plan */
    struct plan previous; /* the replaced plan, until the end of the step that replaced it */
    bool has_plan;
    struct replan_request ran; /* stages of the newest plan that ran; device_count 0: no plan ran */
    bool stay;                 /* the next generation keeps these stages */
    struct cut cut;            /* of the last stop or start */
    struct stage_report report[STAGES_MAX];
    int64_t timer_ms[TIMER_COUNT]; /* enum timer; NEVER: not set */
    struct job_marks mark;
    struct failure failure; /* noted in this step */
    struct avoided avoided[AVOIDED_MAX];
    struct open_round round[ROUND_KINDS]; /* of this generation */
    int export_attempts;
    int64_t kept_settled; /* newest version whose checkpoint is stored or skipped (kept.c) */
    uint64_t drain_pass;  /* last pass of drain_run over the job */
    struct asked asked;
    struct center center;
    struct charges charges;
    struct drift drift;
    struct generation generation;
    struct incidents incidents;
    struct links links;
    struct members members;
    struct progress progress;
    struct scheduled scheduled;
    struct sources sources;
    struct stall stall;
    struct suspicion suspicion;
    struct tuning tuning;
    struct waiting waiting;
};

/* A job that consists of groups. Its parts are jobs of their own, in `jobs`. */
struct parent_slot {
    struct job job;
    struct parent parent;
    const struct model *model; /* the target */
    struct group_work work;
    struct gossip_work mixes; /* of a job of strategy gossip */
};

struct core {
    struct core_config config;
    bool restored;
    bool disk_nearly_full;     /* rounds to the center pause */
    const struct event *event; /* the event of this step */
    struct actions *actions;
    int64_t now_ms, wall_ms;
    int64_t deadline_ms; /* the answer of core_deadline_ms */
    int64_t thawed_ms;   /* polls that break before this time may have timed out in a late turn */
    int64_t deaf_ms;     /* before this time the coordinator could not listen: no silence counts */

    uint64_t seed, id_count;
    int64_t id_wall_ms; /* time in the last id: ids rise even if the clock goes back */
    uint32_t id_word;
    int64_t revision_base; /* first revision of assignments, above those of earlier lives */

    struct table devices, jobs, parents, datasets, models;
    struct table checkpoints;     /* uploaded checkpoints, by hash */
    int64_t *device_due_ms;       /* [devices_max] by slot */
    int64_t *job_due_ms;          /* [jobs_max] by slot */
    struct holding_item *holding; /* [HOLDINGS_POOL_MAX + 1], 0 unused */
    uint32_t holding_spare, holding_fresh;

    char (*kept)[SHA256_SIZE]; /* [KEPT_MAX] hashes of units of failed jobs, whose rows stay */
    size_t kept_count; /* KEPT_MAX: list incomplete, so no blob is deleted until a restart */

    struct device_slot **device_list; /* [devices_max] marked in this step */
    size_t device_list_count;
    struct job_slot **job_list; /* [jobs_max] */
    size_t job_list_count;
    bool schedule;       /* something changed for waiting jobs */
    bool data_changed;   /* a device has enrolled, or was removed: groups may wait for its data */
    bool unsettled;      /* failures remain for the next step, which has room for their actions */
    uint64_t pass;       /* number of the scheduler's pass over the waiting jobs */
    bool pass_open;      /* the pass continues in the next step */
    bool pass_waits;     /* it continues when the open question is answered */
    bool any_free;       /* a device is free */
    size_t ready;        /* count of ready devices, busy or not */
    bool joinable;       /* a device became free: a running job may gain from it */
    bool drain_due;      /* the same, for drain_run: that device may replace a draining one */
    bool drain_open;     /* the pass of drain_run continues in the next step */
    uint64_t drain_pass; /* number of the pass of drain_run */
    bool join_due;       /* as the three members above, for change_run */
    bool join_open;
    uint64_t join_pass;
    bool in_pass;            /* a pass is running: reservations count */
    struct job_slot **queue; /* [jobs_max], scratch of the scheduler */

    struct capacity *capacity;
    struct traffic *traffic;

    /* Scratch of candidates.c. */
    struct device_slot **candidate; /* [devices_max] */
    double *candidate_rank;         /* [devices_max] */
    struct held_item *held;         /* [HOLDINGS_POOL_MAX], scratch of held.c */
    size_t candidate_count;
    struct planning *planning; /* a question that is answered within the step */
    struct planned *planned;   /* the answer that the step handles */
    struct asking asking;

    /* Objects of actions that belong to no slot. */
    struct device_slot *beating; /* the device that gets heartbeat_reply */
    struct heartbeat_reply heartbeat_reply;
    struct enroll_reply enroll_reply;
    struct join_reply join_reply;
    struct center_unit center_unit;
    struct checkpoint checkpoint;
    struct plan_answer *answer; /* dry runs use its preview */
    struct gossip_rows mix_rows;
    struct core_gossip gossip; /* `training` is computed */
    int64_t *shard;            /* [GROUPS_MAX][COUNTED_CLASSES_MAX], scratch of gossip_parts.c */
    struct slice_model *slice; /* scratch of slice_memory.c */
};

#endif
