/* What the simple agents hold, and how they copy it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/agent_parts.h"

/* By the law a unit has the same bits at a version wherever it was computed. */
void unit_sha256(char out[SHA256_SIZE], int64_t version, int64_t unit)
{
    memset(out, 0, SHA256_SIZE);
    (void)snprintf(out, SHA256_SIZE, "state-%" PRId64 "-of-unit-%" PRId64, version, unit);
}

/* ---- snapshots ---- */

bool agent_holds(const struct agent *agent, const char *job, int64_t version, int64_t unit)
{
    for (size_t i = 0; i < agent->held_count; i++) {
        const struct held *held = &agent->held[i];
        if (held->version == version && held->unit == unit && id_equal(held->job.text, job)) {
            return true;
        }
    }
    return false;
}

void agent_hold(struct agent *agent, const char *job, int64_t generation, int64_t version,
                int64_t unit)
{
    size_t at = 0;
    while (at < agent->held_count &&
           (agent->held[at].version != version || agent->held[at].unit != unit ||
            !id_equal(agent->held[at].job.text, job))) {
        at++;
    }
    assert_true(at < AGENT_HELD);
    struct held *held = &agent->held[at];
    if (at < agent->held_count && held->generation >= generation) {
        return;
    }
    *held = (struct held){.generation = generation, .version = version, .unit = unit};
    memcpy(held->job.text, job, ID_SIZE);
    agent->held_count += at == agent->held_count;
    agent->tell_holdings = true;
}

void agent_cut_off(struct agent *agent, const char *job, int64_t version)
{
    size_t kept = 0;
    for (size_t i = 0; i < agent->held_count; i++) {
        bool goes = agent->held[i].version > version && id_equal(agent->held[i].job.text, job);
        if (!goes) {
            agent->held[kept++] = agent->held[i];
        }
    }
    agent->tell_holdings = agent->tell_holdings || kept != agent->held_count;
    agent->held_count = kept;
}

void agent_drop(struct agent *agent, const struct drop *drop)
{
    size_t kept = 0;
    for (size_t i = 0; i < agent->held_count; i++) {
        bool goes = agent->held[i].version < drop->below_version &&
                    id_equal(agent->held[i].job.text, drop->job.text);
        if (!goes) {
            agent->held[kept++] = agent->held[i];
        }
    }
    agent->tell_holdings = agent->tell_holdings || kept != agent->held_count;
    agent->held_count = kept;
}

/* ---- rounds ---- */

bool agent_lets_in(const struct agent *other, const struct agent *agent)
{
    for (size_t i = 0; other->assigned && i < other->assignment.caller_count; i++) {
        const struct caller *caller = &other->assignment.caller[i];
        if (id_equal(caller->device.text, agent->id.text) &&
            id_equal(caller->job.text, agent->job.text) &&
            caller->generation == agent->generation) {
            return true;
        }
    }
    return false;
}

void agent_take_rounds(struct world *world, struct agent *agent)
{
    const struct round *const replied[] = {&world->heartbeat_reply.neighbor,
                                           &world->heartbeat_reply.center};
    for (int k = 0; k < AGENT_ROUNDS; k++) {
        struct agent_round *round = &agent->round[k];
        bool over = replied[k]->state == ROUND_COMMITTED || replied[k]->state == ROUND_ABANDONED ||
                    replied[k]->state == ROUND_PAUSED;
        round->paused = replied[k]->state == ROUND_PAUSED;
        if (over && replied[k]->version == round->open) {
            round->open = 0;
        }
    }
}

void agent_open_rounds(struct agent *agent, int64_t step)
{
    const struct assignment_run *run = &agent->assignment.run;
    const int64_t every[] = {run->has_neighbor ? run->job_spec.neighbor_every : 0,
                             run->job_spec.center_every};
    bool first = step == run->resume_version + 1 && run->resume_version > 0;
    for (int k = 0; k < AGENT_ROUNDS; k++) {
        struct agent_round *round = &agent->round[k];
        bool due = every[k] > 0 && (step % every[k] == 0 || (first && k == AGENT_NEIGHBOR));
        if (due && round->open == 0 && !round->paused && step < run->total_steps) {
            round->open = round->marked = step;
        }
    }
}

void agent_take_snapshots(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    const struct plan *plan = core_job_plan(world->core, agent->job.text);
    const struct agent *first = plan && plan->generation == agent->generation
                                    ? world_agent_of(world, plan->stage[0].device.text)
                                    : NULL;
    for (int k = 0; first && first->generation == agent->generation && k < AGENT_ROUNDS; k++) {
        if (first->round[k].marked != agent->step) {
            continue;
        }
        agent->round[k].version = agent->step;
        memset(agent->round[k].sent, 0, sizeof(agent->round[k].sent));
        for (int64_t u = run->first; u < run->end; u++) {
            agent_hold(agent, agent->job.text, agent->generation, agent->step, u);
        }
    }
}

bool agent_send_center(struct world *world, struct agent *agent, int64_t version, int64_t unit)
{
    struct event event = {.type = EVENT_BLOB_STORED, .blob_stored = {.device = agent->id}};
    struct center_unit *blob = &event.blob_stored.unit;
    blob->job = agent->job;
    blob->generation = agent->generation;
    blob->version = version;
    blob->unit = unit;
    blob->bytes = 1000;
    unit_sha256(blob->sha256, version, unit);
    if (!core_may_store_unit(world->core, agent->id.text, blob)) {
        return false;
    }
    world_send(world, &event);
    return world->status == 204;
}

static bool send_neighbor(struct world *world, struct agent *agent, int64_t version, int64_t unit)
{
    struct agent *other = NULL;
    for (size_t i = 0; i < world->agent_count; i++) {
        bool is = id_equal(world->agent[i].id.text, agent->assignment.run.neighbor.device.text);
        other = is ? &world->agent[i] : other;
    }
    if (!other || !other->up || agents_apart(other, agent) || other->stopped_cpu ||
        !agent_lets_in(other, agent) || other->generation != agent->generation) {
        return false;
    }
    agent_hold(other, agent->job.text, agent->generation, version, unit);
    return true;
}

bool agent_replicate(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    if (agent->phase != PHASE_RUN || run->generation != agent->generation) {
        return false;
    }
    for (int k = 0; k < AGENT_ROUNDS; k++) {
        struct agent_round *round = &agent->round[k];
        for (int64_t u = run->first; round->version > 0 && u < run->end; u++) {
            if (round->sent[u] || !agent_holds(agent, agent->job.text, round->version, u)) {
                continue;
            }
            round->sent[u] = k == AGENT_CENTER ? agent_send_center(world, agent, round->version, u)
                                               : send_neighbor(world, agent, round->version, u);
            if (round->sent[u]) {
                return true;
            }
            break;
        }
    }
    return false;
}
