/* Requests of other stages: parameters are served now or when their version is there, data goes
 * into the buffers that the core names. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "tests/sim/check.h"
#include "tests/sim/servers.h"
#include "tests/sim/trace.h"

/* ---- the table ---- */

static struct incoming *find(const struct run *run, const struct call *call)
{
    struct servers_run *work = servers_of(run);
    for (size_t i = 0; work && i < SERVERS_INCOMING_MAX; i++) {
        if (work->incoming[i].state != INCOMING_NONE && work->incoming[i].call == call) {
            return &work->incoming[i];
        }
    }
    return NULL;
}

/* The run that has the call; NULL: none has. */
static struct run *run_of(const struct world *world, const struct call *call, struct incoming **out)
{
    struct run *run = agent_of(world, call->to)->run;
    for (; run; run = run->previous) {
        *out = run->row == &servers_row ? find(run, call) : NULL;
        if (*out) {
            return run;
        }
    }
    return NULL;
}

static void let_go(struct world *world, struct incoming *incoming)
{
    net_release(world, incoming->call);
    *incoming = (struct incoming){.state = INCOMING_NONE};
}

static const struct exchange_message *message_of(const struct incoming *incoming)
{
    return &incoming->call->peer.message;
}

static int status_of(enum exchange_verdict verdict)
{
    switch (verdict) {
    case EXCHANGE_SERVE:
    case EXCHANGE_LAST: return 200;
    case EXCHANGE_STORED: return 204;
    case EXCHANGE_OUTDATED: return 410;
    case EXCHANGE_REFUSE: return 422;
    case EXCHANGE_NOT_YET:
    case EXCHANGE_TAKE:
    case EXCHANGE_PARK: break;
    }
    return 503;
}

/* All devices keep to the protocol, so no message is refused. */
static void answer(struct world *world, const struct run *run, struct incoming *incoming,
                   enum exchange_verdict verdict)
{
    struct call *call = incoming->call;
    if (verdict == EXCHANGE_REFUSE) {
        check_fail(world, "%s refuses message %d of step %" PRId64 " from %s", run->agent->name,
                   (int)call->peer.message.kind, call->peer.message.step,
                   world->actor[call->from].label);
    }
    if (verdict == EXCHANGE_LAST) {
        ASSERT(!call->body);
        call->body = calloc(1, sizeof(*call->body));
        ASSERT(call->body);
        call->body->last = exchange_last(servers_of(run)->exchange);
    }
    net_answer(world, call, status_of(verdict));
    let_go(world, incoming);
}

/* The connection breaks on the way, as between any two devices. */
static bool breaks(struct world *world, const struct call *call)
{
    return call->from != call->to && world_chance(world, DRAW_NET, world->net->rates.break_request);
}

/* ---- parameters ---- */

/* Copy those of layers [first, end). false: they may no longer be read. */
static bool read_parameters(struct world *world, const struct run *run, struct call *call,
                            size_t first, size_t end)
{
    const struct servers_run *work = servers_of(run);
    if (!exchange_serves(work->exchange, &call->peer.message)) {
        return false;
    }
    for (size_t l = first; l < end; l++) {
        const uint64_t state = run->stage.state[work->layers.unit[l]];
        check_served(world, run, work->layers.unit[l], call->peer.message.step);
        call->body->data[l] = servers_parameter(state, l);
        call->body->statistic[0][l] = servers_statistic(state, l);
    }
    return true;
}

static void break_off(struct world *world, struct incoming *incoming)
{
    net_break(world, incoming->call);
    let_go(world, incoming);
}

static void served(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    struct incoming *incoming;
    (void)number;
    struct run *run = run_of(world, call, &incoming);
    if (!run) {
        return;
    }
    const struct exchange_message *message = message_of(incoming);
    if (!breaks(world, call) && read_parameters(world, run, call, message->first, message->end)) {
        answer(world, run, incoming, EXCHANGE_SERVE);
    } else {
        break_off(world, incoming);
    }
}

/* The first layers have arrived at the worker before the last ones are sent. */
static void half_served(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    struct incoming *incoming;
    (void)number;
    struct run *run = run_of(world, call, &incoming);
    const struct exchange_message *message = &call->peer.message;
    const size_t middle = (message->first + message->end) / 2;
    if (run && read_parameters(world, run, call, message->first, middle)) {
        call->body->written = middle;
        servers_arrive(world, call);
    }
}

static void serve_now(struct world *world, struct run *run, struct incoming *incoming)
{
    struct call *call = incoming->call;
    incoming->state = INCOMING_SERVED;
    call->body = calloc(1, sizeof(*call->body));
    ASSERT(call->body);
    call->body->last = -1;
    run_moves(world, run, call);
    world_at_call(world, run->agent->actor, world->now_us + call->body_us / 2, half_served, call);
    world_at_call(world, run->agent->actor, world->now_us + call->body_us, served, call);
}

static void park_over(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    struct incoming *incoming;
    (void)number;
    struct run *run = run_of(world, call, &incoming);
    if (run && incoming->state == INCOMING_PARKED) {
        exchange_forget(servers_of(run)->exchange, incoming->handle);
        answer(world, run, incoming, EXCHANGE_NOT_YET);
    }
}

static void take_pull(struct world *world, struct run *run, struct incoming *incoming)
{
    struct servers_run *work = servers_of(run);
    incoming->handle = ++work->handles;
    const enum exchange_verdict verdict =
        exchange_pull(work->exchange, message_of(incoming), incoming->handle);
    if (verdict == EXCHANGE_PARK) {
        incoming->state = INCOMING_PARKED;
        world_at_call(world, run->agent->actor,
                      world->now_us + repeat_park_ms(run->desired->peer_ms) * MS, park_over,
                      incoming->call);
    } else if (verdict == EXCHANGE_SERVE) {
        serve_now(world, run, incoming);
    } else {
        answer(world, run, incoming, verdict);
    }
}

void servers_answer(struct world *world, struct run *run)
{
    struct servers_run *work = servers_of(run);
    struct exchange_answer found;
    while (exchange_next_answer(work->exchange, &found)) {
        size_t i = 0;
        while (i < SERVERS_INCOMING_MAX && (work->incoming[i].state != INCOMING_PARKED ||
                                            work->incoming[i].handle != found.handle)) {
            i++;
        }
        if (i == SERVERS_INCOMING_MAX) {
            check_fail(world, "%s answers a request that is not parked", run->agent->name);
        } else if (found.verdict == EXCHANGE_SERVE) {
            serve_now(world, run, &work->incoming[i]);
        } else {
            answer(world, run, &work->incoming[i], found.verdict);
        }
    }
    for (size_t i = 0; exchange_stopped(work->exchange) && i < SERVERS_INCOMING_MAX; i++) {
        if (work->incoming[i].state == INCOMING_PARKED) {
            check_fail(world, "%s has stopped and lets a request wait", run->agent->name);
        }
    }
}

/* ---- data ---- */

static void write_sums(struct world *world, struct run *run, const struct call *call)
{
    struct servers_run *work = servers_of(run);
    const struct exchange_message *message = &call->peer.message;
    const struct reduce_range block = work->block[message->block].range;
    for (size_t l = message->first; l < message->end; l++) {
        check_block(world, run, message->block, l, message->step);
        work->received[message->block][l] = call->body->data[l];
        work->received_step[message->block][l] = message->step;
        for (size_t m = block.first; m < block.end; m++) {
            work->whole.statistic[m][l] = call->body->statistic[m][l];
        }
    }
    for (size_t i = 0; message->done && i < work->blocks; i++) {
        const struct reduce_range range = work->block[i].range;
        for (size_t m = range.first; work->block[i].stage == message->from && m < range.end; m++) {
            work->loss[m] = call->body->loss[m];
        }
    }
}

static void write_data(struct world *world, struct run *run, const struct call *call)
{
    struct servers_run *work = servers_of(run);
    switch (call->peer.message.kind) {
    case EXCHANGE_CONTRIBUTION: write_sums(world, run, call); break;
    case EXCHANGE_RESULT: work->tested[call->peer.message.micro_batch] = call->body->number; break;
    case EXCHANGE_NORM: work->norm_in = call->body->number; break;
    case EXCHANGE_NORM_TOTAL: work->total_in = call->body->number; break;
    case EXCHANGE_PARAMETERS:
    case EXCHANGE_COMMIT: ASSERT(false);
    }
}

/* All of it is here. */
static void take_data(struct world *world, struct run *run, struct incoming *incoming)
{
    struct exchange *exchange = servers_of(run)->exchange;
    const struct exchange_message *message = message_of(incoming);
    enum exchange_verdict verdict = EXCHANGE_NOT_YET; /* it is on its way by another connection */
    if (exchange_holds(exchange, message, &incoming->claim)) {
        write_data(world, run, incoming->call);
        verdict = exchange_received(exchange, message, &incoming->claim);
    }
    answer(world, run, incoming, verdict);
    servers_go_on(world, run);
}

static void abandon(struct world *world, const struct run *run, struct incoming *incoming)
{
    exchange_abandon(servers_of(run)->exchange, message_of(incoming), &incoming->claim);
    break_off(world, incoming);
}

static void stream_over(struct world *world, void *arg, int64_t number)
{
    struct incoming *incoming;
    (void)number;
    const struct run *run = run_of(world, arg, &incoming);
    if (run && incoming->state == INCOMING_STREAM) {
        abandon(world, run, incoming);
    }
}

static bool is_whole(const struct call *call)
{
    return call->body->written <= call->peer.message.first;
}

static void body_is_here(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    struct incoming *incoming;
    (void)number;
    struct run *run = run_of(world, call, &incoming);
    if (!run) {
        return;
    }
    if (breaks(world, call)) {
        abandon(world, run, incoming);
    } else if (is_whole(call)) {
        take_data(world, run, incoming);
    } else {
        incoming->state = INCOMING_STREAM;
        world_at_call(world, run->agent->actor, world->now_us + run->desired->peer_ms * MS,
                      stream_over, call);
    }
}

static void grown(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    struct incoming *incoming;
    (void)number;
    struct run *run = run_of(world, call, &incoming);
    if (run && incoming->state == INCOMING_STREAM && is_whole(call) &&
        !world->net->cut[call->from][call->to]) {
        take_data(world, run, incoming);
    }
}

void servers_grow(struct world *world, struct call *call)
{
    world_at_call(world, call->to, world->now_us + world->net->rates.delay_us, grown, call);
}

/* ---- all of them ---- */

void servers_serve(struct world *world, struct run *run, struct call *call)
{
    struct servers_run *work = servers_of(run);
    const struct exchange_message *message = &call->peer.message;
    size_t at = 0;
    while (at < SERVERS_INCOMING_MAX && work->incoming[at].state != INCOMING_NONE) {
        at++;
    }
    if (at == SERVERS_INCOMING_MAX) {
        net_answer(world, call, 503);
        return;
    }
    struct incoming *incoming = &work->incoming[at];
    net_hold(call);
    *incoming = (struct incoming){.state = INCOMING_BODY, .call = call};
    if (message->kind == EXCHANGE_PARAMETERS) {
        take_pull(world, run, incoming);
        return;
    }
    if (message->kind == EXCHANGE_COMMIT) {
        answer(world, run, incoming, exchange_commit(work->exchange, message));
        servers_go_on(world, run);
        return;
    }
    const enum exchange_verdict verdict = exchange_offer(work->exchange, message, &incoming->claim);
    if (verdict == EXCHANGE_TAKE) {
        run_moves(world, run, call);
        world_at_call(world, run->agent->actor, world->now_us + call->body_us, body_is_here, call);
    } else {
        answer(world, run, incoming, verdict);
    }
}

void servers_forget(struct world *world, struct run *run, struct call *call)
{
    struct incoming *incoming = find(run, call);
    if (!incoming) {
        return;
    }
    if (incoming->state == INCOMING_PARKED) {
        exchange_forget(servers_of(run)->exchange, incoming->handle);
    } else if (incoming->state != INCOMING_SERVED) {
        exchange_abandon(servers_of(run)->exchange, message_of(incoming), &incoming->claim);
    }
    break_off(world, incoming);
}

void servers_break(struct world *world, struct run *run)
{
    struct servers_run *work = servers_of(run);
    for (size_t i = 0; i < SERVERS_INCOMING_MAX; i++) {
        if (work->incoming[i].state != INCOMING_NONE) {
            break_off(world, &work->incoming[i]);
        }
    }
}
