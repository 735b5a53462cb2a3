/* The threads of a group's mixes and its receiver (agent/gossip/mixer_work, mix_fetch,
 * average_file, mix_routes): copies of other groups in, own ones out, averages to the center. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/gossip_jobs.h"
#include "tests/sim/mixer.h"
#include "tests/sim/speeds.h"
#include "tests/sim/trace.h"

#define BODY_US (20 * MS)
#define AGAIN_US SECOND /* an average that the coordinator could not take */
#define MEASURED_US_MIN (SECOND / 2)

static double state_bytes(const struct world *world, const struct run *run)
{
    double bytes = 0;
    for (size_t u = 0; u < run->stage.units; u++) {
        bytes +=
            (double)coordinator_unit_bytes(world, run->desired->job_spec.model.name, (int64_t)u);
    }
    return bytes;
}

/* ---- copies of other groups ---- */

static enum trouble_source trouble_of(enum mixing_place place)
{
    return place == MIXING_AVERAGES ? TROUBLE_MIX_AVERAGE : TROUBLE_MIX_PAIR;
}

/* What was asked for is still wanted. */
static bool is_open(const struct world *world, const struct run *run, enum mixing_place place)
{
    const struct mixer *mixer = mixer_of(run);
    const struct mixing_slot *slot = &mixer->mixing.slot[place];
    const struct mixer_fetch *fetch = &mixer->fetch[place];
    return mixing_fetch(&mixer->mixing, place) && mix_xid_is(slot->match.xid, fetch->xid) &&
           (slot->match.kind == MIX_ADOPT) == fetch->average && slot->fetched == fetch->index &&
           world_now_ms(world, run->agent->actor) < slot->match.deadline_ms;
}

/* Of a link with a rate: what has come of a copy, or all of it. */
static void note_link(const struct world *world, struct run *run, const struct call *call,
                      int64_t us)
{
    const double share = us < call->body_us ? (double)us / (double)call->body_us : 1;
    if (call->transfer_us > 0 && call->answered) {
        timing_transfer_add(&run->agent->transfers, LINK_FETCH, &call->peer.device,
                            share * state_bytes(world, run), (double)us / 1e6);
    }
}

static void take_copy(struct world *world, struct run *run, enum mixing_place place,
                      const struct call *call)
{
    note_link(world, run, call, call->body_us);
    struct mixer *mixer = mixer_of(run);
    const struct mix_answer *answer = call->mix;
    const struct mixing_slot *slot = &mixer->mixing.slot[place];
    struct mix_state *out = place == MIXING_PAIRS  ? &mixer->other
                            : slot->match.averages ? &mixer->peer[slot->fetched]
                                                   : &mixer->average;
    const bool finite = call->peer.average || !gossip_spoils(world, agent_of(world, call->to));
    *out = answer->state;
    if (out == &mixer->average) {
        mixer->averaged = (struct mix_xid){0};
    }
    mixing_fetched(&mixer->mixing, place, &answer->copy, finite, answer->record,
                   answer->record_count);
    TRACE(world, run->agent->actor,
          "has the copy of group %" PRId64 " with %zu records for %" PRId64 "-%" PRId64,
          answer->copy.group, answer->record_count, slot->match.xid.life, slot->match.xid.counter);
}

/* It cannot come. */
static void give_up(struct run *run, enum mixing_place place, const struct call *call)
{
    struct mixer *mixer = mixer_of(run);
    const int rc = call->network ? call->network : repeat_code(REPEAT_MIX, call->status);
    if (rc == ERR_FORMAT || rc == ERR_PROTOCOL) {
        const struct mix_member none = {0};
        mixing_fetched(&mixer->mixing, place, &none, false, NULL, 0);
    } else {
        mixing_abandon(&mixer->mixing, place);
    }
    (void)trouble_list_clear(&run->troubles, trouble_of(place)); /* nobody depends on it */
}

static void again(struct world *world, struct run *run, enum mixing_place place)
{
    struct mixer *mixer = mixer_of(run);
    mixer->fetch[place].waits = false;
    mixer_refresh(world, run);
}

static void pair_again(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (run && !run->cancelled && mixer_of(run)) {
        again(world, run, MIXING_PAIRS);
    }
}

static void average_again(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (run && !run->cancelled && mixer_of(run)) {
        again(world, run, MIXING_AVERAGES);
    }
}

static void fetched(struct world *world, struct call *call)
{
    struct run *run = run_find(call->owner, call->number);
    struct mixer *mixer = run ? mixer_of(run) : NULL;
    const enum mixing_place place =
        mixer && mixer->fetch[MIXING_PAIRS].call == call ? MIXING_PAIRS : MIXING_AVERAGES;
    if (!mixer || mixer->fetch[place].call != call) {
        return;
    }
    struct mixer_fetch *fetch = &mixer->fetch[place];
    fetch->call = NULL;
    const struct repeat_next next = run_tried(world, run, &fetch->repeat, trouble_of(place), call);
    if (!is_open(world, run, place)) {
        fetch->repeating = false;
    } else if (call->network == 0 && call->status == 200) {
        fetch->repeating = false;
        take_copy(world, run, place, call);
    } else if (next.again) {
        fetch->waits = true;
        world_at(world, run->agent->actor, world->now_us + next.wait_ms * MS,
                 place == MIXING_PAIRS ? pair_again : average_again, run->agent, run->serial);
    } else {
        fetch->repeating = false;
        give_up(run, place, call);
    }
    mixer_refresh(world, run);
}

static void fetch_next(struct world *world, struct run *run, enum mixing_place place)
{
    struct mixer *mixer = mixer_of(run);
    struct mixer_fetch *fetch = &mixer->fetch[place];
    const struct mixing_slot *slot = &mixer->mixing.slot[place];
    if (fetch->call && !is_open(world, run, place)) {
        const int64_t us = world->now_us - fetch->call->answered_us;
        if (us >= MEASURED_US_MIN) {
            note_link(world, run, fetch->call, us);
        }
        net_cancel(world, fetch->call);
        fetch->call = NULL;
        fetch->repeating = false;
    }
    if (fetch->call || fetch->waits || !mixing_fetch(&mixer->mixing, place)) {
        return;
    }
    if (!fetch->repeating || !is_open(world, run, place)) {
        repeat_begin(&fetch->repeat, REPEAT_MIX, run->desired->peer_ms);
        fetch->repeating = true;
    }
    fetch->xid = slot->match.xid;
    fetch->index = slot->fetched;
    fetch->average = slot->match.kind == MIX_ADOPT;
    const struct mix_source *source = &mixer->match[place].source[slot->fetched];
    ASSERT(source->group == slot->match.peer[slot->fetched].group);
    struct call *call =
        net_call(world, CALL_GET_MIX, run->agent->actor, agent_at(world, source->peer.url));
    fetch->call = call;
    call->done = fetched;
    call->owner = run->agent;
    call->number = run->serial;
    call->device = run->agent->id;
    call->timeout_us = repeat_stall_ms(&fetch->repeat) * MS;
    call->body_us = world_draw(world, DRAW_DEVICE, MS, BODY_US);
    call->peer.device = source->peer.device;
    call->peer.job = source->job;
    call->peer.generation = source->job_generation;
    call->peer.xid = slot->match.xid;
    call->peer.average = fetch->average;
    memcpy(call->peer.ticket, source->peer.ticket, TICKET_SIZE);
    speeds_carry(world, call, state_bytes(world, run));
    net_send(world, call);
}

/* ---- an average to the center ---- */

static void send_again(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    struct mixer *mixer = run && !run->cancelled ? mixer_of(run) : NULL;
    if (mixer) {
        mixer->upload.waits = false;
        mixer_refresh(world, run);
    }
}

static void sent(struct world *world, struct call *call)
{
    struct run *run = run_find(call->owner, call->number);
    struct mixer *mixer = run ? mixer_of(run) : NULL;
    if (!mixer || mixer->upload.call != call) {
        return;
    }
    mixer->upload.call = NULL;
    if (call->network != 0 || call->status == 429 || call->status >= 500) {
        mixer->upload.waits = true;
        world_at(world, run->agent->actor, world->now_us + AGAIN_US, send_again, run->agent,
                 run->serial);
    } else if (mix_xid_is(mixer->upload.xid, call->average.xid)) {
        TRACE(world, run->agent->actor, "has sent average %" PRId64 "-%" PRId64 ": %d",
              call->average.xid.life, call->average.xid.counter, call->status);
        mixer->upload.state = MIXER_NO_AVERAGE;
    }
    mixer_refresh(world, run);
}

static void send_average(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    const bool stale =
        mixer->upload.call && (mixer->upload.state != MIXER_SENDS ||
                               !mix_xid_is(mixer->upload.call->average.xid, mixer->upload.xid));
    if (stale) {
        net_cancel(world, mixer->upload.call);
        mixer->upload.call = NULL;
    }
    if (mixer->upload.state != MIXER_SENDS || mixer->upload.call || mixer->upload.waits ||
        !mixing_average_is_logged(&mixer->mixing)) {
        return;
    }
    struct call *call = net_call(world, CALL_PUT_AVERAGE, run->agent->actor, ACTOR_COORDINATOR);
    mixer->upload.call = call;
    call->done = sent;
    call->owner = run->agent;
    call->number = run->serial;
    call->device = run->agent->id;
    memcpy(call->boot, run->agent->boot, ID_SIZE);
    call->body_us = world_draw(world, DRAW_DEVICE, MS, BODY_US);
    call->digest = mix_digest_file(&mixer->average, run->stage.units);
    digest_text(call->digest, call->unit.sha256);
    call->average = (struct stored_average){.job = run->desired->job,
                                            .generation = run->desired->generation,
                                            .xid = mixer->upload.xid,
                                            .loss = mixer->upload.loss,
                                            .accuracy = mixer->upload.accuracy,
                                            .has_accuracy = mixer->upload.tested};
    net_send(world, call);
}

void mixer_go_on(struct world *world, struct run *run)
{
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        fetch_next(world, run, (enum mixing_place)p);
    }
    send_average(world, run);
}

/* ---- the receiver ---- */

static void answer(struct world *world, struct run *run, struct call *call, enum mixing_place place)
{
    const struct mixer *mixer = mixer_of(run);
    const struct mixing *mixing = &mixer->mixing;
    const size_t records = mixing->record_count * sizeof(mixing->record[0]);
    struct mix_answer *answer = malloc(sizeof(*answer) + records);
    ASSERT(answer && !call->mix);
    answer->copy = mixing->slot[place].copy;
    answer->state = call->peer.average ? mixer->average : mixer->own[place];
    answer->record_count = mixing->record_count;
    memcpy(answer->record, mixing->record, records);
    call->mix = answer;
    call->digest = 1; /* its body takes time */
    net_answer(world, call, 200);
}

/* false: the request waits. */
static bool try_answer(struct world *world, struct run *run, struct call *call)
{
    const struct mixer *mixer = mixer_of(run);
    const struct peer_request *peer = &call->peer;
    enum mixing_place place;
    if (call->answered) {
        return true; /* its caller has heard something else */
    }
    enum mixing_verdict verdict = mixing_serve(&mixer->mixing, peer->xid, peer->average, &place);
    if (verdict == MIXING_SERVE && peer->average && !mix_xid_is(peer->xid, mixer->averaged)) {
        verdict = MIXING_PARK; /* the last copy is being added */
    }
    switch (verdict) {
    case MIXING_PARK:
    case MIXING_LATER: return false;
    case MIXING_GONE: net_answer(world, call, 410); return true;
    case MIXING_SERVE: answer(world, run, call, place); return true;
    }
    return true;
}

static void let_go(struct world *world, struct mixer *mixer, size_t at)
{
    struct call *call = mixer->parked[at].call;
    mixer->parked[at].call = NULL;
    net_release(world, call);
}

void mixer_retry(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    for (size_t i = 0; i < MIXER_PARKED_MAX; i++) {
        struct call *call = mixer->parked[i].call;
        if (!call) {
            continue;
        }
        if (try_answer(world, run, call)) {
            let_go(world, mixer, i);
        } else if (mixer->parked[i].deadline_us <= world->now_us) {
            net_answer(world, call, 503);
            let_go(world, mixer, i);
        }
    }
}

static void park_over(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (run && mixer_of(run)) {
        mixer_retry(world, run);
    }
}

void mixer_serve(struct world *world, struct run *run, struct call *call)
{
    struct mixer *mixer = mixer_of(run);
    size_t at = 0;
    if (!mixer) {
        net_answer(world, call, 422);
        return;
    }
    while (at < MIXER_PARKED_MAX && mixer->parked[at].call) {
        at++;
    }
    if (at == MIXER_PARKED_MAX) {
        net_answer(world, call, 503);
    } else if (!try_answer(world, run, call)) {
        net_hold(call);
        mixer->parked[at].call = call;
        mixer->parked[at].deadline_us = world->now_us + repeat_park_ms(run->desired->peer_ms) * MS;
        world_at(world, run->agent->actor, mixer->parked[at].deadline_us, park_over, run->agent,
                 run->serial);
    }
}

void mixer_forget(struct world *world, struct run *run, struct call *call)
{
    struct mixer *mixer = mixer_of(run);
    for (size_t i = 0; mixer && i < MIXER_PARKED_MAX; i++) {
        if (mixer->parked[i].call == call) {
            let_go(world, mixer, i);
        }
    }
}

void mixer_hang_up(struct world *world, struct run *run, struct mixer *mixer)
{
    (void)run;
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        if (mixer->fetch[p].call) {
            net_cancel(world, mixer->fetch[p].call);
            mixer->fetch[p].call = NULL;
        }
    }
    if (mixer->upload.call) {
        net_cancel(world, mixer->upload.call);
        mixer->upload.call = NULL;
    }
    for (size_t i = 0; i < MIXER_PARKED_MAX; i++) {
        if (mixer->parked[i].call) {
            net_answer(world, mixer->parked[i].call, 503);
            let_go(world, mixer, i);
        }
    }
}
