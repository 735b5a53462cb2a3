#include "tests/sim/agent.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/call_timer.h"
#include "base/assert.h"
#include "tests/sim/check.h"
#include "tests/sim/check_gossip.h"
#include "tests/sim/faults.h"
#include "tests/sim/offers.h"
#include "tests/sim/run.h"
#include "tests/sim/speeds.h"
#include "tests/sim/trace.h"

#define TURN_US 50             /* between a report and the turn that takes it */
#define TURN_US_LATE (30 * MS) /* on a busy machine */
#define TURN_LATE_CHANCE 20000
#define SUPERVISOR_US (5 * SECOND) /* starts an agent again that has ended by itself */

enum under_way { UNDER_WAY_ENROLL, UNDER_WAY_BEAT, UNDER_WAY_POLL };

static void address_of(const struct agent *agent, char out[URL_SIZE])
{
    (void)snprintf(out, URL_SIZE, "http://%.20s:7411", agent->name);
}

int agent_new(struct world *world, size_t index, struct err *err)
{
    struct agent *agent = calloc(1, sizeof(*agent));
    if (!agent) {
        return err_set(err, ERR_MEMORY, "device %zu", index);
    }
    world->agent[index] = agent;
    agent->index = index;
    agent->actor = ACTOR_DEVICE + (int)index;
    agent->slowness = agent->usual_slowness = 100;
    agent->gflops = 10;
    agent->memory_bytes = 1 << 30;
    agent->numeric_class = "avx2";
    agent->protocol = PROTOCOL_VERSION;
    (void)snprintf(agent->name, sizeof(agent->name), "d%zu", index + 1);
    (void)snprintf(agent->key, sizeof(agent->key), "key-%zu", index + 1);
    world->actor[agent->actor].label = agent->name;
    return 0;
}

static void forget(struct world *world, struct agent *agent)
{
    agent->losses += agent->session && !agent->keeps;
    peer_drop(world, agent);
    run_free(world, &agent->run);
    agent->stage = NULL;
    session_free(&agent->session);
    memset(agent->under_way, 0, sizeof(agent->under_way));
    agent->probing = (struct probe_timer){0};
    agent->transfers.count = 0;
    agent_forget_snapshots(agent, agent->keeps);
    agent->event_count = agent->metric_count = 0;
    memset(&agent->admission, 0, sizeof(agent->admission));
    agent->reported_revision = 0;
    agent->discarded = agent->turn_asked = agent->room = agent->exited = agent->leaving = false;
    agent->timer_us = INT64_MAX;
    agent->id = (struct device_id){{0}};
}

void agent_free(struct world *world, size_t index)
{
    if (world->agent[index]) {
        forget(world, world->agent[index]);
        agent_forget_snapshots(world->agent[index], false);
        free(world->agent[index]);
        world->agent[index] = NULL;
    }
}

int agent_at(const struct world *world, const char *url)
{
    for (size_t i = 0; i < world->agent_count; i++) {
        char address[URL_SIZE];
        address_of(world->agent[i], address);
        if (strcmp(address, url) == 0) {
            return world->agent[i]->actor;
        }
    }
    ASSERT(false);
    return ACTOR_NONE;
}

struct agent *agent_of(const struct world *world, int actor)
{
    return world->agent[actor - ACTOR_DEVICE];
}

/* ---- calls to the coordinator ---- */

static void handle(struct world *world, struct agent *agent, struct session_event *event);

static const enum session_event_type failed_type[] = {
    [UNDER_WAY_ENROLL] = SESSION_ENROLL_FAILED,
    [UNDER_WAY_BEAT] = SESSION_BEAT_FAILED,
    [UNDER_WAY_POLL] = SESSION_POLL_FAILED,
};

static void tell_failure(struct world *world, struct agent *agent, size_t kind,
                         const struct call *call)
{
    struct session_event event = {.type = failed_type[kind]};
    event.failed.failure = FAILURE_NETWORK;
    if (call->network == 0) {
        event.failed.failure = call_failure(call->status, call->problem);
        memcpy(event.failed.text, call->text, sizeof(event.failed.text));
        TRACE(world, agent->actor, "%s: %d %s", call_type_names[call->type], call->status,
              call->text);
    }
    handle(world, agent, &event);
}

static void take_assignment(struct world *world, struct agent *agent, struct call *call)
{
    struct err err = {0};
    agent->desired = call->assignment;
    call->assignment = NULL;
    const int rc = assignment_check(agent->desired, &err);
    ASSERT(rc == 0);
    check_protocol(world, agent);
    struct session_event event = {.type = SESSION_ASSIGNED, .assignment = agent->desired};
    handle(world, agent, &event);
    net_put_assignment(world, &agent->desired);
}

static void take_answer(struct world *world, struct call *call)
{
    struct agent *agent = call->owner;
    const size_t kind = (size_t)call->number;
    if (agent->under_way[kind] != call) {
        return; /* another one took its place */
    }
    agent->under_way[kind] = NULL;
    if (call->network != 0 || call->status < 200 || call->status >= 300) {
        tell_failure(world, agent, kind, call);
    } else if (kind == UNDER_WAY_ENROLL) {
        struct session_event event = {.type = SESSION_ENROLLED, .enrolled = call->enrolled};
        agent->id = call->enrolled.device;
        handle(world, agent, &event);
    } else if (kind == UNDER_WAY_BEAT) {
        struct session_event event = {.type = SESSION_BEATEN, .reply = &call->beaten};
        handle(world, agent, &event);
    } else {
        take_assignment(world, agent, call);
    }
}

static struct call *new_call(struct world *world, struct agent *agent, size_t kind,
                             enum call_type type, const struct session_action *action)
{
    if (agent->under_way[kind]) {
        net_cancel(world, agent->under_way[kind]);
    }
    struct call *call = net_call(world, type, agent->actor, ACTOR_COORDINATOR);
    agent->under_way[kind] = call;
    call->done = take_answer;
    call->owner = agent;
    call->number = (int64_t)kind;
    call->timeout_us = action->timeout_ms * MS;
    call->device = agent->id;
    memcpy(call->boot, agent->boot, ID_SIZE);
    return call;
}

static void enroll(struct world *world, struct agent *agent, const struct session_action *action)
{
    struct call *call = new_call(world, agent, UNDER_WAY_ENROLL, CALL_ENROLL, action);
    struct enroll_request *request = calloc(1, sizeof(*request));
    ASSERT(request);
    request->protocol = agent->protocol;
    request->inventory.cores = 4;
    request->inventory.memory_bytes = agent->memory_bytes;
    request->inventory.zstd = agent->zstd;
    request->probe = (struct device_probe){.gemm_gflops = agent->gflops,
                                           .memory_bytes_per_second = 1e10,
                                           .free_memory_bytes = agent->memory_bytes,
                                           .threads = 1};
    memcpy(request->name, agent->name, sizeof(request->name));
    memcpy(request->public_key, agent->key, sizeof(request->public_key));
    memcpy(request->boot, agent->boot, sizeof(request->boot));
    address_of(agent, request->address);
    offers_fill(world, agent, request);
    (void)snprintf(request->numeric_class, sizeof(request->numeric_class), "%s",
                   agent->numeric_class);
    call->enroll = request;
    net_send(world, call);
}

/* What an agent says of itself beside its run; a probe takes no time here. */
static void measure_device(const struct world *world, struct agent *agent,
                           struct heartbeat *heartbeat)
{
    const int64_t now_ms = world_now_ms(world, agent->actor);
    const bool idle = !agent->run && session_phase(agent->session) == PHASE_IDLE;
    if (probe_timer_step(&agent->probing, idle, now_ms) == PROBE_START) {
        const double share = speeds_share(world, agent);
        const double speed = (double)agent->usual_slowness / (double)agent->slowness *
                             speeds_probe(world, agent) * share;
        const struct device_probe probe = {.gemm_gflops = agent->gflops * speed,
                                           .memory_bytes_per_second = 1e10 * speed,
                                           .processor_share = share};
        probe_timer_took(&agent->probing, now_ms, &probe);
    }
    probe_timer_report(&agent->probing, now_ms, heartbeat);
    heartbeat->free_memory_bytes = agent->memory_bytes;
    timing_transfers_report(&agent->transfers, heartbeat);
}

/* Leave what that version of the protocol has. */
static void cut_heartbeat(int protocol, struct heartbeat *heartbeat)
{
    json_auto_t *document = record_write_version(&heartbeat_record, protocol, heartbeat);
    record_clear(&heartbeat_record, heartbeat);
    const int rc =
        record_read_version(&heartbeat_record, protocol, document, "", heartbeat, NULL, NULL);
    ASSERT(rc == 0);
}

static void beat(struct world *world, struct agent *agent, const struct session_action *action)
{
    struct call *call = new_call(world, agent, UNDER_WAY_BEAT, CALL_BEAT, action);
    struct heartbeat *heartbeat = net_heartbeat(world);
    session_heartbeat(agent->session, heartbeat);
    address_of(agent, heartbeat->address);
    measure_device(world, agent, heartbeat);
    if (agent->run && !agent->discarded) {
        run_measure(world, agent->run, heartbeat);
    }
    if (heartbeat->all_holdings) {
        for (size_t i = 0; i < agent->held.count; i++) {
            heartbeat->holding[i] = agent->held.item[i]->holding;
        }
        heartbeat->holding_count = agent->held.count;
    }
    if (agent->protocol < PROTOCOL_VERSION) {
        cut_heartbeat(agent->protocol, heartbeat);
    }
    call->heartbeat = heartbeat;
    call->losses = agent->losses;
    net_send(world, call);
    if (offers_append(world, agent)) {
        agent_tell(world, agent, SESSION_DATA_CHANGED);
    }
}

static void poll(struct world *world, struct agent *agent, const struct session_action *action)
{
    struct call *call = new_call(world, agent, UNDER_WAY_POLL, CALL_POLL, action);
    call->after = action->after;
    call->wait_ms = SESSION_WAIT_SECONDS * 1000;
    net_send(world, call);
}

/* ---- actions ---- */

static void prepare(struct world *world, struct agent *agent, int64_t serial)
{
    const struct assignment_run *run = &agent->desired->run;
    TRACE(world, agent->actor,
          "prepares %s generation %" PRId64 " stage %" PRId64 " units %" PRId64 "-%" PRId64
          " from %" PRId64,
          trace_name(world, run->job.text), run->generation, run->stage_index, run->first,
          run->end - 1, run->resume_version);
    const struct snapshot_start start = {
        .job = run->job, .generation = run->generation, .version = run->resume_version};
    agent_cut(world, agent, &start);
    run_start(world, agent, serial, &agent->desired, &agent->run);
    agent->discarded = false;
}

static void discard(struct world *world, struct agent *agent)
{
    if (agent->run) {
        agent->discarded = true;
        run_cancel(world, agent->run);
    }
}

static void do_action(struct world *world, struct agent *agent, const struct session_action *action)
{
    struct run *run = agent->discarded ? NULL : agent->run;
    switch (action->type) {
    case SESSION_DO_ENROLL: enroll(world, agent, action); break;
    case SESSION_DO_BEAT: beat(world, agent, action); break;
    case SESSION_DO_POLL: poll(world, agent, action); break;
    case SESSION_DO_CALLERS: admission_set(&agent->admission, agent->desired); break;
    case SESSION_DO_DROP:
        agent_drop(world, agent, &action->drop);
        if (run) {
            outbox_drop(world, run, &action->drop);
        }
        break;
    case SESSION_DO_PREPARE: prepare(world, agent, action->serial); break;
    case SESSION_DO_DISCARD: discard(world, agent); break;
    case SESSION_DO_EXIT:
        TRACE(world, agent->actor, "exits: %s", action->text);
        agent->exited = true;
        break;
    case SESSION_DO_RUN:
    case SESSION_DO_STOP:
    case SESSION_DO_HOLD:
    case SESSION_DO_RELEASE:
    case SESSION_DO_AWAY:
    case SESSION_DO_BACK:
    case SESSION_DO_ROUNDS:
    case SESSION_DO_UPLOAD:
    case SESSION_DO_MIX:
    case SESSION_DO_MIXES_STORED:
        if (run) {
            run_tell(world, run, action);
        }
        break;
    }
}

static void set_timer(struct world *world, struct agent *agent);

static void handle(struct world *world, struct agent *agent, struct session_event *event)
{
    struct session_actions *actions = &agent->actions;
    actions->count = 0;
    event->now_ms = world_now_ms(world, agent->actor);
    session_step(agent->session, event, actions);
    for (size_t i = 0; i < actions->count; i++) {
        do_action(world, agent, &actions->item[i]);
    }
    check_agent(world, agent);
    if (session_leave(agent->session, event->now_ms) != LEAVE_WAITS) {
        TRACE(world, agent->actor, "goes");
        agent->exited = true;
    }
    if (agent->exited) {
        faults_kill_device(world, agent->index, SUPERVISOR_US);
    } else {
        set_timer(world, agent);
    }
}

void agent_leave(struct world *world, struct agent *agent)
{
    struct session_event event = {.type = SESSION_LEAVE};
    TRACE(world, agent->actor, "announces that it leaves");
    agent->leaving = true;
    handle(world, agent, &event);
}

/* ---- turns ---- */

static void take_reports(struct world *world, struct agent *agent)
{
    for (size_t i = 0; i < agent->metric_count && !agent->exited; i++) {
        struct session_event event = {.type = SESSION_METRIC, .serial = agent->metric[i].serial};
        event.metric = agent->metric[i].metric;
        handle(world, agent, &event);
    }
    agent->metric_count = 0;
    const size_t count = agent->event_count;
    struct session_event taken[EVENTS_MAX];
    memcpy(taken, agent->event, count * sizeof(taken[0]));
    agent->event_count = 0;
    for (size_t i = 0; i < count && agent->session; i++) {
        handle(world, agent, &taken[i]);
    }
}

static void turn(struct world *world, void *arg, int64_t number)
{
    struct agent *agent = arg;
    (void)number;
    agent->turn_asked = false;
    if (agent->held.revision != agent->reported_revision) {
        agent->reported_revision = agent->held.revision;
        struct session_event event = {.type = SESSION_HOLDINGS_CHANGED,
                                      .partial = !agent->held.whole};
        agent->held.whole = false;
        handle(world, agent, &event);
    }
    take_reports(world, agent);
    if (agent->session &&
        session_deadline_ms(agent->session) <= world_now_ms(world, agent->actor)) {
        struct session_event event = {.type = SESSION_TICK};
        handle(world, agent, &event);
    }
    if (agent->discarded && agent->run && run_ended(agent->run)) {
        run_free(world, &agent->run);
        agent->discarded = false;
    }
    if (agent->room) {
        agent->room = false;
        peer_room(world, agent);
    }
}

void agent_poke(struct world *world, struct agent *agent)
{
    if (!agent->turn_asked && agent->session) {
        const bool late = world_chance(world, DRAW_DEVICE, TURN_LATE_CHANCE);
        const int64_t after_us =
            late ? world_draw(world, DRAW_DEVICE, TURN_US, TURN_US_LATE) : TURN_US;
        agent->turn_asked = true;
        world_at(world, agent->actor, world->now_us + after_us, turn, agent, 0);
    }
}

static void timer(struct world *world, void *arg, int64_t number)
{
    struct agent *agent = arg;
    if (number == agent->timer_us) {
        agent->timer_us = INT64_MAX;
        agent_poke(world, agent);
    }
}

static void set_timer(struct world *world, struct agent *agent)
{
    const int64_t at_us = world_when_us(world, agent->actor, session_deadline_ms(agent->session));
    if (at_us != INT64_MAX && at_us != agent->timer_us) {
        agent->timer_us = at_us;
        world_at(world, agent->actor, at_us, timer, agent, at_us);
    }
}

void agent_tell(struct world *world, struct agent *agent, enum session_event_type type)
{
    const struct session_event event = {.type = type};
    agent_report(world, agent, &event);
}

void agent_report(struct world *world, struct agent *agent, const struct session_event *event)
{
    ASSERT(agent->event_count < EVENTS_MAX);
    agent->event[agent->event_count++] = *event;
    agent_poke(world, agent);
}

void agent_metric(struct world *world, struct agent *agent, int64_t serial,
                  const struct metric *metric)
{
    ASSERT(agent->metric_count < METRICS_KEPT);
    agent->metric[agent->metric_count].serial = serial;
    agent->metric[agent->metric_count++].metric = *metric;
    if (metric->name == METRIC_TEST_ACCURACY) {
        check_evaluation(world, run_find(agent, serial), metric->step);
    }
    agent_poke(world, agent);
}

/* ---- lives ---- */

void agent_start(struct world *world, struct agent *agent)
{
    struct err err = {0};
    if (world->actor[agent->actor].up || !world->actor[agent->actor].powered) {
        return;
    }
    world_start(world, agent->actor);
    forget(world, agent);
    memset(agent->boot, 0, sizeof(agent->boot));
    (void)snprintf(agent->boot, sizeof(agent->boot), "boot-%zu-%" PRId64, agent->index + 1,
                   ++agent->boots);
    (void)offers_append(world, agent);
    struct session_config config = {.seed = world->seed * 100 + (uint64_t)agent->boots};
    memcpy(config.boot, agent->boot, ID_SIZE);
    const int rc = session_new(&config, &agent->session, &err);
    ASSERT(rc == 0);
    TRACE(world, agent->actor, "starts as %s", agent->boot);
    struct session_event event = {.type = SESSION_START};
    handle(world, agent, &event);
}

void agent_crash(struct world *world, struct agent *agent)
{
    if (world->actor[agent->actor].up) {
        TRACE(world, agent->actor, "dies");
        world_end(world, agent->actor);
        forget(world, agent);
        check_records_due(world);
    }
}

void agent_take(struct world *world, struct call *call)
{
    peer_take(world, agent_of(world, call->to), call);
}
