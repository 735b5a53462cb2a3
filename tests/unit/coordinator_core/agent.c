#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/world.h"

/* By the law a unit has the same bits at a version wherever it was computed. */
void unit_sha256(char out[SHA256_SIZE], int64_t version, int64_t unit)
{
    memset(out, 0, SHA256_SIZE);
    (void)snprintf(out, SHA256_SIZE, "state-%" PRId64 "-of-unit-%" PRId64, version, unit);
}

/* ---- snapshots ---- */

static bool holds(const struct agent *agent, const char *job, int64_t version, int64_t unit)
{
    for (size_t i = 0; i < agent->held_count; i++) {
        const struct held *held = &agent->held[i];
        if (held->version == version && held->unit == unit && strcmp(held->job, job) == 0) {
            return true;
        }
    }
    return false;
}

static void hold(struct agent *agent, const char *job, int64_t version, int64_t unit)
{
    if (!holds(agent, job, version, unit)) {
        assert_true(agent->held_count < AGENT_HELD);
        struct held *held = &agent->held[agent->held_count++];
        *held = (struct held){.version = version, .unit = unit};
        memcpy(held->job, job, ID_SIZE);
        agent->tell_holdings = true;
    }
}

static void drop(struct agent *agent, const struct drop *drop)
{
    size_t kept = 0;
    for (size_t i = 0; i < agent->held_count; i++) {
        bool goes = agent->held[i].version < drop->below_version && strcmp(agent->held[i].job, drop->job.text) == 0;
        if (!goes) {
            agent->held[kept++] = agent->held[i];
        }
    }
    agent->tell_holdings = agent->tell_holdings || kept != agent->held_count;
    agent->held_count = kept;
}

/* ---- life ---- */

static void forget_run(struct agent *agent)
{
    agent->job[0] = '\0';
    agent->generation = 0;
    agent->phase = PHASE_IDLE;
    agent->step = agent->stopped_version = 0;
    agent->error[0] = '\0';
    memset(agent->has, 0, sizeof(agent->has));
}

static void boot(struct agent *agent)
{
    agent->up = true;
    agent->boots++;
    agent->assigned = false;
    agent->held_count = 0;
    agent->tell_holdings = true;
    agent->highest = 0;
    /* Written beside the struct: to gcc at -O3 two members of one array element look like overlapping texts. */
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
    (void)snprintf(request.numeric_class, sizeof(request.numeric_class), "%s", agent->numeric_class);
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
        if (strcmp(world->agent[i].id.text, device_id) == 0) {
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

/* ---- reports ---- */

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
    memcpy(heartbeat->job, agent->job, ID_SIZE);
    heartbeat->revision = agent->assigned ? agent->assignment.revision : 0;
    heartbeat->generation = agent->generation;
    heartbeat->highest_generation = agent->highest;
    heartbeat->phase = agent->phase;
    heartbeat->step = agent->step;
    heartbeat->stopped_version = agent->stopped_version;
    heartbeat->has_error = agent->error[0] != '\0';
    memcpy(heartbeat->error.code, agent->error, sizeof(agent->error));
    (void)snprintf(heartbeat->error.message, sizeof(heartbeat->error.message), "it went wrong");
    heartbeat->all_holdings = agent->tell_holdings;
    for (size_t i = 0; agent->tell_holdings && i < agent->held_count; i++) {
        struct holding *holding = &heartbeat->holding[heartbeat->holding_count++];
        memcpy(holding->job.text, agent->held[i].job, ID_SIZE);
        holding->version = agent->held[i].version;
        holding->unit = agent->held[i].unit;
        holding->bytes = 1000;
        unit_sha256(holding->sha256, holding->version, holding->unit);
    }
    if (agent->phase == PHASE_RUN && agent->step > 0) {
        heartbeat->metric_count = 1;
        heartbeat->metric[0] = (struct metric){.step = agent->step, .name = METRIC_LOSS, .value = 1};
    }
    agent->tell_holdings = false;
    send_heartbeat(world, agent);
    if (world->problem == PROBLEM_NONE && world->heartbeat_reply.reenroll) {
        agent_enroll(world, agent);
    }
}

void agent_beat_again(struct world *world, struct agent *agent)
{
    send_heartbeat(world, agent);
}

/* ---- following ---- */

/* Whether the other agent lets this one in: it goes by the assignment it has itself. */
static bool lets_in(const struct agent *other, const struct agent *agent)
{
    for (size_t i = 0; other->assigned && i < other->assignment.caller_count; i++) {
        const struct caller *caller = &other->assignment.caller[i];
        if (strcmp(caller->device.text, agent->id.text) == 0 && strcmp(caller->job.text, agent->job) == 0 &&
            caller->generation == agent->generation) {
            return true;
        }
    }
    return false;
}

/* Take one unit from where the assignment says. */
static bool take_unit(struct world *world, struct agent *agent, const struct source *source)
{
    const struct assignment_run *run = &agent->assignment.run;
    char sha256[SHA256_SIZE];
    unit_sha256(sha256, run->resume_version, source->unit);
    switch ((enum source_from)source->from) {
    case SOURCE_SEED: assert_int_equal(run->resume_version, 0); return true;
    case SOURCE_SELF: assert_true(holds(agent, run->job.text, run->resume_version, source->unit)); return true;
    case SOURCE_DEVICE: {
        const struct agent *other = world_agent_of(world, source->device.text);
        assert_string_equal(source->sha256, sha256);
        if (!other || !other->up || !lets_in(other, agent) ||
            !holds(other, run->job.text, run->resume_version, source->unit)) {
            return false;
        }
        hold(agent, run->job.text, run->resume_version, source->unit);
        return true;
    }
    case SOURCE_CENTER:
        assert_string_equal(source->sha256, sha256);
        if (!core_may_read_blob(world->core, agent->id.text, sha256)) {
            return false;
        }
        hold(agent, run->job.text, run->resume_version, source->unit);
        return true;
    }
    return false;
}

static void prepare(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    assert_int_equal(run->source_count, run->end - run->first);
    bool all = !agent->stuck;
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
    const struct plan *plan = core_job_plan(world->core, agent->job);
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
        hold(agent, agent->job, version, u);
    }
}

static void take_assignment(struct world *world, struct agent *agent)
{
    static struct assignment told;
    if (!core_assignment(world->core, agent->id.text, agent->boot, &told)) {
        return;
    }
    struct err err = {0};
    assert_ok(assignment_check(&told, &err), &err); /* as real agents do */
    bool same_job = told.has_run && strcmp(told.run.job.text, agent->job) == 0;
    if (same_job && told.run.generation < agent->highest) {
        return; /* a coordinator that is behind */
    }
    agent->assignment = told;
    agent->assigned = true;
    for (size_t i = 0; i < told.drop_count; i++) {
        drop(agent, &told.drop[i]);
    }
    if (!told.has_run) {
        forget_run(agent);
    } else if (!same_job || told.run.generation != agent->generation) {
        assert_true(told.run.phase == PHASE_PREPARE || world->lives > 1);
        forget_run(agent);
        memcpy(agent->job, told.run.job.text, ID_SIZE);
        agent->generation = agent->highest = told.run.generation;
        agent->phase = PHASE_PREPARE;
    }
}

void agent_follow(struct world *world, struct agent *agent)
{
    int64_t version;
    take_assignment(world, agent);
    int told = agent->assigned && agent->assignment.has_run ? agent->assignment.run.phase : PHASE_IDLE;
    if (agent->phase == PHASE_IDLE || agent->error[0] != '\0') {
        return;
    }
    if (agent->phase == PHASE_PREPARE && told == PHASE_PREPARE) {
        prepare(world, agent);
    }
    if (agent->phase == PHASE_READY && told >= PHASE_RUN) {
        agent->phase = PHASE_RUN;
        if (agent->step == agent->assignment.run.total_steps) {
            stop(agent, agent->step); /* it was resumed from the last step */
        }
    }
    if (agent->phase == PHASE_RUN && told >= PHASE_STOPPING) {
        agent->phase = PHASE_STOPPING;
    }
    if (agent->phase == PHASE_STOPPING && stop_at(world, agent, &version) && agent->step == version) {
        stop(agent, version);
    }
}

/* ---- work ---- */

bool agent_step(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    if ((agent->phase != PHASE_RUN && agent->phase != PHASE_STOPPING) || agent->step >= run->total_steps) {
        return false;
    }
    if (run->stage_index == 0) {
        if (agent->phase == PHASE_STOPPING) {
            return false;
        }
    } else {
        const struct agent *before = world_agent_of(world, run->previous.device.text);
        if (!before || before->generation != agent->generation || before->step <= agent->step ||
            strcmp(before->job, agent->job) != 0) {
            return false;
        }
    }
    agent->step++;
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
        struct event event = {.type = EVENT_BLOB_STORED, .blob_stored = {.device = agent->id}};
        struct center_unit *unit = &event.blob_stored.unit;
        memcpy(unit->job.text, agent->job, ID_SIZE);
        unit->generation = agent->generation;
        unit->version = agent->stopped_version;
        unit->unit = u;
        unit->bytes = 1000;
        unit_sha256(unit->sha256, unit->version, u);
        if (agent->has[u]) {
            agent->has[u] = false; /* stored */
            assert_true(holds(agent, agent->job, unit->version, u));
            world_send(world, &event);
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
        if (!agent->up) {
            continue;
        }
        int phase = agent->phase;
        int64_t generation = agent->generation;
        agent_follow(world, agent);
        bool may_step = train || agent->phase == PHASE_STOPPING;
        busy = (may_step && agent_step(world, agent)) || busy;
        busy = agent_upload(world, agent) || busy;
        busy = busy || agent->phase != phase || agent->generation != generation || agent->tell_holdings;
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
