/* A run's tensors on their way to its neighbours (agent/peer/sender). */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/run.h"
#include "tests/sim/trace.h"

#define RETRY_US_FIRST (5 * MS)
#define RETRY_US_MAX (250 * MS)
#define PEER_MS_MIN 100
#define PARK_US (2 * SECOND)
#define BODY_US (2 * MS)

static void send_first(struct world *world, struct run *run, enum direction direction);

static int64_t peer_us(const struct run *run)
{
    return (run->told->peer_ms > PEER_MS_MIN ? run->told->peer_ms : PEER_MS_MIN) * MS;
}

static void try_again(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number / 2);
    const enum direction direction = (enum direction)(number % 2);
    if (run && !run->cancelled && run->sender[direction].waiting) {
        run->sender[direction].waiting = false;
        send_first(world, run, direction);
    }
}

/* Of a tensor over this border. */
static double tensor_bytes(const struct world *world, const struct run *run, enum direction direction)
{
    const struct assignment_run *told = run->told;
    const struct model *model = coordinator_model(world, told->job_spec.model.name);
    const int64_t unit = direction == TO_NEXT ? told->end - 1 : told->first - 1;
    const int64_t samples = told->job_spec.batch / told->job_spec.micro_batches;
    return (double)samples * (double)shape_elements(model->unit[unit].out) * sizeof(float);
}

static void delivered(struct world *world, struct run *run, enum direction direction)
{
    struct sender *sender = &run->sender[direction];
    const struct parcel parcel = sender->item[sender->first];
    sender->first = (sender->first + 1) % sender->capacity;
    sender->count--;
    if (!parcel.last) {
        const double seconds = (double)(world->now_us - sender->began_us) / 1e6;
        const double bytes = tensor_bytes(world, run, direction);
        sender->link.count++;
        sender->link.seconds_sum += seconds;
        sender->link.bytes_sum += bytes;
        sender->link.bytes_squared_sum += bytes * bytes;
        sender->link.bytes_seconds_sum += bytes * seconds;
        pipeline_sent(run->pipeline, parcel.transfer.kind, parcel.output);
    }
    if (sender->count > 0) {
        send_first(world, run, direction);
    }
    run_work(world, run);
}

static void answered(struct world *world, struct call *call)
{
    struct run *run = run_find(call->owner, call->number / 2);
    const enum direction direction = (enum direction)(call->number % 2);
    if (!run || run->sender[direction].call != call) {
        return;
    }
    struct sender *sender = &run->sender[direction];
    sender->call = NULL;
    run_trouble(world, run, &sender->trouble, call);
    if (call->network == 0 && call->status == 204) {
        sender->wait_us = RETRY_US_FIRST;
        delivered(world, run, direction);
        return;
    }
    const bool broken = call->network != 0;
    if (!broken && call->status == 409) {
        sender->ended = true; /* the neighbour is ahead: so will this device be soon */
        return;
    }
    if (!broken && call->status != 503) { /* the network alone never makes it give up */
        char text[MESSAGE_SIZE];
        (void)snprintf(text, sizeof(text), "%s answers %d %.80s", call_type_names[call->type], call->status,
                       call->text);
        run_fail(world, run, "peer", text);
        return;
    }
    sender->waiting = true;
    world_at(world, run->agent->actor, world->now_us + sender->wait_us, try_again, run->agent, call->number);
    sender->wait_us = 2 * sender->wait_us < RETRY_US_MAX ? 2 * sender->wait_us : RETRY_US_MAX;
}

static void send_first(struct world *world, struct run *run, enum direction direction)
{
    struct sender *sender = &run->sender[direction];
    const struct peer *peer = direction == TO_NEXT ? &run->told->next : &run->told->previous;
    const struct parcel *parcel = &sender->item[sender->first];
    if (sender->call || sender->waiting || sender->ended || sender->count == 0) {
        return;
    }
    struct call *call = net_call(world, CALL_PUT_TENSOR, run->agent->actor, agent_at(world, peer->url));
    call->peer = (struct peer_request){.job = run->told->job,
                                       .generation = run->told->generation,
                                       .transfer = parcel->transfer,
                                       .boundary = direction == TO_NEXT ? run->told->end : run->told->first,
                                       .digest = parcel->digest,
                                       .mark = parcel->mark,
                                       .last = parcel->last};
    memcpy(call->peer.ticket, peer->ticket, TICKET_SIZE);
    call->done = answered;
    call->owner = run->agent;
    call->number = run->serial * 2 + direction;
    call->timeout_us = peer_us(run) + PARK_US;
    call->body_us = world_draw(world, DRAW_DEVICE, 0, BODY_US);
    sender->call = call;
    sender->began_us = world->now_us;
    net_send(world, call);
}

void sender_add(struct world *world, struct run *run, enum direction direction, const struct parcel *parcel)
{
    struct sender *sender = &run->sender[direction];
    if (sender->capacity == 0) {
        sender->capacity = (size_t)(run->told->in_flight + run->told->previous_in_flight) + 1;
        sender->wait_us = RETRY_US_FIRST;
        ASSERT(sender->capacity <= PARCELS_MAX);
    }
    ASSERT(sender->started && sender->count < sender->capacity);
    sender->item[(sender->first + sender->count++) % sender->capacity] = *parcel;
    send_first(world, run, direction);
}

void sender_cancel(struct world *world, struct run *run)
{
    for (int direction = 0; direction < 2; direction++) {
        struct sender *sender = &run->sender[direction];
        if (sender->call) {
            net_cancel(world, sender->call);
            sender->call = NULL;
        }
        sender->count = 0;
    }
}
