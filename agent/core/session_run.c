#include "agent/core/session_parts.h"

#include <string.h>

void session_end_run(struct session *session, struct session_actions *actions)
{
    if (session->has_run) {
        session->has_run = false;
        session->has_error = false;
        session->serial++;
        (void)session_act(actions, SESSION_DO_DISCARD);
    }
}

/* Move towards the assigned phase as far as the device is ready; phases only go forward. */
static void follow(struct session *session, struct session_actions *actions)
{
    struct run *run = &session->run;
    if (!session->has_run || session->has_error) {
        return;
    }
    if (run->phase == PHASE_READY && run->target >= PHASE_RUN) {
        run->phase = PHASE_RUN;
        (void)session_act(actions, SESSION_DO_RUN);
    }
    if (run->phase == PHASE_RUN && run->target >= PHASE_STOPPING) {
        run->phase = PHASE_STOPPING;
        (void)session_act(actions, SESSION_DO_STOP);
    }
    if (run->phase != PHASE_STOPPED || run->target != PHASE_FINISHED || run->uploading) {
        return;
    }
    if (run->target_version != run->stopped_version) {
        session->has_error = true;
        session->error = (struct device_error){
            .code = "internal",
            .message = "the assignment finishes another version than the one it stopped at"};
        return;
    }
    run->uploading = true;
    session_act(actions, SESSION_DO_UPLOAD)->version = run->stopped_version;
}

static bool is_of_job(const struct session *session, const struct assignment_run *assigned)
{
    return strcmp(session->job.text, assigned->job.text) == 0;
}

static void prepare(struct session *session, const struct assignment_run *assigned,
                    struct session_actions *actions)
{
    session->serial++;
    session->job = assigned->job;
    session->highest_generation = assigned->generation;
    session->name[session->serial % RUN_NAMES_MAX] = (struct run_name){
        .serial = session->serial, .job = assigned->job, .generation = assigned->generation};
    session->plan = assigned->plan;
    session->has_run = true;
    session->has_error = false;
    session->run = (struct run){.phase = PHASE_PREPARE,
                                .autonomy_ms = assigned->job_spec.autonomy_seconds * 1000};
    session_act(actions, SESSION_DO_PREPARE)->serial = session->serial;
}

/* Whether the assignment has an earlier generation of the job: the coordinator was restored from a
 * backup. */
static bool is_outdated(const struct session *session, const struct assignment_run *assigned)
{
    return is_of_job(session, assigned) && assigned->generation < session->highest_generation;
}

/* Whether the present run is the assigned one. */
static bool is_present(const struct session *session, const struct assignment_run *assigned)
{
    return session->has_run && is_of_job(session, assigned) &&
           assigned->generation == session->highest_generation &&
           strcmp(assigned->plan.text, session->plan.text) == 0;
}

void session_take_assignment(struct session *session, const struct session_event *event,
                             struct session_actions *actions)
{
    const struct assignment *assignment = event->assignment;
    session->revision = assignment->revision;
    session_set_interval(session, assignment->interval_ms);
    if (memcmp(session->challenge, assignment->challenge, sizeof(session->challenge)) != 0) {
        memcpy(session->challenge, assignment->challenge, sizeof(session->challenge));
        session->challenged = assignment->challenge[0] != '\0';
    }
    session_beat_now(session, event->now_ms);
    if (session->challenged) {
        session->beat.due_ms = event->now_ms; /* also if it was put off: the coordinator asks */
    }
    if (assignment->has_run && is_outdated(session, &assignment->run)) {
        return;
    }
    const bool present = assignment->has_run && is_present(session, &assignment->run);
    if (session->has_run && !present) {
        session_send_beat(session, event->now_ms, actions); /* its last state */
    }
    (void)session_act(actions, SESSION_DO_CALLERS);
    for (size_t i = 0; i < assignment->drop_count; i++) {
        session_act(actions, SESSION_DO_DROP)->drop = assignment->drop[i];
    }
    if (!assignment->has_run) {
        session_end_run(session, actions);
        return;
    }
    const struct assignment_run *assigned = &assignment->run;
    if (!present) {
        prepare(session, assigned, actions);
    }
    session->run.target = assigned->phase;
    session->run.target_version = assigned->resume_version;
    follow(session, actions);
}

void session_take_runtime_event(struct session *session, const struct session_event *event,
                                struct session_actions *actions)
{
    if (!session->has_run || event->serial != session->serial) {
        return;
    }
    struct run *run = &session->run;
    if (event->type == SESSION_PREPARED && run->phase == PHASE_PREPARE) {
        run->phase = PHASE_READY;
    } else if (event->type == SESSION_STOPPED &&
               (run->phase == PHASE_RUN || run->phase == PHASE_STOPPING)) {
        run->phase = PHASE_STOPPED;
        run->stopped_version = event->version;
    } else if (event->type == SESSION_UPLOADED && run->uploading) {
        run->phase = PHASE_FINISHED;
    } else if (event->type == SESSION_FAILED) {
        session->has_error = true;
        session->error = event->error;
    }
    session_beat_now(session, event->now_ms);
    follow(session, actions);
}

int64_t session_hold_deadline_ms(const struct session *session)
{
    if (!session->has_run || session->run.phase != PHASE_RUN || session->run.held) {
        return NEVER;
    }
    const int64_t least_ms = 3 * session->interval_ms;
    const int64_t autonomy_ms =
        session->run.autonomy_ms > least_ms ? session->run.autonomy_ms : least_ms;
    return session->contact_ms + autonomy_ms;
}

void session_hold(struct session *session, int64_t now_ms, struct session_actions *actions)
{
    if (session_hold_deadline_ms(session) <= now_ms) {
        session->run.held = true;
        (void)session_act(actions, SESSION_DO_HOLD);
    }
}

void session_release(struct session *session, struct session_actions *actions)
{
    if (session->has_run && session->run.held) {
        session->run.held = false;
        (void)session_act(actions, SESSION_DO_RELEASE);
    }
    if (session->away) {
        session->away = false;
        (void)session_act(actions, SESSION_DO_BACK);
    }
}

int64_t session_away_deadline_ms(const struct session *session)
{
    return session->has_run && !session->away ? session->contact_ms + 3 * session->interval_ms
                                              : NEVER;
}

void session_look_away(struct session *session, int64_t now_ms, struct session_actions *actions)
{
    if (session_away_deadline_ms(session) <= now_ms) {
        session->away = true;
        (void)session_act(actions, SESSION_DO_AWAY);
    }
}

void session_take_rounds(struct session *session, const struct heartbeat_reply *reply,
                         struct session_actions *actions)
{
    struct round *known = session->run.round;
    /* The reply may be about a run that is over. */
    if (!session->has_run || session->beat_serial != session->serial) {
        return;
    }
    const struct round *stated[REPLICA_KINDS] = {
        [REPLICA_NEIGHBOR] = &reply->neighbor, [REPLICA_CENTER] = &reply->center};
    bool news = false;
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        news = news || stated[kind]->version != known[kind].version ||
               stated[kind]->state != known[kind].state;
        known[kind] = *stated[kind];
    }
    if (news) {
        memcpy(session_act(actions, SESSION_DO_ROUNDS)->round, known, sizeof(session->run.round));
    }
}
