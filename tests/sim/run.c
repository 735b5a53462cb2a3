#include "tests/sim/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/trace.h"

#define BUILD_US (20 * MS)
#define TUNE_US (3 * SECOND)
#define HUNG_US SECOND /* looks again whether the disk works */

const char *const run_state_names[] = {"waits", "measures kernels", "opens its data", "takes units",
                                       "pings", "trains",           "stopped",        "ended"};

/* ---- reports ---- */

void run_report(struct world *world, const struct run *run, enum session_event_type type,
                int64_t version)
{
    const struct session_event event = {.type = type, .serial = run->serial, .version = version};
    agent_report(world, run->agent, &event);
}

void run_fail(struct world *world, struct run *run, const char *code, const char *text)
{
    if (!run->failed && !run->cancelled) {
        struct session_event event = {.type = SESSION_FAILED, .serial = run->serial};
        run->failed = true;
        (void)snprintf(event.error.code, sizeof(event.error.code), "%s", code);
        (void)snprintf(event.error.message, sizeof(event.error.message), "%.120s", text);
        TRACE(world, run->agent->actor, "generation %" PRId64 " fails: %s: %s",
              run->desired->generation, code, text);
        agent_report(world, run->agent, &event);
    }
    run_cancel(world, run);
}

/* ---- the way ---- */

static void tuned(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (!run || run->state != RUN_TUNES || run->cancelled) {
        return;
    }
    const struct assignment_run *desired = run->desired;
    kernel_text_write(coordinator_tuned(world, desired->job_spec.model.name),
                      (size_t)desired->first, (size_t)desired->end, run->kernels);
    run_report(world, run, SESSION_PREPARED, 0);
}

/* Whether something is wrong with the device alone. */
static bool fails_by_itself(struct world *world, struct run *run)
{
    const bool reads = run->row->needs(run->desired).train;
    switch (run->agent->local_fault) {
    case LOCAL_NONE:
    case LOCAL_FAULTS:
    case LOCAL_DISK_HUNG: break;
    case LOCAL_DISK_FULL: run_fail(world, run, "data", "no space left on device"); return true;
    case LOCAL_MEMORY: run_fail(world, run, "memory", "out of memory"); return true;
    case LOCAL_CACHE_WRONG:
        if (reads) {
            run_fail(world, run, "data", "the data set in the cache is another one");
        }
        return reads;
    }
    return false;
}

static void build(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (!run || run->state != RUN_WAITS || run->cancelled || fails_by_itself(world, run)) {
        return;
    }
    if (run->agent->local_fault == LOCAL_DISK_HUNG) {
        world_at(world, run->agent->actor, world->now_us + HUNG_US, build, run->agent, run->serial);
        return;
    }
    struct err err = {0};
    if (needs_check_sources(run->desired, &err) != 0) {
        run_fail(world, run, "format", err.text);
    } else if (run->desired->tune) {
        run->state = RUN_TUNES;
        world_at(world, run->agent->actor,
                 world->now_us + world_draw(world, DRAW_DEVICE, MS, TUNE_US), tuned, run->agent,
                 run->serial);
    } else {
        run_fetch(world, run, RUN_DATA);
    }
}

/* The run before has ended. */
static void begin(struct world *world, struct run *run)
{
    run_free(world, &run->previous);
    if (run->cancelled) {
        run_release(world, run);
        return;
    }
    world_at(world, run->agent->actor, world->now_us + world_draw(world, DRAW_DEVICE, MS, BUILD_US),
             build, run->agent, run->serial);
}

static void publish(struct world *world, struct run *run)
{
    run->published = true;
    run->row->follow(run, &run->orders);
    run->agent->stage = run;
    run->row->start(world, run);
    run_fetch(world, run, RUN_PINGS);
}

static void make_stage(struct world *world, struct run *run)
{
    struct err err = {0};
    const struct assignment_run *desired = run->desired;
    int rc = run->row->make(world, run, &err);
    rc = rc ? rc : outbox_start(world, run, &err);
    if (rc != 0) {
        run_fail(world, run, "format", err.text);
        return;
    }
    run->stage.first = (size_t)desired->first;
    run->stage.end = (size_t)desired->end;
    run->step = desired->resume_version;
    run_fetch(world, run, RUN_UNITS);
}

void run_advance(struct world *world, struct run *run)
{
    switch (run->state) {
    case RUN_DATA: make_stage(world, run); break;
    case RUN_UNITS:
        if (run->stage.async) {
            digest_restart(&run->stage, run->desired->resume_version);
        }
        publish(world, run);
        break;
    case RUN_PINGS:
        run->state = RUN_TRAINS;
        run_report(world, run, SESSION_PREPARED, 0);
        run->row->go_on(world, run);
        break;
    case RUN_TRAINS:
        run->state = RUN_STOPPED;
        run_report(world, run, SESSION_STOPPED, run->stopped_version);
        break;
    case RUN_WAITS:
    case RUN_TUNES:
    case RUN_STOPPED:
    case RUN_ENDED: break;
    }
}

void run_stop(struct world *world, struct run *run, int64_t version)
{
    TRACE(world, run->agent->actor, "has stopped at %" PRId64, version);
    run->stopped_version = version;
    if (outbox_keep(world, run, version)) {
        run_advance(world, run);
    } else {
        run_fail(world, run, "internal", "too many snapshots are held already");
    }
}

void run_release(struct world *world, struct run *run)
{
    struct agent *agent = run->agent;
    if (run->state == RUN_ENDED) {
        return;
    }
    run->state = RUN_ENDED;
    agent->stage = agent->stage == run ? NULL : agent->stage;
    run_fetch_cancel(world, run);
    run->row->release(world, run);
    outbox_free(world, run);
    run->published = false;
    for (struct run *next = agent->run; next; next = next->previous) {
        if (next->previous == run) {
            begin(world, next);
            break;
        }
    }
    agent_poke(world, agent);
}

/* ---- the control thread's side ---- */

void run_start(struct world *world, struct agent *agent, int64_t serial,
               struct assignment **assignment, struct run **slot)
{
    struct run *run = calloc(1, sizeof(*run));
    ASSERT(run);
    run->agent = agent;
    run->serial = serial;
    run->assignment = *assignment;
    run->desired = &run->assignment->run;
    run->row = run_row_of((enum job_strategy)run->desired->job_spec.strategy);
    run->previous = *slot;
    *assignment = NULL;
    *slot = run;
    if (!run->previous || run->previous->state == RUN_ENDED) {
        begin(world, run);
    } else {
        run_cancel(world, run->previous); /* its end begins this one */
    }
}

void run_cancel(struct world *world, struct run *run)
{
    run->cancelled = true;
    if (run->computing ||
        (run->state == RUN_WAITS && run->previous && run->previous->state != RUN_ENDED)) {
        return; /* the task is finished first; the run before ends first */
    }
    run_release(world, run);
}

bool run_ended(const struct run *run)
{
    return run->state == RUN_ENDED;
}

void run_free(struct world *world, struct run **pointer)
{
    struct run *run = *pointer;
    if (!run) {
        return;
    }
    *pointer = NULL;
    run_free(world, &run->previous);
    run->agent->stage = run->agent->stage == run ? NULL : run->agent->stage;
    run_fetch_cancel(world, run);
    run->row->release(world, run);
    outbox_free(world, run);
    net_put_assignment(world, &run->assignment);
    free(run);
}

struct run *run_find(const struct agent *agent, int64_t serial)
{
    struct run *run = agent->run;
    while (run && run->serial != serial) {
        run = run->previous;
    }
    return run;
}

static void take_mixes(struct world *world, struct run *run, enum session_action_type type)
{
    if (!run->published || !run->row->mix) {
        return;
    }
    if (type == SESSION_DO_MIX) {
        run->row->mix(world, run, &run->agent->desired->run.mix);
    } else {
        run->row->mixes_stored(world, run);
    }
}

void run_tell(struct world *world, struct run *run, const struct session_action *action)
{
    if (action->type == SESSION_DO_UPLOAD) {
        outbox_collect(world, run, action->version);
        return;
    }
    if (action->type == SESSION_DO_MIX || action->type == SESSION_DO_MIXES_STORED) {
        take_mixes(world, run, action->type);
        return;
    }
    orders_take(&run->orders, action);
    if (!run->published) {
        return;
    }
    if (action->type == SESSION_DO_RUN) {
        TRACE(world, run->agent->actor, "runs generation %" PRId64, run->desired->generation);
    } else if (action->type == SESSION_DO_ROUNDS) {
        run->row->take_rounds(run, action->round);
    }
    run->row->follow(run, &run->orders);
    run->row->go_on(world, run);
}

struct repeat_next run_tried(struct world *world, struct run *run, struct repeat *repeat,
                             enum trouble_source source, const struct call *call)
{
    const struct repeat_try tried = {
        .code = call->network || repeat->kind == REPEAT_REPLICA
                    ? call->network
                    : repeat_code(repeat->kind, call->status),
        .trouble = call->refused                  ? PEER_REFUSED
                   : call->network == ERR_TIMEOUT ? PEER_STALLED
                                                  : PEER_BROKEN,
        .began_ms = call->began_ms,
        .now_ms = world_now_ms(world, run->agent->actor),
    };
    struct repeat_next next;
    repeat_tried(repeat, &tried, &next);
    const bool changed = next.news == REPEAT_IN_TROUBLE
                             ? trouble_list_add(&run->troubles, source, &call->peer.device,
                                                tried.trouble, tried.now_ms)
                         : next.news == REPEAT_ANSWERED ? trouble_list_clear(&run->troubles, source)
                                                        : false;
    if (changed) {
        agent_tell(world, run->agent, SESSION_TROUBLE_CHANGED);
    }
    return next;
}

void run_moves(const struct world *world, struct run *run, const struct call *call)
{
    const int64_t until_us = world->now_us + call->transfer_us;
    run->moving_until_us = until_us > run->moving_until_us ? until_us : run->moving_until_us;
}

void run_measure(const struct world *world, struct run *run, struct heartbeat *out)
{
    trouble_list_report(&run->troubles, world_now_ms(world, run->agent->actor), out);
    out->bytes_moved = run->bytes_moved;
    out->replica_bytes_sent = run->outbox.bytes_sent;
    out->busy_ms = run->computing ? (world->now_us - run->task_began_us) / MS
                                  : world->now_us < run->moving_until_us;
    out->fetch_seconds = run->fetched_us > run->fetch_began_us
                             ? (double)(run->fetched_us - run->fetch_began_us) / 1e6
                             : 0;
    memcpy(out->kernels, run->kernels, sizeof(out->kernels));
    if (!run->published) {
        return;
    }
    out->step = run->step;
    run->row->measure(run, out);
}
