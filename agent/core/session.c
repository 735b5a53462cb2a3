#include "agent/core/session_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define INTERVAL_MS_DEFAULT 1000
#define INTERVAL_MS_MIN 50
#define INTERVAL_MS_MAX 60000
#define BACKOFF_MS_FIRST 250
#define CALL_RETRY_MS_MIN 100
#define ANSWER_MS_MIN 1000
#define ANSWER_MS_MAX 10000
/* Sending hundreds of holdings for each unit of a round would cost more than the units of a small
 * model. */
#define HOLDINGS_WAIT_MS 50

int session_new(const struct session_config *config, struct session **out, struct err *err)
{
    struct session *session = calloc(1, sizeof(*session));
    if (!session) {
        return err_set(err, ERR_MEMORY, "session");
    }
    session->config = *config;
    session->jitter = rng_stream(config->seed, RNG_JITTER, 0, 0);
    session->interval_ms = INTERVAL_MS_DEFAULT;
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

struct session_action *session_act(struct session_actions *actions, enum session_action_type type)
{
    ASSERT(actions->count < SESSION_ACTIONS_MAX);
    struct session_action *action = &actions->item[actions->count++];
    memset(action, 0, sizeof(*action));
    action->type = type;
    return action;
}

static void do_exit(struct session *session, struct session_actions *actions, const char *text)
{
    session->exited = true;
    (void)snprintf(session_act(actions, SESSION_DO_EXIT)->text, MESSAGE_SIZE, "%s", text);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* wait_ms, up to a quarter more or less. */
static int64_t jittered(struct session *session, int64_t wait_ms)
{
    int64_t span = wait_ms / 2 + 1;
    return wait_ms - wait_ms / 4 +
           (int64_t)rng_below(&session->jitter, session->draws++, (uint64_t)span);
}

/* A call that fails is repeated as often as a heartbeat is due, so no device loses its lease by
 * waiting: a lease is three heartbeats at least. With the jitter, no wait is longer than the
 * interval. */
static void retry_later(struct session *session, struct call *call,
                        const struct session_event *event)
{
    const int64_t most_ms =
        clamp(session->interval_ms, CALL_RETRY_MS_MIN, CALL_RETRY_MS_MAX) / 5 * 4;
    int64_t wait_ms = BACKOFF_MS_FIRST;
    for (unsigned i = 0; i < call->failures && wait_ms < most_ms; i++) {
        wait_ms *= 2;
    }
    if (wait_ms > most_ms) {
        wait_ms = most_ms;
    }
    call->put_off = event->failed.retry_after_ms > wait_ms;
    if (call->put_off) {
        wait_ms = event->failed.retry_after_ms;
    }
    /* The coordinator challenges a device whose poll breaks: poll again at once, then wait. */
    const bool at_once = call == &session->poll && call->failures == 0 && !call->put_off;
    call->failures++;
    call->due_ms = at_once ? event->now_ms : event->now_ms + jittered(session, wait_ms);
}

/* The coordinator answers again: a call need not wait any longer, unless the coordinator itself put
 * it off. */
static void end_back_off(struct call *call, int64_t now_ms)
{
    if (call->failures == 0 || call->put_off) {
        return;
    }
    call->failures = 0;
    if (call->due_ms != NEVER && call->due_ms > now_ms) {
        call->due_ms = now_ms;
    }
}

/* How long the coordinator may take to accept a connection. */
static int64_t connect_ms(const struct session *session)
{
    return clamp(session->interval_ms / 2 * 3, ANSWER_MS_MIN, ANSWER_MS_MAX);
}

/* How long it may take to answer. A dead connection is abandoned before the lease ends; a slow
 * coordinator gets twice the time at each retry. */
static int64_t answer_ms(const struct session *session, const struct call *call)
{
    int64_t ms = connect_ms(session);
    for (unsigned i = 0; i < call->failures && ms < ANSWER_MS_MAX; i++) {
        ms *= 2;
    }
    return ms < ANSWER_MS_MAX ? ms : ANSWER_MS_MAX;
}

static struct session_action *act_call(const struct session *session,
                                       struct session_actions *actions,
                                       enum session_action_type type, int64_t timeout_ms)
{
    struct session_action *action = session_act(actions, type);
    action->connect_ms = connect_ms(session);
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

void session_beat_now(struct session *session, int64_t now_ms)
{
    beat_by(session, now_ms);
}

void session_set_interval(struct session *session, int64_t interval_ms)
{
    if (interval_ms >= INTERVAL_MS_MIN && interval_ms <= INTERVAL_MS_MAX) {
        session->interval_ms = interval_ms;
    }
}

static void keep_metric(struct session *session, const struct session_event *event)
{
    const struct run_name *name = &session->name[event->serial % RUN_NAMES_MAX];
    if (name->serial != event->serial) {
        session->metrics.lost++; /* of a run that is too old to be in the list */
        return;
    }
    metric_queue_add(&session->metrics, &name->job, name->generation, &event->metric);
    if (metric_queue_waiting(&session->metrics) - session->metrics.sent >= METRICS_MAX) {
        session_beat_now(session, event->now_ms);
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

/* A stop is reported after the last metric: the coordinator frees the device then. */
static int reported_phase(const struct session *session)
{
    if (!session->has_run) {
        return PHASE_IDLE;
    }
    if (session->run.phase == PHASE_STOPPED && !metric_queue_fits(&session->metrics)) {
        return PHASE_STOPPING;
    }
    return session->run.phase;
}

static void take_account(struct session *session)
{
    struct account *account = &session->account;
    *account = (struct account){.job = session->job,
                                .highest_generation = session->highest_generation,
                                .phase = reported_phase(session)};
    if (session->has_run) {
        const bool stopped = account->phase == PHASE_STOPPED || account->phase == PHASE_FINISHED;
        account->generation = session->highest_generation;
        account->plan = session->plan;
        account->stopped_version = stopped ? session->run.stopped_version : 0;
        account->has_error = session->has_error;
        account->error = session->error;
    }
}

void session_heartbeat(const struct session *session, struct heartbeat *out)
{
    memset(out, 0, sizeof(*out));
    out->device = session->device;
    memcpy(out->boot, session->config.boot, sizeof(out->boot));
    memcpy(out->challenge, session->challenge, sizeof(out->challenge));
    out->revision = session->revision;
    const struct account *account = &session->account;
    memcpy(out->job, account->job.text, sizeof(out->job));
    memcpy(out->plan, account->plan.text, sizeof(out->plan));
    out->generation = account->generation;
    out->highest_generation = account->highest_generation;
    out->phase = account->phase;
    out->stopped_version = account->stopped_version;
    out->has_error = account->has_error;
    out->error = account->error;
    metric_queue_copy(&session->metrics, out);
    out->all_holdings = session->holdings_unsaid;
}

void session_send_beat(struct session *session, int64_t now_ms, struct session_actions *actions)
{
    session->beat.under_way = true;
    session->beat.due_ms = now_ms + session->interval_ms;
    session->beat_serial =
        session->has_run && session->run.phase == PHASE_RUN ? session->serial : 0;
    session->challenged = false;
    take_account(session);
    metric_queue_send(&session->metrics);
    session->holdings_unsaid = session->holdings_unsaid || session->holdings_due_ms != NEVER;
    session->holdings_due_ms = NEVER;
    (void)act_call(session, actions, SESSION_DO_BEAT, answer_ms(session, &session->beat));
}

/* ---- calls ---- */

enum session_failure session_failure_of(int status, enum problem_code code)
{
    if (code == PROBLEM_UNKNOWN_DEVICE) {
        return FAILURE_UNKNOWN;
    }
    if (code == PROBLEM_STALE_BOOT) {
        return FAILURE_STALE_BOOT;
    }
    return status == 429 || status >= 500 ? FAILURE_NETWORK : FAILURE_REFUSED;
}

static void heard(struct session *session, struct call *call, int64_t now_ms,
                  struct session_actions *actions)
{
    call->failures = 0;
    end_back_off(&session->enroll, now_ms);
    end_back_off(&session->beat, now_ms);
    end_back_off(&session->poll, now_ms);
    session->contact_ms = now_ms;
    session_release(session, actions);
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

/* Another boot enrolled with this identity: a second agent, a call of an earlier boot that was
 * late, or a coordinator that was restored from a backup. Enrolling decides: of two agents, the
 * coordinator refuses one for good. */
static void was_replaced(struct session *session, const struct session_event *event,
                         struct session_actions *actions)
{
    session_end_run(session, actions);
    enroll_again(session, event->now_ms + jittered(session, BACKOFF_MS_FIRST));
}

static void call_failed(struct session *session, struct call *call,
                        const struct session_event *event, struct session_actions *actions)
{
    if (call != &session->enroll && !session->enrolled) {
        return; /* of an earlier enrolment: the next one restarts all calls */
    }
    switch (event->failed.failure) {
    case FAILURE_NETWORK:
        metric_queue_resend(&session->metrics); /* a restarted coordinator may answer next */
        retry_later(session, call, event);
        break;
    case FAILURE_UNKNOWN:
        enroll_again(session, event->now_ms + jittered(session, BACKOFF_MS_FIRST));
        break;
    case FAILURE_STALE_BOOT: was_replaced(session, event, actions); break;
    case FAILURE_REFUSED:
        if (call == &session->enroll) {
            do_exit(session, actions, event->failed.text);
        } else {
            retry_later(session, call, event);
        }
        break;
    }
}

static void take_enrolled(struct session *session, const struct session_event *event,
                          struct session_actions *actions)
{
    session->enroll = (struct call){.due_ms = NEVER};
    session->enrolled = true;
    const bool same = strcmp(session->device.text, event->enrolled.device.text) == 0;
    session->device = event->enrolled.device;
    session->revision = same ? session->revision : 0;
    session->holdings_unsaid = true;
    session_set_interval(session, event->enrolled.interval_ms);
    heard(session, &session->enroll, event->now_ms, actions);
    /* A heartbeat under way reports less than the next one, which replaces it. A poll
     * goes on: to the coordinator, one that breaks is a sign that its device is gone. */
    session->beat = (struct call){.due_ms = event->now_ms};
    if (!same || !session->poll.under_way) {
        session->poll = (struct call){.due_ms = event->now_ms};
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
    session_set_interval(session, reply->interval_ms);
    if (reply->reenroll) {
        enroll_again(session, event->now_ms);
        return;
    }
    metric_queue_acknowledge(&session->metrics, event->now_ms);
    session->holdings_unsaid = false;
    session_take_rounds(session, reply, actions);
    beat_by(session, event->now_ms + session->interval_ms);
    beat_by(session, session->holdings_due_ms);
    const bool stopped = session->has_run && session->run.phase == PHASE_STOPPED;
    if (!metric_queue_fits(&session->metrics) ||
        (stopped && metric_queue_waiting(&session->metrics) > 0)) {
        session_beat_now(session, event->now_ms);
    }
    /* A lower revision than ours means a restarted coordinator: a poll after the old revision would
     * wait in vain. */
    if (reply->revision < session->revision) {
        session->revision = 0;
        session->poll.under_way = false;
        session->poll.due_ms = event->now_ms;
    }
}

static void poll_again(struct session *session, int64_t now_ms)
{
    if (session->enrolled) {
        session->poll.due_ms = now_ms;
    }
}

static void make_calls(struct session *session, int64_t now_ms, struct session_actions *actions)
{
    if (session->exited) {
        return;
    }
    if (!session->enroll.under_way && session->enroll.due_ms <= now_ms) {
        session->enroll.under_way = true;
        session->enroll.due_ms = NEVER;
        (void)act_call(session, actions, SESSION_DO_ENROLL, answer_ms(session, &session->enroll));
    }
    if (!session->enrolled) {
        return;
    }
    if (session->beat.under_way && session->challenged) {
        /* The one under way may hang on a dead connection. */
        session_send_beat(session, now_ms, actions);
    }
    if (!session->beat.under_way && session->beat.due_ms <= now_ms) {
        session_send_beat(session, now_ms, actions);
    }
    if (!session->poll.under_way && session->poll.due_ms <= now_ms) {
        session->poll.under_way = true;
        session->poll.due_ms = NEVER;
        act_call(session, actions, SESSION_DO_POLL, SESSION_WAIT_SECONDS * 1000 + ANSWER_MS_MAX)
            ->after = session->revision;
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
            session_take_assignment(session, event, actions);
            poll_again(session, event->now_ms);
        }
        break;
    case SESSION_POLL_ENDED:
        session->poll.under_way = false;
        if (session->enrolled) {
            heard(session, &session->poll, event->now_ms, actions);
            poll_again(session, event->now_ms);
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
    case SESSION_FAILED: session_take_runtime_event(session, event, actions); break;
    case SESSION_HOLDINGS_CHANGED: take_holdings(session, event); break;
    case SESSION_ROUND_OPENED:
    case SESSION_TROUBLE_CHANGED: session_beat_now(session, event->now_ms); break;
    }
    session_look_away(session, event->now_ms, actions);
    session_hold(session, event->now_ms, actions);
    make_calls(session, event->now_ms, actions);
}

int64_t session_deadline_ms(const struct session *session)
{
    if (session->exited) {
        return NEVER;
    }
    int64_t deadline_ms = session_hold_deadline_ms(session);
    if (session_away_deadline_ms(session) < deadline_ms) {
        deadline_ms = session_away_deadline_ms(session);
    }
    if (!session->enroll.under_way && session->enroll.due_ms < deadline_ms) {
        deadline_ms = session->enroll.due_ms;
    }
    if (session->enrolled && !session->beat.under_way && session->beat.due_ms < deadline_ms) {
        deadline_ms = session->beat.due_ms;
    }
    if (session->enrolled && !session->poll.under_way && session->poll.due_ms < deadline_ms) {
        deadline_ms = session->poll.due_ms;
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
