#include "tests/unit/agent_core/pipeline_net.h"

#include <string.h>

uint64_t draw(struct net *net, uint64_t bound)
{
    return rng_below(&net->random, net->draws++, bound);
}

uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 29);
}

static void enqueue(struct wire *wire, const struct packet *packet)
{
    assert_true(wire->count < QUEUE_OF_NET);
    wire->queue[(wire->head + wire->count++) % QUEUE_OF_NET] = *packet;
}

/* What the far side does with a packet: true when it says yes. */
static bool receive(struct net *net, struct stage_of_net *stage, const struct packet *packet)
{
    struct slot_claim claim;
    switch (pipeline_offer(stage->pipeline, &packet->transfer, &claim)) {
    case TRANSFER_REFUSE: assert_true(false); break;
    case TRANSFER_FULL: return false;
    case TRANSFER_DUPLICATE: return true;
    case TRANSFER_MARK:
        assert_true(packet->mark);
        pipeline_mark(stage->pipeline, packet->transfer.step);
        return true;
    case TRANSFER_TAKE: break;
    }
    if (draw(net, 8) == 0) {
        if (draw(net, 2) == 0) {
            pipeline_abandon(stage->pipeline, &packet->transfer, &claim);
        }
        return false; /* the body was lost half way, noticed or not */
    }
    stage->slot[transfer_info(&packet->transfer)->lane][claim.slot] = packet->payload;
    claim.mark = packet->round;
    assert_true(pipeline_received(stage->pipeline, &packet->transfer, &claim));
    return true;
}

static void move_wire(struct net *net, struct stage_of_net *from, struct wire *wire,
                      struct stage_of_net *to)
{
    if (wire->has_stale && draw(net, 6) == 0) {
        /* A late repeat of something long answered: the far side must say yes or have no room, and
         * not be disturbed. */
        struct slot_claim claim;
        enum transfer_verdict verdict = pipeline_offer(to->pipeline, &wire->stale.transfer, &claim);
        if (wire->stale.mark) {
            assert_int_equal(verdict, TRANSFER_MARK);
        } else {
            assert_int_equal(verdict, TRANSFER_DUPLICATE);
        }
    }
    if (wire->count == 0 || draw(net, 3) == 0) {
        return;
    }
    struct packet *packet = &wire->queue[wire->head];
    if (!receive(net, to, packet) || draw(net, 8) == 0) {
        return; /* no, or the answer was lost: it is repeated */
    }
    if (!packet->mark) {
        pipeline_sent(from->pipeline, packet->transfer.kind, packet->output);
    }
    wire->stale = *packet;
    wire->has_stale = true;
    wire->head = (wire->head + 1) % QUEUE_OF_NET;
    wire->count--;
}

static void finish_task(struct stage_of_net *stage)
{
    struct pipeline_task *task = &stage->task;
    const bool first = stage->config.index == 0;
    const bool last = stage->config.index + 1 == stage->config.count;
    const uint64_t key = mix((uint64_t)task->step, task->micro_batch);
    struct packet packet = {.output = task->output, .round = task->mark};
    switch (task->work) {
    case PIPELINE_WAIT: break;
    case PIPELINE_FORWARD:
        stage->kept[task->slot] =
            mix(stage->state, first ? key : stage->slot[LANE_ACTIVATION][task->input]);
        packet.transfer = (struct transfer){TRANSFER_ACTIVATION, task->step, task->micro_batch};
        packet.payload = stage->kept[task->slot];
        break;
    case PIPELINE_BACKWARD:
        packet.payload =
            mix(stage->kept[task->slot], last ? key : stage->slot[LANE_GRADIENT][task->gradient]);
        packet.transfer = (struct transfer){TRANSFER_GRADIENT, task->step, task->micro_batch};
        stage->gathered = mix(stage->gathered, packet.payload);
        break;
    case PIPELINE_SUM:
        packet.transfer =
            (struct transfer){first ? TRANSFER_NORM_TOTAL : TRANSFER_NORM, task->step, 0};
        packet.payload = mix(last ? 0 : stage->slot[LANE_NORM][0], stage->gathered);
        stage->total = packet.payload;
        break;
    case PIPELINE_TOTAL:
        packet.transfer = (struct transfer){TRANSFER_NORM_TOTAL, task->step, 0};
        packet.payload = stage->slot[LANE_TOTAL][0];
        break;
    case PIPELINE_UPDATE:
        stage->state = mix(stage->state, stage->gathered);
        if (stage->config.clips_norm) {
            stage->state = mix(stage->state, first ? stage->total : stage->slot[LANE_TOTAL][0]);
        }
        stage->gathered = 0;
        stage->snapshot[task->step] = task->mark.kinds;
        break;
    case PIPELINE_EVALUATE:
        packet.transfer = (struct transfer){TRANSFER_EVALUATION, task->step, task->micro_batch};
        packet.payload = mix(stage->state, first ? key : stage->slot[LANE_ACTIVATION][task->input]);
        stage->tested = mix(stage->tested, packet.payload);
        break;
    case PIPELINE_JUDGE:
        packet.transfer = (struct transfer){TRANSFER_JUDGED, task->step, 0};
        packet.payload = last ? stage->state % 100 : stage->slot[LANE_JUDGED][0];
        task->value = (double)packet.payload;
        break;
    case PIPELINE_LAST:
    case PIPELINE_STOP:
        stage->stopped = task->work == PIPELINE_STOP;
        packet.transfer =
            (struct transfer){TRANSFER_ACTIVATION, task->step, stage->config.micro_batches};
        packet.mark = true;
        break;
    }
    pipeline_done(stage->pipeline, task);
    const bool nothing = task->work == PIPELINE_UPDATE || (packet.mark && !task->announce);
    const bool back = transfer_info(&packet.transfer)->back;
    if (!nothing && back && !first) {
        enqueue(&stage->backward, &packet);
    } else if (!nothing && !back && !last) {
        enqueue(&stage->forward, &packet);
    }
    stage->busy = false;
}

static void move_stage(struct net *net, struct stage_of_net *stage)
{
    if (stage->busy) {
        if (draw(net, 3) != 0) {
            finish_task(stage);
        }
    } else {
        stage->busy = pipeline_next(stage->pipeline, &stage->task) != PIPELINE_WAIT;
    }
}

void start(struct net *net, const struct pipeline_config *config, const size_t *in_flight,
           unsigned strict, const uint64_t *states)
{
    for (size_t i = 0; i < net->count; i++) {
        struct stage_of_net *stage = &net->stage[i];
        stage->config = *config;
        stage->config.index = i;
        stage->config.count = net->count;
        stage->config.strict = strict >> i & 1;
        stage->config.in_flight = in_flight[i];
        stage->config.previous_in_flight = i > 0 ? in_flight[i - 1] : 0;
        if (i == 0) {
            stage->config.round_every[REPLICA_NEIGHBOR] = 2;
            stage->config.round_every[REPLICA_CENTER] = 3;
        }
        struct err err = {0};
        assert_ok(pipeline_new(&stage->config, &stage->pipeline, &err), &err);
        stage->state = states[i];
    }
}

void draw_limits(struct net *net, size_t *in_flight)
{
    in_flight[net->count - 1] = 1;
    for (size_t i = net->count - 1; i > 0; i--) {
        const size_t more = in_flight[i] + (size_t)draw(net, 3);
        in_flight[i - 1] = more < MICRO_OF_NET ? more : MICRO_OF_NET;
    }
}

int64_t play(struct net *net, uint64_t stop_turn)
{
    for (size_t i = 0; i < net->count; i++) {
        pipeline_run(net->stage[i].pipeline);
    }
    for (uint64_t turn = 0;; turn++) {
        assert_true(turn < 200000);
        if (turn == stop_turn) {
            pipeline_stop(net->stage[0].pipeline);
        }
        bool all = true;
        for (int kind = 0; kind < REPLICA_KINDS; kind++) {
            if (draw(net, 20) == 0) {
                struct pipeline *first = net->stage[0].pipeline;
                struct round round[REPLICA_KINDS] = {{0}};
                round[kind].version = pipeline_round(first, (enum replica_kind)kind);
                round[kind].state = draw(net, 2) == 0 ? ROUND_COMMITTED : ROUND_ABANDONED;
                pipeline_take_rounds(first, round);
            }
        }
        for (size_t i = 0; i < net->count; i++) {
            struct stage_of_net *stage = &net->stage[i];
            move_stage(net, stage);
            if (i + 1 < net->count) {
                move_wire(net, stage, &stage->forward, &net->stage[i + 1]);
            }
            if (i > 0) {
                move_wire(net, stage, &stage->backward, &net->stage[i - 1]);
            }
            all = all && stage->stopped;
        }
        if (all) {
            break;
        }
    }
    const int64_t version = pipeline_version(net->stage[0].pipeline);
    for (size_t i = 0; i < net->count; i++) {
        assert_int_equal(pipeline_version(net->stage[i].pipeline), version);
        assert_memory_equal(net->stage[i].snapshot, net->stage[0].snapshot,
                            sizeof(net->stage[0].snapshot));
    }
    return version;
}

void tear_down(struct net *net, uint64_t *states)
{
    for (size_t i = 0; i < net->count; i++) {
        states[i] = net->stage[i].state;
        pipeline_free(&net->stage[i].pipeline);
    }
}
