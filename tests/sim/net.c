#include "tests/sim/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/agent.h"
#include "tests/sim/servers_digest.h"
#include "tests/sim/trace.h"

const char *const call_type_names[CALL_TYPES] = {
    [CALL_ENROLL] = "enroll",
    [CALL_BEAT] = "heartbeat",
    [CALL_POLL] = "poll",
    [CALL_GET_BLOB] = "get_blob",
    [CALL_PUT_BLOB] = "put_blob",
    [CALL_PUT_AVERAGE] = "put_average",
    [CALL_GET_DATA] = "get_data",
    [CALL_USER] = "user",
    [CALL_PING] = "ping",
    [CALL_GET_SNAPSHOT] = "get_snapshot",
    [CALL_PUT_TENSOR] = "put_tensor",
    [CALL_PUT_REPLICA] = "put_replica",
    [CALL_EXCHANGE] = "exchange",
    [CALL_GET_MIX] = "get_mix",
};

int net_new(struct net **out, struct err *err)
{
    struct net *net = calloc(1, sizeof(*net));
    if (!net) {
        return err_set(err, ERR_MEMORY, "net");
    }
    *out = net;
    return 0;
}

void net_free(struct net **pointer)
{
    struct net *net = *pointer;
    if (!net) {
        return;
    }
    for (struct call *call = net->open, *next; call; call = next) { /* whose callers still wait */
        next = call->next;
        free(call->enroll);
        free(call->event);
        free(call->heartbeat);
        free(call->assignment);
        free(call->body);
        free(call->mix);
        free(call);
    }
    for (struct call *call = net->spare, *next; call; call = next) {
        next = call->next;
        free(call);
    }
    for (size_t i = 0; i < net->spare_heartbeats; i++) {
        free(net->spare_heartbeat[i]);
    }
    for (size_t i = 0; i < net->spare_assignments; i++) {
        free(net->spare_assignment[i]);
    }
    free(net);
    *pointer = NULL;
}

/* ---- memory ---- */

struct heartbeat *net_heartbeat(struct world *world)
{
    struct net *net = world->net;
    struct heartbeat *heartbeat = net->spare_heartbeats > 0
                                      ? net->spare_heartbeat[--net->spare_heartbeats]
                                      : malloc(sizeof(struct heartbeat));
    ASSERT(heartbeat);
    return heartbeat;
}

static void put_heartbeat(struct net *net, struct heartbeat *heartbeat)
{
    const size_t most = sizeof(net->spare_heartbeat) / sizeof(net->spare_heartbeat[0]);
    if (heartbeat && net->spare_heartbeats < most) {
        net->spare_heartbeat[net->spare_heartbeats++] = heartbeat;
    } else {
        free(heartbeat);
    }
}

struct assignment *net_assignment(struct world *world)
{
    struct net *net = world->net;
    struct assignment *assignment = net->spare_assignments > 0
                                        ? net->spare_assignment[--net->spare_assignments]
                                        : malloc(sizeof(struct assignment));
    ASSERT(assignment);
    return assignment;
}

void net_put_assignment(struct world *world, struct assignment **pointer)
{
    struct net *net = world->net;
    const size_t most = sizeof(net->spare_assignment) / sizeof(net->spare_assignment[0]);
    if (*pointer && net->spare_assignments < most) {
        net->spare_assignment[net->spare_assignments++] = *pointer;
    } else {
        free(*pointer);
    }
    *pointer = NULL;
}

struct call *net_call(struct world *world, enum call_type type, int from, int to)
{
    struct net *net = world->net;
    struct call *call = net->spare;
    if (call) {
        net->spare = call->next;
    } else {
        call = malloc(sizeof(*call));
        ASSERT(call);
    }
    memset(call, 0, sizeof(*call));
    call->type = type;
    call->from = from;
    call->to = to;
    call->from_life = world->actor[from].life;
    call->timeout_us = 10 * SECOND;
    call->references = 1;
    call->next = net->open;
    if (net->open) {
        net->open->previous = call;
    }
    net->open = call;
    return call;
}

void net_hold(struct call *call)
{
    call->references++;
}

void net_release(struct world *world, struct call *call)
{
    if (!call || --call->references > 0) {
        return;
    }
    struct net *net = world->net;
    ASSERT(call->references == 0);
    if (call->previous) {
        call->previous->next = call->next;
    } else {
        net->open = call->next;
    }
    if (call->next) {
        call->next->previous = call->previous;
    }
    free(call->enroll);
    free(call->event);
    free(call->body);
    free(call->mix);
    put_heartbeat(net, call->heartbeat);
    net_put_assignment(world, &call->assignment);
    call->next = net->spare;
    net->spare = call;
}

/* ---- the way back ---- */

static void end(struct world *world, struct call *call)
{
    if (!call->ended) {
        call->ended = true;
        if (call->done && world->actor[call->from].life == call->from_life) {
            call->done(world, call);
        }
        net_release(world, call); /* the caller's */
    }
}

static void fail(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    (void)number;
    if (!call->ended) {
        call->network = ERR_NETWORK;
        end(world, call);
    }
}

static bool is_own(const struct call *call)
{
    return call->from == call->to;
}

static int64_t delay_us(struct world *world)
{
    const struct net_rates *rates = &world->net->rates;
    int64_t delay = rates->delay_us + world_draw(world, DRAW_NET, 0, rates->jitter_us);
    if (world_chance(world, DRAW_NET, rates->slow)) {
        delay += world_draw(world, DRAW_NET, 0, rates->slow_us);
    }
    return delay;
}

/* The other side sees the connection close. */
static void hang_up(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    (void)number;
    if (call->answered || world->net->cut[call->from][call->to]) {
        return;
    }
    if (call->type == CALL_POLL) {
        coordinator_hang_up(world, call);
    } else {
        agent_hang_up(world, call);
    }
}

/* Of a call that may be parked. */
static void close_call(struct world *world, struct call *call)
{
    const bool parks =
        call->type == CALL_POLL || call->type == CALL_EXCHANGE || call->type == CALL_GET_MIX;
    if (parks && call->delivered && !call->answered && world->actor[call->from].powered) {
        world_at_call(world, call->to, world->now_us + delay_us(world), hang_up, call);
    }
}

static void time_out(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    (void)number;
    if (!call->ended) {
        call->network = ERR_TIMEOUT;
        close_call(world, call);
        end(world, call);
    }
}

static void give_answer(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    (void)number;
    if (!world->net->cut[call->to][call->from]) {
        end(world, call);
    }
}

void net_answer(struct world *world, struct call *call, int status)
{
    if (call->answered) {
        return;
    }
    const struct net_rates *rates = &world->net->rates;
    const int64_t at_us =
        world->now_us + delay_us(world) + (call->assignment || call->digest ? call->body_us : 0);
    call->answered = true;
    call->answered_us = world->now_us;
    call->status = status;
    if (is_own(call)) {
        world_at_call(world, call->from, world->now_us, give_answer, call);
        return;
    }
    if (world_chance(world, DRAW_NET, rates->lose_answer)) {
        return;
    }
    const bool broken = world_chance(world, DRAW_NET, rates->break_answer);
    world_at_call(world, call->from, at_us, broken ? fail : give_answer, call);
}

void net_problem(struct world *world, struct call *call, enum problem_code problem,
                 const char *text)
{
    if (!call->answered) {
        call->problem = problem;
        if (text != call->text) {
            (void)snprintf(call->text, sizeof(call->text), "%s", text);
        }
        net_answer(world, call, problem_kinds[problem].status);
    }
}

void net_break(struct world *world, struct call *call)
{
    if (!call->answered) {
        call->answered = true;
        world_at_call(world, call->from, world->now_us + delay_us(world), fail, call);
    }
}

/* ---- the way there ---- */

static void deliver(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    const struct actor *actor = &world->actor[call->to];
    (void)number;
    if (call->answered) {
        return; /* the process in whose socket it waited has died */
    }
    if (world->net->cut[call->from][call->to] || !actor->powered) {
        return; /* the caller waits in vain */
    }
    if (!actor->up) {
        call->refused = true;
        world_at_call(world, call->from, world->now_us + delay_us(world), fail, call);
        return;
    }
    if (actor->thaw_us > world->now_us) {
        /* It waits in the socket of a process that does not run. */
        call->waits = true;
        world_at_call(world, ACTOR_NONE, actor->thaw_us, deliver, call);
        return;
    }
    call->delivered = true;
    if (call->to == ACTOR_COORDINATOR) {
        coordinator_take(world, call);
    } else {
        agent_take(world, call);
    }
}

/* Send the request a second time; its answer is ignored. */
static void send_double(struct world *world, const struct call *call)
{
    struct call *copy = net_call(world, call->type, call->from, call->to);
    copy->device = call->device;
    memcpy(copy->boot, call->boot, sizeof(copy->boot));
    copy->after = call->after;
    copy->wait_ms = call->wait_ms;
    copy->unit = call->unit;
    copy->peer = call->peer;
    copy->average = call->average;
    copy->losses = call->losses;
    copy->empty = call->empty;
    copy->digest = call->type == CALL_PUT_BLOB ? call->digest : 0;
    copy->body_us = call->body_us;
    copy->transfer_us = call->transfer_us;
    copy->doubled = true;
    if (call->enroll) {
        copy->enroll = malloc(sizeof(*copy->enroll));
        ASSERT(copy->enroll);
        *copy->enroll = *call->enroll;
    }
    if (call->heartbeat) {
        copy->heartbeat = net_heartbeat(world);
        *copy->heartbeat = *call->heartbeat;
    }
    if (call->body) {
        copy->body = malloc(sizeof(*copy->body));
        ASSERT(copy->body);
        *copy->body = *call->body;
    }
    const int64_t at_us = world->now_us + delay_us(world) + world_draw(world, DRAW_NET, 0, SECOND);
    world_at_call(world, ACTOR_NONE, at_us, deliver, copy);
    copy->ended = true;
    net_release(world, copy);
}

void net_send(struct world *world, struct call *call)
{
    const struct net_rates *rates = &world->net->rates;
    const int64_t at_us = world->now_us + delay_us(world);
    const int64_t timeout_us = call->timeout_us + call->transfer_us; /* it counts from progress */
    call->began_ms = world_now_ms(world, call->from);
    if (is_own(call)) {
        world_at_call(world, call->to, world->now_us, deliver, call);
        return;
    }
    world_at_call(world, call->from, world->now_us + timeout_us, time_out, call);
    if (call->type != CALL_USER && world_chance(world, DRAW_NET, rates->doubled)) {
        send_double(world, call);
    }
    if (world_chance(world, DRAW_NET, rates->lose_request)) {
        return;
    }
    if (world_chance(world, DRAW_NET, rates->break_request)) {
        world_at_call(world, call->from, at_us, fail, call);
        return;
    }
    world_at_call(world, ACTOR_NONE, at_us, deliver, call);
}

double net_seconds(const struct world *world, const struct call *call)
{
    return (double)(world_now_ms(world, call->from) - call->began_ms) / 1e3;
}

void net_cancel(struct world *world, struct call *call)
{
    if (!call->ended) {
        call->ended = true;
        call->done = NULL;
        close_call(world, call);
        net_release(world, call);
    }
}

void net_reset(struct world *world, int actor)
{
    for (struct call *call = world->net->open, *next; call; call = next) {
        next = call->next;
        const bool open = call->waits || (call->delivered && !call->ended);
        if (call->to == actor && open && !call->answered) {
            call->answered = true;
            if (world->actor[actor].powered) {
                world_at_call(world, call->from, world->now_us + delay_us(world), fail, call);
            }
        }
    }
    for (struct call *call = world->net->open, *next; call; call = next) {
        next = call->next;
        if (call->from == actor && !call->ended) {
            net_cancel(world, call);
        }
    }
}
