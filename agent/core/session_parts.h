/* session_parts.h: shared by session.c (calls, reports, the step) and session_run.c (assignments
 * and phases). For these two only. */
#ifndef AGENT_CORE_SESSION_PARTS_H
#define AGENT_CORE_SESSION_PARTS_H

#include "agent/core/metric_queue.h"
#include "agent/core/session.h"
#include "base/rng.h"

#define NEVER INT64_MAX

/* One kind of call to the coordinator. */
struct call {
    bool under_way;
    int64_t due_ms;    /* NEVER: not wanted */
    unsigned failures; /* in a row */
    bool put_off;      /* the coordinator said for how long (Retry-After) */
};

/* What this device does for the session's job: its highest generation. */
struct run {
    int64_t target_version; /* with PHASE_FINISHED */
    int target;             /* enum phase */
    int phase;              /* enum phase: where the device is */
    int64_t stopped_version;
    int64_t autonomy_ms;
    bool uploading;
    bool held;
    struct round round[REPLICA_KINDS]; /* the last action */
};

/* The job as the heartbeat under way reports it: its run may end in the same step. */
struct account {
    struct job_id job;
    int64_t generation, highest_generation;
    struct plan_id plan;
    int phase;
    int64_t stopped_version;
    bool has_error;
    struct device_error error;
};

/* What a run was about: its metrics may come when the next one is being prepared. */
#define RUN_NAMES_MAX 8
struct run_name {
    int64_t serial;
    struct job_id job;
    int64_t generation;
};

struct session {
    struct session_config config;
    struct rng_stream jitter;
    uint64_t draws;
    struct device_id device;
    bool enrolled;
    bool exited;
    int64_t interval_ms;
    int64_t contact_ms; /* the coordinator's last answer */
    struct call enroll, beat, poll;
    int64_t revision;
    char challenge[ID_SIZE];
    bool challenged;                     /* and no heartbeat has repeated it */
    int64_t serial;                      /* of the present run, or the last one */
    struct run_name name[RUN_NAMES_MAX]; /* by serial */
    int64_t highest_generation;
    struct plan_id plan; /* that made it */
    struct job_id job;   /* that highest_generation is about */
    bool has_run;
    struct run run;
    bool has_error;
    struct device_error error;
    int64_t holdings_due_ms; /* when their list is to be sent; NEVER: unchanged since it was sent
                                last */
    bool holdings_unsaid;    /* the heartbeat under way, or the next one, lists them */
    struct account account;
    int64_t beat_serial; /* serial of the run that the heartbeat under way is about; 0: of none that
                            runs */
    bool away;           /* the last action */
    struct metric_queue metrics;
};

/* ---- session.c ---- */

/* One more action with its type, otherwise zeroed. */
struct session_action *session_act(struct session_actions *actions, enum session_action_type type);
/* Report without waiting for the interval, unless reports are failing. */
void session_beat_now(struct session *session, int64_t now_ms);
/* Report the present state, in place of a heartbeat under way. */
void session_send_beat(struct session *session, int64_t now_ms, struct session_actions *actions);
void session_set_interval(struct session *session, int64_t interval_ms);

/* ---- session_run.c ---- */

void session_take_assignment(struct session *session, const struct session_event *event,
                             struct session_actions *actions);
void session_take_runtime_event(struct session *session, const struct session_event *event,
                                struct session_actions *actions);
/* End the run, if there is one. */
void session_end_run(struct session *session, struct session_actions *actions);
/* The coordinator was heard: steps and rounds may begin again. */
void session_release(struct session *session, struct session_actions *actions);
/* Begin no further step when the coordinator has been away for too long. */
void session_hold(struct session *session, int64_t now_ms, struct session_actions *actions);
/* When that is due; NEVER. */
int64_t session_hold_deadline_ms(const struct session *session);
/* The same for opening rounds. */
void session_look_away(struct session *session, int64_t now_ms, struct session_actions *actions);
int64_t session_away_deadline_ms(const struct session *session);
/* Take the rounds from the reply to a heartbeat. */
void session_take_rounds(struct session *session, const struct heartbeat_reply *reply,
                         struct session_actions *actions);

#endif
