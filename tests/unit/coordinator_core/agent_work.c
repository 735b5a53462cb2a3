/* The stage of an agent at work: the real pipeline and outbox queue, without arithmetic. Tensors
 * and snapshots have no bytes and take no time. */
#include <string.h>

#include "tests/unit/coordinator_core/world.h"

#define TRY_MS 3600000 /* longer than any wait between two tries */

/* ---- life ---- */

/* Stage 0 begins a step when the story wants it; the other stages follow. */
static void follow_orders(struct agent *agent, bool begins)
{
    if (agent->exchange) {
        agent_exchange_follow(agent, begins);
        return;
    }
    const bool waits = agent->assignment.run.stage_index == 0 && !begins;
    pipeline_follow(agent->pipeline, &agent->orders);
    pipeline_hold(agent->pipeline, agent->orders.held || waits);
}

void agent_build(struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    const struct pipeline_config stage = {
        .index = (size_t)run->stage_index,
        .count = (size_t)run->stage_count,
        .micro_batches = 1,
        .in_flight = 1,
        .previous_in_flight = run->stage_index > 0,
        .resume_version = run->resume_version,
        .total_steps = run->total_steps,
        .round_every = {[REPLICA_NEIGHBOR] = run->has_neighbor ? run->job_spec.neighbor_every : 0,
                        [REPLICA_CENTER] = run->job_spec.center_every},
    };
    const struct outbox_queue_config outbox = {.first = (size_t)run->first,
                                               .end = (size_t)run->end,
                                               .resume_version = run->resume_version};
    struct err err = {0};
    if (run->stages_listed > 0) {
        agent_exchange_build(agent);
    } else {
        assert_ok(pipeline_new(&stage, &agent->pipeline, &err), &err);
    }
    if (outbox.first < outbox.end) { /* else it has nothing to copy */
        assert_ok(outbox_queue_new(&outbox, &agent->outbox, &err), &err);
    }
    follow_orders(agent, false);
    agent->step = run->resume_version;
}

void agent_discard(struct agent *agent)
{
    pipeline_free(&agent->pipeline);
    agent_exchange_discard(agent);
    outbox_queue_free(&agent->outbox);
    agent->step = agent->taken = agent->collecting = 0;
    agent->ready = false;
    agent->orders = (struct orders){0};
    agent->troubles = (struct trouble_list){0};
    memset(agent->has, 0, sizeof(agent->has));
    memset(agent->outgoing, 0, sizeof(agent->outgoing));
}

static void uploaded(struct world *world, struct agent *agent)
{
    struct session_event event = {.type = SESSION_UPLOADED, .version = agent->collecting};
    agent->collecting = 0;
    agent_event(world, agent, &event);
}

/* The center asks for the version at which the stage stopped, and its snapshots are here. */
static void check_collected(const struct agent *agent, int64_t version)
{
    assert_int_equal(version, agent->taken);
    for (int64_t u = agent->assignment.run.first; u < agent->assignment.run.end; u++) {
        assert_true(agent_holds(agent, agent->job.text, version, u));
    }
}

void agent_tell(struct world *world, struct agent *agent, const struct session_action *action)
{
    if (action->type == SESSION_DO_ROUNDS) {
        if (agent->exchange) {
            exchange_take_rounds(agent->exchange, action->round);
        } else {
            pipeline_take_rounds(agent->pipeline, action->round);
        }
    } else if (action->type == SESSION_DO_UPLOAD) {
        agent->collecting = action->version;
        if (action->version > 0 && agent->outbox) {
            check_collected(agent, action->version);
            outbox_queue_collect(agent->outbox, action->version);
        } else {
            uploaded(world, agent);
        }
    }
    orders_take(&agent->orders, action);
    follow_orders(agent, false);
}

int64_t agent_round(const struct agent *agent, enum replica_kind kind)
{
    struct heartbeat beat = {0};
    agent_report(agent, &beat);
    return kind == REPLICA_CENTER ? beat.round_center : beat.round_neighbor;
}

void agent_report(const struct agent *agent, struct heartbeat *out)
{
    if (agent->pipeline) {
        pipeline_report(agent->pipeline, out);
    } else if (agent->exchange) {
        exchange_report(agent->exchange, out);
    }
}

/* ---- tensors ---- */

/* false: it stays under way. */
static bool deliver(struct world *world, struct agent *agent, enum direction direction)
{
    const struct assignment_run *run = &agent->assignment.run;
    struct outgoing *outgoing = &agent->outgoing[direction];
    const struct peer *peer = direction == TO_NEXT ? &run->next : &run->previous;
    struct agent *other = world_agent_of(world, peer->device.text);
    struct slot_claim claim;
    if (!outgoing->waits || !agent_reaches(agent, other) || !other->ready || !other->pipeline ||
        other->generation != agent->generation) {
        return false;
    }
    switch (pipeline_offer(other->pipeline, &outgoing->transfer, &claim)) {
    case TRANSFER_FULL: return false;
    case TRANSFER_REFUSE: fail_msg("%s refuses a tensor of %s", other->name, agent->name); break;
    case TRANSFER_DUPLICATE: break;
    case TRANSFER_MARK: pipeline_mark(other->pipeline, outgoing->transfer.step); break;
    case TRANSFER_TAKE:
        claim.mark = outgoing->mark;
        assert_true(pipeline_received(other->pipeline, &outgoing->transfer, &claim));
        break;
    }
    outgoing->waits = false;
    if (!outgoing->last) {
        pipeline_sent(agent->pipeline, outgoing->transfer.kind, outgoing->output);
    }
    return true;
}

static void send(struct agent *agent, const struct pipeline_task *task)
{
    struct transfer transfer;
    if (pipeline_output(agent->pipeline, task, &transfer)) {
        struct outgoing *outgoing =
            &agent->outgoing[transfer_info(&transfer)->back ? TO_PREVIOUS : TO_NEXT];
        assert_false(outgoing->waits);
        *outgoing = (struct outgoing){.waits = true,
                                      .last = task->announce,
                                      .transfer = transfer,
                                      .output = task->output,
                                      .mark = task->mark};
    }
}

/* ---- tasks ---- */

void agent_snapshot(struct agent *agent, int64_t version, const struct round_mark *mark)
{
    const struct assignment_run *run = &agent->assignment.run;
    outbox_queue_take(agent->outbox, version, mark);
    for (int64_t u = run->first; u < run->end; u++) {
        char sha256[SHA256_SIZE];
        unit_sha256(sha256, version, u);
        agent_hold(agent, agent, version, u);
        outbox_queue_hold(agent->outbox, version, (size_t)u, sha256, SNAPSHOT_BYTES);
    }
    agent->taken = version;
}

static void update(struct world *world, struct agent *agent, const struct pipeline_task *task)
{
    const struct assignment_run *run = &agent->assignment.run;
    agent->step = task->step;
    if (task->mark.kinds != 0 && agent->outbox) {
        agent_snapshot(agent, task->step, &task->mark);
    }
    if (run->stage_index + 1 == run->stage_count) {
        struct session_event event = {
            .type = SESSION_METRIC,
            .metric = {.step = task->step, .name = METRIC_LOSS, .value = 1}};
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
    struct pipeline_task task;
    if (!agent->ready || !agent->pipeline || agent->busy_ms > 0 ||
        pipeline_next(agent->pipeline, &task) == PIPELINE_WAIT) {
        return false;
    }
    pipeline_done(agent->pipeline, &task);
    send(agent, &task);
    if (task.opens_round) {
        struct session_event event = {.type = SESSION_ROUND_OPENED};
        agent_event(world, agent, &event);
    }
    if (task.work == PIPELINE_FORWARD) {
        follow_orders(agent, false);
    } else if (task.work == PIPELINE_UPDATE) {
        update(world, agent, &task);
    } else if (task.work == PIPELINE_STOP) {
        stop(world, agent, task.step);
    }
    return true;
}

bool agent_work(struct world *world)
{
    bool worked = false;
    for (bool busy = true; busy;) {
        busy = false;
        for (size_t i = 0; i < world->agent_count; i++) {
            struct agent *agent = &world->agent[i];
            if (agent->up && !agent->stopped_cpu) {
                busy =
                    (agent->exchange ? agent_exchange_work(world, agent) : do_task(world, agent)) ||
                    busy;
                busy = deliver(world, agent, TO_NEXT) || busy;
                busy = deliver(world, agent, TO_PREVIOUS) || busy;
            }
        }
        worked = worked || busy;
    }
    return worked;
}

bool agent_step(struct world *world, struct agent *agent)
{
    if (agent_works(agent)) {
        follow_orders(agent, true);
    }
    const bool worked = agent_work(world);
    if (agent_works(agent)) {
        follow_orders(agent, false);
    }
    return worked;
}

/* ---- copies ---- */

static bool send_center(struct world *world, struct agent *agent, const struct outbox_send *send)
{
    struct event event = {.type = EVENT_BLOB_STORED, .blob_stored = {.device = agent->id}};
    struct center_unit *blob = &event.blob_stored.unit;
    blob->job = agent->job;
    blob->generation = agent->generation;
    blob->version = send->version;
    blob->unit = (int64_t)send->unit;
    blob->bytes = send->bytes;
    memcpy(blob->sha256, send->sha256, SHA256_SIZE);
    if (!core_may_store_unit(world->core, agent->id.text, blob)) {
        return false;
    }
    world_send(world, &event);
    return world->status == 204;
}

static bool send_neighbor(struct world *world, struct agent *agent, const struct outbox_send *send)
{
    struct agent *other = world_agent_of(world, agent->assignment.run.neighbor.device.text);
    if (!agent_reaches(agent, other) || other->generation != agent->generation) {
        return false;
    }
    agent_hold(other, agent, send->version, (int64_t)send->unit);
    return true;
}

static bool transmit(struct world *world, struct agent *agent, struct outbox_send *send)
{
    if (!agent_holds(agent, agent->job.text, send->version, (int64_t)send->unit)) {
        outbox_queue_refused(agent->outbox, send); /* something newer is committed */
        return false;
    }
    const bool slow = (agent->slow & REPLICA_MARK(send->kind)) != 0;
    const bool sent = !slow && (send->kind == REPLICA_CENTER ? send_center(world, agent, send)
                                                             : send_neighbor(world, agent, send));
    if (sent) {
        outbox_queue_sent(agent->outbox, send);
    } else {
        outbox_queue_failed(agent->outbox, send, agent->try_ms, 0);
    }
    return sent;
}

/* The next snapshot to be sent: of the version that the center collects, or of a round. */
static bool next_send(const struct agent *agent, bool collected, struct outbox_send *send)
{
    return agent->up && !agent->stopped_cpu && agent->outbox &&
           outbox_queue_next(agent->outbox, agent->try_ms, send) &&
           collected == (send->kind == REPLICA_CENTER && send->version == agent->collecting);
}

/* Every target is tried once more: a story's next call comes after all waits. */
static bool send_one(struct world *world, struct agent *agent, bool collected)
{
    struct outbox_send send;
    agent->try_ms += TRY_MS;
    while (next_send(agent, collected, &send)) {
        if (transmit(world, agent, &send)) {
            return true;
        }
    }
    return false;
}

bool agent_replicate(struct world *world, struct agent *agent)
{
    return send_one(world, agent, false);
}

bool agent_upload(struct world *world, struct agent *agent)
{
    const int64_t version = agent->collecting;
    if (version == 0 || !agent->outbox) {
        return false;
    }
    while (agent_replicate(world, agent)) { /* replicas go first */
    }
    const bool sent = send_one(world, agent, true);
    if (outbox_queue_is_whole(agent->outbox, REPLICA_CENTER, version)) {
        uploaded(world, agent);
    }
    return sent;
}
