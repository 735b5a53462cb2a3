/* Requests to other stages: each is repeated until it has its answer, and a stage to which none is
 * open is asked whether it is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/servers.h"
#include "tests/sim/speeds.h"

#define IDLE_US (REPEAT_IDLE_MS * MS)
#define BODY_US (2 * MS)

_Static_assert(SERVERS_OUTGOING_MAX <= 64, "an event names a run and one of these");

static bool is_own(const struct run *run, const struct exchange_message *message)
{
    return (int64_t)message->to == run->desired->stage_index;
}

/* ---- calls ---- */

/* NULL: nobody waits for the answer, as of a repeated delivery. */
static struct run *find_run(const struct call *call)
{
    struct run *run = call->owner ? run_find(call->owner, call->number / 64) : NULL;
    return run && run->work ? run : NULL;
}

static struct call *new_call(struct world *world, struct run *run, size_t stage,
                             enum call_type type, const struct repeat *repeat)
{
    const struct peer *peer = &run->desired->stage[stage].peer;
    const int actor = run->agent->actor;
    const bool own = (int64_t)stage == run->desired->stage_index;
    struct call *call = net_call(world, type, actor, own ? actor : agent_at(world, peer->url));
    call->owner = run->agent;
    call->number = run->serial * 64;
    call->peer.device = peer->device;
    call->peer.job = run->desired->job;
    call->peer.generation = run->desired->generation;
    memcpy(call->peer.ticket, peer->ticket, TICKET_SIZE);
    call->timeout_us = repeat_stall_ms(repeat) * MS;
    return call;
}

/* ---- is it there? ---- */

static void ask(struct world *world, struct run *run, size_t stage);

static void asked(struct world *world, struct call *call)
{
    struct run *run = find_run(call);
    const size_t stage = (size_t)call->number % 64;
    if (!run || servers_of(run)->line[stage].call != call) {
        return;
    }
    struct line *line = &servers_of(run)->line[stage];
    line->call = NULL;
    line->idle_since_us = world->now_us;
    if (run->cancelled) {
        return;
    }
    const enum trouble_source source = (enum trouble_source)(TROUBLE_STAGE + stage);
    if (run_tried(world, run, &line->repeat, source, call).again) {
        ask(world, run, stage);
    }
}

static void ask(struct world *world, struct run *run, size_t stage)
{
    struct line *line = &servers_of(run)->line[stage];
    struct call *call = new_call(world, run, stage, CALL_PING, &line->repeat);
    call->number += (int64_t)stage;
    call->done = asked;
    line->call = call;
    net_send(world, call);
}

static void look(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (!run || run->cancelled || !run->work) {
        return;
    }
    for (size_t i = 0; i < STAGES_MAX; i++) {
        struct line *line = &servers_of(run)->line[i];
        if (line->stage && line->open == 0 && !line->call &&
            line->idle_since_us + IDLE_US <= world->now_us) {
            repeat_begin(&line->repeat, REPEAT_ALIVE, run->desired->peer_ms);
            ask(world, run, i);
        }
    }
    world_at(world, run->agent->actor, world->now_us + IDLE_US / 2, look, arg, number);
}

void servers_start_lines(struct world *world, struct run *run)
{
    const struct assignment_run *desired = run->desired;
    for (size_t i = 0; i < desired->stages_listed; i++) {
        if (desired->stage[i].peer.url[0] != '\0') {
            servers_of(run)->line[i] =
                (struct line){.stage = &desired->stage[i], .idle_since_us = world->now_us};
        }
    }
    world_at(world, run->agent->actor, world->now_us + IDLE_US, look, run->agent, run->serial);
}

/* ---- messages ---- */

static void send_one(struct world *world, struct run *run, size_t index);

/* Of the layers of a message, one way. */
static double bytes_of(const struct run *run, const struct exchange_message *message)
{
    double bytes = 0;
    for (size_t l = message->first; l < message->end; l++) {
        bytes += servers_of(run)->layers.bytes[l];
    }
    return bytes;
}

/* As far as the sum is final. */
static void write_sums(const struct run *run, const struct exchange_message *message,
                       struct servers_body *body)
{
    const struct servers_run *work = servers_of(run);
    const struct reduce_range block = work->block[message->block].range;
    body->written = exchange_sendable(work->exchange, message);
    for (size_t l = body->written; l < message->end; l++) {
        body->data[l] = work->sum[message->block][l];
        for (size_t m = block.first; m < block.end; m++) {
            body->statistic[m][l] = work->pass[m].statistic[l];
        }
    }
    for (size_t m = 0; m < work->micro_batches; m++) {
        body->loss[m] = work->pass[m].output;
    }
}

static struct servers_body *new_body(const struct run *run, const struct exchange_message *message)
{
    const struct servers_run *work = servers_of(run);
    struct servers_body *body = calloc(1, sizeof(*body));
    ASSERT(body);
    if (message->kind == EXCHANGE_CONTRIBUTION) {
        write_sums(run, message, body);
    } else {
        body->number = message->kind == EXCHANGE_RESULT ? work->result[message->buffer]
                       : message->kind == EXCHANGE_NORM ? work->norm_out
                                                        : work->total_out;
    }
    return body;
}

static void try_again(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number / 64);
    if (!run || run->cancelled || !run->work) {
        return;
    }
    struct outgoing_message *outgoing = &servers_of(run)->outgoing[number % 64];
    if (outgoing->used && outgoing->waiting) {
        outgoing->waiting = false;
        send_one(world, run, (size_t)number % 64);
    }
}

static void be_done(struct world *world, struct run *run, struct outgoing_message *outgoing)
{
    struct line *line = &servers_of(run)->line[outgoing->message.to];
    if (outgoing->call) {
        net_cancel(world, outgoing->call);
    }
    line->open--;
    line->idle_since_us = world->now_us;
    *outgoing = (struct outgoing_message){.used = false};
}

static void write_parameters(struct run *run, const struct call *call, size_t end)
{
    struct servers_run *work = servers_of(run);
    const struct exchange_message *message = &call->peer.message;
    for (size_t l = message->first; l < end; l++) {
        work->arena.parameter[l] = call->body->data[l];
        work->parameter_version[l] = message->step;
        if (message->statistics) {
            work->arena.statistic[l] = call->body->statistic[0][l];
            work->statistic_version[l] = message->step;
        }
    }
    exchange_pulled(work->exchange, message, end);
    run->step = servers_is_server(run) ? run->step : exchange_version(work->exchange);
}

/* The answer for good. */
static void take_answer(struct world *world, struct run *run, const struct call *call)
{
    struct exchange *exchange = servers_of(run)->exchange;
    const struct exchange_message *message = &call->peer.message;
    if (message->kind != EXCHANGE_PARAMETERS) {
        exchange_sent(exchange, message);
    } else if (call->body->last < 0) {
        write_parameters(run, call, message->end);
    } else if (!exchange_ended(exchange, message, call->body->last)) {
        run_fail(world, run, "peer", "a server names a last version that cannot be");
    }
}

static struct outgoing_message *find(const struct run *run, const struct call *call)
{
    struct outgoing_message *outgoing = &servers_of(run)->outgoing[call->number % 64];
    return outgoing->call == call ? outgoing : NULL;
}

static void answered(struct world *world, struct call *call)
{
    struct run *run = find_run(call);
    struct outgoing_message *outgoing = run ? find(run, call) : NULL;
    if (!outgoing) {
        return;
    }
    outgoing->call = NULL;
    if (run->cancelled) {
        return;
    }
    const enum trouble_source source = (enum trouble_source)(TROUBLE_STAGE + outgoing->message.to);
    const struct repeat_next next = run_tried(world, run, &outgoing->repeat, source, call);
    const bool pulls = call->peer.message.kind == EXCHANGE_PARAMETERS;
    const int rc = call->network ? call->network
                   : !pulls && call->status == 410
                       ? 0 /* its step was discarded there */
                       : repeat_code(outgoing->repeat.kind, call->status);
    if (next.again) {
        outgoing->waiting = true;
        world_at(world, run->agent->actor, world->now_us + next.wait_ms * MS, try_again, run->agent,
                 call->number);
    } else if (rc == ERR_STALE) {
        outgoing->ended = true; /* that stage is ahead: so will this device be soon */
    } else if (rc == 0) {
        be_done(world, run, outgoing);
        take_answer(world, run, call);
    } else {
        char text[MESSAGE_SIZE];
        (void)snprintf(text, sizeof(text), "message %d: %d %.80s", (int)call->peer.message.kind,
                       call->status, call->text);
        run_fail(world, run, "peer", text);
        return;
    }
    if (!run->cancelled) {
        servers_go_on(world, run);
    }
}

static void arrived(struct world *world, void *arg, int64_t number)
{
    struct call *call = arg;
    struct run *run = find_run(call);
    (void)number;
    if (run && !run->cancelled && find(run, call) && !world->net->cut[call->to][call->from]) {
        write_parameters(run, call, call->body->written);
        servers_go_on(world, run);
    }
}

void servers_arrive(struct world *world, struct call *call)
{
    world_at_call(world, call->from, world->now_us + world->net->rates.delay_us, arrived, call);
}

static void send_one(struct world *world, struct run *run, size_t index)
{
    struct outgoing_message *outgoing = &servers_of(run)->outgoing[index];
    const struct exchange_message *message = &outgoing->message;
    struct call *call = new_call(world, run, message->to, CALL_EXCHANGE, &outgoing->repeat);
    call->number += (int64_t)index;
    call->peer.message = *message;
    call->done = answered;
    outgoing->call = call;
    if (message->kind != EXCHANGE_PARAMETERS && message->kind != EXCHANGE_COMMIT) {
        call->body = new_body(run, message);
    }
    if (!is_own(run, message)) {
        call->body_us = world_draw(world, DRAW_DEVICE, 0, BODY_US);
        speeds_carry(world, call, bytes_of(run, message));
    }
    net_send(world, call);
}

/* A sum that is being sent has more layers now. */
static void grow(struct world *world, struct run *run, const struct outgoing_message *outgoing)
{
    struct call *call = outgoing->call;
    if (call && call->body && outgoing->message.kind == EXCHANGE_CONTRIBUTION &&
        exchange_sendable(servers_of(run)->exchange, &outgoing->message) < call->body->written) {
        write_sums(run, &outgoing->message, call->body);
        servers_grow(world, call);
    }
}

void servers_send(struct world *world, struct run *run)
{
    struct servers_run *work = servers_of(run);
    struct exchange_message message;
    for (size_t i = 0; i < SERVERS_OUTGOING_MAX; i++) {
        struct outgoing_message *outgoing = &work->outgoing[i];
        if (outgoing->used && !exchange_wants(work->exchange, &outgoing->message)) {
            be_done(world, run, outgoing);
        } else if (outgoing->used) {
            grow(world, run, outgoing);
        }
    }
    while (exchange_next_message(work->exchange, &message)) {
        size_t at = 0;
        while (work->outgoing[at].used) {
            at++;
            ASSERT(at < SERVERS_OUTGOING_MAX);
        }
        work->outgoing[at] = (struct outgoing_message){.used = true, .message = message};
        work->line[message.to].open++;
        repeat_begin(&work->outgoing[at].repeat,
                     message.kind == EXCHANGE_PARAMETERS ? REPEAT_PULL : REPEAT_TENSOR,
                     run->desired->peer_ms);
        send_one(world, run, at);
    }
}

void servers_end_calls(struct world *world, struct run *run)
{
    struct servers_run *work = servers_of(run);
    for (size_t i = 0; i < SERVERS_OUTGOING_MAX; i++) {
        if (work->outgoing[i].call) {
            net_cancel(world, work->outgoing[i].call);
        }
        work->outgoing[i] = (struct outgoing_message){.used = false};
    }
    for (size_t i = 0; i < STAGES_MAX; i++) {
        if (work->line[i].call) {
            net_cancel(world, work->line[i].call);
            work->line[i].call = NULL;
        }
    }
}
