#include "agent/control.h"

#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/calls.h"
#include "agent/generation.h"
#include "agent/core/probe_timer.h"
#include "agent/runtime/inventory.h"
#include "agent/runtime/links.h"
#include "agent/runtime/probe.h"
#include "base/clock.h"
#include "base/log.h"

struct control {
    struct control_config config;
    struct session *session;
    struct calls *calls;
    struct heartbeat *heartbeat; /* too large for a stack */
    struct report_batch *batch;
    struct generation *generation; /* the current one, or a cancelled one that is still ending */
    bool discarded;                /* the generation was cancelled */
    struct assignment *assignment; /* while its event is handled */
    uint64_t snapshot_revision;
    uint64_t metrics_lost;
    int phase; /* as logged */
    struct probe_timer probing;
    struct probe *probe; /* under way, or NULL */
    char exit_reason[MESSAGE_SIZE];
};

/* ---- actions ---- */

/* Return the free memory, at most that of --memory. */
static int64_t free_memory(const struct device_context *device)
{
    const uint64_t free_bytes = inventory_memory_for_plans();
    const uint64_t most = device->memory_bytes;
    return (int64_t)(most > 0 && free_bytes > most ? most : free_bytes);
}

static void beat(struct control *control, const struct session_action *action)
{
    struct heartbeat *heartbeat = control->heartbeat;
    session_heartbeat(control->session, heartbeat);
    (void)snprintf(heartbeat->address, sizeof(heartbeat->address), "%s",
                   control->config.enroll.address);
    heartbeat->resident_bytes = inventory_resident();
    heartbeat->free_memory_bytes = free_memory(control->config.device);
    probe_timer_report(&control->probing, clock_now_ms(), heartbeat);
    links_report(control->config.device->links, heartbeat);
    ways_report(control->config.device->ways, heartbeat);
    heartbeat->replica_bytes_sent = atomic_load(control->config.device->replica_sent);
    heartbeat->replica_bytes_written = snapshot_bytes_written(control->config.device->snapshots);
    /* List the holdings first, so that no listed version is newer than an evaluation that the stage
     * has not judged. */
    if (heartbeat->all_holdings) {
        heartbeat->holding_count =
            snapshot_holdings(control->config.device->snapshots, heartbeat->holding);
    }
    if (control->generation && !control->discarded) {
        generation_measure(control->generation, heartbeat);
    }
    status_beat(control->config.status, heartbeat);
    calls_beat(control->calls, action, heartbeat);
}

/* Enrol with the data that is offered now. */
static void enroll(struct control *control, const struct session_action *action)
{
    struct enroll_request *request = &control->config.enroll;
    request->offer_count = offers_list(control->config.device->offers, request->offer);
    calls_enroll(control->calls, action, request);
}

/* ---- probes of an idle device ---- */

static void start_probe(struct control *control)
{
    const struct device_context *device = control->config.device;
    const struct probe_request request = {.threads = device->threads,
                                          .seconds = PROBE_IDLE_SECONDS,
                                          .slowdown = device->slowdown,
                                          .directory = ""};
    struct err err = {0};
    if (probe_start(&request, &control->probe, &err) != 0) {
        log_debug("probe_failed", "error=%s", log_quote(err.text).text);
        probe_timer_failed(&control->probing, clock_now_ms());
    }
}

static void take_probe(struct control *control)
{
    struct pollfd fd = {.fd = control_probe_fd(control), .events = POLLIN};
    struct device_probe result;
    struct err err = {0};
    if (!control->probe || poll(&fd, 1, 0) != 1) {
        return;
    }
    if (probe_take(&control->probe, &result, &err) == 0) {
        probe_timer_took(&control->probing, clock_now_ms(), &result);
    } else {
        log_debug("probe_failed", "error=%s", log_quote(err.text).text);
        probe_timer_failed(&control->probing, clock_now_ms());
    }
}

static void look_at_probe(struct control *control)
{
    take_probe(control);
    const bool idle = !control->generation && session_phase(control->session) == PHASE_IDLE;
    switch (probe_timer_step(&control->probing, idle, clock_now_ms())) {
    case PROBE_LEAVE: break;
    case PROBE_START: start_probe(control); break;
    case PROBE_CANCEL: probe_cancel(&control->probe); break;
    }
}

/* ---- generations ---- */

static void prepare(struct control *control, int64_t serial)
{
    (void)probe_timer_step(&control->probing, false, clock_now_ms());
    probe_cancel(&control->probe); /* before the stage takes memory and processor */
    const struct assignment_run *run = &control->assignment->run;
    size_t first, end; /* units that it computes with or keeps */
    assignment_loads(run, &first, &end);
    log_info("generation_prepares",
             "job=%s generation=%" PRId64 " stage=%" PRId64 " units=%zu-%zu version=%" PRId64,
             run->job.text, run->generation, run->stage_index, first, end - 1, run->resume_version);
    snapshot_cut(control->config.device->snapshots, &run->job, run->generation,
                 run->resume_version);
    const struct generation_config config = {
        .device = control->config.device, .reports = control->config.reports, .serial = serial};
    struct err err = {0};
    int rc = generation_start(&config, &control->assignment, &control->generation,
                              &control->generation, &err);
    control->discarded = false;
    if (rc != 0) {
        reports_error(control->config.reports, serial, rc == ERR_MEMORY ? "memory" : "internal",
                      &err);
    }
}

static void discard(struct control *control)
{
    if (control->generation) {
        generation_cancel(control->generation);
        control->discarded = true;
    }
}

static void do_action(struct control *control, const struct session_action *action)
{
    const struct device_context *device = control->config.device;
    struct generation *generation = control->discarded ? NULL : control->generation;
    switch (action->type) {
    case SESSION_DO_ENROLL: enroll(control, action); break;
    case SESSION_DO_BEAT: beat(control, action); break;
    case SESSION_DO_POLL: calls_poll(control->calls, action, &device->id, device->boot); break;
    case SESSION_DO_CALLERS:
        access_set_callers(device->access, control->assignment);
        ways_set(device->ways, control->assignment);
        parking_set(device->parking, &device->id, control->assignment);
        break;
    case SESSION_DO_DROP:
        snapshot_drop(device->snapshots, &action->drop);
        if (generation) {
            generation_drop(generation, &action->drop);
        } else {
            (void)malloc_trim(0); /* keep an idle agent small */
        }
        break;
    case SESSION_DO_PREPARE: prepare(control, action->serial); break;
    case SESSION_DO_MIX:
        if (generation) {
            generation_mix(generation, &control->assignment->run.mix);
        }
        break;
    case SESSION_DO_MIXES_STORED:
        if (generation && control->heartbeat->has_mix) {
            generation_mixes_stored(generation, &control->heartbeat->mix);
        }
        break;
    case SESSION_DO_DISCARD: discard(control); break;
    case SESSION_DO_EXIT:
        (void)snprintf(control->exit_reason, sizeof(control->exit_reason), "%s", action->text);
        break;
    case SESSION_DO_RUN:
    case SESSION_DO_STOP:
    case SESSION_DO_HOLD:
    case SESSION_DO_RELEASE:
    case SESSION_DO_AWAY:
    case SESSION_DO_BACK:
    case SESSION_DO_ROUNDS:
    case SESSION_DO_UPLOAD:
        if (generation) { /* NULL: it could not be started, and its error was reported */
            generation_tell(generation, action);
        }
        break;
    }
}

static void log_phase(struct control *control)
{
    const int phase = session_phase(control->session);
    if (phase != control->phase) {
        control->phase = phase;
        log_info("phase", "phase=%s", phase_names[phase]);
    }
    const uint64_t lost = session_metrics_lost(control->session);
    if (lost != control->metrics_lost) {
        log_warn("metrics_lost", "count=%" PRIu64 " reason=%s", lost - control->metrics_lost,
                 "coordinator_away");
        control->metrics_lost = lost;
        status_metrics_lost(control->config.status, lost);
    }
}

static void handle(struct control *control, struct session_event *event)
{
    struct session_actions actions;
    actions.count = 0;
    event->now_ms = clock_now_ms();
    session_step(control->session, event, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        do_action(control, &actions.item[i]);
    }
    log_phase(control);
}

/* The result of a call to the coordinator. */
static void take_answer(void *arg, struct session_event *event, struct assignment **assignment)
{
    struct control *control = arg;
    if (event->type == SESSION_ENROLLED) {
        control->config.device->id = event->enrolled.device;
        log_info("enrolled", "device=%s pending=%s", event->enrolled.device.text,
                 event->enrolled.pending ? "true" : "false");
    }
    if (event->type == SESSION_ENROLLED || event->type == SESSION_BEATEN) {
        status_answered(control->config.status);
    }
    if (assignment) {
        control->assignment = *assignment;
        *assignment = NULL;
    }
    handle(control, event);
    if (assignment) {
        assignment_free(&control->assignment);
    }
}

/* ---- turns ---- */

static void look_at_holdings(struct control *control)
{
    bool whole = false;
    const uint64_t revision = snapshot_revision(control->config.device->snapshots, &whole);
    if (revision != control->snapshot_revision) {
        control->snapshot_revision = revision;
        struct session_event event = {.type = SESSION_HOLDINGS_CHANGED, .partial = !whole};
        handle(control, &event);
    }
}

/* The types of reports_note, in the order in which the session gets those of a batch. */
static const enum session_event_type notes[] = {
    SESSION_ROUND_OPENED,    SESSION_MIX_CHANGED,  SESSION_MIX_AWAITED,
    SESSION_TROUBLE_CHANGED, SESSION_DATA_CHANGED,
};

static void handle_reports(struct control *control)
{
    struct report_batch *batch = control->batch;
    for (size_t i = 0; i < batch->metric_count; i++) {
        struct session_event event = {.type = SESSION_METRIC, .serial = batch->metric[i].serial};
        event.metric = batch->metric[i].metric;
        handle(control, &event);
    }
    for (size_t i = 0; i < batch->event_count; i++) {
        handle(control, &batch->event[i]);
    }
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
        if (batch->notes & UINT64_C(1) << notes[i]) {
            struct session_event event = {.type = notes[i]};
            handle(control, &event);
        }
    }
    if (batch->lost > 0) {
        log_warn("metrics_lost", "count=%" PRIu64 " reason=%s", batch->lost, "too_fast");
    }
}

void control_start(struct control *control)
{
    struct session_event event = {.type = SESSION_START};
    handle(control, &event);
}

void control_turn(struct control *control)
{
    /* A generation reports its stop after it has kept the snapshots of that version. Read the
     * holdings after taking the reports and before handling them, so that no heartbeat says
     * `stopped` before one lists these snapshots. */
    if (control->generation && !control->discarded) {
        generation_check_disk(control->generation);
    }
    reports_take(control->config.reports, control->batch);
    look_at_holdings(control);
    handle_reports(control);
    if (session_deadline_ms(control->session) <= clock_now_ms()) {
        struct session_event event = {.type = SESSION_TICK};
        handle(control, &event);
    }
    if (control->discarded && control->generation && generation_ended(control->generation)) {
        generation_free(&control->generation);
        control->discarded = false;
    }
    look_at_probe(control);
}

int control_probe_fd(const struct control *control)
{
    return control->probe ? probe_fd(control->probe) : -1;
}

int64_t control_deadline_ms(const struct control *control)
{
    const int64_t session_ms = session_deadline_ms(control->session);
    const int64_t probe_ms = probe_timer_deadline_ms(&control->probing);
    return session_ms < probe_ms ? session_ms : probe_ms;
}

const char *control_phase(const struct control *control)
{
    return phase_names[session_phase(control->session)];
}

const char *control_exit_reason(const struct control *control)
{
    return control->exit_reason[0] ? control->exit_reason : NULL;
}

void control_begin_leave(struct control *control)
{
    struct session_event event = {.type = SESSION_LEAVE};
    handle(control, &event);
}

enum leave_state control_leaves(const struct control *control)
{
    return session_leave(control->session, clock_now_ms());
}

bool control_leave(struct control *control)
{
    discard(control);
    if (control->generation && !generation_ended(control->generation)) {
        return false;
    }
    generation_free(&control->generation);
    return true;
}

static int fill(struct control *control, struct err *err)
{
    struct session_config session = {.seed = (uint64_t)clock_wall_ms()};
    memcpy(session.boot, control->config.device->boot, sizeof(session.boot));
    const struct calls_config calls = {.multi = control->config.multi,
                                       .coordinator = control->config.device->coordinator,
                                       .tls = &control->config.device->trust->coordinator,
                                       .answered = take_answer,
                                       .arg = control};
    control->heartbeat = calloc(1, sizeof(*control->heartbeat));
    control->batch = calloc(1, sizeof(*control->batch));
    if (!control->heartbeat || !control->batch) {
        return err_set(err, ERR_MEMORY, "control");
    }
    int rc = session_new(&session, &control->session, err);
    return rc ? rc : calls_new(&calls, &control->calls, err);
}

int control_new(const struct control_config *config, struct control **out, struct err *err)
{
    struct control *control = calloc(1, sizeof(*control));
    if (!control) {
        return err_set(err, ERR_MEMORY, "control");
    }
    control->config = *config;
    int rc = fill(control, err);
    if (rc != 0) {
        control_free(&control);
        return rc;
    }
    *out = control;
    return 0;
}

void control_free(struct control **control)
{
    struct control *dying = *control;
    if (!dying) {
        return;
    }
    probe_cancel(&dying->probe);
    generation_free(&dying->generation);
    calls_free(&dying->calls);
    session_free(&dying->session);
    free(dying->heartbeat);
    free(dying->batch);
    free(dying);
    *control = NULL;
}
