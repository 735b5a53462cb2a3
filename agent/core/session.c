#include "agent/core/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/metric_queue.h"
#include "base/assert.h"
#include "base/rng.h"

#define NEVER INT64_MAX
#define INTERVAL_MS_DEFAULT 1000
#define INTERVAL_MS_MIN 50
#define INTERVAL_MS_MAX 60000
#define BACKOFF_MS_FIRST 250
#define BACKOFF_MS_MAX 5000
#define STALE_BOOT_WINDOW_MS 60000

/* One kind of call to the coordinator. */
struct call {
    bool under_way;
    int64_t due_ms;    /* NEVER: not wanted */
    unsigned failures; /* in a row */
};

/* What this device does for a job: one generation. */
struct run {
    struct job_id job;
    int64_t generation;
    int64_t told_version; /* with PHASE_FINISHED */
    int told;             /* enum phase */
    int phase;            /* enum phase: where the device is */
    int64_t stopped_version;
    int64_t autonomy_ms;
    bool uploading;
    bool held;
};

struct session {
    struct session_config config;
    struct rng_stream jitter;
    uint64_t draws;
    struct device_id device;
    bool enrolled;
    bool connected;
    bool exited;
    int64_t interval_ms;
    int64_t contact_ms;  /* the coordinator's last answer */
    int64_t replaced_ms; /* the last stale_boot */
    bool was_replaced;
    struct call enroll, beat, poll;
    int64_t revision;
    char challenge[ID_SIZE];
    int64_t serial;       /* of the present run, or the last one */
    int64_t first_serial; /* of the present job */
    int64_t highest_generation;
    struct job_id job; /* that highest_generation and the metrics are about */
    bool has_run;
    struct run run;
    bool has_error;
    struct device_error error;
    bool holdings_changed; /* since the list that was sent last */
    bool holdings_unsaid;  /* the heartbeat under way, or the next one, lists them */
    struct metric_queue metrics;
};

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
    *out = session;
    return 0;
}

void session_free(struct session **session)
{
    free(*session);
    *session = NULL;
}

static struct session_action *act(struct session_actions *actions, enum session_action_type type)
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
    (void)snprintf(act(actions, SESSION_DO_EXIT)->text, MESSAGE_SIZE, "%s", text);
}

/* wait_ms, up to a quarter more or less. */
static int64_t jittered(struct session *session, int64_t wait_ms)
{
    int64_t span = wait_ms / 2 + 1;
    return wait_ms - wait_ms / 4 + (int64_t)rng_below(&session->jitter, session->draws++, (uint64_t)span);
}

static void retry_later(struct session *session, struct call *call, const struct session_event *event)
{
    int64_t wait_ms = BACKOFF_MS_FIRST;
    for (unsigned i = 0; i < call->failures && wait_ms < BACKOFF_MS_MAX; i++) {
        wait_ms *= 2;
    }
    if (wait_ms > BACKOFF_MS_MAX) {
        wait_ms = BACKOFF_MS_MAX;
    }
    if (event->failed.retry_after_ms > wait_ms) {
        wait_ms = event->failed.retry_after_ms;
    }
    call->failures++;
    call->due_ms = event->now_ms + jittered(session, wait_ms);
}

/* ---- reports ---- */

static void beat_now(struct session *session, int64_t now_ms)
{
    if (session->beat.failures == 0) {
        session->beat.due_ms = now_ms;
    }
}

static void set_interval(struct session *session, int64_t interval_ms)
{
    if (interval_ms >= INTERVAL_MS_MIN && interval_ms <= INTERVAL_MS_MAX) {
        session->interval_ms = interval_ms;
    }
}

static void set_error(struct session *session, const char *code, const char *message)
{
    session->has_error = true;
    (void)snprintf(session->error.code, sizeof(session->error.code), "%s", code);
    (void)snprintf(session->error.message, sizeof(session->error.message), "%s", message);
}

static void keep_metric(struct session *session, const struct session_event *event)
{
    if (event->serial < session->first_serial) {
        return;
    }
    metric_queue_add(&session->metrics, &event->metric);
    if (session->metrics.count - session->metrics.sent >= METRICS_MAX) {
        beat_now(session, event->now_ms);
    }
}

/* A stop is told behind the last metric, so that the coordinator, which frees the device then, misses none. */
static int reported_phase(const struct session *session)
{
    if (!session->has_run) {
        return PHASE_IDLE;
    }
    if (session->run.phase == PHASE_STOPPED && session->metrics.count > METRICS_MAX) {
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
    memcpy(out->job, session->job.text, sizeof(out->job));
    out->revision = session->revision;
    out->highest_generation = session->highest_generation;
    out->phase = reported_phase(session);
    if (session->has_run) {
        out->generation = session->run.generation;
        out->stopped_version =
            out->phase == PHASE_STOPPED || out->phase == PHASE_FINISHED ? session->run.stopped_version : 0;
        out->has_error = session->has_error;
        out->error = session->error;
    }
    out->metric_count = metric_queue_copy(&session->metrics, out->metric);
    out->all_holdings = session->holdings_unsaid;
}

static void send_beat(struct session *session, int64_t now_ms, struct session_actions *actions)
{
    session->beat.under_way = true;
    session->beat.due_ms = now_ms + session->interval_ms;
    metric_queue_send(&session->metrics);
    session->holdings_unsaid = session->holdings_unsaid || session->holdings_changed;
    session->holdings_changed = false;
    (void)act(actions, SESSION_DO_BEAT);
}

/* ---- the run ---- */

static void end_run(struct session *session, struct session_actions *actions)
{
    if (session->has_run) {
        session->has_run = false;
        session->has_error = false;
        session->serial++;
        (void)act(actions, SESSION_DO_DISCARD);
    }
}

/* Move towards the told phase as far as the device is ready for it; phases only go forward. */
static void follow(struct session *session, struct session_actions *actions)
{
    struct run *run = &session->run;
    if (!session->has_run || session->has_error) {
        return;
    }
    if (run->phase == PHASE_READY && run->told >= PHASE_RUN) {
        run->phase = PHASE_RUN;
        act(actions, SESSION_DO_RUN)->serial = session->serial;
    }
    if (run->phase == PHASE_RUN && run->told >= PHASE_STOPPING) {
        run->phase = PHASE_STOPPING;
        act(actions, SESSION_DO_STOP)->serial = session->serial;
    }
    if (run->phase != PHASE_STOPPED || run->told != PHASE_FINISHED || run->uploading) {
        return;
    }
    if (run->told_version != run->stopped_version) {
        set_error(session, "internal", "told to finish another version than the one it stopped at");
        return;
    }
    run->uploading = true;
    struct session_action *action = act(actions, SESSION_DO_UPLOAD);
    action->serial = session->serial;
    action->version = run->stopped_version;
}

static void prepare(struct session *session, const struct assignment_run *told, struct session_actions *actions)
{
    const bool same_job = strcmp(session->job.text, told->job.text) == 0;
    session->serial++;
    if (!same_job) {
        session->job = told->job;
        session->first_serial = session->serial;
        metric_queue_clear(&session->metrics);
    }
    session->highest_generation = told->generation;
    session->has_run = true;
    session->has_error = false;
    session->run = (struct run){.job = told->job,
                                .generation = told->generation,
                                .phase = PHASE_PREPARE,
                                .autonomy_ms = told->job_spec.autonomy_seconds * 1000};
    act(actions, SESSION_DO_PREPARE)->serial = session->serial;
}

/* Whether the assignment speaks of a generation that the job has left behind: a coordinator restored from a backup. */
static bool is_behind(const struct session *session, const struct assignment_run *told)
{
    return strcmp(session->job.text, told->job.text) == 0 && told->generation < session->highest_generation;
}

static void take_assignment(struct session *session, const struct session_event *event, struct session_actions *actions)
{
    const struct assignment *assignment = event->assignment;
    session->revision = assignment->revision;
    set_interval(session, assignment->interval_ms);
    memcpy(session->challenge, assignment->challenge, sizeof(session->challenge));
    beat_now(session, event->now_ms);
    if (assignment->has_run && is_behind(session, &assignment->run)) {
        return;
    }
    (void)act(actions, SESSION_DO_CALLERS);
    for (size_t i = 0; i < assignment->drop_count; i++) {
        act(actions, SESSION_DO_DROP)->drop = assignment->drop[i];
    }
    if (!assignment->has_run) {
        end_run(session, actions);
        return;
    }
    const struct assignment_run *told = &assignment->run;
    const bool present = session->has_run && strcmp(session->run.job.text, told->job.text) == 0 &&
                         session->run.generation == told->generation;
    if (!present) {
        prepare(session, told, actions);
    }
    session->run.told = told->phase;
    session->run.told_version = told->resume_version;
    follow(session, actions);
}

static void take_runtime_event(struct session *session, const struct session_event *event,
                               struct session_actions *actions)
{
    if (!session->has_run || event->serial != session->serial) {
        return;
    }
    struct run *run = &session->run;
    if (event->type == SESSION_PREPARED && run->phase == PHASE_PREPARE) {
        run->phase = PHASE_READY;
    } else if (event->type == SESSION_STOPPED && (run->phase == PHASE_RUN || run->phase == PHASE_STOPPING)) {
        run->phase = PHASE_STOPPED;
        run->stopped_version = event->version;
    } else if (event->type == SESSION_UPLOADED && run->uploading) {
        run->phase = PHASE_FINISHED;
    } else if (event->type == SESSION_FAILED) {
        session->has_error = true;
        session->error = event->error;
    }
    beat_now(session, event->now_ms);
    follow(session, actions);
}

/* ---- calls ---- */

static void heard(struct session *session, struct call *call, int64_t now_ms, struct session_actions *actions)
{
    call->failures = 0;
    session->contact_ms = now_ms;
    session->connected = true;
    if (session->has_run && session->run.held) {
        session->run.held = false;
        act(actions, SESSION_DO_RELEASE)->serial = session->serial;
    }
}

static void enroll_again(struct session *session, int64_t due_ms)
{
    session->enrolled = false;
    session->connected = false;
    session->beat.due_ms = NEVER;
    session->poll.due_ms = NEVER;
    if (!session->enroll.under_way) {
        session->enroll.due_ms = due_ms;
    }
}

/* Another boot enrolled with this identity. Once it may be a coordinator that was restored from a backup; twice within
 * a minute it is a second agent. */
static void was_replaced(struct session *session, const struct session_event *event, struct session_actions *actions)
{
    if (session->was_replaced && event->now_ms - session->replaced_ms < STALE_BOOT_WINDOW_MS) {
        do_exit(session, actions, "another agent has enrolled with this identity: each needs its own state directory");
        return;
    }
    session->was_replaced = true;
    session->replaced_ms = event->now_ms;
    end_run(session, actions);
    enroll_again(session, event->now_ms + jittered(session, BACKOFF_MS_FIRST));
}

static void call_failed(struct session *session, struct call *call, const struct session_event *event,
                        struct session_actions *actions)
{
    session->connected = false;
    if (call != &session->enroll && !session->enrolled) {
        return; /* of an enrolment that is over: the next one starts all calls anew */
    }
    switch (event->failed.failure) {
    case FAILURE_NETWORK: retry_later(session, call, event); break;
    case FAILURE_UNKNOWN: enroll_again(session, event->now_ms + jittered(session, BACKOFF_MS_FIRST)); break;
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

static void take_enrolled(struct session *session, const struct session_event *event, struct session_actions *actions)
{
    session->enroll = (struct call){.due_ms = NEVER};
    session->enrolled = true;
    session->device = event->enrolled.device;
    session->revision = 0;
    session->holdings_unsaid = true;
    set_interval(session, event->enrolled.interval_ms);
    heard(session, &session->enroll, event->now_ms, actions);
    /* Calls that are still under way speak for an enrolment that is over: the new ones replace them. */
    session->beat = (struct call){.due_ms = event->now_ms};
    session->poll = (struct call){.due_ms = event->now_ms};
}

static void take_beaten(struct session *session, const struct session_event *event, struct session_actions *actions)
{
    if (!session->enrolled) {
        return;
    }
    const struct heartbeat_reply *reply = event->reply;
    heard(session, &session->beat, event->now_ms, actions);
    set_interval(session, reply->interval_ms);
    if (reply->reenroll) {
        enroll_again(session, event->now_ms);
        return;
    }
    metric_queue_acknowledge(&session->metrics);
    session->holdings_unsaid = false;
    if (session->holdings_changed || session->metrics.count >= METRICS_MAX) {
        session->beat.due_ms = event->now_ms;
    } else if (session->beat.due_ms > event->now_ms + session->interval_ms) {
        session->beat.due_ms = event->now_ms + session->interval_ms;
    }
    /* A lower revision than ours is a coordinator that started anew: a poll behind the old one would wait in vain. */
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
        (void)act(actions, SESSION_DO_ENROLL);
    }
    if (!session->enrolled) {
        return;
    }
    if (!session->beat.under_way && session->beat.due_ms <= now_ms) {
        send_beat(session, now_ms, actions);
    }
    if (!session->poll.under_way && session->poll.due_ms <= now_ms) {
        session->poll.under_way = true;
        session->poll.due_ms = NEVER;
        act(actions, SESSION_DO_POLL)->after = session->revision;
    }
}

static int64_t hold_deadline_ms(const struct session *session)
{
    if (!session->has_run || session->run.phase != PHASE_RUN || session->run.held) {
        return NEVER;
    }
    const int64_t least_ms = 3 * session->interval_ms;
    const int64_t autonomy_ms = session->run.autonomy_ms > least_ms ? session->run.autonomy_ms : least_ms;
    return session->contact_ms + autonomy_ms;
}

void session_step(struct session *session, const struct session_event *event, struct session_actions *actions)
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
            take_assignment(session, event, actions);
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
    case SESSION_FAILED: take_runtime_event(session, event, actions); break;
    case SESSION_HOLDINGS_CHANGED:
        session->holdings_changed = true;
        beat_now(session, event->now_ms);
        break;
    }
    if (hold_deadline_ms(session) <= event->now_ms) {
        session->run.held = true;
        act(actions, SESSION_DO_HOLD)->serial = session->serial;
    }
    make_calls(session, event->now_ms, actions);
}

int64_t session_deadline_ms(const struct session *session)
{
    if (session->exited) {
        return NEVER;
    }
    int64_t deadline_ms = hold_deadline_ms(session);
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

const struct device_id *session_device(const struct session *session)
{
    return &session->device;
}

bool session_connected(const struct session *session)
{
    return session->connected;
}

int session_phase(const struct session *session)
{
    return reported_phase(session);
}

uint64_t session_metrics_lost(const struct session *session)
{
    return session->metrics.lost;
}
