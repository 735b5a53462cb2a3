/* current_run.h: the device's run of one generation, from `prepare` to `finished`. It advances
 * towards the assigned phase as the runtime makes progress. Phases only go forward. Pure; part of a
 * session's state. */
#ifndef AGENT_CORE_CURRENT_RUN_H
#define AGENT_CORE_CURRENT_RUN_H

#include "agent/core/session_actions.h"
#include "agent/core/session_events.h"

#define MIX_WAIT_MS 250 /* delay of news of mixes that nobody waits for */

struct current_run {
    bool active;
    int64_t serial; /* of this run, or of the last one */
    struct job_id job;
    int64_t generation; /* the highest one of the job, also after its run */
    struct plan_id plan;
    int target;             /* enum phase: the assigned one */
    int64_t target_version; /* with PHASE_FINISHED */
    int phase;              /* enum phase: where the device is */
    int64_t stopped_version;
    int64_t autonomy_ms;
    bool uploading;
    bool held;
    bool assigned;                     /* since it was prepared */
    bool mixes;                        /* a group of a gossip job */
    struct round round[REPLICA_KINDS]; /* of the last action */
    bool has_error;
    struct device_error error;
};

/* Return whether the assignment has an earlier generation of the job. This happens after the
 * coordinator was restored from a backup. */
bool current_run_outdates(const struct current_run *run, const struct assignment_run *assigned);
/* Return whether this run is the assigned one. */
bool current_run_is(const struct current_run *run, const struct assignment_run *assigned);
/* Return the maximum delay in milliseconds of the heartbeat that follows the assignment: 0, or
 * MIX_WAIT_MS if only a group's orders are new, because nobody waits for the group to read them. */
int64_t current_run_beat_ms(const struct current_run *run, const struct assignment *assignment);
/* Prepare the assigned run, under a new serial. */
void current_run_prepare(struct current_run *run, const struct assignment_run *assigned,
                         struct session_actions *actions);
/* Move towards the assigned phase. */
void current_run_assign(struct current_run *run, const struct assignment_run *assigned,
                        struct session_actions *actions);
/* Take an event: PREPARED, STOPPED, UPLOADED or FAILED. false: it belongs to an earlier run. */
bool current_run_take_event(struct current_run *run, const struct session_event *event,
                            struct session_actions *actions);
/* End the run, if there is one. */
void current_run_end(struct current_run *run, struct session_actions *actions);

/* The run as a heartbeat reports it, with `phase`: the run may end while the heartbeat is under
 * way. */
struct current_run_report {
    struct job_id job;
    int64_t generation, highest_generation;
    struct plan_id plan;
    int phase;
    int64_t stopped_version;
    bool has_error;
    struct device_error error;
};
void current_run_report(const struct current_run *run, int phase, struct current_run_report *out);

/* Return when the device stops beginning steps without the coordinator: autonomy_seconds after its
 * last answer, at least three heartbeats; or NEVER. */
int64_t current_run_hold_deadline_ms(const struct current_run *run, int64_t contact_ms,
                                     int64_t interval_ms);
void current_run_hold(struct current_run *run, bool held, struct session_actions *actions);
/* Take the reply to a heartbeat. beat_serial: the serial of the run that the heartbeat reported as
 * training; the reply's state of the rounds is for that run. revision: of the newest assignment. */
void current_run_take_reply(struct current_run *run, int64_t beat_serial,
                            const struct heartbeat_reply *reply, int64_t revision,
                            struct session_actions *actions);

#endif
