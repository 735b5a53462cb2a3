#include "tests/sim/outbox.h"

#include <inttypes.h>
#include <string.h>

#include "agent/core/needs.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/run.h"
#include "tests/sim/speeds.h"
#include "tests/sim/trace.h"

#define BODY_US (30 * MS)

static void work(struct world *world, struct run *run);

int outbox_start(const struct world *world, struct run *run, struct err *err)
{
    const struct assignment_run *desired = run->desired;
    if (desired->first == desired->end) {
        return 0; /* it keeps no units */
    }
    struct outbox_tasks_config config = {.queue = {.first = (size_t)desired->first,
                                                   .end = (size_t)desired->end,
                                                   .resume_version = desired->resume_version},
                                         .replica_bytes = desired->replica_bytes,
                                         .stops_only = !needs_rounds(desired)};
    for (int64_t unit = desired->first; unit < desired->end; unit++) {
        config.set_bytes += coordinator_unit_bytes(world, desired->job_spec.model.name, unit);
    }
    run->outbox.timer_us = INT64_MAX;
    repeat_begin(&run->outbox.repeat, REPEAT_REPLICA, desired->peer_ms);
    const int rc = outbox_tasks_new(&config, &run->outbox.tasks, err);
    if (rc == 0) {
        outbox_tasks_prepared(run->outbox.tasks, 0, true);
    }
    return rc;
}

/* ---- keeping ---- */

static enum outbox_kept keep(struct world *world, struct run *run, const struct outbox_task *task)
{
    const struct assignment_run *desired = run->desired;
    for (int64_t unit = desired->first; unit < desired->end; unit++) {
        struct holding holding = {
            .job = desired->job,
            .generation = desired->generation,
            .version = task->version,
            .unit = unit,
            .bytes = coordinator_unit_bytes(world, desired->job_spec.model.name, unit)};
        digest_text(run->outbox.set[task->set][unit], holding.sha256);
        if (agent_keep(world, run->agent, &holding, SNAPSHOT_OWN) != 0) {
            TRACE(world, run->agent->actor, "cannot keep snapshot %" PRId64, task->version);
            return OUTBOX_NOT_HELD;
        }
        outbox_tasks_hold(run->outbox.tasks, &holding);
    }
    return OUTBOX_HELD;
}

static void fill(struct run *run, size_t set)
{
    memcpy(run->outbox.set[set], run->stage.state, sizeof(run->outbox.set[set]));
    outbox_tasks_filled(run->outbox.tasks, set);
}

void outbox_take(struct world *world, struct run *run, int64_t step, const struct round_mark *mark)
{
    size_t set = 0;
    if (mark->kinds == 0) {
        return;
    }
    if (outbox_tasks_take(run->outbox.tasks, step, mark, &set)) {
        TRACE(world, run->agent->actor, "takes snapshot %" PRId64 " for%s%s", step,
              mark->kinds & REPLICA_MARK(REPLICA_NEIGHBOR) ? " its neighbor" : "",
              mark->kinds & REPLICA_MARK(REPLICA_CENTER) ? " the center" : "");
        fill(run, set);
    } else {
        TRACE(world, run->agent->actor, "has no room for snapshot %" PRId64, step);
    }
    work(world, run);
}

bool outbox_keep(struct world *world, struct run *run, int64_t version)
{
    size_t set = 0;
    if (!run->outbox.tasks) {
        return true;
    }
    outbox_cancel(world, run); /* the rest of a blob that is being sent can wait */
    enum outbox_stop stop = outbox_tasks_stop(run->outbox.tasks, version, &set);
    while ((stop == OUTBOX_STOP_FILL || stop == OUTBOX_STOP_WAITS) && !run->cancelled) {
        if (stop == OUTBOX_STOP_FILL) {
            fill(run, set);
        }
        work(world, run);
        stop = outbox_tasks_stop(run->outbox.tasks, version, &set);
    }
    outbox_tasks_end_stop(run->outbox.tasks);
    work(world, run);
    return stop == OUTBOX_STOP_HELD;
}

void outbox_drop(struct world *world, struct run *run, const struct drop *drop)
{
    if (run->outbox.tasks) {
        const bool ours = id_equal(drop->job.text, run->desired->job.text);
        outbox_tasks_drop(run->outbox.tasks, ours ? drop->below_version : 0);
        work(world, run);
    }
}

/* ---- sending ---- */

static void due(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (run && !run->cancelled && run->outbox.timer_us <= world->now_us) {
        run->outbox.timer_us = INT64_MAX;
        work(world, run);
    }
}

static void wait(struct world *world, struct run *run, int64_t due_ms)
{
    struct outbox *outbox = &run->outbox;
    const int64_t at_us = world_when_us(world, run->agent->actor, due_ms);
    if (at_us != INT64_MAX && at_us != outbox->timer_us) {
        outbox->timer_us = at_us;
        world_at(world, run->agent->actor, at_us, due, run->agent, run->serial);
    }
}

static void take_result(struct world *world, struct run *run, int rc, int64_t retry_ms,
                        const char *why)
{
    struct outbox *outbox = &run->outbox;
    if (rc == 0 && outbox->sending.whole) {
        outbox->bytes_sent += outbox->sending.bytes;
    }
    if (outbox_tasks_answered(outbox->tasks, &outbox->sending, rc,
                              world_now_ms(world, run->agent->actor),
                              retry_ms) == OUTBOX_NOT_COLLECTED) {
        run_fail(world, run, "internal", why);
    }
}

static void transmit(struct world *world, struct run *run);

static void answered(struct world *world, struct call *call)
{
    struct run *run = run_find(call->owner, call->number);
    if (!run || run->outbox.call != call) {
        return;
    }
    struct outbox *outbox = &run->outbox;
    int64_t retry_ms = 0;
    outbox->call = NULL;
    if (run->cancelled) {
        return;
    }
    if (call->type == CALL_PUT_REPLICA &&
        run_tried(world, run, &outbox->repeat, TROUBLE_REPLICA, call).again) {
        transmit(world, run); /* at once */
        return;
    }
    const bool done = call->status >= 200 && call->status < 300;
    const int rc = call->network != 0 ? call->network
                   : done             ? 0
                          : outbox_tasks_judge(outbox->sending.kind, call->status, &retry_ms);
    if (rc == 0 && call->type == CALL_PUT_REPLICA && outbox->sending.whole) {
        timing_transfer_add(&run->agent->transfers, LINK_REPLICA, &run->desired->neighbor.device,
                            (double)outbox->sending.bytes, net_seconds(world, call));
    }
    take_result(world, run, rc, retry_ms, call->text);
    work(world, run);
}

static struct call *make_call(struct world *world, const struct run *run,
                              const struct outbox_send *send)
{
    const struct assignment_run *desired = run->desired;
    const int64_t unit = (int64_t)send->unit;
    struct call *call = NULL;
    if (send->kind == REPLICA_CENTER) {
        call = net_call(world, CALL_PUT_BLOB, run->agent->actor, ACTOR_COORDINATOR);
        call->unit = (struct center_unit){.job = desired->job,
                                          .version = send->version,
                                          .unit = unit,
                                          .generation = desired->generation,
                                          .bytes = send->bytes};
        memcpy(call->unit.sha256, send->sha256, SHA256_SIZE);
    } else {
        call = net_call(world, CALL_PUT_REPLICA, run->agent->actor,
                        agent_at(world, desired->neighbor.url));
        call->peer = (struct peer_request){.device = desired->neighbor.device,
                                           .job = desired->job,
                                           .generation = desired->generation,
                                           .version = send->version,
                                           .unit = unit,
                                           .bytes = send->bytes};
        memcpy(call->peer.sha256, send->sha256, SHA256_SIZE);
        memcpy(call->peer.ticket, desired->neighbor.ticket, TICKET_SIZE);
    }
    call->empty = !send->whole;
    return call;
}

static void transmit(struct world *world, struct run *run)
{
    const struct outbox_send *send = &run->outbox.sending;
    const struct assignment_run *desired = run->desired;
    struct call *call = make_call(world, run, send);
    run->outbox.call = call;
    /* A replica's body takes its time at the receiver, that of a blob on the way of the answer. */
    uint64_t *digest = send->kind == REPLICA_CENTER ? &call->digest : &call->peer.digest;
    *digest = send->whole ? digest_of_text(send->sha256) : 0;
    call->done = answered;
    call->owner = run->agent;
    call->number = run->serial;
    call->device = run->agent->id;
    memcpy(call->boot, run->agent->boot, ID_SIZE);
    call->timeout_us =
        (send->kind == REPLICA_CENTER ? OUTBOX_CENTER_STALL_MS : desired->peer_ms) * MS;
    if (send->whole) {
        call->body_us = world_draw(world, DRAW_DEVICE, MS, BODY_US);
        speeds_carry(world, call, (double)call->peer.bytes);
    }
    net_send(world, call);
}

static void send_one(struct world *world, struct run *run, const struct outbox_send *send)
{
    const struct assignment_run *desired = run->desired;
    const struct snapshot *held =
        agent_snapshot(run->agent, desired->job.text, send->version, (int64_t)send->unit);
    run->outbox.sending = *send;
    if (held && held->holding.generation == desired->generation) {
        transmit(world, run);
    } else { /* something newer is committed */
        take_result(world, run, ERR_STALE, 0, "a version to be sent is no longer held");
    }
}

/* ---- the thread ---- */

static void do_task(struct world *world, struct run *run, const struct outbox_task *task)
{
    struct outbox_tasks *tasks = run->outbox.tasks;
    switch (task->work) {
    case OUTBOX_WAIT: wait(world, run, task->due_ms); break;
    case OUTBOX_PREPARE: outbox_tasks_prepared(tasks, task->set, true); break;
    case OUTBOX_RELEASE: agent_release(world, run->agent, run, task->origin); break;
    case OUTBOX_KEEP: outbox_tasks_kept(tasks, task->set, keep(world, run, task)); break;
    case OUTBOX_SEND: send_one(world, run, &task->send); break;
    case OUTBOX_COLLECTED: run_report(world, run, SESSION_UPLOADED, task->version); break;
    }
}

static struct outbox_room count_room(const struct run *run)
{
    const struct agent *agent = run->agent;
    const struct assignment_run *desired = run->desired;
    struct outbox_room room = {
        .own = agent_count_bytes(agent, SNAPSHOT_OWN, &desired->job, desired->generation),
        .replicas = agent_count_bytes(agent, SNAPSHOT_REPLICA, &desired->job, desired->generation)};
    if (agent->keeps) { /* in files */
        room.own = (struct snapshot_bytes){0};
    }
    return room;
}

/* Until it waits for an answer or for time. */
static void work(struct world *world, struct run *run)
{
    struct outbox_task task = {.work = OUTBOX_KEEP};
    while (task.work != OUTBOX_WAIT && !run->outbox.call && !run->cancelled &&
           run->state != RUN_ENDED && run->outbox.tasks) {
        const struct outbox_room room = count_room(run);
        outbox_tasks_next(run->outbox.tasks, world_now_ms(world, run->agent->actor), &room, &task);
        do_task(world, run, &task);
    }
}

void outbox_collect(struct world *world, struct run *run, int64_t version)
{
    const bool keeps = run->desired->first < run->desired->end;
    if (version == 0 || !keeps) { /* version 0 follows from the seed: nothing to upload */
        run_report(world, run, SESSION_UPLOADED, version);
    } else if (run->outbox.tasks) {
        outbox_tasks_collect(run->outbox.tasks, version);
        work(world, run);
    }
}

void outbox_cancel(struct world *world, struct run *run)
{
    if (run->outbox.call) {
        net_cancel(world, run->outbox.call);
        run->outbox.call = NULL;
    }
}

void outbox_free(struct world *world, struct run *run)
{
    outbox_cancel(world, run);
    outbox_tasks_free(&run->outbox.tasks);
}
