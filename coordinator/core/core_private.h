/* core_private.h: what the files of the core offer each other. For coordinator/core/ and nobody
 * else; one thread.
 *
 * A step: the handler of the event changes slots and marks them (job_changed, device_changed,
 * device_touch), failures of a generation are only noted; at the end of the step failures are
 * handled, the scheduler runs if it must, and every marked object becomes one row, one revision and
 * one wake-up (core.c). */
#ifndef COORDINATOR_CORE_CORE_PRIVATE_H
#define COORDINATOR_CORE_CORE_PRIVATE_H

#include <stdarg.h>

#include "coordinator/core/core_state.h"

/* ---- actions.c ---- */
void act_persist(struct core *core, enum object_kind kind, const void *object);
void act_forget(struct core *core, enum object_kind kind, const char *id, int64_t version);
void act_reply(struct core *core, int status, enum object_kind kind, const void *object);
void act_problem(struct core *core, enum problem_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);
void act_wake(struct core *core, enum object_kind kind, const char *id);
void act_export(struct core *core, const char *job_id, int64_t version);
void act_tune(struct core *core, const char *job_id);
void act_delete_blob(struct core *core, const char *sha256);
void act_metric(struct core *core, const char *job_id, const struct metric *metric);
void act_publish(struct core *core, const char *event, const char *id, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* Whether this step may do one more job's worth of actions, with what the marked objects will take
 * counted in. */
bool act_room(const struct core *core);
void core_id(struct core *core, char out[ID_SIZE], const char *prefix);
/* An id from the rows: new ones are greater. */
void core_id_seen(struct core *core, const char *id);
/* Copy text into a field of `size` bytes, cut where it does not fit. */
void text_set(char *out, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
void text_format(char *out, size_t size, const char *format, va_list arguments) PRINTF_LIKE(3, 0);

/* ---- core.c ---- */
void device_changed(struct core *core, struct device_slot *device);
void device_touch(struct core *core, struct device_slot *device);
/* The job is looked at at the end of the step (its deadlines, a failure); job_changed and
 * plan_changed write the row too. */
void job_mark(struct core *core, struct job_slot *job);
void job_changed(struct core *core, struct job_slot *job);
void plan_changed(struct core *core, struct job_slot *job);
struct device_slot *device_find(const struct core *core, const char *id);
struct job_slot *job_find(const struct core *core, const char *id);
struct device_slot *device_slot_at(const struct core *core, size_t index);
struct job_slot *job_slot_at(const struct core *core, size_t index);
struct device_slot *stage_device(const struct core *core, const struct job_slot *job, size_t stage);

/* ---- stored.c ---- */
void handle_dataset_stored(struct core *core, const struct event *event);
void handle_model_stored(struct core *core, const struct event *event);
void handle_checkpoint_stored(struct core *core, const struct event *event);

/* ---- states.c ---- */
/* What a verb does to a job in a state. */
enum verb_effect {
    EFFECT_REFUSE,      /* 409 wrong_state */
    EFFECT_NOTHING,     /* it is so already */
    EFFECT_PAUSE,       /* at once: no device works for it */
    EFFECT_PAUSE_LATER, /* remembered, done when it runs */
    EFFECT_STOP,        /* drain, then pause or replan */
    EFFECT_QUEUE,
    EFFECT_RETRY, /* what it waits for by the clock is over, and its devices are taken again */
    EFFECT_CANCEL,
    EFFECT_KEEP, /* cancel once the center's version is a checkpoint */
    EFFECT_EXPORT,
};
enum verb_effect states_verb(int state, enum job_verb verb);
/* Set the job's state; asserts that the change is legal. reason: a code or "". */
void job_set_state(struct core *core, struct job_slot *job, int state, const char *reason,
                   const char *format, ...) PRINTF_LIKE(5, 6);
/* Whether the plan has devices that work for it. */
bool plan_active(const struct job_slot *job);
/* Whether a stage of it is the device's. */
bool plan_has(const struct plan *plan, const struct device_slot *device);
/* The phase that the job's devices are told. */
enum phase job_phase(const struct job_slot *job);

/* ---- devices.c ---- */
void handle_enroll(struct core *core, const struct event *event);
void handle_contact(struct core *core, const struct event *event);
void handle_device_verb(struct core *core, const struct event *event);
void device_seen(struct core *core, struct device_slot *device);
void devices_tick(struct core *core);
/* Deadlines moved because a turn came late. */
void devices_late(struct core *core, int64_t late_ms);
/* Nobody loses the lease within so long from now on. */
void devices_spare(struct core *core, int64_t ms);
int64_t device_due_ms(const struct core *core, const struct device_slot *device);
/* Reckon anew when it is due. */
void device_time(struct core *core, struct device_slot *device);
/* Its connections are broken and it does not answer: as good as lost, though its lease still runs.
 */
void device_disconnected(struct core *core, struct device_slot *device);
bool device_online(const struct device_slot *device);
/* Reachable for others: online or suspect. */
bool device_reachable(const struct device_slot *device);
/* Whether it takes work, if it is free. */
bool device_ready(const struct device_slot *device);
/* Whether its job cannot do without it: once all its units are in the center, nobody misses it. */
bool device_needed(const struct device_slot *device);
void device_assign(struct core *core, struct device_slot *device, struct job_slot *job,
                   size_t stage);
void device_release(struct core *core, struct device_slot *device);

/* ---- identity.c ---- */
/* Whether another boot takes over the device; if not, the problem has been answered. */
bool identity_takes(struct core *core, struct device_slot *device, const char *boot);

/* ---- holdings.c ---- */
void holdings_replace(struct core *core, struct device_slot *device,
                      const struct heartbeat *heartbeat);
void holdings_clear(struct core *core, struct device_slot *device);
/* Whether a decision about the job may rest on it: it is on the job's line, and the device was not
 * told to drop it. */
bool holdings_usable(const struct job_slot *job, const struct holding_item *item);
/* NULL: the device does not hold it usably. */
const struct holding *holdings_find(const struct core *core, const struct device_slot *device,
                                    const struct job_slot *job, int64_t version, int64_t unit);
bool holdings_of_job(const struct core *core, const struct device_slot *device, const char *job_id);
/* The plan's devices may hold something of the job from now on. */
void members_add(struct core *core, struct job_slot *job);
/* Whether a plan of the job had the device; true where that is not known. */
bool members_has(const struct core *core, const struct job_slot *job,
                 const struct device_slot *device);
/* The device's slot will be another one's. */
void members_forget(struct core *core, const struct device_slot *device);
/* What the device shall drop, by what it holds and how the jobs stand: drop[DROPS_MAX]. */
size_t holdings_drops(const struct core *core, const struct device_slot *device, struct drop *drop);
/* Note that the device's assignment now tells it to drop what holdings_drops names: nothing relies
 * on it any more. */
void holdings_let_go(struct core *core, struct device_slot *device);
/* Wake every device whose assignment depends on the job: its stages and all that hold something of
 * it. */
void job_touch(struct core *core, struct job_slot *job);
/* Take what the stages' devices hold at the version as the job's cut. false: something is missing.
 */
bool cut_take(const struct core *core, struct job_slot *job, int64_t version);

/* ---- recovery.c ---- */
/* Whether a version that was computed or loaded in a generation is part of what the job does now.
 */
bool line_holds(const struct job *job, int64_t generation, int64_t version);
/* A generation starts from version `first`. */
void line_push(struct job *job, int64_t generation, int64_t first);
bool absent_has(const struct absent *absent, const struct device_slot *device);
/* From which version the job's next generation starts without the absent devices: the newest of
 * which the reachable ones hold every unit with one hash, and its hashes; else, and after a pause,
 * what the center has, or 0, and an empty cut. */
int64_t recovery_start(const struct core *core, const struct job_slot *job,
                       const struct absent *absent, struct cut *out);
/* Whether a device that has not told what it holds may have what the start would lack. */
bool recovery_must_gather(struct core *core, const struct job_slot *job);
/* How long a start that is older than what the job had is worth putting off, for devices of its
 * last plan that are away and may bring something newer. 0: there is none to wait for. */
int64_t recovery_patience_ms(const struct core *core, const struct job_slot *job, int64_t start);
/* Of the plan's resume_version; "" and 0: from the seed. */
const char *source_hash(const struct job_slot *job, int64_t unit);
int64_t source_bytes(const struct job_slot *job, int64_t unit);
/* Whether the unit is taken from the device. */
bool source_is(const struct job_slot *job, int64_t unit, const struct device_slot *device);
/* Where each stage takes its units from: job->source, job->moving_bytes, plan.bytes_moved. */
void sources_choose(struct core *core, struct job_slot *job);

/* What the devices without the absent ones hold of the job, for recovery_without: how many of
 * core->held. */
size_t recovery_list(const struct core *core, const struct job_slot *job,
                     const struct absent *absent);
/* recovery_start without more devices, from the first `count` of core->held. */
int64_t recovery_without(const struct core *core, const struct job_slot *job, size_t count,
                         const struct absent *absent);
/* The center's version; 0: it has none that is whole. */
int64_t recovery_center(const struct job_slot *job);

/* ---- held.c ---- */
/* Fills core->held with what reachable devices hold usably, newest versions first, then by unit and
 * device: of version `only`, or (-1) of every version that is newer than the center's. Returns how
 * many. */
size_t held_list(const struct core *core, const struct job_slot *job, const struct absent *absent,
                 int64_t only);
/* Leaves only versions of which every unit is held. Returns how many. */
size_t held_covered(const struct core *core, const struct job_slot *job, size_t count);
/* The newest version below `below` (NEVER: of all) that is whole without the absent devices, all
 * holders of a unit agreeing on its hash; out (NULL or empty) gets its hashes. 0: none is. */
int64_t held_newest(const struct core *core, const struct job_slot *job, size_t count,
                    const struct absent *absent, int64_t below, struct cut *out);

/* ---- links.c ---- */
/* Both live, and do not reach each other. */
void link_note(const struct core *core, struct job_slot *job, const struct device_slot *a,
               const struct device_slot *b);
/* Whether that was so lately. */
bool link_is_bad(const struct core *core, const struct job_slot *job, const struct device_slot *a,
                 const struct device_slot *b);
/* Whether the plan that is being prepared and fails by a link can be made without moving units: by
 * that which ran. */
bool links_can_stay(const struct core *core, const struct job_slot *job);
/* Whether the newest plan that ran had the device. */
bool links_ran(const struct job_slot *job, const struct device_slot *device);
/* A generation failed, by a link or otherwise. */
void links_count(const struct core *core, struct job_slot *job, bool by_link);
/* No generation has failed by a link lately. */
void links_reset(struct job_slot *job);
/* How long the next generation is put off. What is held is not given up for what may be over in a
 * moment. */
int64_t links_pause_ms(const struct core *core, const struct job_slot *job);
/* Whether stages on these devices, in this order, would have to use a bad link among themselves. */
bool links_break_ring(const struct core *core, const struct job_slot *job,
                      struct device_slot *const *device, size_t count);

/* ---- weighing.c ---- */
/* The plan's devices could not load the version that it starts from. */
void stuck_count(struct job_slot *job);
/* They could. */
void stuck_forget(struct job_slot *job);
/* From which version the plan in core->planning starts: `start`, or an older one (and job->cut)
 * when a link keeps `start` from the plan, or devices failed to load it, and waiting takes as long
 * as retraining the steps in between. Never 0 in place of a held version. */
int64_t weigh_start(struct core *core, struct job_slot *job, int64_t start);

/* ---- rounds.c ---- */
/* Versions below it are dropped. */
int64_t rounds_pin(const struct job_slot *job);
/* None is open any more. */
void rounds_reset(struct job_slot *job);
/* Rows of a round to the center were restored. */
void rounds_restore_center(struct core *core, struct job_slot *job);
/* Commit what is complete. */
void rounds_check(struct core *core, struct job_slot *job);
void rounds_abandon_center(struct core *core, struct job_slot *job);
void rounds_center_done(struct core *core, struct job_slot *job);
void rounds_tick(struct core *core, struct job_slot *job);
int64_t rounds_due_ms(const struct job_slot *job);
/* What stage 0 says of its rounds, and the answer in the reply. */
void rounds_take(struct core *core, const struct device_slot *device,
                 const struct heartbeat *heartbeat);

/* ---- suspicion.c ---- */
void handle_poll_broken(struct core *core, const struct event *event);
void suspicion_take(struct core *core, struct device_slot *device,
                    const struct heartbeat *heartbeat);
/* Ask the device for a sign of life at once. */
void suspicion_challenge(struct core *core, struct device_slot *device);
void suspicion_clear(struct device_slot *device);
int64_t suspicion_due_ms(const struct device_slot *device);
void suspicion_late(const struct core *core, struct device_slot *device);
void suspicion_tick(struct core *core, struct device_slot *device);
/* An error of code peer has waited long enough. */
void suspicion_settle(struct core *core, struct job_slot *job);
/* When the device was last seen alive, by itself or by its peers. */
int64_t device_alive_ms(const struct core *core, const struct device_slot *device);
/* A step was applied, or the plan begins to run: the next is waited for. */
void stall_watch(struct core *core, struct job_slot *job);
void stall_tick(struct core *core, struct job_slot *job);

/* ---- avoidance.c ---- */
enum avoidance {
    AVOID_LINK,   /* it does not reach another one */
    AVOID_SLOW,   /* it held work without progress */
    AVOID_LOST,   /* it was lost, or started anew: from the second time on */
    AVOID_DAMAGE, /* its own copy of a unit was damaged: by itself from the second time on */
    AVOID_FAILED, /* by itself */
};
/* Whom a plan leaves out. With AVOID_NOBODY those that ran out of memory are given all they have,
 * too. */
enum avoid_level { AVOID_NOBODY, AVOID_FAILURES, AVOID_ALL };
/* Leave the device out of the job's plans for a time that doubles. */
void avoid(struct core *core, struct job_slot *job, const struct device_slot *device,
           enum avoidance why);
bool job_avoids(const struct core *core, const struct job_slot *job,
                const struct device_slot *device, enum avoid_level level);
/* When the first of those that the job avoids is taken again; NEVER: it avoids nobody. */
int64_t avoided_until_ms(const struct core *core, const struct job_slot *job);
/* From now on. */
void avoid_nobody(struct job_slot *job);

/* ---- incidents.c ---- */
void incident_failed(struct core *core, struct job_slot *job, const struct failure *failure);
void incident_decided(struct core *core, struct job_slot *job);
/* A device reports how far a generation came that is over: while it could not be heard it trained
 * on. */
void incident_heard(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat);
/* A newer version that the plan does not get, and an older one. */
struct weighing {
    int64_t newer, older;
    int64_t waited_ms; /* since the first failure to get it */
    int64_t again_ms;  /* to retrain the steps in between */
    bool by_link;      /* it is behind a bad link; else devices cannot load it */
};
/* Which of the two was chosen. */
void incident_weighed(struct core *core, struct job_slot *job, const struct weighing *weighing,
                      bool waits);
void incident_ready(struct core *core, struct job_slot *job);
/* At the end of a step: resolved when a step beyond the start is done. */
void incident_settle(struct core *core, struct job_slot *job);
/* What is to be said of the open one when the job runs again; "": there is none. */
void incident_cost(const struct job_slot *job, char *out, size_t size);
/* The job has ended or is paused. */
void incident_end(struct core *core, struct job_slot *job);
void incident_restore(struct core *core, const struct incident *row);

/* ---- join.c ---- */
/* Whether jobs that run are better off with a device that is free. */
void join_run(struct core *core);
/* Look for more devices now, and plan the next look: when a move has paid for itself, or an
 * exclusion ends. */
void join_watch(struct core *core, struct job_slot *job);

/* ---- deadlines.c ---- */
void deadlines_fill(const struct core *core, struct job_slot *job);
int64_t suspect_ms(const struct core *core);
/* Of the first lease after a start: agents that wait to repeat their calls are heard before it is
 * over. */
int64_t first_lease_ms(const struct core *core);
int64_t challenge_ms(const struct core *core, const struct device_slot *device);
/* How long a phase may take before its generation fails. */
int64_t prepare_timeout_ms(const struct core *core, const struct job_slot *job);
int64_t stop_timeout_ms(const struct job_slot *job);
int64_t transfer_timeout_ms(int64_t bytes);
/* What it takes to do so many steps again. */
int64_t redo_ms(const struct job_slot *job, int64_t steps);
/* How long no step may be applied, an evaluation included that may be due. */
int64_t step_timeout_ms(const struct job_slot *job);

/* ---- heartbeats.c ---- */
void handle_heartbeat(struct core *core, const struct event *event);

/* ---- profile.c ---- */
void profile_take(struct core *core, struct job_slot *job, struct device_slot *device,
                  const struct heartbeat *heartbeat);
/* Unit times of the planning's devices for the job (NULL: a job that does not exist yet). */
void profile_times(struct planning *planning, const struct job_slot *job);
/* Of the job's units [first, end). Uses the planning's scratch. */
uint64_t profile_parameter_bytes(struct core *core, const struct job_slot *job, int64_t first,
                                 int64_t end);
struct partition_link profile_link(const struct device_slot *a, const struct device_slot *b);

/* ---- progress.c ---- */
void progress_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                   const struct heartbeat *heartbeat);
/* Of any generation whose steps are not abandoned, from any device that a plan of the job had: what
 * it could not tell in time it tells later, whatever it does then. */
void progress_take_metrics(struct core *core, struct device_slot *device,
                           const struct heartbeat *heartbeat);
/* The job goes on from the plan's resume_version. */
void progress_restart(struct job_slot *job);
void progress_set_step(struct job_slot *job, int64_t step);
/* Something proves that the step was done: no version that is told is newer than the step that is
 * told. */
void progress_reach(struct job_slot *job, int64_t step);
/* Nothing trains: there is no speed. */
void progress_halt(struct job_slot *job);
/* The job has ended: its speed is its mean. */
void progress_end(struct job_slot *job);
/* Steps after the version, or a newer committed one, are given up, and what was measured of them.
 * Whether anything changed. */
bool progress_go_back(struct job_slot *job, int64_t version);
/* What was told before the coordinator's restart is true as far as the plan's start does not say
 * otherwise. */
void progress_restore(struct job_slot *job, const struct job_progress *told);

/* ---- problem.c ---- */
/* Cut the model over planning->device[]; end NULL: the best cuts. */
NODISCARD int problem_solve(struct core *core, const struct job_slot *job, const size_t *end,
                            struct err *err);

/* What the memory of the planned stage goes to, but for replicas. */
struct plan_memory problem_memory(const struct planning *planning, size_t device);

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
    enum avoid_level avoid;
    struct absent without; /* and these */
};
/* Fills core->planning. ERR_STATE: too few devices, err says how many are missing; ERR_MEMORY: too
 * little memory (and whether recomputing would do, for a job that is not submitted yet);
 * ERR_INVALID: the wish cannot be met. */
NODISCARD int placement_choose(struct core *core, const struct placement_request *request,
                               struct err *err);
/* How many devices would match, whatever they do now; leaves core->candidate. */
size_t placement_count(struct core *core, const struct placement_request *request);
/* The same without leaving them, and the memory that they have free together. */
size_t placement_there(const struct core *core, const struct placement_request *request,
                       uint64_t *bytes);
/* Whether the device has the labels and the numeric class that the job asks for. */
bool placement_labels_match(const struct job_spec *spec, const struct device *device);
bool placement_class_matches(const struct job_spec *spec, const struct device *device);
/* Whether its build has the kernels that the model names; those that were measured are no wish of
 * the job's. */
bool placement_kernels_match(const struct placement_request *request, const struct device *device);
/* The cuts that a job's spec wants for its first plan; NULL: none. `out` is the caller's. */
const struct replan_request *placement_first_wish(const struct job_spec *spec, int64_t generation,
                                                  struct replan_request *out);
/* The plan's devices and borders, to be wished for. */
void placement_as_wish(const struct plan *plan, struct replan_request *out);
/* Write the planning's answer into a plan. */
void placement_fill(const struct planning *planning, struct plan *plan);
/* Of one version of the whole state. */
uint64_t placement_state_bytes(const struct planning *planning);
bool placement_one_class(const struct planning *planning);

/* ---- shortage.c ---- */
/* Which devices the job waits for, and why it does not get them. Returns ERR_STATE. */
NODISCARD int shortage(const struct core *core, const struct placement_request *request,
                       size_t wanted, size_t there, struct err *err);

/* ---- scheduler.c ---- */
void scheduler_run(struct core *core);
/* Whether some device takes work now. */
bool scheduler_any_free(const struct core *core);

/* ---- jobs.c ---- */
void handle_job_submit(struct core *core, const struct event *event);
void handle_job_verb(struct core *core, const struct event *event);
/* Write the planning's answer into core->answer's preview. */
void preview_stages(struct core *core, const struct model *model);
/* What a new slot needs when its job (id, spec, data) is in it. */
void job_init(struct core *core, struct job_slot *job, const struct model *model);
void job_end(struct core *core, struct job_slot *job, int state, const char *reason,
             const char *message);
void job_pause_now(struct core *core, struct job_slot *job);

/* ---- generations.c ---- */
/* Where the next generation would run without some devices, as placement_choose answers. wish: what
 * was asked for, or NULL. */
NODISCARD int generation_place(struct core *core, const struct job_slot *job,
                               const struct replan_request *wish, const struct absent *without,
                               enum avoid_level least, struct err *err);
/* Put the next generation off, until then at most: devices may tell of a newer version, or bring
 * one. */
void generation_gather(struct core *core, struct job_slot *job, int64_t until_ms,
                       const char *format, ...) PRINTF_LIKE(4, 5);
/* Plan and prepare the next generation. false: the job waits, for enough devices or for what those
 * that are away may bring. */
bool generation_begin(struct core *core, struct job_slot *job, int reason);
/* The borders and devices that were asked for are used, or come to nothing. Until the new plan runs
 * they are kept: a coordinator that starts anew may have to make it again. */
void wish_drop(struct core *core, struct job_slot *job);
/* Ask the running plan to stop. */
void generation_stop(struct core *core, struct job_slot *job, int reason);
/* Go on when the phase is complete. */
void generation_advance(struct core *core, struct job_slot *job);
/* The active plan ends: its devices are free, what has come of a version that it stored is
 * forgotten. version: where it stopped, unless that is known already. */
void plan_close(struct core *core, struct job_slot *job, int64_t version);

/* ---- tuning.c ---- */
/* Whether the plan that is being prepared measures the job's kernels instead of training. */
bool tuning_wanted(const struct job_slot *job);
/* What a device that is ready has measured. */
void tuning_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                 const struct heartbeat *heartbeat);
/* Every stage has: the job gets its kernels, then the next generation. */
void tuning_finish(struct core *core, struct job_slot *job);
void handle_tuned(struct core *core, const struct event *event);

/* ---- failures.c ---- */
/* Note that the generation failed; the first cause counts. */
void generation_fail(struct core *core, struct job_slot *job, struct blame blame,
                     const char *format, ...) PRINTF_LIKE(4, 5);
/* At the end of the step. */
void generation_failed(struct core *core, struct job_slot *job);
/* The plan in core->planning needs devices that have just failed by themselves: whether it has to
 * wait. */
bool generation_waits(struct core *core, struct job_slot *job);
/* A version was reached. What was below the furthest that generations got to was done before, and
 * is no progress. */
void failures_progress(struct job_slot *job, int64_t step);
/* Nothing is held against the job or its devices any more. */
void failures_forget(struct job_slot *job);
/* The same, and what was put off is tried now. */
void failures_retry(struct core *core, struct job_slot *job);
/* What is due by the clock. */
void generation_tick(struct core *core, struct job_slot *job);

/* ---- exports.c ---- */
void handle_exported(struct core *core, const struct event *event);
/* Assemble the center's version, with which the job ends. */
void exports_last(struct core *core, struct job_slot *job);
/* An export that failed for want of room is tried again at once. */
void exports_disk_has_room(struct core *core, struct job_slot *job);
/* Assemble the center's version on request; the job goes on. */
void exports_ask(struct core *core, struct job_slot *job);
/* After a restart: exports under way at the coordinator's end begin anew. */
void exports_resume(struct core *core, struct job_slot *job);

/* ---- damage.c ---- */
void handle_blob_damaged(struct core *core, const struct event *event);

/* ---- center.c ---- */
void handle_blob_stored(struct core *core, const struct event *event);
struct center_version *center_whole(struct job_slot *job);
struct center_version *center_coming(struct job_slot *job);
/* A version begins to come; what had come of another one is forgotten. */
void center_expect(struct core *core, struct job_slot *job, int64_t version);
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
/* Whether some unit of the version has that content. */
bool center_refers(const struct center_version *version, size_t unit_count, const char *sha256);
/* Forget the whole version, which is damaged. */
void center_lose(struct core *core, struct job_slot *job);
/* A row that stays although its job is not live: its blob is not deleted for an equal one of
 * another job. */
void center_keep(struct core *core, const char *sha256);
/* All units of a job that failed. */
void center_keep_job(struct core *core, const struct job_slot *job);
/* A row from the store. */
void center_restore_unit(struct job_slot *job, const struct center_unit *unit);
/* After all rows: a job whose newest version is not whole in the rows has none. */
void center_restored(struct core *core, struct job_slot *job);

/* ---- coverage.c ---- */
void handle_plan_question(struct core *core, const struct event *event);

/* ---- restore.c ---- */
void handle_restored(struct core *core, const struct event *event);

#endif
