/* The assignment of a device is not stored: it is computed from the state on each request, so it
 * never disagrees with the state. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/capacity/relays.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/copies/sources.h"
#include "coordinator/core/generation/tuning.h"
#include "coordinator/core/gossip/gossip_job.h"
#include "coordinator/core/placement/peers.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"
#include "schema/job_check.h"

/* ---- allowed callers ---- */

/* Allow the devices that fetch units from this one while they prepare, in its plan or another. */
static void add_fetchers(const struct core *core, const struct device_slot *device,
                         struct assignment *out)
{
    for (size_t i = 0; i < core->jobs.count; i++) {
        const struct job_slot *job = slots_job_at(core, i);
        if (!job->sources.from_peers || states_phase(job) != PHASE_PREPARE) {
            continue;
        }
        for (size_t s = 0; s < job->plan.stage_count; s++) {
            if (sources_stage_is(job, s, device)) {
                peers_allow(core, job, &job->plan.stage[s].device, out);
            }
        }
    }
}

/* ---- the run ---- */

static void fill_sources(const struct core *core, const struct job_slot *job, size_t stage,
                         struct assignment_run *run)
{
    const struct stage_work loads = layout_loads(job, stage);
    for (int64_t u = loads.first; u < loads.end; u++) {
        const struct unit_source from = sources_of(job, stage, u);
        struct source *source = &run->source[run->source_count++];
        source->unit = u;
        source->from = from.from;
        if (from.from == SOURCE_CHECKPOINT) {
            text_set(source->sha256, SHA256_SIZE, "%s", job->job.data.checkpoint_sha256);
            source->bytes = job->job.data.checkpoint_bytes;
        } else if (from.from != SOURCE_SEED) {
            text_set(source->sha256, SHA256_SIZE, "%s", sources_hash(job, u));
            source->bytes = sources_bytes(job, u);
        }
        if (from.from == SOURCE_DEVICE) {
            const struct device_slot *holder = slots_device(core, from.device.text);
            source->device = from.device;
            if (holder) {
                memcpy(source->url, holder->device.address, URL_SIZE);
                peers_key(holder, source->public_key);
            }
        }
    }
}

/* The stages that keep units send copies of them to others (keepers.h). */
static void fill_copies(const struct core *core, const struct device_slot *device,
                        struct assignment *out)
{
    const struct job_slot *job = device->job;
    const struct plan *plan = &job->plan;
    const size_t held = keepers_held(plan->stage, plan->stage_count, device->stage);
    const size_t holder = keepers_holder(plan->stage, plan->stage_count, device->stage);
    if (held != device->stage) {
        peers_allow(core, job, &plan->stage[held].device, out);
    }
    out->run.has_neighbor = holder != device->stage && job->job.spec.neighbor_every > 0;
    if (out->run.has_neighbor) {
        peers_fill(core, job, holder, CODEC_NONE, &out->run.neighbor);
    }
}

/* Write the members that are common to all strategies. */
static void fill_run(const struct core *core, const struct device_slot *device,
                     struct assignment_run *run)
{
    const struct job_slot *job = device->job;
    const struct plan *plan = &job->plan;
    const struct plan_stage *stage = &plan->stage[device->stage];
    run->job = job->job.id;
    run->plan = plan->id;
    run->generation = plan->generation;
    run->phase = states_phase(job);
    run->resume_version = run->phase == PHASE_FINISHED ? plan->last_version : plan->resume_version;
    run->stage_index = (int64_t)device->stage;
    run->stage_count = (int64_t)plan->stage_count;
    run->first = stage->first;
    run->end = stage->end;
    run->tune = tuning_wanted(job);
    if (run->phase == PHASE_PREPARE) {
        fill_sources(core, job, device->stage, run); /* afterwards the device has its units */
    }
    run->replica_bytes = stage->replica_bytes;
    run->step_ms = job->job.deadlines.step_ms;
    run->peer_ms = job->job.deadlines.peer_ms;
    run->lease_ms = job->job.deadlines.lease_ms;
    run->total_steps = job_total_steps(&job->job.spec, job_epoch_samples(&job->job.data));
    run->early_stop = job->job.early_stop;
    run->has_early_stop = job->job.has_early_stop;
    run->job_spec = job->job.spec;
    /* The links of the stage state the codecs, and agents of protocol 1 know no other value. */
    run->job_spec.compression = CODEC_NONE;
    run->data = job->job.data;
}

bool core_assignment(const struct core *core, const char *device_id, const char *boot,
                     struct assignment *out)
{
    const struct device_slot *device = slots_device(core, device_id);
    if (!device || strcmp(device->device.boot, boot) != 0) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    out->revision = device->assignment_revision;
    out->interval_ms = core->config.heartbeat_ms;
    memcpy(out->challenge, device->challenge.nonce, sizeof(out->challenge));
    out->drop_count = holdings_drops(core, device, out->drop);
    relays_fill(core, out);
    out->has_run = device->job != NULL && !device->job->report[device->stage].left;
    if (out->has_run) {
        fill_run(core, device, &out->run);
        device->job->strategy->fill_assignment(core, device, out);
        fill_copies(core, device, out);
        gossip_fill_assignment(core, device, out);
    }
    add_fetchers(core, device, out);
    return true;
}

int64_t core_assignment_revision(const struct core *core, const char *device_id)
{
    const struct device_slot *device = slots_device(core, device_id);
    return device ? device->assignment_revision : 0;
}

/* Write the ticket of a call and the ticket for relays. With the latter, the callee (`parks`) waits
 * at the relay. */
static void name_ticket(const struct core *core, const char *job, const char *from, const char *to,
                        struct core_ticket *ticket)
{
    const struct plan *plan = core_job_plan(core, job);
    ASSERT(plan); /* a job that an assignment names has one */
    (void)snprintf(ticket->text, sizeof(ticket->text), "%s|%s|%s|%s", job, plan->id.text, from, to);
    ticket->plan = plan->id;
    (void)snprintf(ticket->relay_name, sizeof(ticket->relay_name), "%s.%s", to, plan->id.text);
}

/* List the devices that the device calls, except those from which it fetches units. Return their
 * count. */
static size_t list_peers(struct assignment_run *run, struct peer *out[STRATEGY_PEERS_MAX + 1])
{
    size_t count = strategy_of((enum job_strategy)run->job_spec.strategy)->peers(run, out);
    if (run->has_neighbor) {
        out[count++] = &run->neighbor;
    }
    return count;
}

/* A call of a device: the job, the called device, and the places of the tickets. */
struct called {
    const char *job;
    struct device_id *device;
    char *ticket, *relay_ticket;
};

static struct called called_peer(const char *job, struct peer *peer)
{
    return (struct called){job, &peer->device, peer->ticket, peer->relay_ticket};
}

/* Find a group whose copy the device fetches. A group does not call itself. */
static bool find_mix_source(struct assignment_run *run, size_t index, struct called *out)
{
    for (size_t o = 0; run->has_mix && o < run->mix.order_count; o++) {
        struct mix_order *order = &run->mix.order[o];
        for (size_t i = 0; i < order->source_count; i++) {
            struct mix_source *source = &order->source[i];
            if (source->group != run->mix.group && index-- == 0) {
                *out = called_peer(source->job.text, &source->peer);
                return true;
            }
        }
    }
    return false;
}

static bool find_unit_source(struct assignment_run *run, size_t index, struct called *out)
{
    for (size_t i = 0; i < run->source_count; i++) {
        struct source *source = &run->source[i];
        if (source->from == SOURCE_DEVICE && index-- == 0) {
            *out = (struct called){run->job.text, &source->device, source->ticket,
                                   source->relay_ticket};
            return true;
        }
    }
    return false;
}

static size_t count_unit_sources(const struct assignment_run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < run->source_count; i++) {
        count += run->source[i].from == SOURCE_DEVICE;
    }
    return count;
}

/* Find the call with this index. false: no such call. */
static bool find_call(struct assignment_run *run, size_t index, struct called *out)
{
    struct peer *peer[STRATEGY_PEERS_MAX + 1]; /* and the neighbour in the ring */
    const size_t peers = list_peers(run, peer), units = count_unit_sources(run);
    if (index < peers) {
        *out = called_peer(run->job.text, peer[index]);
        return true;
    }
    return index < peers + units ? find_unit_source(run, index - peers, out)
                                 : find_mix_source(run, index - peers - units, out);
}

bool core_next_ticket(const struct core *core, const char *device_id, struct assignment *assignment,
                      size_t *at, struct core_ticket *ticket)
{
    const bool relays = assignment->relay_count > 0;
    const size_t index = (*at)++;
    struct called called;
    if (index < assignment->caller_count) {
        struct caller *caller = &assignment->caller[index];
        *ticket = (struct core_ticket){.out = caller->ticket,
                                       .relay_out = relays ? caller->relay_ticket : NULL,
                                       .parks = true};
        name_ticket(core, caller->job.text, caller->device.text, device_id, ticket);
        return true;
    }
    if (!assignment->has_run ||
        !find_call(&assignment->run, index - assignment->caller_count, &called)) {
        return false;
    }
    *ticket = (struct core_ticket){.out = called.ticket,
                                   .relay_out = relays ? called.relay_ticket : NULL};
    name_ticket(core, called.job, device_id, called.device->text, ticket);
    return true;
}

bool core_may_read_data(const struct core *core, const char *device_id, const char *sha256)
{
    const struct device_slot *device = slots_device(core, device_id);
    const struct job_slot *job = device ? device->job : NULL;
    return job && (strcmp(job->job.data.train_sha256, sha256) == 0 ||
                   strcmp(job->job.data.test_sha256, sha256) == 0);
}

bool core_may_read_blob(const struct core *core, const char *device_id, const char *sha256)
{
    const struct device_slot *device = slots_device(core, device_id);
    const struct job_slot *job = device ? device->job : NULL;
    if (!job || states_phase(job) != PHASE_PREPARE) {
        return false;
    }
    const struct stage_work loads = layout_loads(job, device->stage);
    for (int64_t u = loads.first; u < loads.end; u++) {
        int from = sources_of(job, device->stage, u).from;
        const char *named =
            from == SOURCE_CENTER ? sources_hash(job, u) : job->job.data.checkpoint_sha256;
        if ((from == SOURCE_CENTER || from == SOURCE_CHECKPOINT) && strcmp(named, sha256) == 0) {
            return true;
        }
    }
    return false;
}
