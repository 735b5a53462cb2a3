#include "agent/core/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/call_timer.h"
#include "agent/core/current_run.h"
#include "agent/core/leave.h"
#include "agent/core/metric_queue.h"

#define INTERVAL_MS_DEFAULT 1000
#define INTERVAL_MS_MIN 50
#define INTERVAL_MS_MAX 60000
/* Sending hundreds of holdings for each unit of a round would cost more than the units of a small
 * model. */
#define HOLDINGS_WAIT_MS 50

struct session {
    struct session_config config;
    struct device_id device;
    bool enrolled;
    bool exited;
    struct leave leave;
    int64_t contact_ms; /* the coordinator's last answer */
    struct call_pace pace;
    struct call_timer enroll, beat, poll;
    int64_t revision;
    int64_t start_id; /* of the coordinator, as in its last reply */
    char challenge[ID_SIZE];
    bool challenged;  /* no heartbeat has repeated the challenge yet */
    bool data_unsaid; /* the offered data differs from that of the last enrolment */
    struct current_run run;
    int64_t holdings_due_ms; /* of the next list of them; NEVER: unchanged since the last */
    bool holdings_unsaid;    /* the heartbeat under way, or the next one, lists them */
    struct current_run_report report; /* in the current heartbeat */
    int64_t beat_serial; /* serial of the training run in the heartbeat under way; 0: none */
    bool away;           /* the last action */
    struct metric_queue metrics;
};

int session_new(const struct session_config *config, struct session **out, struct err *err)
{
    struct session *session = calloc(1, sizeof(*session));
    if (!session) {
        return err_set(err, ERR_MEMORY, "session");
    }
    session->config = *config;
    session->pace.jitter = rng_stream(config->seed, RNG_JITTER, 0, 0);
    session->pace.interval_ms = INTERVAL_MS_DEFAULT;
    session->enroll.due_ms = session->beat.due_ms = session->poll.due_ms = NEVER;
    session->holdings_due_ms = NEVER;
    *out = session;
    return 0;
}

void session_free(struct session **session)
{
    free(*session);
    *session = NULL;
}

static void do_exit(struct session *session, struct session_actions *actions, const char *text)
{
    session->exited = true;
    (void)snprintf(session_actions_add(actions, SESSION_DO_EXIT)->text, MESSAGE_SIZE, "%s", text);
}

static struct session_action *act_call(const struct session *session,
                                       struct session_actions *actions,
                                       enum session_action_type type, int64_t timeout_ms)
{
    struct session_action *action = session_actions_add(actions, type);
    action->connect_ms = call_timer_connect_ms(&session->pace);
    action->timeout_ms = timeout_ms;
    return action;
}

/* ---- reports ---- */

static void beat_by(struct session *session, int64_t due_ms)
{
    if (session->beat.failures == 0 && due_ms < session->beat.due_ms) {
        session->beat.due_ms = due_ms;
    }
}

static void set_interval(struct session *session, int64_t interval_ms)
{
    if (interval_ms >= INTERVAL_MS_MIN && interval_ms <= INTERVAL_MS_MAX) {
        session->pace.interval_ms = interval_ms;
    }
}

static void keep_metric(struct session *session, const struct session_event *event)
{
    metric_queue_add(&session->metrics, event->serial, &event->metric);
    if (metric_queue_waiting(&session->metrics) - session->metrics.sent >= METRICS_MAX) {
        beat_by(session, event->now_ms);
    }
}

static void take_holdings(struct session *session, const struct session_event *event)
{
    const int64_t due_ms = event->partial ? event->now_ms + HOLDINGS_WAIT_MS : event->now_ms;
    if (due_ms < session->holdings_due_ms) {
        session->holdings_due_ms = due_ms;
    }
    beat_by(session, session->holdings_due_ms);
}

/* A stop is reported after the last metric, because the coordinator frees the device at the
 * stop. */
static int reported_phase(const struct session *session)
{
    if (!session->run.active) {
        return PHASE_IDLE;
    }
    if (session->run.phase == PHASE_STOPPED && !metric_queue_fits(&session->metrics)) {
        return PHASE_STOPPING;
    }
    return session->run.phase;
}

void session_heartbeat(const struct session *session, struct heartbeat *out)
{
    memset(out, 0, sizeof(*out));
    out->device = session->device;
    memcpy(out->boot, session->config.boot, sizeof(out->boot));
    memcpy(out->challenge, session->challenge, sizeof(out->challenge));
    out->revision = session->revision;
    const struct current_run_report *report = &session->report;
    out->job = report->job;
    out->plan = report->plan;
    out->generation = report->generation;
    out->highest_generation = report->highest_generation;
    out->phase = report->phase;
    out->stopped_version = report->stopped_version;
    out->has_error = report->has_error;
    out->error = report->error;
    metric_queue_copy(&session->metrics, out);
    out->all_holdings = session->holdings_unsaid;
    out->leaving = session->leave.wanted;
}

static void send_beat(struct session *session, int64_t now_ms, struct session_actions *actions)
{
    session->beat.under_way = true;
    session->beat.due_ms = now_ms + session->pace.interval_ms;
    session->beat_serial =
        session->run.active && session->run.phase == PHASE_RUN ? session->run.serial : 0;
    session->challenged = false;
    current_run_report(&session->run, reported_phase(session), &session->report);
    metric_queue_send(&session->metrics);
    session->holdings_unsaid = session->holdings_unsaid || session->holdings_due_ms != NEVER;
    session->holdings_due_ms = NEVER;
    (void)act_call(session, actions, SESSION_DO_BEAT,
                   call_timer_answer_ms(&session->beat, &session->pace));
}

/* ---- calls ---- */

static void heard(struct session *session, struct call_timer *call, int64_t now_ms,
                  struct session_actions *actions)
{
    call->failures = 0;
    call_timer_end_wait(&session->enroll, now_ms);
    call_timer_end_wait(&session->beat, now_ms);
    call_timer_end_wait(&session->poll, now_ms);
    session->contact_ms = now_ms;
    current_run_hold(&session->run, false, actions);
    if (session->away) {
        session->away = false;
        (void)session_actions_add(actions, SESSION_DO_BACK);
    }
}

static void enroll_again(struct session *session, int64_t due_ms)
{
    session->enrolled = false;
    session->beat.due_ms = NEVER;
    session->poll.due_ms = NEVER;
    if (!session->enroll.under_way) {
        session->enroll.due_ms = due_ms;
    }
}

/* Another boot enrolled with this identity: a second agent, a late call of an earlier boot, or a
 * coordinator that was restored from a backup. Enrolling again resolves this: of two agents, the
 * coordinator refuses one permanently. */
static void was_replaced(struct session *session, const struct session_event *event,
                         struct session_actions *actions)
{
    current_run_end(&session->run, actions);
    enroll_again(session, event->now_ms + call_timer_first_wait_ms(&session->pace));
}

static void call_failed(struct session *session, struct call_timer *call,
                        const struct session_event *event, struct session_actions *actions)
{
    if (call != &session->enroll && !session->enrolled) {
        return; /* from an earlier enrolment; the next enrolment restarts all calls */
    }
    /* The coordinator challenges a device whose poll breaks, so the first retry of a poll is
     * immediate. */
    const bool polls = call == &session->poll;
    switch (event->failed.failure) {
    case FAILURE_NETWORK:
        metric_queue_resend(&session->metrics); /* a restarted coordinator may answer next */
        call_timer_fail(call, &session->pace, event->now_ms, event->failed.retry_after_ms, polls);
        break;
    case FAILURE_UNKNOWN:
        enroll_again(session, event->now_ms + call_timer_first_wait_ms(&session->pace));
        break;
    case FAILURE_STALE_BOOT: was_replaced(session, event, actions); break;
    case FAILURE_REFUSED:
        if (call == &session->enroll && !session->enrolled) {
            do_exit(session, actions, event->failed.text);
        } else { /* the data was refused: the previous offer stays for now */
            call_timer_fail(call, &session->pace, event->now_ms, event->failed.retry_after_ms,
                            polls);
        }
        break;
    }
}

static void take_enrolled(struct session *session, const struct session_event *event,
                          struct session_actions *actions)
{
    session->enroll = (struct call_timer){.due_ms = NEVER};
    session->enrolled = true;
    const bool same = id_equal(session->device.text, event->enrolled.device.text);
    session->device = event->enrolled.device;
    session->revision = same ? session->revision : 0;
    session->holdings_unsaid = true;
    set_interval(session, event->enrolled.interval_ms);
    heard(session, &session->enroll, event->now_ms, actions);
    /* A heartbeat under way reports less than the next one, which replaces it. A poll continues,
     * because the coordinator takes a broken poll as a sign that the device is gone. */
    session->beat = (struct call_timer){.due_ms = event->now_ms};
    if (!same || !session->poll.under_way) {
        session->poll = (struct call_timer){.due_ms = event->now_ms};
    }
    if (session->data_unsaid) {
        session->enroll.due_ms = event->now_ms;
    }
}

/* Enrol with the offered data. Heartbeats and polls continue. */
static void offer_data(struct session *session, int64_t now_ms)
{
    session->data_unsaid = true;
    if (session->enrolled && !session->enroll.under_way && now_ms < session->enroll.due_ms) {
        session->enroll.due_ms = now_ms;
    }
}

static void take_beaten(struct session *session, const struct session_event *event,
                        struct session_actions *actions)
{
    if (!session->enrolled) {
        return;
    }
    const struct heartbeat_reply *reply = event->reply;
    heard(session, &session->beat, event->now_ms, actions);
    set_interval(session, reply->interval_ms);
    session->leave.drained = session->leave.wanted && reply->drained;
    if (reply->start_id != session->start_id) {
        session->start_id = reply->start_id;
        metric_queue_resend(&session->metrics); /* the old one may not have stored them */
    }
    if (reply->reenroll) {
        enroll_again(session, event->now_ms);
        return;
    }
    metric_queue_acknowledge(&session->metrics, event->now_ms);
    session->holdings_unsaid = false;
    current_run_take_reply(&session->run, session->beat_serial, reply, session->revision, actions);
    beat_by(session, event->now_ms + session->pace.interval_ms);
    beat_by(session, session->holdings_due_ms);
    const bool stopped = session->run.active && session->run.phase == PHASE_STOPPED;
    if (!metric_queue_fits(&session->metrics) ||
        (stopped && metric_queue_waiting(&session->metrics) > 0)) {
        beat_by(session, event->now_ms);
    }
    /* A lower revision than ours means that the coordinator has restarted. A poll after the old
     * revision would never be answered. */
    if (reply->revision < session->revision) {
        session->revision = 0;
        session->poll.under_way = false;
        session->poll.due_ms = event->now_ms;
    }
}

static void take_assignment(struct session *session, const struct session_event *event,
                            struct session_actions *actions)
{
    const struct assignment *assignment = event->assignment;
    session->revision = assignment->revision;
    set_interval(session, assignment->interval_ms);
    if (memcmp(session->challenge, assignment->challenge, sizeof(session->challenge)) != 0) {
        memcpy(session->challenge, assignment->challenge, sizeof(session->challenge));
        session->challenged = assignment->challenge[0] != '\0';
    }
    const bool present = assignment->has_run && current_run_is(&session->run, &assignment->run);
    beat_by(session, event->now_ms + current_run_beat_ms(&session->run, assignment));
    if (session->challenged) {
        session->beat.due_ms = event->now_ms; /* even if it was put off: the coordinator asks */
    }
    if (assignment->has_run && current_run_outdates(&session->run, &assignment->run)) {
        return;
    }
    if (session->run.active && !present) {
        send_beat(session, event->now_ms, actions); /* its last state */
    }
    (void)session_actions_add(actions, SESSION_DO_CALLERS);
    for (size_t i = 0; i < assignment->drop_count; i++) {
        session_actions_add(actions, SESSION_DO_DROP)->drop = assignment->drop[i];
    }
    if (!assignment->has_run) {
        current_run_end(&session->run, actions);
        return;
    }
    struct current_run *run = &session->run;
    if (!present) {
        current_run_prepare(run, &assignment->run, actions);
        const struct run_name name = {run->serial, run->job, run->generation};
        metric_queue_name(&session->metrics, &name);
    }
    current_run_assign(run, &assignment->run, actions);
}

static void make_calls(struct session *session, int64_t now_ms, struct session_actions *actions)
{
    if (session->exited) {
        return;
    }
    if (!session->enroll.under_way && session->enroll.due_ms <= now_ms) {
        session->enroll.under_way = true;
        session->enroll.due_ms = NEVER;
        session->data_unsaid = false;
        (void)act_call(session, actions, SESSION_DO_ENROLL,
                       call_timer_answer_ms(&session->enroll, &session->pace));
    }
    if (!session->enrolled) {
        return;
    }
    /* With a challenge, send another heartbeat: the one under way may hang on a dead connection. */
    if (session->beat.under_way ? session->challenged : session->beat.due_ms <= now_ms) {
        send_beat(session, now_ms, actions);
    }
    if (!session->poll.under_way && session->poll.due_ms <= now_ms) {
        session->poll.under_way = true;
        session->poll.due_ms = NEVER;
        act_call(session, actions, SESSION_DO_POLL,
                 SESSION_WAIT_SECONDS * 1000 + CALL_ANSWER_MS_MAX)
            ->after = session->revision;
    }
}

/* ---- without the coordinator ---- */

static int64_t hold_deadline_ms(const struct session *session)
{
    return current_run_hold_deadline_ms(&session->run, session->contact_ms,
                                        session->pace.interval_ms);
}

static int64_t away_deadline_ms(const struct session *session)
{
    return session->run.active && !session->away
               ? session->contact_ms + 3 * session->pace.interval_ms
               : NEVER;
}

static struct leave_contact contact_of(const struct session *session)
{
    return (struct leave_contact){.works = session->run.active,
                                  .failing = !session->enrolled || session->beat.failures > 0,
                                  .heard_ms = session->contact_ms,
                                  .interval_ms = session->pace.interval_ms};
}

enum leave_state session_leave(const struct session *session, int64_t now_ms)
{
    const struct leave_contact contact = contact_of(session);
    return leave_state(&session->leave, &contact, now_ms);
}

static void look_away(struct session *session, int64_t now_ms, struct session_actions *actions)
{
    if (away_deadline_ms(session) <= now_ms) {
        session->away = true;
        (void)session_actions_add(actions, SESSION_DO_AWAY);
    }
    if (hold_deadline_ms(session) <= now_ms) {
        current_run_hold(&session->run, true, actions);
    }
}

void session_step(struct session *session, const struct session_event *event,
                  struct session_actions *actions)
{
    switch (event->type) {
    case SESSION_START:
        session->contact_ms = event->now_ms;
        session->enroll.due_ms = event->now_ms;
        break;
    case SESSION_TICK: break;
    case SESSION_LEAVE:
        session->leave.wanted = true;
        beat_by(session, event->now_ms);
        break;
    case SESSION_ENROLLED: take_enrolled(session, event, actions); break;
    case SESSION_ENROLL_FAILED:
        session->enroll.under_way = false;
        call_failed(session, &session->enroll, event, actions);
        break;
    case SESSION_BEATEN:
        session->beat.under_way = false;
        take_beaten(session, event, actions);
        break;
    case SESSION_BEAT_FAILED:
        session->beat.under_way = false;
        metric_queue_return(&session->metrics);
        call_failed(session, &session->beat, event, actions);
        break;
    case SESSION_ASSIGNED:
        session->poll.under_way = false;
        if (session->enrolled) {
            heard(session, &session->poll, event->now_ms, actions);
            take_assignment(session, event, actions);
            session->poll.due_ms = event->now_ms;
        }
        break;
    case SESSION_POLL_ENDED:
        session->poll.under_way = false;
        if (session->enrolled) {
            heard(session, &session->poll, event->now_ms, actions);
            session->poll.due_ms = event->now_ms;
        }
        break;
    case SESSION_POLL_FAILED:
        session->poll.under_way = false;
        call_failed(session, &session->poll, event, actions);
        break;
    case SESSION_METRIC: keep_metric(session, event); break;
    case SESSION_PREPARED:
    case SESSION_STOPPED:
    case SESSION_UPLOADED:
    case SESSION_FAILED:
        if (current_run_take_event(&session->run, event, actions)) {
            beat_by(session, event->now_ms);
        }
        break;
    case SESSION_DATA_CHANGED: offer_data(session, event->now_ms); break;
    case SESSION_HOLDINGS_CHANGED: take_holdings(session, event); break;
    case SESSION_MIX_CHANGED: beat_by(session, event->now_ms + MIX_WAIT_MS); break;
    case SESSION_ROUND_OPENED:
    case SESSION_MIX_AWAITED:
    case SESSION_TROUBLE_CHANGED: beat_by(session, event->now_ms); break;
    }
    look_away(session, event->now_ms, actions);
    make_calls(session, event->now_ms, actions);
}

static int64_t call_due_ms(const struct call_timer *call)
{
    return call->under_way ? NEVER : call->due_ms;
}

int64_t session_deadline_ms(const struct session *session)
{
    if (session->exited) {
        return NEVER;
    }
    const struct leave_contact contact = contact_of(session);
    const int64_t due_ms[] = {hold_deadline_ms(session),
                              away_deadline_ms(session),
                              leave_deadline_ms(&session->leave, &contact),
                              call_due_ms(&session->enroll),
                              session->enrolled ? call_due_ms(&session->beat) : NEVER,
                              session->enrolled ? call_due_ms(&session->poll) : NEVER};
    int64_t deadline_ms = NEVER;
    for (size_t i = 0; i < sizeof(due_ms) / sizeof(due_ms[0]); i++) {
        deadline_ms = due_ms[i] < deadline_ms ? due_ms[i] : deadline_ms;
    }
    return deadline_ms;
}

int session_phase(const struct session *session)
{
    return reported_phase(session);
}

uint64_t session_metrics_lost(const struct session *session)
{
    return session->metrics.lost;
}
