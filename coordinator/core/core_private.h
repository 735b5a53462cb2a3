/* core_private.h: the state of the coordinator's core and what its files offer each other. For coordinator/core/ and
 * nobody else; one thread. Everything is reserved in core_new; a step allocates nothing of its own.
 *
 * A step: the handler of the event changes slots and marks them (job_changed, device_changed, device_touch), failures
 * of a generation are only noted; at the end of the step failures are handled, the scheduler runs if it must, and every
 * marked object becomes one row, one revision and one wake-up (core.c). */
#ifndef COORDINATOR_CORE_CORE_PRIVATE_H
#define COORDINATOR_CORE_CORE_PRIVATE_H

#include "coordinator/core/core.h"
#include "coordinator/core/table.h"
#include "coordinator/plan/partition.h"
#include "libtrain/model/cost.h"

#define NEVER INT64_MAX
#define DATASETS_MAX 1024
#define MODELS_MAX 1024
#define HOLDINGS_POOL_MAX (1u << 18) /* verified snapshots of all devices together */
#define STEP_WINDOW 32               /* step times of which the median is told */
#define FAILURES_MAX 3               /* generations in a row without a step of progress */
#define EXPORT_ATTEMPTS_MAX 5
#define GENERATION_MAX 1000000000 /* a device that claims to have seen more is not believed */
#define METRIC_NAMES 4

struct job_slot;

struct holding_item {
    struct holding holding;
    uint32_t next; /* in the device's list or among the free ones; 0: none */
};

/* Sums of real transfers to one device, for the fit of seconds = latency + bytes / bandwidth. */
struct link_sums {
    struct device_id device;
    double count, seconds, bytes, bytes_squared, bytes_seconds;
};

/* What a device measured in its present or last job. 0: not measured. */
struct device_profile {
    struct job_id job;
    double forward_seconds[UNITS_MAX], backward_seconds[UNITS_MAX]; /* per micro-batch */
    double update_seconds_per_byte;                                 /* of parameters */
};

struct device_slot {
    struct device device;
    struct job_slot *job; /* it works for; NULL: free */
    size_t stage;
    int64_t seen_ms;
    int64_t assignment_revision;
    uint32_t holdings;     /* first of its list; 0: none */
    bool holdings_known;   /* it has told them since its boot and ours */
    bool changed, touched; /* at the end of this step: write the row; wake its polls */
    uint64_t reserved;     /* number of the scheduler's pass in which it is kept for a waiting job */
    struct link_sums link[LINKS_MAX];
    size_t next_link; /* the one to be replaced next */
    struct device_profile profile;
};

struct stage_report {
    bool ready;
    bool stopped;
    int64_t stopped_version;
    int64_t step;
    int64_t bytes_moved;
};

/* A version of which the devices hold every unit: what the last stop left. */
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
};

struct job_slot {
    struct job job;
    struct plan plan;     /* the newest; valid when has_plan */
    struct plan previous; /* the one before: its last row is written in the step that makes the next */
    bool has_plan;
    const struct model *model;
    size_t unit_count;
    int64_t total_steps;

    bool listed, changed, plan_changed, previous_changed, ended; /* at the end of this step */
    bool progressed;                                             /* the revision shall rise for progress */
    int64_t progress_shown_ms;                                   /* when it last did */
    int64_t progress_stored_ms;                                  /* when the row was last written for it */

    struct stage_report report[STAGES_MAX];
    struct cut cut;
    struct unit_source source[UNITS_MAX]; /* of the plan's prepare */
    bool peer_sources;                    /* some device fetches from another one */
    struct center_version center[2];
    int whole; /* which of the two is job.version; the other one is on its way */

    int64_t deadline_ms;    /* of the phase; NEVER */
    int64_t suspicion_ms;   /* a peer error stands unless a lease runs out before; NEVER */
    size_t suspicion_stage; /* who reported it */
    char suspicion_text[MESSAGE_SIZE];
    int64_t gather_ms; /* after a restart: wait for holdings until then; NEVER */
    int64_t export_ms; /* try the export again; NEVER */
    int export_attempts;
    int64_t decided_ms; /* when the plan was made */
    int64_t generation_floor;

    bool has_wish; /* cuts and devices of a replan that is under way */
    struct replan_request wish;
    int stop_reason;            /* enum plan_reason of the plan after the stop */
    int waiting_reason;         /* enum plan_reason of the plan after waiting for devices */
    enum failure_cause failure; /* noted in this step */
    char failure_text[MESSAGE_SIZE];
    int failures;         /* generations in a row without progress */
    int64_t reached_step; /* of this generation */
    int64_t error_step;   /* the furthest step at which a generation failed by an error */
    struct memory_cap cap[STAGES_MAX];
    size_t cap_count;

    double step_seconds[STEP_WINDOW];
    size_t step_count;
    int64_t metric_step[METRIC_NAMES]; /* the last one told, by name */
    int64_t loss_step;                 /* of progress.loss */
};

/* Memory of stages by range of units: linear in threads and micro-batches in flight, so three calls say all. */
struct stage_bytes {
    uint64_t base, per_thread, per_micro_batch;
    uint32_t stamp;
};

struct core {
    struct core_config config;
    bool restored;
    const struct event *event; /* of this step */
    struct actions *actions;
    int64_t now_ms, wall_ms;
    int64_t deadline_ms; /* as told after the last step */

    uint64_t seed, id_count;
    int64_t id_wall_ms; /* ids rise, whatever the clock does */
    uint32_t id_word;
    int64_t revision_base; /* of assignments: no number of an earlier life comes again */

    struct table devices, jobs, datasets, models;
    int64_t *device_due_ms;       /* [devices_max] by slot */
    int64_t *job_due_ms;          /* [jobs_max] by slot */
    struct holding_item *holding; /* [HOLDINGS_POOL_MAX + 1], 0 unused */
    uint32_t holding_spare, holding_fresh;

    struct device_slot **device_list; /* [devices_max] marked in this step */
    size_t device_list_count;
    struct job_slot **job_list; /* [jobs_max] */
    size_t job_list_count;
    bool schedule; /* something changed for jobs that wait */
    uint64_t pass;
    bool in_pass;            /* reservations count only among jobs that wait */
    struct job_slot **queue; /* [jobs_max], scratch of the scheduler */

    /* Scratch of placement. */
    struct device_slot **candidate; /* [devices_max] */
    size_t candidate_count;
    struct planning *planning;

    /* Objects of actions that live nowhere else. */
    struct device_slot *beating; /* who gets heartbeat_reply */
    struct heartbeat_reply heartbeat_reply;
    struct enroll_reply enroll_reply;
    struct center_unit center_unit;
    struct checkpoint checkpoint;
    struct job_preview *preview;
};

/* Everything about one attempt to place a job. */
struct planning {
    const struct job_spec *spec;
    const struct model *model;
    struct device_slot *device[STAGES_MAX]; /* in the order of the stages */
    size_t device_count;
    struct partition_plan plan; /* the answer */

    struct unit_cost cost[UNITS_MAX];
    double forward_seconds[STAGES_MAX * UNITS_MAX], backward_seconds[STAGES_MAX * UNITS_MAX];
    double update_seconds[STAGES_MAX * UNITS_MAX];
    uint64_t border_bytes[UNITS_MAX];
    struct partition_link link[STAGES_MAX];
    uint64_t cap_bytes[STAGES_MAX];
    const char *unit_name[UNITS_MAX], *device_name[STAGES_MAX];
    struct stage_bytes stage_bytes[UNITS_MAX + 1][UNITS_MAX + 1];
    uint32_t stamp;
};

/* ---- actions.c ---- */
void act_persist(struct core *core, enum object_kind kind, const void *object);
void act_forget(struct core *core, enum object_kind kind, const char *id, int64_t version);
void act_reply(struct core *core, int status, enum object_kind kind, const void *object);
void act_problem(struct core *core, enum problem_code code, const char *format, ...) PRINTF_LIKE(3, 4);
void act_wake(struct core *core, enum object_kind kind, const char *id);
void act_export(struct core *core, const char *job_id, int64_t version);
void act_delete_blob(struct core *core, const char *sha256);
void act_metric(struct core *core, const char *job_id, const struct metric *metric);
void act_publish(struct core *core, const char *event, const char *id, const char *format, ...) PRINTF_LIKE(4, 5);
void core_id(struct core *core, char out[ID_SIZE], const char *prefix);
/* An id from the rows: new ones are greater. */
void core_id_seen(struct core *core, const char *id);
/* Copy text into a field of `size` bytes, cut where it does not fit. */
void text_set(char *out, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

/* ---- core.c ---- */
void device_changed(struct core *core, struct device_slot *device);
void device_touch(struct core *core, struct device_slot *device);
/* The job is looked at at the end of the step (its deadlines, a failure); job_changed and plan_changed write the row
 * too. */
void job_mark(struct core *core, struct job_slot *job);
void job_changed(struct core *core, struct job_slot *job);
void plan_changed(struct core *core, struct job_slot *job);
struct device_slot *device_find(const struct core *core, const char *id);
struct job_slot *job_find(const struct core *core, const char *id);
struct device_slot *device_slot_at(const struct core *core, size_t index);
struct job_slot *job_slot_at(const struct core *core, size_t index);
struct device_slot *stage_device(const struct core *core, const struct job_slot *job, size_t stage);

/* ---- states.c ---- */
/* What a verb does to a job in a state. */
enum verb_effect {
    EFFECT_REFUSE,      /* 409 wrong_state */
    EFFECT_NOTHING,     /* it is so already */
    EFFECT_PAUSE,       /* at once: no device works for it */
    EFFECT_PAUSE_LATER, /* remembered, done when it runs */
    EFFECT_STOP,        /* drain, then pause or replan */
    EFFECT_QUEUE,
    EFFECT_CANCEL,
};
enum verb_effect states_verb(int state, enum job_verb verb);
/* Set the job's state; asserts that the change is legal. reason: a code or "". */
void job_set_state(struct core *core, struct job_slot *job, int state, const char *reason, const char *format, ...)
    PRINTF_LIKE(5, 6);
/* Whether the plan has devices that work for it. */
bool plan_active(const struct job_slot *job);
/* The phase that the job's devices are told. */
enum phase job_phase(const struct job_slot *job);

/* ---- devices.c ---- */
void handle_enroll(struct core *core, const struct event *event);
void handle_device_verb(struct core *core, const struct event *event);
void device_seen(struct core *core, struct device_slot *device);
void devices_tick(struct core *core);
/* Deadlines moved because a turn came late. */
void devices_late(struct core *core, int64_t late_ms);
int64_t device_due_ms(const struct core *core, const struct device_slot *device);
bool device_online(const struct device_slot *device);
/* Reachable for others: online or suspect. */
bool device_reachable(const struct device_slot *device);
/* Whether its job cannot do without it: once all its units are in the center, nobody misses it. */
bool device_needed(const struct device_slot *device);
void device_assign(struct core *core, struct device_slot *device, struct job_slot *job, size_t stage);
void device_release(struct core *core, struct device_slot *device);

/* ---- holdings.c ---- */
void holdings_replace(struct core *core, struct device_slot *device, const struct heartbeat *heartbeat);
void holdings_clear(struct core *core, struct device_slot *device);
/* NULL: the device does not hold it. */
const struct holding *holdings_find(const struct core *core, const struct device_slot *device, const char *job_id,
                                    int64_t version, int64_t unit);
bool holdings_of_job(const struct core *core, const struct device_slot *device, const char *job_id);
/* What the device shall drop, by what it holds and how the jobs stand: drop[DROPS_MAX]. */
size_t holdings_drops(const struct core *core, const struct device_slot *device, struct drop *drop);
/* Wake every device whose assignment depends on the job: its stages and all that hold something of it. */
void job_touch(struct core *core, struct job_slot *job);
/* Whether reachable devices hold every unit of the job's cut. */
bool cut_held(const struct core *core, const struct job_slot *job);
/* After a restart: find the newest plan's start version among the holdings again. */
void cut_rebuild(struct core *core, struct job_slot *job);
/* What the stages hold at `version` becomes the cut. false: something is missing yet. */
bool cut_take(const struct core *core, struct job_slot *job, int64_t version);
/* Choose where every unit of the plan comes from; fills source and the plan's bytes_moved; returns all bytes on the
 * way. */
int64_t sources_choose(struct core *core, struct job_slot *job);

/* ---- heartbeats.c ---- */
void handle_heartbeat(struct core *core, const struct event *event);

/* ---- profile.c ---- */
void profile_take(struct core *core, struct job_slot *job, struct device_slot *device,
                  const struct heartbeat *heartbeat);
/* Unit times of the planning's devices for the job (NULL: a job that does not exist yet). */
void profile_times(struct planning *planning, const struct job_slot *job);
struct partition_link profile_link(const struct device_slot *a, const struct device_slot *b);

/* ---- progress.c ---- */
void progress_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                   const struct heartbeat *heartbeat);
/* The job goes on from the plan's resume_version. */
void progress_restart(struct job_slot *job);
void progress_set_step(struct job_slot *job, int64_t step);

/* ---- problem.c ---- */
/* Cut the model over planning->device[]; end NULL: the best cuts. */
NODISCARD int problem_solve(struct core *core, const struct job_slot *job, const size_t *end, struct err *err);

/* ---- placement.c ---- */
enum candidates {
    CANDIDATES_FREE,   /* online, not cordoned, without another job */
    CANDIDATES_ONLINE, /* the same, busy or not */
    CANDIDATES_KNOWN,  /* every device there is, by memory rather than speed: can it ever fit? */
};
struct placement_request {
    const struct job_spec *spec;
    const struct model *model;
    const struct job_slot *job; /* NULL: not submitted yet */
    enum candidates candidates;
    const struct replan_request *wish; /* NULL: as the planner chooses */
};
/* Fills core->planning. ERR_STATE: too few devices, err says how many are missing; ERR_MEMORY: too little memory;
 * ERR_INVALID: the wish cannot be met. */
NODISCARD int placement_choose(struct core *core, const struct placement_request *request, struct err *err);
/* How many devices would match, whatever they do now; leaves core->candidate. */
size_t placement_count(struct core *core, const struct placement_request *request);
/* The cuts that a job's spec wants for its first plan; NULL: none. `out` is the caller's. */
const struct replan_request *placement_first_wish(const struct job_spec *spec, int64_t generation,
                                                  struct replan_request *out);
/* Write the planning's answer into a plan. */
void placement_fill(const struct planning *planning, struct plan *plan);
bool placement_one_class(const struct planning *planning);

/* ---- scheduler.c ---- */
void scheduler_run(struct core *core);

/* ---- jobs.c ---- */
void handle_job_submit(struct core *core, const struct event *event);
void handle_job_verb(struct core *core, const struct event *event);
void job_end(struct core *core, struct job_slot *job, int state, const char *reason, const char *message);
void job_pause_now(struct core *core, struct job_slot *job);

/* ---- generations.c ---- */
/* Plan and prepare the next generation. false: there are not enough devices; the job waits. */
bool generation_begin(struct core *core, struct job_slot *job, int reason);
/* Ask the running plan to stop. */
void generation_stop(struct core *core, struct job_slot *job, int reason);
/* Go on when the phase is complete. */
void generation_advance(struct core *core, struct job_slot *job);
/* Note that the generation failed; the first cause counts. */
void generation_fail(struct core *core, struct job_slot *job, enum failure_cause cause, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* At the end of the step. */
void generation_failed(struct core *core, struct job_slot *job);
void generation_tick(struct core *core, struct job_slot *job);
/* The plan ends: devices are free. state: enum plan_state. */
void plan_close(struct core *core, struct job_slot *job, int state, int64_t last_version);
/* How long a phase may take before its generation fails. */
int64_t prepare_timeout_ms(const struct core *core, const struct job_slot *job, int64_t state_bytes);
int64_t stop_timeout_ms(const struct job_slot *job);
int64_t transfer_timeout_ms(int64_t bytes);

/* ---- center.c ---- */
void handle_blob_stored(struct core *core, const struct event *event);
void handle_exported(struct core *core, const struct event *event);
struct center_version *center_whole(struct job_slot *job);
struct center_version *center_coming(struct job_slot *job);
/* The stop is complete at `version`: bring it into the center, then pause or export. */
void center_collect(struct core *core, struct job_slot *job, int64_t version);
/* Go on when every unit of the coming version is there. */
void center_advance(struct core *core, struct job_slot *job);
/* Whether the device still owes units of the coming version. */
bool center_owes(const struct job_slot *job, size_t stage);
/* Forget what has come of a version that was given up. */
void center_discard(struct core *core, struct job_slot *job);
/* Forget every unit of the job. keep: a hash that lives on, or "". */
void center_forget(struct core *core, struct job_slot *job, const char *keep);
void center_export(struct core *core, struct job_slot *job);
/* A row from the store. */
void center_restore_unit(struct job_slot *job, const struct center_unit *unit);
/* After all rows: a job whose newest version is not whole in the rows has none. */
void center_restored(struct core *core, struct job_slot *job);

/* ---- restore.c ---- */
void handle_restored(struct core *core, const struct event *event);

#endif
