#include "tests/sim/replicate.h"

#include <inttypes.h>
#include <string.h>

#include "tests/sim/coordinator.h"
#include "tests/sim/run.h"
#include "tests/sim/trace.h"

#define SETS_USUAL 3 /* of a stage that the plan counts */
#define BODY_US (30 * MS)
#define CENTER_STALL_US (10 * SECOND)
#define FULL_RETRY_MS 500

static void send_next(struct world *world, struct run *run);

int replicate_new(struct run *run, struct err *err)
{
    const struct outbox_queue_config config = {.first = (size_t)run->desired->first,
                                               .end = (size_t)run->desired->end,
                                               .resume_version = run->desired->resume_version};
    run->replicate.timer_us = INT64_MAX;
    repeat_begin(&run->replicate.repeat, REPEAT_REPLICA, run->desired->peer_ms);
    return outbox_queue_new(&config, &run->replicate.book, err);
}

/* ---- keeping ---- */

/* Whether a set of all units is at hand for the next snapshot. */
static bool has_set(const struct world *world, const struct run *run)
{
    const struct assignment_run *desired = run->desired;
    const struct snapshot_bytes own =
        agent_count_bytes(run->agent, SNAPSHOT_OWN, &desired->job, desired->generation);
    int64_t set = 0;
    for (int64_t unit = desired->first; unit < desired->end; unit++) {
        set += coordinator_unit_bytes(world, desired->job_spec.model.name, unit);
    }
    return run->agent->keeps || own.held + set <= SETS_USUAL * set || own.present <= set;
}

static void release_replicas(struct world *world, const struct run *run)
{
    const struct assignment_run *desired = run->desired;
    const int64_t bound = desired->replica_bytes;
    const struct snapshot_bytes others =
        agent_count_bytes(run->agent, SNAPSHOT_REPLICA, &desired->job, desired->generation);
    if (!snapshot_bytes_fit(bound, &others, bound / 2)) {
        agent_release(world, run->agent, run, SNAPSHOT_REPLICA);
    }
}

/* Of a version that was taken. */
static bool keep(struct world *world, struct run *run, int64_t version)
{
    const struct assignment_run *desired = run->desired;
    release_replicas(world, run);
    for (int64_t unit = desired->first; unit < desired->end; unit++) {
        struct holding holding = {
            .job = desired->job,
            .generation = desired->generation,
            .version = version,
            .unit = unit,
            .bytes = coordinator_unit_bytes(world, desired->job_spec.model.name, unit)};
        digest_text(run->stage.state[unit], holding.sha256);
        if (agent_keep(world, run->agent, &holding, SNAPSHOT_OWN) != 0) {
            return false;
        }
        outbox_queue_hold(run->replicate.book, version, (size_t)unit, holding.sha256,
                          holding.bytes);
    }
    run->replicate.held = version;
    return true;
}

void replicate_step(struct world *world, struct run *run, int64_t step,
                    const struct round_mark *mark)
{
    if (mark->kinds == 0) {
        return;
    }
    if (!has_set(world, run)) {
        agent_release(world, run->agent, run, SNAPSHOT_OWN);
    }
    const bool room =
        has_set(world, run); /* not by what this mark lets go of: that is seen too late for it */
    outbox_queue_take(run->replicate.book, step, mark);
    if (!room || !keep(world, run, step)) {
        TRACE(world, run->agent->actor, "has no room for snapshot %" PRId64, step);
        return; /* the round will be abandoned */
    }
    TRACE(world, run->agent->actor, "takes snapshot %" PRId64 " for%s%s", step,
          mark->kinds & REPLICA_MARK(REPLICA_NEIGHBOR) ? " its neighbor" : "",
          mark->kinds & REPLICA_MARK(REPLICA_CENTER) ? " the center" : "");
    send_next(world, run);
}

bool replicate_stop(struct world *world, struct run *run, int64_t version)
{
    static const struct round_mark none;
    if (version > 0 && run->replicate.held != version) { /* what the seed gives is nowhere kept */
        outbox_queue_take(run->replicate.book, version, &none);
        if (!keep(world, run, version)) {
            return false;
        }
    }
    send_next(world, run);
    return true;
}

void replicate_drop(struct run *run, int64_t below_version)
{
    if (run->replicate.book) {
        outbox_queue_drop(run->replicate.book, below_version);
    }
}

/* ---- sending ---- */

static void due(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (run && !run->cancelled && run->replicate.timer_us <= world->now_us) {
        run->replicate.timer_us = INT64_MAX;
        send_next(world, run);
    }
}

static void wait(struct world *world, struct run *run)
{
    struct replicate *replicate = &run->replicate;
    const int64_t at_us =
        world_when_us(world, run->agent->actor, outbox_queue_due_ms(replicate->book));
    if (at_us != INT64_MAX && at_us != replicate->timer_us) {
        replicate->timer_us = at_us;
        world_at(world, run->agent->actor, at_us, due, run->agent, run->serial);
    }
}

/* That version will not get there. */
static void give_up(struct world *world, struct run *run, const char *why)
{
    struct replicate *replicate = &run->replicate;
    const struct outbox_send *send = &replicate->sending;
    outbox_queue_refused(replicate->book, send);
    if (send->kind == REPLICA_CENTER && send->version == replicate->collecting) {
        replicate->collecting = 0;
        run_fail(world, run, "internal", why);
    }
}

static void take_answer(struct world *world, struct run *run, const struct call *call)
{
    struct replicate *replicate = &run->replicate;
    const struct outbox_send *send = &replicate->sending;
    const int64_t now_ms = world_now_ms(world, run->agent->actor);
    if (call->network != 0) {
        outbox_queue_failed(replicate->book, send, now_ms, 0);
        return;
    }
    switch (call->status) {
    case 200:
    case 201:
    case 204:
        replicate->bytes_sent += send->whole ? send->bytes : 0;
        outbox_queue_sent(replicate->book, send);
        break;
    case 404:
        if (!send->whole) {
            outbox_queue_unknown(replicate->book, send);
            break;
        }
        outbox_queue_failed(replicate->book, send, now_ms, 0);
        break;
    case 409: /* the center has not heard yet of a round that stage 0 has just opened */
        if (send->kind == REPLICA_CENTER) {
            outbox_queue_failed(replicate->book, send, now_ms, 0);
            break;
        }
        give_up(world, run, call->text);
        break;
    case 429:
    case 500:
    case 503: outbox_queue_failed(replicate->book, send, now_ms, 0); break;
    case 507: outbox_queue_failed(replicate->book, send, now_ms, FULL_RETRY_MS); break;
    default: give_up(world, run, call->text); break;
    }
}

static void transmit(struct world *world, struct run *run);

static void answered(struct world *world, struct call *call)
{
    struct run *run = run_find(call->owner, call->number);
    if (!run || run->replicate.call != call) {
        return;
    }
    run->replicate.call = NULL;
    if (run->cancelled) {
        return;
    }
    if (call->type == CALL_PUT_REPLICA &&
        run_tried(world, run, &run->replicate.repeat, TROUBLE_REPLICA, call).again) {
        transmit(world, run); /* at once */
        return;
    }
    take_answer(world, run, call);
    send_next(world, run);
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
    struct replicate *replicate = &run->replicate;
    const struct outbox_send *send = &replicate->sending;
    const struct assignment_run *desired = run->desired;
    const struct snapshot *held =
        agent_snapshot(run->agent, desired->job.text, send->version, (int64_t)send->unit);
    if (!held ||
        held->holding.generation != desired->generation) { /* something newer is committed */
        give_up(world, run, "a version to be sent is no longer held");
        send_next(world, run);
        return;
    }
    struct call *call = make_call(world, run, send);
    replicate->call = call;
    call->peer.digest = call->digest = send->whole ? digest_of_text(send->sha256) : 0;
    call->done = answered;
    call->owner = run->agent;
    call->number = run->serial;
    call->device = run->agent->id;
    memcpy(call->boot, run->agent->boot, ID_SIZE);
    call->timeout_us = send->kind == REPLICA_CENTER ? CENTER_STALL_US : desired->peer_ms * MS;
    call->body_us = send->whole ? world_draw(world, DRAW_DEVICE, MS, BODY_US) : 0;
    net_send(world, call);
}

/* The collection is over when the center has all. */
static void end_collection(struct world *world, struct run *run)
{
    struct replicate *replicate = &run->replicate;
    const int64_t version = replicate->collecting;
    if (version > 0 && outbox_queue_is_whole(replicate->book, REPLICA_CENTER, version)) {
        replicate->collecting = 0;
        run_report(world, run, SESSION_UPLOADED, version);
    }
}

static void send_next(struct world *world, struct run *run)
{
    struct replicate *replicate = &run->replicate;
    if (replicate->call || run->cancelled || run->state == RUN_ENDED || !replicate->book) {
        return;
    }
    end_collection(world, run);
    if (outbox_queue_next(replicate->book, world_now_ms(world, run->agent->actor),
                          &replicate->sending)) {
        transmit(world, run);
    } else {
        wait(world, run);
    }
}

void replicate_collect(struct world *world, struct run *run, int64_t version)
{
    if (version == 0) { /* what the seed gives is nowhere kept */
        run_report(world, run, SESSION_UPLOADED, version);
    } else if (run->replicate.book) {
        run->replicate.collecting = version;
        outbox_queue_collect(run->replicate.book, version);
        send_next(world, run);
    }
}

void replicate_cancel(struct world *world, struct run *run)
{
    if (run->replicate.call) {
        net_cancel(world, run->replicate.call);
        run->replicate.call = NULL;
    }
}

void replicate_free(struct world *world, struct run *run)
{
    replicate_cancel(world, run);
    outbox_queue_free(&run->replicate.book);
}
