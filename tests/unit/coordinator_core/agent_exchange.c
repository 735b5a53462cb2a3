/* A stage of servers and workers at work: the real protocol of an exchange, with a layer for each
 * unit. Data has no bytes and takes no time. A step begins when the story wants it. */
#include <string.h>

#include "tests/unit/coordinator_core/world.h"

/* ---- life ---- */

/* The blocks of all shares, in the order of their micro-batches. Return their count. */
static size_t list_blocks(const struct assignment_run *run, struct exchange_block *out)
{
    const size_t micro_batches = (size_t)run->job_spec.micro_batches;
    size_t count = 0, at = 0;
    while (at < micro_batches) {
        size_t s = 0;
        while (run->stage[s].share_first != (int64_t)at ||
               run->stage[s].share_end <= run->stage[s].share_first) {
            s++;
            assert_true(s < run->stages_listed);
        }
        const struct reduce_range share = {at, (size_t)run->stage[s].share_end};
        struct reduce_range block[REDUCE_BLOCKS_MAX];
        const size_t blocks = reduce_blocks(micro_batches, share, block);
        for (size_t i = 0; i < blocks; i++) {
            out[count++] = (struct exchange_block){.stage = s, .range = block[i]};
        }
        at = share.end;
    }
    return count;
}

void agent_exchange_build(struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    struct exchange_block block[REDUCE_COUNT_MAX];
    struct exchange_config config = {
        .index = (size_t)run->stage_index,
        .count = run->stages_listed,
        .micro_batches = (size_t)run->job_spec.micro_batches,
        .block = block,
        .blocks = list_blocks(run, block),
        .resume_version = run->resume_version,
        .total_steps = run->total_steps,
        .clips_norm = run->job_spec.optimizer.clip_norm > 0,
        .round_every = {[REPLICA_NEIGHBOR] = run->has_neighbor ? run->job_spec.neighbor_every : 0,
                        [REPLICA_CENTER] = run->job_spec.center_every},
    };
    struct err err = {0};
    for (size_t s = 0; s < run->stages_listed && run->stage[s].first < run->stage[s].end; s++) {
        config.layer_end[config.servers++] = (size_t)run->stage[s].end;
    }
    assert_ok(exchange_new(&config, &agent->exchange, &err), &err);
}

void agent_exchange_discard(struct agent *agent)
{
    exchange_free(&agent->exchange);
    agent->goal = 0;
    memset(agent->message, 0, sizeof(agent->message));
}

void agent_exchange_follow(struct agent *agent, bool begins)
{
    const bool leads = agent->assignment.run.stage_index == 0;
    agent->goal = leads && begins ? exchange_version(agent->exchange) + 1 : 0;
}

static struct agent *stage_agent(struct world *world, const struct agent *agent, size_t stage)
{
    return world_agent_of(world, agent->assignment.run.stage[stage].peer.device.text);
}

/* No step begins unless the lead wants one more. */
static void follow(struct world *world, struct agent *agent)
{
    const struct agent *lead = stage_agent(world, agent, 0);
    const bool begins = lead && lead->exchange && lead->generation == agent->generation &&
                        exchange_version(lead->exchange) < lead->goal;
    struct orders orders = agent->orders;
    orders.held = orders.held || !begins;
    exchange_follow(agent->exchange, &orders);
}

/* ---- tasks ---- */

/* One segment for each server. */
static void begin(struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    size_t end[EXCHANGE_SERVERS_MAX], count = 0;
    for (size_t s = 0; s < run->stages_listed && run->stage[s].first < run->stage[s].end; s++) {
        end[count++] = (size_t)run->stage[s].end;
    }
    const struct exchange_requests requests = {end, count};
    struct exchange_segments segments = {.pull = requests, .window = 1};
    for (size_t b = 0; b < REDUCE_BLOCKS_MAX; b++) {
        segments.push[b] = requests;
    }
    struct err err = {0};
    assert_ok(exchange_begin(agent->exchange, &segments, &err), &err);
}

static void update(struct world *world, struct agent *agent, const struct exchange_task *task)
{
    agent->step = task->step;
    if (task->mark.kinds != 0 && agent->outbox) {
        agent_snapshot(agent, task->step, &task->mark);
    }
    if (agent->assignment.run.stage_index == 0) {
        struct session_event event = {
            .type = SESSION_METRIC,
            .metric = {.step = task->step, .name = METRIC_LOSS, .value = 1}};
        agent_event(world, agent, &event);
    }
    if (task->opens_round) {
        struct session_event event = {.type = SESSION_ROUND_OPENED};
        agent_event(world, agent, &event);
    }
}

static void stop(struct world *world, struct agent *agent, int64_t version)
{
    static const struct round_mark none;
    struct session_event event = {.type = SESSION_STOPPED, .version = version};
    if (version > 0 && agent->taken != version && agent->outbox) {
        agent_snapshot(agent, version, &none);
    }
    agent_event(world, agent, &event);
}

static bool do_task(struct world *world, struct agent *agent)
{
    struct exchange_task task;
    if (agent->busy_ms > 0 || exchange_next(agent->exchange, &task) == EXCHANGE_WAIT) {
        return false;
    }
    if (task.work == EXCHANGE_BEGIN) {
        begin(agent);
    }
    exchange_done(agent->exchange, &task);
    if (task.work == EXCHANGE_UPDATE) {
        update(world, agent, &task);
    } else if (task.work == EXCHANGE_STOP) {
        stop(world, agent, task.step);
    }
    return true;
}

/* ---- messages ---- */

static uint64_t handle_of(const struct world *world, const struct agent *agent, size_t index)
{
    return (uint64_t)(agent - world->agent) * AGENT_MESSAGES + index + 1;
}

/* The message has its final answer, or will be tried again. */
static void answer(struct agent *agent, struct outgoing_message *outgoing, struct agent *other,
                   enum exchange_verdict verdict)
{
    const struct exchange_message *message = &outgoing->message;
    outgoing->parked = verdict == EXCHANGE_PARK;
    outgoing->waits = verdict == EXCHANGE_PARK || verdict == EXCHANGE_NOT_YET;
    switch (verdict) {
    case EXCHANGE_SERVE: exchange_pulled(agent->exchange, message, message->end); break;
    case EXCHANGE_LAST:
        assert_true(exchange_ended(agent->exchange, message, exchange_last(other->exchange)));
        break;
    case EXCHANGE_OUTDATED:
    case EXCHANGE_STORED:
        outgoing->waits = message->kind == EXCHANGE_PARAMETERS;
        if (!outgoing->waits) {
            exchange_sent(agent->exchange, message);
        }
        break;
    case EXCHANGE_PARK:
    case EXCHANGE_NOT_YET: break;
    case EXCHANGE_TAKE:
    case EXCHANGE_REFUSE: fail_msg("%s refuses a message of %s", other->name, agent->name);
    }
}

static enum exchange_verdict offer(struct agent *other, const struct exchange_message *message,
                                   uint64_t handle)
{
    struct exchange_claim claim;
    if (message->kind == EXCHANGE_PARAMETERS) {
        return exchange_pull(other->exchange, message, handle);
    }
    if (message->kind == EXCHANGE_COMMIT) {
        return exchange_commit(other->exchange, message);
    }
    const enum exchange_verdict verdict = exchange_offer(other->exchange, message, &claim);
    return verdict == EXCHANGE_TAKE ? exchange_received(other->exchange, message, &claim) : verdict;
}

/* false: nothing has changed. */
static bool deliver(struct world *world, struct agent *agent, size_t index)
{
    struct outgoing_message *outgoing = &agent->message[index];
    struct agent *other = stage_agent(world, agent, outgoing->message.to);
    if (!outgoing->waits) {
        return false;
    }
    const bool there = other && other->exchange && other->ready &&
                       other->generation == agent->generation &&
                       (other == agent || agent_reaches(agent, other));
    if (!exchange_wants(agent->exchange, &outgoing->message)) {
        if (outgoing->parked && there) {
            exchange_forget(other->exchange, handle_of(world, agent, index));
        }
        outgoing->waits = false;
        return true;
    }
    if (outgoing->parked || !there) {
        return false;
    }
    answer(agent, outgoing, other,
           offer(other, &outgoing->message, handle_of(world, agent, index)));
    return !outgoing->waits || outgoing->parked;
}

/* Answers to parked requests of others. */
static bool answer_parked(struct world *world, struct agent *agent)
{
    struct exchange_answer found;
    bool answered = false;
    while (exchange_next_answer(agent->exchange, &found)) {
        struct agent *asker = &world->agent[(found.handle - 1) / AGENT_MESSAGES];
        struct outgoing_message *outgoing = &asker->message[(found.handle - 1) % AGENT_MESSAGES];
        answered = true;
        if (asker->exchange && asker->generation == agent->generation && outgoing->parked) {
            answer(asker, outgoing, agent, found.verdict);
        }
    }
    return answered;
}

static void hand_out(struct agent *agent)
{
    struct exchange_message message;
    while (exchange_next_message(agent->exchange, &message)) {
        size_t i = 0;
        while (agent->message[i].waits) {
            i++;
            assert_true(i < AGENT_MESSAGES);
        }
        agent->message[i] = (struct outgoing_message){.waits = true, .message = message};
    }
}

bool agent_exchange_work(struct world *world, struct agent *agent)
{
    bool worked = false;
    if (!agent->ready) {
        return false;
    }
    follow(world, agent);
    worked = do_task(world, agent);
    if (!agent->exchange) {
        return true; /* its last task ended it */
    }
    hand_out(agent);
    for (size_t i = 0; i < AGENT_MESSAGES && agent->exchange; i++) {
        worked = deliver(world, agent, i) || worked;
    }
    worked = answer_parked(world, agent) || worked;
    const int64_t version = exchange_version(agent->exchange);
    agent->step = version > agent->step ? version : agent->step;
    return worked;
}
