/* state.h: the state of the coordinator's core, as plain structs. For coordinator/core/ and
 * nobody else; one thread. Everything is reserved in core_new; a step allocates nothing of its own.
 */
#ifndef COORDINATOR_CORE_STATE_H
#define COORDINATOR_CORE_STATE_H

#include "coordinator/core/core.h"
#include "coordinator/core/table.h"
#include "coordinator/plan/link.h"
#include "coordinator/plan/partition.h"
#include "libtrain/memory/memory.h"
#include "libtrain/model/cost.h"

#define NEVER INT64_MAX
#define DATASETS_MAX 1024
#define MODELS_MAX 1024
#define HOLDINGS_POOL_MAX (1u << 18) /* verified snapshots of all devices together */
#define KEPT_MAX 16384               /* blobs of failed jobs */
#define STEP_WINDOW 32               /* step times of which the median is told */
#define FAILURES_MAX 3   /* devices that fail in the same way before the job is to blame */
#define AVOIDED_MAX 8    /* devices that a job does without for a while */
#define BAD_LINKS_MAX 32 /* pairs of devices that do not reach each other, of one job */
#define STALL_SHIFT_MAX                                                                            \
    6 /* a job that stalls again and again gets up to 2^6 times its step deadline */
#define LATE_SHIFT_MAX 4 /* the same for phase prepare */
#define DEVICE_FORGET_MS                                                                           \
    3600000 /* a device that never worked is removed so long after it was lost */
#define GENERATION_MAX 1000000000 /* a device that claims to have seen more is not believed */
#define REVISION_MAX (1ll << 52)  /* of an assignment; the same */
#define PAST_BOOTS 4
#define METRIC_NAMES (METRIC_TEST_ACCURACY + 1)

struct job_slot;

struct holding_item {
    struct holding holding;
    uint32_t next; /* in the device's list or among the free ones; 0: none */
    bool let_go; /* the device was told to drop it and may do so at any moment: nothing relies on it
                  */
};

/* A holding among those of a job. */
struct held_item {
    int64_t version;
    uint32_t unit, order; /* order: of the devices' ids */
    uint32_t item;        /* of core.holding */
    struct device_slot *device;
};

/* Real transfers to one device. */
struct measured_link {
    struct device_id device;
    struct link_sums sums;
};

/* A device that another one cannot reach, as that one reported. */
struct trouble {
    struct device_id device;
    int kind; /* enum peer_trouble */
    int64_t since_ms;
    int64_t due_ms; /* the device has answered: the link is blamed then; NEVER: it has not */
};

/* What a device measured in its present or last job. 0: not measured. */
struct device_profile {
    struct job_id job;
    double forward_seconds[UNITS_MAX], backward_seconds[UNITS_MAX]; /* per micro-batch */
    double update_seconds_per_byte;                                 /* of parameters */
};

/* The last metrics that a device told, by name: of one generation it tells them in order, and
 * repeats them until they are acknowledged. */
struct metric_mark {
    char job[ID_SIZE];
    int64_t generation;
    int64_t step[METRIC_NAMES];
};

struct device_slot {
    struct device device;
    struct job_slot *job; /* it works for; NULL: free */
    size_t stage;
    int64_t seen_ms; /* its last call of any kind */
    int64_t lost_ms; /* with state lost: since when, as far as forgetting it goes */
    int64_t beat_ms; /* its last heartbeat */
    char past_boot[PAST_BOOTS][ID_SIZE]; /* that were replaced last */
    size_t next_past;                    /* the one to be overwritten next */
    bool shared;                         /* one of them came back: two agents use the identity */
    char claim_boot[ID_SIZE]; /* asks to take over from the present one, which may live; "": none */
    int64_t claim_ms;         /* when it asked first */
    int64_t assignment_revision;
    uint32_t holdings; /* first of its list, the newest versions first; 0: none */
    uint32_t holding_count;
    int64_t let_go_revision; /* of the assignment that last named something to drop */
    bool holdings_known;     /* it has told them since its boot and ours */
    int64_t asked_bytes;     /* scratch of sources_choose: what others shall fetch from it */
    struct trouble trouble[PEER_REPORTS_MAX]; /* whom it cannot reach in its present generation */
    size_t trouble_count;
    char challenge[ID_SIZE];  /* the nonce that its next heartbeat shall repeat; "": none */
    int64_t challenge_due_ms; /* for the answer; NEVER */
    bool silent;              /* it left a challenge without an answer: no plan takes it */
    bool poll_broken;         /* the connection of its poll broke */
    double jitter_ms;         /* by how much its heartbeats are late, as a rule */
    int64_t busy_ms;          /* its compute thread is in one task so long */
    bool changed, touched;    /* at the end of this step: write the row; wake its polls */
    uint64_t reserved; /* number of the scheduler's pass in which it is kept for a waiting job */
    struct measured_link link[LINKS_MAX];
    size_t next_link; /* the one to be replaced next */
    struct device_profile profile;
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

/* A version of which the devices hold every unit: what the last stop left, or where a generation
 * started. */
struct cut {
    int64_t version; /* 0: none */
    struct {
        char sha256[SHA256_SIZE];
        int64_t bytes;
    } unit[UNITS_MAX];
};

/* A version in the center, whole or on its way. */
struct center_version {
    int64_t version; /* 0: none */
    size_t count;    /* units that are there */
    struct center_unit unit[UNITS_MAX];
    bool present[UNITS_MAX];
};

struct unit_source {
    int from;                /* enum source_from */
    struct device_id device; /* with SOURCE_DEVICE */
};

/* After it ran out of memory a device is given less in this job. */
struct memory_cap {
    struct device_id device;
    int64_t bytes;
};

enum failure_cause {
    FAILURE_NONE,
    FAILURE_DEVICE_LOST,
    FAILURE_RESTARTED, /* a new boot, or a generation from another life */
    FAILURE_ERROR,     /* a device reported one */
    FAILURE_DEADLINE,  /* of prepare, stop or finish */
    FAILURE_LINK,      /* two live devices do not reach each other */
    FAILURE_STALLED,   /* no step for too long */
};

/* Why a generation fails. */
struct blame {
    enum failure_cause cause;
    const struct device_slot *device; /* whose fault it is; NULL: nobody's in particular */
    const struct device_slot *other;  /* LINK: the other end */
    const char *code; /* ERROR: of the device's report; NULL: the cause says it all */
    int64_t since_ms; /* the last sign of life or progress as far as known */
};

struct failure {
    enum failure_cause cause; /* NONE: none noted */
    char code[REASON_SIZE];   /* failures in the same way have the same */
    struct incident_device device[STAGES_MAX];
    size_t device_count;
    int64_t since_ms;
    char text[MESSAGE_SIZE];
};

/* Devices that are thought away. */
struct absent {
    const struct device_id *device;
    size_t count;
};

enum round_kind { ROUND_OF_NEIGHBOR, ROUND_OF_CENTER, ROUND_KINDS };

/* The round of replication of a kind that is open in this generation. */
struct open_round {
    int64_t version; /* 0: none */
    int64_t last;    /* the newest that was ever open */
    int64_t deadline_ms;
};

/* A device that is left out of a job's plans while the job can do without it. */
struct avoided {
    struct device_id device;
    bool failed; /* by itself: the job rather waits for its next try than takes it at once */
    int count;   /* times in a row */
    int64_t for_ms, until_ms;
};

/* Devices that failed in the same way, one after the other, without progress in between: then the
 * job is to blame. */
struct charge {
    char code[REASON_SIZE];
    struct device_id device[FAILURES_MAX];
    size_t count;
};

/* The version that devices failed to load, generation after generation. */
struct stuck {
    int64_t version;
    int64_t since_ms; /* when the first of these generations was planned */
    int count;        /* failures */
};

/* Two devices of a job that did not reach each other though both lived. */
struct bad_link {
    struct device_id device[2];
    int64_t until_ms; /* it is believed so long */
};

/* An incident's points in time, of the core's clock; 0: not yet. */
struct incident_times {
    int64_t suspected_ms, detected_ms, decided_ms, ready_ms;
};

struct job_slot {
    struct job job;
    struct incident incident; /* the open one, or the one that ended in this step */
    bool has_incident, incident_changed;
    size_t message_end; /* of the incident's message, before what it says of a wait; 0: nothing */
    struct incident_times times;
    struct plan plan; /* the newest; valid when has_plan */
    struct plan
        previous; /* the one before: its last row is written in the step that makes the next */
    bool has_plan;
    const struct model *model;
    size_t unit_count;
    int64_t total_steps;
    char kernels[KERNEL_TEXT_SIZE]; /* as the stages of the present plan report them */
    bool kernels_told;              /* all have, and ACTION_TUNE was asked for */

    bool listed, changed, plan_changed, previous_changed, ended; /* at the end of this step */
    bool progressed;            /* the revision shall rise for progress */
    int64_t progress_shown_ms;  /* when it last did */
    int64_t progress_stored_ms; /* when the row was last written for it */

    struct stage_report report[STAGES_MAX];
    struct cut cut;
    struct unit_source source[UNITS_MAX]; /* of the plan's prepare */
    bool peer_sources;                    /* some device fetches from another one */
    struct center_version center[2];
    int whole; /* which of the two is job.version; the other one is on its way */

    struct open_round round[ROUND_KINDS];

    int64_t deadline_ms;    /* of the phase; NEVER */
    int64_t suspicion_ms;   /* an error of code peer stands unless its suspicion is settled before;
                               NEVER */
    size_t suspicion_stage; /* who reported it */
    char suspicion_text[MESSAGE_SIZE];
    int64_t progress_ms;   /* when some stage's step last rose */
    int64_t step_due_ms;   /* for the next step, then for a stalled job to recover; NEVER */
    int stall_shift;       /* its step deadline is so many times doubled */
    int late_shift;        /* its prepare deadline is so many times doubled */
    int64_t join_ms;       /* look for more devices then; NEVER */
    int64_t join_after_ms; /* a device that joined has not paid for itself before */
    uint64_t join_looked;  /* the pass of join.c that looked at it last */
    struct avoided avoided[AVOIDED_MAX];
    struct bad_link bad_link[BAD_LINKS_MAX];
    size_t next_bad_link;
    int links; /* generations in a row that failed by a link and got no further than the furthest of
                  them */
    int64_t link_step;     /* which got so far */
    int64_t link_since_ms; /* when the first of them did; NEVER */
    int64_t retry_ms;      /* the next generation is put off until then; NEVER: it is not */
    bool retry_early;      /* unless it can do without the devices that failed */
    struct replan_request
        ran;   /* devices and borders of the newest plan that ran; device_count 0: none */
    bool stay; /* the next generation shall be cut like that: its units stay where they are */
    uint64_t member[DEVICES_MAX / 64]; /* by the slot of a device: some plan of the job had it */
    bool members_known; /* every plan of the job was made in this life of the coordinator */
    int64_t gather_ms;  /* devices may tell of a newer version, or bring one, until then; NEVER: it
                           is not asked for */
    int64_t export_ms;  /* try the export again; NEVER */
    int export_attempts;
    int64_t decided_ms;   /* when the plan was made */
    int64_t moving_bytes; /* of state that its devices fetch */
    int64_t state_bytes;  /* of all units, about */
    int64_t generation_floor;

    uint64_t tried;         /* the scheduler's pass that looked at it last */
    size_t tried_ready;     /* how many devices took work then, busy or not */
    int stop_reason;        /* enum plan_reason of the plan after the stop */
    int waiting_reason;     /* enum plan_reason of the plan after waiting for devices */
    struct failure failure; /* noted in this step */
    int64_t reached_step;   /* of this generation */
    int64_t
        furthest_step; /* of those that have failed or stopped: what is below it is no progress */
    struct charge charge;
    struct stuck stuck;
    int faults;   /* failures without progress that no single device is charged with */
    int put_offs; /* how often it was put off since it last made progress */
    struct memory_cap cap[STAGES_MAX];
    size_t cap_count;

    double known_step_seconds; /* measured by this plan or one before; 0: never */
    double evaluation_seconds; /* of the last evaluation that was measured; 0: none was */
    double step_seconds[STEP_WINDOW];
    size_t step_count;
    int64_t loss_step, accuracy_step; /* of progress.loss and progress.accuracy */
};

/* Memory of a stage by its range of units. */
struct stage_bytes {
    struct memory_growth bytes; /* the base with all snapshots there are */
    uint32_t stamp;
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

/* Everything about one attempt to place a job. */
struct planning {
    const struct job_spec *spec;
    const struct model *model;
    struct device_slot *device[STAGES_MAX]; /* in the order of the stages */
    size_t device_count;
    enum recompute recompute;   /* the spec's, or what might fit better */
    bool first_fit;             /* any plan will do */
    bool caps;                  /* devices that ran out of memory in the job are given less */
    struct partition_plan plan; /* the answer */
    double work;                /* of all searches of this step */
    double memory_work;         /* of the questions for the memory of this job */

    struct unit_cost cost[UNITS_MAX];
    double forward_seconds[STAGES_MAX * UNITS_MAX], backward_seconds[STAGES_MAX * UNITS_MAX];
    double update_seconds[STAGES_MAX * UNITS_MAX];
    uint64_t border_bytes[UNITS_MAX];
    struct partition_link link[STAGES_MAX];
    uint64_t cap_bytes[STAGES_MAX];
    const char *unit_name[UNITS_MAX], *device_name[STAGES_MAX];
    struct stage_bytes stage_bytes[UNITS_MAX + 1][UNITS_MAX + 1];
    enum conv2d_backend
        backend; /* stage_bytes of this stamp are of it, and of the job and recompute above */
    uint32_t stamp;
    struct arena_scratch *scratch; /* of the questions for memory */
};

#endif
