/* state.h: the state of the core: a slot for each device and each live job, composed of the state
 * of the modules, and what one step works with. core_new reserves everything; a step allocates
 * nothing. */
#ifndef COORDINATOR_CORE_STATE_H
#define COORDINATOR_CORE_STATE_H

#include "coordinator/core/avoidance.h"
#include "coordinator/core/center.h"
#include "coordinator/core/challenge.h"
#include "coordinator/core/charges.h"
#include "coordinator/core/core.h"
#include "coordinator/core/failure.h"
#include "coordinator/core/generations.h"
#include "coordinator/core/held.h"
#include "coordinator/core/holdings.h"
#include "coordinator/core/identity.h"
#include "coordinator/core/incidents.h"
#include "coordinator/core/join.h"
#include "coordinator/core/lease.h"
#include "coordinator/core/links.h"
#include "coordinator/core/mark.h"
#include "coordinator/core/problem.h"
#include "coordinator/core/profile.h"
#include "coordinator/core/progress.h"
#include "coordinator/core/rounds.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/core/sources.h"
#include "coordinator/core/stall.h"
#include "coordinator/core/suspicion.h"
#include "coordinator/core/table.h"
#include "coordinator/core/timers.h"
#include "coordinator/core/tuning.h"
#include "coordinator/core/waiting.h"

#define DATASETS_MAX 1024
#define MODELS_MAX 1024
#define KEPT_MAX 16384            /* blobs of failed jobs */
#define GENERATION_MAX 1000000000 /* a device that claims to have seen more is not believed */
#define REVISION_MAX (1ll << 52)  /* of an assignment; the same */

struct device_slot {
    struct device device;
    struct job_slot *job; /* it works for; NULL: free */
    size_t stage;
    int64_t assignment_revision;
    int64_t asked_bytes; /* scratch of sources_choose: what others fetch from it */
    uint64_t reserved;   /* the scheduler's pass in which it is kept for a waiting job */
    struct device_marks mark;
    struct identity identity;
    struct lease lease;
    struct challenge challenge;
    struct device_holdings holdings;
    struct measured profile;
    struct metric_mark told;
};

struct stage_report {
    bool ready;
    bool failed_at_peer; /* it could not prepare because it did not reach another device */
    double fetch_seconds;
    bool stopped;
    int64_t stopped_version;
    int64_t step;
};

struct job_slot {
    struct job job;
    const struct model *model;
    size_t unit_count;
    int64_t total_steps;
    struct plan plan;     /* the newest; valid when has_plan */
    struct plan previous; /* its last row is written in the step that makes the next */
    bool has_plan;
    struct replan_request
        ran;        /* devices and borders of the newest plan that ran; device_count 0: none */
    bool stay;      /* the next generation keeps them */
    struct cut cut; /* where the last stop or the last start was */
    struct stage_report report[STAGES_MAX];
    int64_t timer_ms[TIMER_COUNT]; /* enum timer; NEVER: not set */
    struct job_marks mark;
    struct failure failure; /* noted in this step */
    struct avoided avoided[AVOIDED_MAX];
    struct open_round round[ROUND_KINDS]; /* of this generation */
    int export_attempts;
    struct center center;
    struct charges charges;
    struct generation generation;
    struct incidents incidents;
    struct join join;
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

struct core {
    struct core_config config;
    bool restored;
    bool disk_nearly_full;     /* the store's: rounds to the center pause */
    const struct event *event; /* of this step */
    struct actions *actions;
    int64_t now_ms, wall_ms;
    int64_t deadline_ms; /* as told after the last step */
    int64_t thawed_ms;   /* polls that break until then may have timed out while a turn was late */
    int64_t deaf_ms;     /* silence until then is ours: we were away, and agents may not have called
                            again yet */

    uint64_t seed, id_count;
    int64_t id_wall_ms; /* ids rise, whatever the clock does */
    uint32_t id_word;
    int64_t revision_base; /* of assignments: no number of an earlier life comes again */

    struct table devices, jobs, datasets, models;
    struct table checkpoints;     /* uploaded ones, by their content */
    int64_t *device_due_ms;       /* [devices_max] by slot */
    int64_t *job_due_ms;          /* [jobs_max] by slot */
    struct holding_item *holding; /* [HOLDINGS_POOL_MAX + 1], 0 unused */
    uint32_t holding_spare, holding_fresh;

    char (*kept)[SHA256_SIZE]; /* [KEPT_MAX] units of failed jobs, whose rows stay */
    size_t
        kept_count; /* KEPT_MAX: maybe more, so nothing is deleted any more before the next start */

    struct device_slot **device_list; /* [devices_max] marked in this step */
    size_t device_list_count;
    struct job_slot **job_list; /* [jobs_max] */
    size_t job_list_count;
    bool schedule;  /* something changed for jobs that wait */
    bool unsettled; /* failures wait for the next step: this one's actions were enough */
    uint64_t pass;  /* of the scheduler over the jobs that wait */
    bool pass_open; /* it was cut short and goes on in the next step */
    bool any_free;  /* some device takes work now */
    size_t ready;   /* devices that take work, busy or not */
    bool joinable;  /* a device became free: jobs that run may want it */
    bool join_open; /* a pass over them was cut short */
    uint64_t join_pass;
    bool in_pass;            /* reservations count only among jobs that wait */
    struct job_slot **queue; /* [jobs_max], scratch of the scheduler */

    /* Scratch of placement. */
    struct device_slot **candidate; /* [devices_max] */
    struct held_item *held;         /* [HOLDINGS_POOL_MAX], scratch of held.c */
    size_t candidate_count;
    struct planning *planning;

    /* Objects of actions that live nowhere else. */
    struct device_slot *beating; /* who gets heartbeat_reply */
    struct heartbeat_reply heartbeat_reply;
    struct enroll_reply enroll_reply;
    struct center_unit center_unit;
    struct checkpoint checkpoint;
    struct plan_answer *answer; /* dry runs use its preview */
};

#endif
