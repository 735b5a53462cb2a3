#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/call_timer.h"
#include "tests/unit/coordinator_core/world.h"

/* Devices are so slow that links hardly count: a plan has all devices unless a story says more. */
#define COMPUTING_PREVAILS 0.2

#define CALLS_MAX 20 /* that an agent makes in a row, at most */

/* ---- the session ---- */

static void do_action(struct world *world, struct agent *agent, const struct session_action *);

static void step(struct world *world, struct agent *agent, struct session_event *event)
{
    struct session_actions actions;
    actions.count = 0;
    event->now_ms = world->now_ms;
    session_step(agent->session, event, &actions);
    for (size_t i = 0; i < actions.count && agent->up; i++) {
        do_action(world, agent, &actions.item[i]);
    }
}

static void tell(struct world *world, struct agent *agent, enum session_event_type type)
{
    struct session_event event = {.type = type};
    step(world, agent, &event);
}

static void tell_held(struct world *world, struct agent *agent)
{
    struct session_event event = {.type = SESSION_HOLDINGS_CHANGED, .partial = true};
    if (agent->held_changed) {
        agent->held_changed = false;
        step(world, agent, &event);
    }
}

void agent_event(struct world *world, struct agent *agent, struct session_event *event)
{
    tell_held(world, agent);
    event->serial = agent->serial;
    step(world, agent, event);
}

static void tell_failure(struct world *world, struct agent *agent, enum session_event_type type)
{
    struct session_event event = {.type = type};
    event.failed.failure = call_failure(world->status, world->problem);
    memcpy(event.failed.text, world->text, sizeof(event.failed.text));
    step(world, agent, &event);
}

int agent_phase(const struct agent *agent)
{
    return session_phase(agent->session);
}

/* ---- life ---- */

void agent_kill(struct agent *agent)
{
    agent_discard(agent);
    session_free(&agent->session);
    agent->up = false;
    agent->generation = 0;
    agent->job = (struct job_id){{0}};
}

static void boot(struct world *world, struct agent *agent)
{
    struct err err = {0};
    agent_kill(agent);
    agent->up = true;
    agent->boots++;
    agent->beat_sent = agent->poll_sent = false;
    agent->held_count = agent->disk ? agent->held_count : 0;
    agent->stopped_cpu = false;
    memset(&agent->assignment, 0, sizeof(agent->assignment));
    struct session_config config = {.seed = (uint64_t)(agent - world->agent)};
    (void)snprintf(config.boot, sizeof(config.boot), "boot-%.8s-%d", agent->name, agent->boots);
    memcpy(agent->boot, config.boot, sizeof(config.boot));
    assert_ok(session_new(&config, &agent->session, &err), &err);
    tell(world, agent, SESSION_START);
}

void agent_enroll_as(struct world *world, struct agent *agent, const char *boot)
{
    struct enroll_request request = {.protocol = PROTOCOL_VERSION - agent->versions_behind,
                                     .inventory = {.cores = 4},
                                     .probe = {.gemm_gflops = agent->gflops * COMPUTING_PREVAILS,
                                               .memory_bytes_per_second = 1e10,
                                               .free_memory_bytes = agent->memory_bytes,
                                               .threads = 1}};
    (void)snprintf(request.name, sizeof(request.name), "%s", agent->name);
    (void)snprintf(request.public_key, sizeof(request.public_key), "%s", agent->key);
    (void)snprintf(request.boot, sizeof(request.boot), "%s", boot);
    (void)snprintf(request.address, sizeof(request.address), "http://%.20s:7411", agent->name);
    (void)snprintf(request.numeric_class, sizeof(request.numeric_class), "%s",
                   agent->numeric_class);
    struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request}};
    world_send(world, &event);
}

void agent_enroll(struct world *world, struct agent *agent)
{
    agent_enroll_as(world, agent, agent->boot);
    if (world->problem != PROBLEM_NONE) {
        tell_failure(world, agent, SESSION_ENROLL_FAILED);
        return;
    }
    struct session_event enrolled = {.type = SESSION_ENROLLED, .enrolled = world->enroll_reply};
    agent->id = enrolled.enrolled.device;
    step(world, agent, &enrolled);
}

struct agent *world_agent(struct world *world, const char *name, double gflops)
{
    assert_true(world->agent_count < WORLD_AGENTS);
    struct agent *agent = &world->agent[world->agent_count++];
    agent->gflops = gflops;
    agent->memory_bytes = 1 << 30;
    agent->numeric_class = "avx2";
    (void)snprintf(agent->name, sizeof(agent->name), "%s", name);
    (void)snprintf(agent->key, sizeof(agent->key), "key-%s", name);
    boot(world, agent);
    agent_beat(world, agent);
    return agent;
}

struct agent *world_agent_of(struct world *world, const char *device_id)
{
    for (size_t i = 0; i < world->agent_count; i++) {
        if (id_equal(world->agent[i].id.text, device_id)) {
            return &world->agent[i];
        }
    }
    return NULL;
}

void agent_restart(struct world *world, struct agent *agent)
{
    boot(world, agent);
}

bool agents_apart(const struct agent *a, const struct agent *b)
{
    return a->cut || b->cut || a->apart == b || b->apart == a;
}

bool agent_answers(const struct agent *agent, const struct agent *other)
{
    return other && other->up && !agents_apart(other, agent) && !other->stopped_cpu;
}

bool agent_reaches(const struct agent *agent, const struct agent *other)
{
    for (size_t i = 0; agent_answers(agent, other) && i < other->assignment.caller_count; i++) {
        const struct caller *caller = &other->assignment.caller[i];
        if (id_equal(caller->device.text, agent->id.text) &&
            id_equal(caller->job.text, agent->job.text) &&
            caller->generation == agent->generation) {
            return true;
        }
    }
    return false;
}

/* ---- heartbeats ---- */

/* A call to the device. false: it is not answered. */
static bool call(struct world *world, struct agent *agent, enum trouble_source source,
                 const struct device_id *device)
{
    const struct agent *other = world_agent_of(world, device->text);
    if (agent_answers(agent, other)) {
        (void)trouble_list_clear(&agent->troubles, source);
        return true;
    }
    (void)trouble_list_add(&agent->troubles, source, device,
                           other && other->up ? PEER_STALLED : PEER_REFUSED, world->now_ms);
    return false;
}

/* Its neighbours and the source of the next unit. */
static void call_peers(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    bool answered = true;
    if (!world->reports || agent->generation == 0) {
        agent->troubles = (struct trouble_list){0};
        return;
    }
    if (run->has_previous) {
        (void)call(world, agent, TROUBLE_PREVIOUS, &run->previous.device);
    }
    if (run->has_next) {
        (void)call(world, agent, TROUBLE_NEXT, &run->next.device);
    }
    for (size_t s = 0, stop = run->stages_listed; s < stop; s++) {
        const struct peer *peer = &run->stage[s].peer;
        stop = peer->url[0] != '\0' && !call(world, agent, TROUBLE_NEXT, &peer->device) ? s : stop;
    }
    if (run->has_neighbor) {
        (void)call(world, agent, TROUBLE_REPLICA, &run->neighbor.device);
    }
    for (size_t i = 0; answered && !agent->ready && i < run->source_count; i++) {
        if (run->source[i].from == SOURCE_DEVICE && !agent->has[run->source[i].unit]) {
            answered = call(world, agent, TROUBLE_FETCH, &run->source[i].device);
        }
    }
    if (answered) {
        (void)trouble_list_clear(&agent->troubles, TROUBLE_FETCH);
    }
}

static void list_holdings(struct agent *agent)
{
    struct heartbeat *heartbeat = &agent->heartbeat;
    const struct assignment_run *run = &agent->assignment.run;
    heartbeat->holding_count = agent->held_count;
    memcpy(heartbeat->holding, agent->held, agent->held_count * sizeof(agent->held[0]));
    for (size_t i = 0; i < heartbeat->holding_count; i++) {
        struct holding *holding = &heartbeat->holding[i];
        if (agent->spoilt && (holding->unit < run->first || holding->unit >= run->end)) {
            holding->sha256[0] = '!';
        }
    }
}

static void write_heartbeat(struct world *world, struct agent *agent)
{
    struct heartbeat *heartbeat = &agent->heartbeat;
    const struct assignment_run *run = &agent->assignment.run;
    session_heartbeat(agent->session, heartbeat);
    heartbeat->step = agent->step;
    heartbeat->busy_ms = agent->busy_ms;
    heartbeat->leaving = agent->leaving;
    heartbeat->free_memory_bytes = agent->free_bytes;
    heartbeat->fetch_seconds = agent->fetch_seconds;
    agent_report(agent, heartbeat);
    call_peers(world, agent);
    trouble_list_report(&agent->troubles, world->now_ms, heartbeat);
    if (heartbeat->all_holdings) {
        list_holdings(agent);
    }
    if (heartbeat->phase == PHASE_READY && run->tune) {
        kernel_text_write(world->tuned, (size_t)run->first, (size_t)run->end, heartbeat->kernels);
    }
}

void agent_beat_again(struct world *world, struct agent *agent)
{
    struct event event = {.type = EVENT_HEARTBEAT, .heartbeat = {.heartbeat = &agent->heartbeat}};
    world_send(world, &event);
}

/* The heartbeat in flight arrives. */
static void deliver(struct world *world, struct agent *agent)
{
    agent->beat_sent = false;
    agent_beat_again(world, agent);
    if (world->problem != PROBLEM_NONE) {
        tell_failure(world, agent, SESSION_BEAT_FAILED);
        return;
    }
    agent->reported_life = agent->heartbeat.all_holdings ? world->lives : agent->reported_life;
    const struct heartbeat_reply reply = world->heartbeat_reply;
    struct session_event event = {.type = SESSION_BEATEN, .reply = &reply};
    step(world, agent, &event);
}

void agent_tell_holdings(struct agent *agent)
{
    agent->held_changed = true;
}

/* The open poll is answered. */
static void take_assignment(struct world *world, struct agent *agent)
{
    static struct assignment desired;
    struct err err = {0};
    if (!agent->poll_sent || !core_assignment(world->core, agent->id.text, agent->boot, &desired) ||
        desired.revision <= agent->after) {
        return;
    }
    assert_ok(agent_check(&desired, &err), &err);
    agent->poll_sent = false;
    agent->desired = &desired;
    struct session_event event = {.type = SESSION_ASSIGNED, .assignment = &desired};
    step(world, agent, &event);
    agent->desired = NULL;
}

void agent_beat(struct world *world, struct agent *agent)
{
    static struct assignment desired;
    if (core_assignment(world->core, agent->id.text, agent->boot, &desired) &&
        desired.challenge[0] != '\0' &&
        strcmp(desired.challenge, agent->heartbeat.challenge) != 0) {
        take_assignment(world, agent); /* a challenge ends its poll */
    }
    const bool late = agent->beat_sent;
    bool news = !late || agent->held_changed;
    if (late && agent->heartbeat.generation == agent->generation) {
        write_heartbeat(world, agent); /* it has just been sent */
    } else {
        news = true;
    }
    if (late) {
        deliver(world, agent);
    }
    tell_held(world, agent);
    if (news && !agent->beat_sent) {
        tell(world, agent, SESSION_TROUBLE_CHANGED); /* so it reports at once */
    }
    for (int i = 0; agent->beat_sent; i++) {
        assert_true(i < CALLS_MAX);
        deliver(world, agent);
    }
}

/* ---- actions ---- */

static void prepare(struct agent *agent, int64_t serial)
{
    const struct assignment_run *run = &agent->assignment.run;
    agent_discard(agent);
    agent->serial = serial;
    agent->job = run->job;
    agent->generation = run->generation;
    agent_cut_off(agent, agent->job.text, run->resume_version);
    agent_build(agent);
}

static void do_action(struct world *world, struct agent *agent, const struct session_action *action)
{
    switch (action->type) {
    case SESSION_DO_ENROLL: agent_enroll(world, agent); break;
    case SESSION_DO_BEAT:
        agent->beat_sent = true;
        write_heartbeat(world, agent);
        break;
    case SESSION_DO_POLL:
        agent->poll_sent = true;
        agent->after = action->after;
        break;
    case SESSION_DO_CALLERS: agent->assignment = *agent->desired; break;
    case SESSION_DO_DROP: agent_drop(agent, &action->drop); break;
    case SESSION_DO_PREPARE:
        assert_true(agent->assignment.run.phase == PHASE_PREPARE || world->lives > 1);
        prepare(agent, action->serial);
        break;
    case SESSION_DO_DISCARD:
        agent_discard(agent);
        agent->generation = 0;
        agent->job = (struct job_id){{0}};
        break;
    case SESSION_DO_MIX:
    case SESSION_DO_MIXES_STORED: break; /* no job has groups that mix */
    case SESSION_DO_EXIT: agent_kill(agent); break;
    case SESSION_DO_RUN:
    case SESSION_DO_STOP:
    case SESSION_DO_HOLD:
    case SESSION_DO_RELEASE:
    case SESSION_DO_AWAY:
    case SESSION_DO_BACK:
    case SESSION_DO_ROUNDS:
    case SESSION_DO_UPLOAD:
        if (agent_works(agent)) {
            agent_tell(world, agent, action);
        }
        break;
    }
}

void agent_fail(struct world *world, struct agent *agent, const char *code)
{
    struct session_event event = {.type = SESSION_FAILED};
    (void)snprintf(event.error.code, sizeof(event.error.code), "%s", code);
    (void)snprintf(event.error.message, sizeof(event.error.message), "it went wrong");
    agent_discard(agent);
    agent_event(world, agent, &event);
}

/* ---- following ---- */

void agent_follow(struct world *world, struct agent *agent)
{
    tell(world, agent, SESSION_TICK);
    take_assignment(world, agent);
    if (agent_works(agent) && !agent->ready && agent->assignment.run.phase == PHASE_PREPARE) {
        agent_get_ready(world, agent);
    }
    (void)agent_work(world);
}

/* ---- all of them ---- */

static bool do_all(struct world *world, bool train)
{
    bool busy = false;
    for (size_t i = 0; i < world->agent_count; i++) {
        struct agent *agent = &world->agent[i];
        if (!agent->up || agent->stopped_cpu) {
            continue;
        }
        const int phase = agent_phase(agent);
        const int64_t generation = agent->generation;
        agent_follow(world, agent);
        busy = (train && agent_step(world, agent)) || busy;
        for (int blob = 0; blob < 8; blob++) {
            busy = agent_replicate(world, agent) || busy;
        }
        busy = agent_upload(world, agent) || busy;
        busy = busy || agent_phase(agent) != phase || agent->generation != generation ||
               agent->held_changed;
        agent_beat(world, agent);
    }
    return busy;
}

void world_settle(struct world *world)
{
    for (int round = 0; round < 1000; round++) {
        if (!do_all(world, false)) {
            return;
        }
    }
    fail_msg("the agents do not come to rest");
}

void world_train(struct world *world, int64_t steps)
{
    for (int64_t round = 0; round < steps; round++) {
        (void)do_all(world, true);
    }
    world_settle(world);
}
