/* A run's tensors on their way to its neighbours (agent/pipeline/sender). */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/pipeline.h"
#include "tests/sim/speeds.h"

#define IDLE_US (REPEAT_IDLE_MS * MS)
#define BODY_US (2 * MS)

static void send_first(struct world *world, struct run *run, enum direction direction);

/* The run and direction that a call or an event is of; NULL: they are no more. */
static struct run *find(const struct agent *agent, int64_t number, enum direction *direction)
{
    struct run *run = run_find(agent, number / 2);
    *direction = (enum direction)(number % 2);
    return run && !run->cancelled ? run : NULL;
}

static enum trouble_source source_of(enum direction direction)
{
    return direction == TO_NEXT ? TROUBLE_NEXT : TROUBLE_PREVIOUS;
}

static struct call *new_call(struct world *world, struct run *run, enum direction direction,
                             enum call_type type)
{
    const struct peer *peer = direction == TO_NEXT ? &run->desired->next : &run->desired->previous;
    struct call *call = net_call(world, type, run->agent->actor, agent_at(world, peer->url));
    call->peer.job = run->desired->job;
    call->peer.generation = run->desired->generation;
    memcpy(call->peer.ticket, peer->ticket, TICKET_SIZE);
    call->owner = run->agent;
    call->number = run->serial * 2 + direction;
    call->peer.device = peer->device;
    call->timeout_us = repeat_stall_ms(&pipeline_of(run)->sender[direction].repeat) * MS;
    pipeline_of(run)->sender[direction].call = call;
    return call;
}

/* ---- an idle sender ---- */

static void ask(struct world *world, struct run *run, enum direction direction);

static void idle_due(struct world *world, void *arg, int64_t number)
{
    enum direction direction;
    struct run *run = find(arg, number, &direction);
    if (!run) {
        return;
    }
    struct sender *sender = &pipeline_of(run)->sender[direction];
    const int64_t due_us = sender->idle_since_us + IDLE_US;
    sender->idle_timer = false;
    if (sender->call || sender->count > 0 || sender->ended) {
        return; /* until it is idle again */
    }
    if (due_us > world->now_us) {
        sender->idle_timer = true;
        world_at(world, run->agent->actor, due_us, idle_due, arg, number);
        return;
    }
    repeat_begin(&sender->repeat, REPEAT_ALIVE, run->desired->peer_ms);
    ask(world, run, direction);
}

static void be_idle(struct world *world, struct run *run, enum direction direction)
{
    struct sender *sender = &pipeline_of(run)->sender[direction];
    sender->idle_since_us = world->now_us;
    if (!sender->idle_timer) {
        sender->idle_timer = true;
        world_at(world, run->agent->actor, world->now_us + IDLE_US, idle_due, run->agent,
                 run->serial * 2 + direction);
    }
}

/* With the first tensor of its queue. */
static void go_on(struct world *world, struct run *run, enum direction direction)
{
    struct sender *sender = &pipeline_of(run)->sender[direction];
    repeat_begin(&sender->repeat, REPEAT_TENSOR, run->desired->peer_ms);
    if (sender->count > 0) {
        send_first(world, run, direction);
    } else {
        be_idle(world, run, direction);
    }
}

static void asked(struct world *world, struct call *call)
{
    enum direction direction;
    struct run *run = find(call->owner, call->number, &direction);
    if (!run || pipeline_of(run)->sender[direction].call != call) {
        return;
    }
    struct sender *sender = &pipeline_of(run)->sender[direction];
    sender->call = NULL;
    if (run_tried(world, run, &sender->repeat, source_of(direction), call).again) {
        ask(world, run, direction);
    } else {
        go_on(world, run, direction);
    }
}

static void ask(struct world *world, struct run *run, enum direction direction)
{
    struct call *call = new_call(world, run, direction, CALL_PING);
    call->done = asked;
    net_send(world, call);
}

/* ---- tensors ---- */

static void try_again(struct world *world, void *arg, int64_t number)
{
    enum direction direction;
    struct run *run = find(arg, number, &direction);
    if (run && pipeline_of(run)->sender[direction].waiting) {
        pipeline_of(run)->sender[direction].waiting = false;
        send_first(world, run, direction);
    }
}

/* Of a tensor over this border. */
static double tensor_bytes(const struct world *world, const struct run *run,
                           enum direction direction)
{
    const struct assignment_run *desired = run->desired;
    const struct model *model = coordinator_model(world, &desired->job_spec);
    const int64_t unit = direction == TO_NEXT ? desired->end - 1 : desired->first - 1;
    const int64_t samples = desired->job_spec.batch / desired->job_spec.micro_batches;
    const uint64_t values = (uint64_t)samples * shape_elements(model->unit[unit].out);
    return (double)codec_bytes(run_codec(run, direction), values);
}

static void delivered(struct world *world, struct run *run, enum direction direction)
{
    struct sender *sender = &pipeline_of(run)->sender[direction];
    const struct outgoing outgoing = sender->item[sender->first];
    sender->first = (sender->first + 1) % sender->capacity;
    sender->count--;
    if (!outgoing.last && transfer_info(&outgoing.transfer)->measures_link) {
        const double seconds = (double)(world->now_us - sender->began_us) / 1e6;
        timing_link_add(&sender->link, tensor_bytes(world, run, direction), seconds);
    }
    if (!outgoing.last) {
        pipeline_sent(pipeline_of(run)->pipeline, outgoing.transfer.kind, outgoing.output);
    }
    go_on(world, run, direction);
    run->row->go_on(world, run);
}

static void answered(struct world *world, struct call *call)
{
    enum direction direction;
    struct run *run = find(call->owner, call->number, &direction);
    if (!run || pipeline_of(run)->sender[direction].call != call) {
        return;
    }
    struct sender *sender = &pipeline_of(run)->sender[direction];
    sender->call = NULL;
    const struct repeat_next next =
        run_tried(world, run, &sender->repeat, source_of(direction), call);
    const int rc = call->network ? call->network : repeat_code(REPEAT_TENSOR, call->status);
    if (next.again) {
        sender->waiting = true;
        world_at(world, run->agent->actor, world->now_us + next.wait_ms * MS, try_again, run->agent,
                 call->number);
    } else if (rc == 0) {
        delivered(world, run, direction);
    } else if (rc == ERR_STALE) {
        sender->ended = true; /* the neighbour is ahead: so will this device be soon */
    } else {
        char text[MESSAGE_SIZE];
        (void)snprintf(text, sizeof(text), "%s answers %d %.80s", call_type_names[call->type],
                       call->status, call->text);
        run_fail(world, run, "peer", text);
    }
}

static void send_first(struct world *world, struct run *run, enum direction direction)
{
    struct sender *sender = &pipeline_of(run)->sender[direction];
    const struct outgoing *outgoing = &sender->item[sender->first];
    if (sender->call || sender->waiting || sender->ended || sender->count == 0) {
        return;
    }
    struct call *call = new_call(world, run, direction, CALL_PUT_TENSOR);
    call->peer.transfer = outgoing->transfer;
    call->peer.boundary = direction == TO_NEXT ? run->desired->end : run->desired->first;
    call->peer.digest = run_code(run, &outgoing->transfer, true, outgoing->digest);
    call->peer.mark = outgoing->mark;
    call->peer.last = outgoing->last;
    call->done = answered;
    call->body_us = world_draw(world, DRAW_DEVICE, 0, BODY_US);
    speeds_carry(world, call, tensor_bytes(world, run, direction));
    sender->began_us = world->now_us;
    net_send(world, call);
}

void sender_start(struct world *world, struct run *run, enum direction direction)
{
    struct sender *sender = &pipeline_of(run)->sender[direction];
    sender->capacity = (size_t)(run->desired->in_flight + run->desired->previous_in_flight) + 2;
    repeat_begin(&sender->repeat, REPEAT_TENSOR, run->desired->peer_ms);
    sender->link.report.device =
        direction == TO_NEXT ? run->desired->next.device : run->desired->previous.device;
    if (run_codec(run, direction) != CODEC_NONE) {
        (void)snprintf(sender->link.report.codec, sizeof(sender->link.report.codec), "%s",
                       codec_info(run_codec(run, direction))->name);
    }
    ASSERT(sender->capacity <= OUTGOING_MAX);
    be_idle(world, run, direction);
}

void sender_add(struct world *world, struct run *run, enum direction direction,
                const struct outgoing *outgoing)
{
    struct sender *sender = &pipeline_of(run)->sender[direction];
    ASSERT(sender->count < sender->capacity);
    sender->item[(sender->first + sender->count++) % sender->capacity] = *outgoing;
    send_first(world, run, direction);
}

void sender_cancel(struct world *world, struct run *run)
{
    for (int direction = 0; direction < 2; direction++) {
        struct sender *sender = &pipeline_of(run)->sender[direction];
        if (sender->call) {
            net_cancel(world, sender->call);
            sender->call = NULL;
        }
        sender->count = 0;
    }
}
