/* What a run takes by calls that it repeats: data sets, units, pings (agent/build,
 * agent/peer/fetch). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/needs.h"
#include "base/assert.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/offers.h"
#include "tests/sim/run.h"
#include "tests/sim/speeds.h"

#define BODY_US (30 * MS)

static void try_next(struct world *world, struct run *run);

/* ---- the next fetch ---- */

static bool has_data(const struct agent *agent, const char *sha256)
{
    for (size_t i = 0; i < agent->data_count; i++) {
        if (strcmp(agent->data[i], sha256) == 0) {
            return true;
        }
    }
    return false;
}

static struct call *data_call(struct world *world, struct run *run)
{
    const struct assignment_run *desired = run->desired;
    const struct needs_data needs = run->row->needs(desired);
    const char *const set[] = {desired->data.train_sha256, desired->data.test_sha256};
    const struct local_train *local = &desired->job_spec.train_local;
    const bool needed[] = {needs.train && local->name[0] == '\0', needs.test};
    if (local->name[0] != '\0' &&
        !offers_has(world, run->agent, local, desired->data.train_samples)) {
        check_fail(world, "%s has other data than its group is to train on", run->agent->name);
    }
    while (run->fetch.at < 2 &&
           (!needed[run->fetch.at] || has_data(run->agent, set[run->fetch.at]))) {
        run->fetch.at++;
    }
    if (run->fetch.at == 2) {
        return NULL;
    }
    struct call *call = net_call(world, CALL_GET_DATA, run->agent->actor, ACTOR_COORDINATOR);
    memcpy(call->unit.sha256, set[run->fetch.at], SHA256_SIZE);
    return call;
}

static struct call *peer_call(struct world *world, struct run *run, enum call_type type,
                              const struct device_id *peer, const char *url, const char *ticket)
{
    struct call *call = net_call(world, type, run->agent->actor, agent_at(world, url));
    call->peer.device = *peer;
    call->peer.job = run->desired->job;
    call->peer.generation = run->desired->generation;
    memcpy(call->peer.ticket, ticket, TICKET_SIZE);
    return call;
}

/* The unit is here. false: it is not what it should be. */
static bool load(struct world *world, struct run *run, const struct source *source, uint64_t digest)
{
    struct err err = {0};
    char hash[SHA256_SIZE];
    digest_text(digest, hash);
    int rc = needs_check_hash(source, hash, &err);
    rc = rc ? err_wrap(&err, "unit %" PRId64, source->unit) : 0;
    if (rc != 0) {
        run_fail(world, run, needs_error_code(source->from), err.text);
        return false;
    }
    run->stage.state[source->unit] =
        source->from == SOURCE_CHECKPOINT ? digest_start(digest, (size_t)source->unit) : digest;
    run->fetch.at++;
    return true;
}

/* Take units that need no call; the call for the next one that does. NULL: all are here, or the run
 * has failed. */
static struct call *unit_call(struct world *world, struct run *run)
{
    const struct assignment_run *desired = run->desired;
    while (run->fetch.at < desired->source_count) {
        const struct source *source = &desired->source[run->fetch.at];
        if (source->from == SOURCE_SEED) {
            ASSERT(desired->resume_version == 0);
            run->stage.state[source->unit] =
                digest_initial(desired->job_spec.seed, (size_t)source->unit);
            run->fetch.at++;
        } else if (source->from == SOURCE_SELF) {
            const struct snapshot *own = agent_snapshot(run->agent, desired->job.text,
                                                        desired->resume_version, source->unit);
            if (!own) {
                run_fail(world, run, needs_error_code(source->from),
                         "this device does not hold that version");
                return NULL;
            }
            if (!load(world, run, source, digest_of_text(own->holding.sha256))) {
                return NULL;
            }
        } else if (source->from == SOURCE_DEVICE) {
            struct call *call = peer_call(world, run, CALL_GET_SNAPSHOT, &source->device,
                                          source->url, source->ticket);
            call->peer.version = desired->resume_version;
            call->peer.unit = source->unit;
            return call;
        } else {
            struct call *call =
                net_call(world, CALL_GET_BLOB, run->agent->actor, ACTOR_COORDINATOR);
            memcpy(call->unit.sha256, source->sha256, SHA256_SIZE);
            return call;
        }
    }
    return NULL;
}

static struct call *ping_call(struct world *world, struct run *run)
{
    const struct peer *list[RUN_PEERS_MAX];
    if (run->fetch.at == run->row->peers(run->desired, list)) {
        return NULL;
    }
    const struct peer *peer = list[run->fetch.at];
    return peer_call(world, run, CALL_PING, &peer->device, peer->url, peer->ticket);
}

static struct call *next_call(struct world *world, struct run *run)
{
    switch (run->state) {
    case RUN_DATA: return data_call(world, run);
    case RUN_UNITS: return unit_call(world, run);
    case RUN_PINGS: return ping_call(world, run);
    case RUN_WAITS:
    case RUN_TUNES:
    case RUN_TRAINS:
    case RUN_STOPPED:
    case RUN_ENDED: break;
    }
    return NULL;
}

/* ---- answers ---- */

static void take_body(struct world *world, struct run *run, const struct call *call)
{
    if (call->type == CALL_GET_DATA) {
        ASSERT(run->agent->data_count < DATA_SETS_MAX);
        memcpy(run->agent->data[run->agent->data_count++], call->unit.sha256, SHA256_SIZE);
    } else if (call->type == CALL_GET_SNAPSHOT || call->type == CALL_GET_BLOB) {
        const struct source *source = &run->desired->source[run->fetch.at];
        if (call->type == CALL_GET_SNAPSHOT) {
            run->bytes_moved += source->bytes;
            timing_transfer_add(&run->agent->transfers, LINK_FETCH, &source->device,
                                (double)source->bytes, net_seconds(world, call));
        }
        (void)load(world, run, source, call->digest);
        return;
    }
    run->fetch.at++;
}

static enum repeat_kind kind_of(const struct call *call)
{
    return call->type == CALL_PING           ? REPEAT_PING
           : call->type == CALL_GET_SNAPSHOT ? REPEAT_SNAPSHOT
                                             : REPEAT_CONTENT;
}

static const char *error_code(const struct run *run)
{
    return run->state == RUN_DATA    ? "data"
           : run->state == RUN_PINGS ? "peer"
                                     : needs_error_code(run->desired->source[run->fetch.at].from);
}

static void try_again(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (run && !run->cancelled && !run->fetch.call) {
        try_next(world, run);
    }
}

static void answered(struct world *world, struct call *call)
{
    struct run *run = run_find(call->owner, call->number);
    if (!run || run->fetch.call != call) {
        return;
    }
    struct fetch *fetch = &run->fetch;
    fetch->call = NULL;
    const struct repeat_next next = run_tried(world, run, &fetch->repeat, TROUBLE_FETCH, call);
    if (next.again) {
        world_at(world, run->agent->actor, world->now_us + next.wait_ms * MS, try_again, run->agent,
                 run->serial);
    } else if (call->network == 0 && repeat_code(fetch->repeat.kind, call->status) == 0) {
        fetch->repeating = false;
        take_body(world, run, call);
        run = run_find(call->owner, call->number); /* a wrong body has ended it */
        if (run && !run->cancelled) {
            try_next(world, run);
        }
    } else {
        char text[MESSAGE_SIZE];
        (void)snprintf(text, sizeof(text), "%s: %s answers %d %.80s", run_state_names[run->state],
                       call_type_names[call->type], call->network ? call->network : call->status,
                       call->text);
        run_fail(world, run, error_code(run), text);
    }
}

static void try_next(struct world *world, struct run *run)
{
    const struct agent *agent = run->agent;
    const int64_t serial = run->serial;
    struct call *call = next_call(world, run);
    run = run_find(agent, serial);
    if (!run || run->cancelled) {
        ASSERT(!call);
        return;
    }
    if (!call) {
        run_advance(world, run);
        return;
    }
    run->fetch.call = call;
    if (!run->fetch.repeating) {
        run->fetch.repeating = true;
        repeat_begin(&run->fetch.repeat, kind_of(call), run->desired->peer_ms);
    }
    call->done = answered;
    call->owner = run->agent;
    call->number = run->serial;
    call->device = run->agent->id;
    memcpy(call->boot, run->agent->boot, ID_SIZE);
    call->timeout_us = repeat_stall_ms(&run->fetch.repeat) * MS;
    call->body_us = call->type == CALL_PING ? 0 : world_draw(world, DRAW_DEVICE, MS, BODY_US);
    if (call->type == CALL_GET_SNAPSHOT) {
        const char *model = run->desired->job_spec.model.name;
        speeds_carry(world, call, (double)coordinator_unit_bytes(world, model, call->peer.unit));
    }
    net_send(world, call);
}

void run_fetch(struct world *world, struct run *run, enum run_state state)
{
    run->fetch_began_us = state == RUN_UNITS ? world->now_us : run->fetch_began_us;
    run->fetched_us = run->state == RUN_UNITS ? world->now_us : run->fetched_us;
    run->state = state;
    run->fetch = (struct fetch){0};
    try_next(world, run);
}

void run_fetch_cancel(struct world *world, struct run *run)
{
    if (run->fetch.call) {
        net_cancel(world, run->fetch.call);
        run->fetch.call = NULL;
    }
}
