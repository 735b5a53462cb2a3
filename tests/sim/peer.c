/* A device's peer side (agent/peer/access, server, receive): who is let in, tensors into slots,
 * snapshots out. */
#include <string.h>

#include "base/assert.h"
#include "tests/sim/agent.h"
#include "tests/sim/run.h"

/* NULL: the problem was answered. */
static struct run *find_stage(struct world *world, const struct agent *agent, struct call *call)
{
    const struct peer_request *peer = &call->peer;
    struct run *run = agent->stage;
    if (run && id_equal(run->desired->job.text, peer->job.text) &&
        run->desired->generation == peer->generation) {
        return run;
    }
    net_answer(world, call,
               (int)admission_without_stage(&agent->admission, peer->job.text, peer->generation));
    return NULL;
}

/* ---- tensors ---- */

static void let_go(struct world *world, struct receive *receive)
{
    net_release(world, receive->call);
    receive->call = NULL;
}

/* The stage that the tensor is for, as long as it takes any. */
static struct run *stage_of(const struct agent *agent, const struct receive *receive)
{
    return agent->stage && agent->stage->serial == receive->serial ? agent->stage : NULL;
}

static void take_whole(struct world *world, struct run *run, struct receive *receive)
{
    const struct peer_request *peer = &receive->call->peer;
    if (receive->marks) {
        run->row->mark(run, peer->transfer.step);
    } else if (!receive->duplicate) {
        receive->claim.mark = peer->mark;
        if (!run->row->take(run, &peer->transfer, &receive->claim, peer->digest)) {
            net_answer(world, receive->call,
                       ADMISSION_EARLY); /* it is on its way by another connection */
            return;
        }
    }
    net_answer(world, receive->call, 204);
    run->row->go_on(world, run);
}

static void body_is_here(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    struct agent *agent = agent_of(world, call->to);
    (void)number;
    for (size_t i = 0; i < RECEIVES_MAX; i++) {
        struct receive *receive = &agent->receive[i];
        if (receive->call != call || receive->parked) {
            continue;
        }
        struct run *run = stage_of(agent, receive);
        const bool broken = world_chance(world, DRAW_NET, world->net->rates.break_request);
        if (run && broken && !receive->marks && !receive->duplicate) {
            run->row->abandon(run, &call->peer.transfer, &receive->claim);
        }
        if (broken) {
            net_break(world, call);
        } else if (run) {
            take_whole(world, run, receive);
        } else {
            net_answer(world, call,
                       204); /* a stage that has ended takes what its slots still have room for */
        }
        let_go(world, receive);
        return;
    }
}

/* Ask for the slot, again if need be. */
static void offer(struct world *world, struct run *run, struct receive *receive)
{
    struct call *call = receive->call;
    switch (run->row->offer(run, &call->peer.transfer, &receive->claim)) {
    case TRANSFER_TAKE: break;
    case TRANSFER_MARK: receive->marks = true; break;
    case TRANSFER_DUPLICATE: receive->duplicate = true; break;
    case TRANSFER_FULL: receive->parked = true; return;
    case TRANSFER_REFUSE:
        net_answer(world, call, 422);
        let_go(world, receive);
        return;
    }
    if (receive->marks != call->peer.last && !receive->duplicate) {
        net_answer(world, call, 422);
        let_go(world, receive);
        return;
    }
    receive->parked = false;
    world_at_call(world, run->agent->actor, world->now_us + call->body_us, body_is_here, call);
}

static void park_over(struct world *world, void *arg, int64_t number)
{
    (void)number;
    peer_room(world, agent_of(world, ((const struct call *)arg)->to));
}

void peer_room(struct world *world, struct agent *agent)
{
    for (size_t i = 0; i < RECEIVES_MAX; i++) {
        struct receive *receive = &agent->receive[i];
        if (!receive->call || !receive->parked) {
            continue;
        }
        struct run *run = stage_of(agent, receive);
        if (!run || receive->deadline_us <= world->now_us) {
            net_answer(world, receive->call, ADMISSION_EARLY);
            let_go(world, receive);
        } else {
            offer(world, run, receive);
        }
    }
}

static void take_tensor(struct world *world, struct agent *agent, struct call *call)
{
    const struct peer_request *peer = &call->peer;
    struct run *run = find_stage(world, agent, call);
    if (!run) {
        return;
    }
    size_t at = 0;
    while (at < RECEIVES_MAX && agent->receive[at].call) {
        at++;
    }
    if (peer->boundary != run->row->boundary(run, &peer->transfer) || at == RECEIVES_MAX) {
        net_answer(world, call, at == RECEIVES_MAX ? 503 : 422);
        return;
    }
    struct receive *receive = &agent->receive[at];
    net_hold(call);
    const int64_t park_us = repeat_park_ms(run->desired->peer_ms) * MS;
    *receive = (struct receive){
        .call = call, .serial = run->serial, .deadline_us = world->now_us + park_us};
    offer(world, run, receive);
    if (receive->call == call && receive->parked) {
        world_at_call(world, agent->actor, receive->deadline_us, park_over, call);
    }
}

static void give_snapshot(struct world *world, const struct agent *agent, struct call *call)
{
    const struct peer_request *peer = &call->peer;
    const struct snapshot *held = agent_snapshot(agent, peer->job.text, peer->version, peer->unit);
    call->digest = held ? digest_of_text(held->holding.sha256) : 0;
    net_answer(world, call, held ? 200 : 404);
}

/* ---- replicas ---- */

/* Within what the plan promised. */
static bool has_room(const struct agent *agent, const struct holding *holding)
{
    const int64_t bound =
        admission_replica_bytes(&agent->admission, holding->job.text, holding->generation);
    const struct snapshot_bytes bytes =
        agent_count_bytes(agent, SNAPSHOT_REPLICA, &holding->job, holding->generation);
    return snapshot_bytes_fit(bound, &bytes, holding->bytes);
}

static struct holding announced(const struct peer_request *peer)
{
    struct holding holding = {.job = peer->job,
                              .generation = peer->generation,
                              .version = peer->version,
                              .unit = peer->unit,
                              .bytes = peer->bytes};
    memcpy(holding.sha256, peer->sha256, SHA256_SIZE);
    return holding;
}

static void answer_replica(struct world *world, struct call *call, int rc)
{
    net_answer(world, call, snapshot_list_status(rc));
}

static void replica_is_here(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    struct agent *agent = agent_of(world, call->to);
    (void)number;
    char hash[SHA256_SIZE];
    const struct holding holding = announced(&call->peer);
    digest_text(call->peer.digest, hash);
    if (world_chance(world, DRAW_NET, world->net->rates.break_request)) {
        net_break(world, call);
    } else if (strcmp(hash, call->peer.sha256) != 0) {
        answer_replica(world, call, ERR_FORMAT);
    } else if (!has_room(agent, &holding)) {
        answer_replica(world, call, ERR_LIMIT);
    } else {
        answer_replica(world, call, agent_keep(world, agent, &holding, SNAPSHOT_REPLICA));
    }
}

static void take_replica(struct world *world, struct agent *agent, struct call *call)
{
    const struct holding holding = announced(&call->peer);
    if (!call->empty) {
        world_at_call(world, agent->actor, world->now_us + call->body_us, replica_is_here, call);
    } else if (snapshot_list_find_same(&agent->held, &holding)) {
        answer_replica(world, call, agent_keep(world, agent, &holding, SNAPSHOT_REPLICA));
    } else {
        answer_replica(world, call, has_room(agent, &holding) ? ERR_NOT_FOUND : ERR_LIMIT);
    }
}

static void take_message(struct world *world, struct agent *agent, struct call *call)
{
    struct run *run = find_stage(world, agent, call);
    if (run) {
        run->row->serve(world, run, call);
    }
}

/* A device has no ticket of its own. */
static enum admission_verdict judge(const struct agent *agent, const struct call *call)
{
    const struct peer_request *peer = &call->peer;
    return call->from == agent->actor ? ADMISSION_GRANTED
                                      : admission_judge(&agent->admission, peer->job.text,
                                                        peer->generation, peer->ticket, NULL, NULL);
}

void peer_take(struct world *world, struct agent *agent, struct call *call)
{
    const enum admission_verdict verdict = judge(agent, call);
    if (verdict != ADMISSION_GRANTED) {
        net_answer(world, call, (int)verdict);
    } else if (call->type == CALL_PUT_TENSOR) {
        take_tensor(world, agent, call);
    } else if (call->type == CALL_PUT_REPLICA) {
        take_replica(world, agent, call);
    } else if (call->type == CALL_GET_SNAPSHOT) {
        give_snapshot(world, agent, call);
    } else if (call->type == CALL_EXCHANGE || call->type == CALL_GET_MIX) {
        take_message(world, agent, call);
    } else {
        ASSERT(call->type == CALL_PING);
        net_answer(world, call, 204);
    }
}

void agent_hang_up(struct world *world, struct call *call)
{
    struct agent *agent = agent_of(world, call->to);
    for (struct run *run = agent->run; run; run = run->previous) {
        if (run->row->forget) {
            run->row->forget(world, run, call);
        }
    }
}

void peer_drop(struct world *world, struct agent *agent)
{
    for (size_t i = 0; i < RECEIVES_MAX; i++) {
        if (agent->receive[i].call) {
            let_go(world, &agent->receive[i]);
        }
    }
}
