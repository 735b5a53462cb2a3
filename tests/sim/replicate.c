#include "tests/sim/replicate.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/run.h"
#include "tests/sim/trace.h"

#define BODY_US (30 * MS)
#define STALL_US (5 * SECOND)

static void send_next(struct world *world, struct run *run);

int replicate_new(struct run *run, struct err *err)
{
    const struct replication_config config = {
        .first = (size_t)run->told->first, .end = (size_t)run->told->end, .resume_version = run->told->resume_version};
    run->replicate.timer_us = INT64_MAX;
    return replication_new(&config, &run->replicate.book, err);
}

/* ---- keeping ---- */

/* Versions of its own units that this device keeps. */
static size_t count_sets(const struct run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < run->agent->snapshot_count; i++) {
        const struct snapshot *snapshot = &run->agent->snapshot[i];
        count += !snapshot->replica && snapshot->holding.unit == run->told->first &&
                 strcmp(snapshot->holding.job.text, run->told->job.text) == 0;
    }
    return count;
}

static void take(struct run *run, int64_t version, const struct round_mark *mark)
{
    replication_take(run->replicate.book, version, mark);
    for (int64_t unit = run->told->first; unit < run->told->end; unit++) {
        const struct snapshot *held = agent_snapshot(run->agent, run->told->job.text, version, unit);
        ASSERT(held);
        replication_hold(run->replicate.book, version, (size_t)unit, held->holding.sha256, held->holding.bytes);
    }
}

void replicate_step(struct world *world, struct run *run, int64_t step, const struct round_mark *mark)
{
    if (mark->kinds == 0) {
        return;
    }
    if (count_sets(run) >= REPLICATION_SETS_MAX) {
        replicate_relieve(world, run);
    }
    if (count_sets(run) >= REPLICATION_SETS_MAX || !run_keep_units(world, run, step)) {
        TRACE(world, run->agent->actor, "has no room for snapshot %" PRId64, step);
        return; /* the round will be abandoned */
    }
    TRACE(world, run->agent->actor, "takes snapshot %" PRId64 " for%s%s", step,
          mark->kinds & REPLICA_MARK(REPLICA_NEIGHBOR) ? " its neighbor" : "",
          mark->kinds & REPLICA_MARK(REPLICA_CENTER) ? " the center" : "");
    take(run, step, mark);
    send_next(world, run);
}

void replicate_stop(struct world *world, struct run *run, int64_t version)
{
    static const struct round_mark none;
    take(run, version, &none);
    send_next(world, run);
}

void replicate_drop(struct run *run, int64_t below_version)
{
    if (run->replicate.book) {
        replication_drop(run->replicate.book, below_version);
    }
}

void replicate_relieve(struct world *world, struct run *run)
{
    struct agent *agent = run->agent;
    size_t kept = 0;
    for (size_t i = 0; i < agent->snapshot_count; i++) {
        const struct holding *holding = &agent->snapshot[i].holding;
        const bool present =
            holding->generation == run->told->generation && strcmp(holding->job.text, run->told->job.text) == 0;
        if (!present || !run->replicate.book || !replication_is_expendable(run->replicate.book, holding->version)) {
            agent->snapshot[kept++] = agent->snapshot[i];
        }
    }
    if (kept < agent->snapshot_count) {
        TRACE(world, agent->actor, "drops %zu snapshots of rounds given up", agent->snapshot_count - kept);
        agent->snapshot_count = kept;
        agent->snapshot_revision++;
        agent_poke(world, agent);
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
    const int64_t at_us = world_when_us(world, run->agent->actor, replication_due_ms(replicate->book));
    if (at_us != INT64_MAX && at_us != replicate->timer_us) {
        replicate->timer_us = at_us;
        world_at(world, run->agent->actor, at_us, due, run->agent, run->serial);
    }
}

static void take_answer(struct world *world, struct run *run, const struct call *call)
{
    struct replicate *replicate = &run->replicate;
    const struct replication_send *send = &replicate->sending;
    const int64_t now_ms = world_now_ms(world, run->agent->actor);
    if (call->network == 0 && call->status == 204) {
        replicate->bytes_sent += send->whole ? send->bytes : 0;
        replication_sent(replicate->book, send);
    } else if (call->network == 0 && call->status == 404 && !send->whole) {
        replication_unknown(replicate->book, send);
    } else if (call->network != 0 || call->status == 503 || call->status == 507) {
        replication_failed(replicate->book, send, now_ms, 0);
    } else {
        replication_refused(replicate->book, send);
    }
}

static void answered(struct world *world, struct call *call)
{
    struct run *run = run_find(call->owner, call->number);
    if (!run || run->replicate.call != call) {
        return;
    }
    run->replicate.call = NULL;
    if (call->type == CALL_PUT_REPLICA) {
        run_trouble(world, run, &run->replicate.trouble, call);
    }
    take_answer(world, run, call);
    send_next(world, run);
}

static struct call *make_call(struct world *world, const struct run *run, const struct replication_send *send)
{
    const struct assignment_run *told = run->told;
    const int64_t unit = (int64_t)send->unit;
    struct call *call = NULL;
    if (send->kind == REPLICA_CENTER) {
        call = net_call(world, CALL_PUT_BLOB, run->agent->actor, ACTOR_COORDINATOR);
        call->unit = (struct center_unit){.job = told->job,
                                          .version = send->version,
                                          .unit = unit,
                                          .generation = told->generation,
                                          .bytes = send->bytes};
        memcpy(call->unit.sha256, send->sha256, SHA256_SIZE);
    } else {
        call = net_call(world, CALL_PUT_REPLICA, run->agent->actor, agent_at(world, told->neighbor.url));
        call->peer = (struct peer_request){.job = told->job,
                                           .generation = told->generation,
                                           .version = send->version,
                                           .unit = unit,
                                           .bytes = send->bytes};
        memcpy(call->peer.sha256, send->sha256, SHA256_SIZE);
        memcpy(call->peer.ticket, told->neighbor.ticket, TICKET_SIZE);
    }
    call->empty = !send->whole;
    return call;
}

static void send_next(struct world *world, struct run *run)
{
    struct replicate *replicate = &run->replicate;
    struct replication_send *send = &replicate->sending;
    const int64_t now_ms = world_now_ms(world, run->agent->actor);
    if (replicate->call || run->cancelled || run->state == RUN_ENDED || !replicate->book) {
        return;
    }
    if (!replication_next(replicate->book, now_ms, send)) {
        wait(world, run);
        return;
    }
    const struct snapshot *held = agent_snapshot(run->agent, run->told->job.text, send->version, (int64_t)send->unit);
    if (!held) {
        replication_refused(replicate->book, send); /* dropped meanwhile: something newer is committed */
        send_next(world, run);
        return;
    }
    struct call *call = make_call(world, run, send);
    replicate->call = call;
    call->peer.digest = call->digest = send->whole ? held->digest : 0;
    call->done = answered;
    call->owner = run->agent;
    call->number = run->serial;
    call->device = run->agent->id;
    memcpy(call->boot, run->agent->boot, ID_SIZE);
    call->timeout_us = STALL_US;
    call->body_us = send->whole ? world_draw(world, DRAW_DEVICE, MS, BODY_US) : 0;
    net_send(world, call);
}

void replicate_collect(struct world *world, struct run *run, int64_t version)
{
    replication_collect(run->replicate.book, version);
    send_next(world, run);
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
    replication_free(&run->replicate.book);
}
