#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/agent_parts.h"

/* ---- life ---- */

static void forget_run(struct agent *agent)
{
    agent->job.text[0] = '\0';
    agent->generation = 0;
    memset(&agent->plan, 0, sizeof(agent->plan));
    agent->phase = PHASE_IDLE;
    agent->step = agent->stopped_version = 0;
    agent->error[0] = '\0';
    agent->busy_ms = agent->trouble_since_ms = 0;
    memset(agent->has, 0, sizeof(agent->has));
    memset(agent->round, 0, sizeof(agent->round));
}

static void boot(struct agent *agent)
{
    agent->up = true;
    agent->boots++;
    agent->assigned = false;
    agent->held_count = agent->disk ? agent->held_count : 0;
    agent->tell_holdings = true;
    agent->highest = 0;
    agent->stopped_cpu = false;
    agent->challenge[0] = '\0';
    /* Written beside the struct: to gcc at -O3 two members of one array element look like
     * overlapping texts. */
    char text[ID_SIZE];
    (void)snprintf(text, sizeof(text), "boot-%.8s-%d", agent->name, agent->boots);
    memcpy(agent->boot, text, sizeof(text));
    forget_run(agent);
}

void agent_enroll(struct world *world, struct agent *agent)
{
    struct enroll_request request = {.protocol = PROTOCOL_VERSION,
                                     .inventory = {.cores = 4},
                                     .probe = {.gemm_gflops = agent->gflops,
                                               .memory_bytes_per_second = 1e10,
                                               .free_memory_bytes = agent->memory_bytes,
                                               .threads = 1}};
    (void)snprintf(request.name, sizeof(request.name), "%s", agent->name);
    (void)snprintf(request.public_key, sizeof(request.public_key), "%s", agent->key);
    (void)snprintf(request.boot, sizeof(request.boot), "%s", agent->boot);
    (void)snprintf(request.address, sizeof(request.address), "http://%.20s:7411", agent->name);
    (void)snprintf(request.numeric_class, sizeof(request.numeric_class), "%s",
                   agent->numeric_class);
    struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request}};
    world_send(world, &event);
    if (world->problem == PROBLEM_NONE) {
        agent->id = world->enroll_reply.device;
        agent->tell_holdings = true;
    }
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
    boot(agent);
    agent_enroll(world, agent);
    agent_beat(world, agent);
    return agent;
}

const struct agent *world_agent_of(const struct world *world, const char *device_id)
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
    boot(agent);
    agent_enroll(world, agent);
}

void agent_kill(struct agent *agent)
{
    agent->up = false;
}

bool agents_apart(const struct agent *a, const struct agent *b)
{
    return a->cut || b->cut || a->apart == b || b->apart == a;
}

/* ---- reports ---- */

static void report(struct world *world, struct agent *agent, const struct device_id *device)
{
    struct heartbeat *heartbeat = &agent->heartbeat;
    const struct agent *other = world_agent_of(world, device->text);
    bool gone = !other || !other->up,
         quiet = other && (agents_apart(other, agent) || other->stopped_cpu);
    bool known = false;
    for (size_t i = 0; i < heartbeat->peer_report_count; i++) {
        known = known || id_equal(heartbeat->peer_report[i].device.text, device->text);
    }
    if ((gone || quiet) && !known && heartbeat->peer_report_count < PEER_REPORTS_MAX) {
        agent->trouble_since_ms =
            agent->trouble_since_ms == 0 ? world->now_ms : agent->trouble_since_ms;
        heartbeat->peer_report[heartbeat->peer_report_count++] =
            (struct peer_report){.device = *device,
                                 .kind = gone ? PEER_REFUSED : PEER_STALLED,
                                 .for_ms = world->now_ms - agent->trouble_since_ms};
    }
}

/* Whom of its neighbours and sources it does not reach. */
static void report_peers(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    bool works = world->reports && agent->assigned && agent->assignment.has_run &&
                 agent->phase != PHASE_IDLE && run->generation == agent->generation;
    if (works && run->has_previous) {
        report(world, agent, &run->previous.device);
    }
    if (works && run->has_next) {
        report(world, agent, &run->next.device);
    }
    if (works && run->has_neighbor) {
        report(world, agent, &run->neighbor.device);
    }
    for (size_t i = 0; works && agent->phase == PHASE_PREPARE && i < run->source_count; i++) {
        if (run->source[i].from == SOURCE_DEVICE && !agent->has[run->source[i].unit]) {
            report(world, agent, &run->source[i].device);
        }
    }
    if (agent->heartbeat.peer_report_count == 0) {
        agent->trouble_since_ms = 0;
    }
}

/* The challenge came with its poll, which is always parked. */
static void take_challenge(const struct world *world, struct agent *agent)
{
    static struct assignment desired;
    if (core_assignment(world->core, agent->id.text, agent->boot, &desired)) {
        memcpy(agent->challenge, desired.challenge, ID_SIZE);
    }
}

static void send_heartbeat(struct world *world, struct agent *agent)
{
    struct event event = {.type = EVENT_HEARTBEAT, .heartbeat = {.heartbeat = &agent->heartbeat}};
    world_send(world, &event);
}

void agent_beat(struct world *world, struct agent *agent)
{
    struct heartbeat *heartbeat = &agent->heartbeat;
    memset(heartbeat, 0, sizeof(*heartbeat));
    heartbeat->device = agent->id;
    memcpy(heartbeat->boot, agent->boot, ID_SIZE);
    heartbeat->job = agent->job;
    heartbeat->revision = agent->assigned ? agent->assignment.revision : 0;
    heartbeat->generation = agent->generation;
    heartbeat->plan = agent->plan;
    heartbeat->highest_generation = agent->highest;
    heartbeat->phase = agent->phase;
    heartbeat->step = agent->step;
    heartbeat->stopped_version = agent->stopped_version;
    heartbeat->busy_ms = agent->busy_ms;
    heartbeat->fetch_seconds = agent->fetch_seconds;
    take_challenge(world, agent);
    heartbeat->round_neighbor = agent->round[AGENT_NEIGHBOR].open;
    heartbeat->round_center = agent->round[AGENT_CENTER].open;
    memcpy(heartbeat->challenge, agent->challenge, ID_SIZE);
    report_peers(world, agent);
    heartbeat->has_error = agent->error[0] != '\0';
    memcpy(heartbeat->error.code, agent->error, sizeof(agent->error));
    (void)snprintf(heartbeat->error.message, sizeof(heartbeat->error.message), "it went wrong");
    heartbeat->all_holdings = agent->tell_holdings;
    for (size_t i = 0; agent->tell_holdings && i < agent->held_count; i++) {
        struct holding *holding = &heartbeat->holding[heartbeat->holding_count++];
        holding->job = agent->held[i].job;
        holding->generation = agent->held[i].generation;
        holding->version = agent->held[i].version;
        holding->unit = agent->held[i].unit;
        holding->bytes = 1000;
        unit_sha256(holding->sha256, holding->version, holding->unit);
        if (agent->spoilt && (holding->unit < agent->assignment.run.first ||
                              holding->unit >= agent->assignment.run.end)) {
            holding->sha256[0] = '!';
        }
    }
    if (agent->phase == PHASE_RUN && agent->step > 0) {
        heartbeat->metric_count = 1;
        heartbeat->metric[0] =
            (struct metric){.step = agent->step, .name = METRIC_LOSS, .value = 1};
    }
    if (agent->phase == PHASE_READY && agent->assignment.run.tune) {
        const struct assignment_run *run = &agent->assignment.run;
        kernel_text_write(world->tuned, (size_t)run->first, (size_t)run->end, heartbeat->kernels);
    }
    agent->tell_holdings = false;
    send_heartbeat(world, agent);
    if (world->problem != PROBLEM_NONE) {
        return;
    }
    agent->reported_life = heartbeat->all_holdings ? world->lives : agent->reported_life;
    agent_take_rounds(world, agent);
    if (world->heartbeat_reply.reenroll) {
        agent_enroll(world, agent);
    }
}

void agent_beat_again(struct world *world, struct agent *agent)
{
    send_heartbeat(world, agent);
}

/* ---- following ---- */

/* Take one unit from where the assignment says. */
static bool take_unit(struct world *world, struct agent *agent, const struct source *source)
{
    const struct assignment_run *run = &agent->assignment.run;
    char sha256[SHA256_SIZE];
    unit_sha256(sha256, run->resume_version, source->unit);
    switch ((enum source_from)source->from) {
    case SOURCE_SEED: assert_int_equal(run->resume_version, 0); return true;
    case SOURCE_CHECKPOINT:
        assert_int_equal(run->resume_version, 0);
        assert_string_equal(source->sha256, run->data.checkpoint_sha256);
        return core_may_read_blob(world->core, agent->id.text, source->sha256);
    case SOURCE_SELF:
        assert_true(agent_holds(agent, run->job.text, run->resume_version, source->unit));
        return true;
    case SOURCE_DEVICE: {
        const struct agent *other = world_agent_of(world, source->device.text);
        assert_string_equal(source->sha256, sha256);
        if (!other || !other->up || agents_apart(other, agent) || !agent_lets_in(other, agent) ||
            !agent_holds(other, run->job.text, run->resume_version, source->unit)) {
            return false;
        }
        agent_hold(agent, run->job.text, run->generation, run->resume_version, source->unit);
        return true;
    }
    case SOURCE_CENTER:
        assert_string_equal(source->sha256, sha256);
        if (!core_may_read_blob(world->core, agent->id.text, sha256)) {
            return false;
        }
        agent_hold(agent, run->job.text, run->generation, run->resume_version, source->unit);
        return true;
    }
    return false;
}

static bool answers(const struct world *world, const struct agent *agent, const struct peer *peer)
{
    const struct agent *other = world_agent_of(world, peer->device.text);
    return !world->reports ||
           (other && other->up && !agents_apart(other, agent) && !other->stopped_cpu);
}

static void prepare(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    assert_int_equal(run->source_count, run->end - run->first);
    bool all = !agent->stuck && (!run->has_previous || answers(world, agent, &run->previous)) &&
               (!run->has_next || answers(world, agent, &run->next));
    for (size_t i = 0; i < run->source_count; i++) {
        int64_t unit = run->source[i].unit;
        assert_int_equal(unit, run->first + (int64_t)i);
        agent->has[unit] = agent->has[unit] || take_unit(world, agent, &run->source[i]);
        all = all && agent->has[unit];
    }
    if (all) {
        agent->phase = PHASE_READY;
        agent->step = run->resume_version;
    }
}

/* The step that all must reach: stage 0's. */
static bool stop_at(struct world *world, const struct agent *agent, int64_t *version)
{
    const struct plan *plan = core_job_plan(world->core, agent->job.text);
    if (!plan || plan->generation != agent->generation) {
        return false;
    }
    const struct agent *first = world_agent_of(world, plan->stage[0].device.text);
    *version = first->step;
    return first->generation == agent->generation && first->phase >= PHASE_STOPPING;
}

static void stop(struct agent *agent, int64_t version)
{
    const struct assignment_run *run = &agent->assignment.run;
    agent->phase = PHASE_STOPPED;
    agent->stopped_version = version;
    for (int64_t u = run->first; u < run->end; u++) {
        agent_hold(agent, agent->job.text, agent->generation, version, u);
    }
}

static void take_assignment(struct world *world, struct agent *agent)
{
    static struct assignment desired;
    if (!core_assignment(world->core, agent->id.text, agent->boot, &desired)) {
        return;
    }
    struct err err = {0};
    assert_ok(assignment_check(&desired, &err), &err); /* as real agents do */
    bool same_job = desired.has_run && id_equal(desired.run.job.text, agent->job.text);
    if (same_job && desired.run.generation < agent->highest) {
        return; /* an outdated coordinator */
    }
    agent->assignment = desired;
    agent->assigned = true;
    for (size_t i = 0; i < desired.drop_count; i++) {
        agent_drop(agent, &desired.drop[i]);
    }
    if (!desired.has_run) {
        forget_run(agent);
    } else if (!same_job || desired.run.generation != agent->generation ||
               !id_equal(desired.run.plan.text, agent->plan.text)) {
        assert_true(desired.run.phase == PHASE_PREPARE || world->lives > 1);
        forget_run(agent);
        agent->job = desired.run.job;
        agent->generation = agent->highest = desired.run.generation;
        agent->plan = desired.run.plan;
        agent->phase = PHASE_PREPARE;
        agent_cut_off(agent, agent->job.text, desired.run.resume_version);
    }
}

void agent_follow(struct world *world, struct agent *agent)
{
    int64_t version;
    take_assignment(world, agent);
    int desired =
        agent->assigned && agent->assignment.has_run ? agent->assignment.run.phase : PHASE_IDLE;
    if (agent->phase == PHASE_IDLE || agent->error[0] != '\0') {
        return;
    }
    if (agent->phase == PHASE_PREPARE && desired == PHASE_PREPARE) {
        prepare(world, agent);
    }
    if (agent->phase == PHASE_READY && desired >= PHASE_RUN) {
        agent->phase = PHASE_RUN;
        if (agent->step == agent->assignment.run.total_steps) {
            stop(agent, agent->step); /* it was resumed from the last step */
        }
    }
    if (agent->phase == PHASE_RUN && desired >= PHASE_STOPPING) {
        agent->phase = PHASE_STOPPING;
    }
    if (agent->phase == PHASE_STOPPING && stop_at(world, agent, &version) &&
        agent->step == version) {
        stop(agent, version);
    }
}

/* ---- work ---- */

bool agent_step(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    if ((agent->phase != PHASE_RUN && agent->phase != PHASE_STOPPING) ||
        agent->step >= run->total_steps || agent->stopped_cpu || agent->busy_ms > 0) {
        return false;
    }
    if (run->stage_index == 0) {
        if (agent->phase == PHASE_STOPPING) {
            return false;
        }
        agent_open_rounds(agent, agent->step + 1);
    } else {
        const struct agent *before = world_agent_of(world, run->previous.device.text);
        if (!before || before->generation != agent->generation || before->step <= agent->step ||
            !id_equal(before->job.text, agent->job.text) || agents_apart(before, agent)) {
            return false;
        }
    }
    agent->step++;
    agent_take_snapshots(world, agent);
    if (agent->step == run->total_steps) {
        stop(agent, agent->step);
    }
    return true;
}

bool agent_upload(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    if (agent->phase != PHASE_STOPPED || !agent->assigned || run->phase != PHASE_FINISHED) {
        return false;
    }
    assert_int_equal(run->resume_version, agent->stopped_version);
    for (int64_t u = run->first; u < run->end; u++) {
        if (agent->has[u]) {
            assert_true(agent_holds(agent, agent->job.text, agent->stopped_version, u));
            agent->has[u] =
                !agent_send_center(world, agent, agent->stopped_version, u); /* stored */
            return true;
        }
    }
    agent->phase = PHASE_FINISHED;
    return true;
}

static bool do_all(struct world *world, bool train)
{
    bool busy = false;
    for (size_t i = 0; i < world->agent_count; i++) {
        struct agent *agent = &world->agent[i];
        if (!agent->up || agent->stopped_cpu) {
            continue;
        }
        int phase = agent->phase;
        int64_t generation = agent->generation;
        agent_follow(world, agent);
        bool may_step = train || agent->phase == PHASE_STOPPING;
        busy = (may_step && agent_step(world, agent)) || busy;
        for (int blob = 0; blob < 8; blob++) {
            busy = agent_replicate(world, agent) || busy;
        }
        busy = agent_upload(world, agent) || busy;
        busy = busy || agent->phase != phase || agent->generation != generation ||
               agent->tell_holdings;
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

void agent_fail(struct agent *agent, const char *code)
{
    (void)snprintf(agent->error, sizeof(agent->error), "%s", code);
}
