/* The control side and the compute thread of a group's mixes (agent/gossip/mixer*.c). */
#include "tests/sim/mixer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/check_gossip.h"
#include "tests/sim/check_held_out.h"
#include "tests/sim/gossip_jobs.h"
#include "tests/sim/pipeline.h"
#include "tests/sim/trace.h"

#define WAKE_US 50 /* until a stage that waits for orders looks again */

struct mixer *mixer_of(const struct run *run)
{
    return run->desired->has_mix && run->work ? pipeline_of(run)->mixer : NULL;
}

int mixer_new(struct run *run, struct mixer **out, struct err *err)
{
    const struct mix_duty *duty = &run->desired->mix;
    struct mixer *mixer = calloc(1, sizeof(*mixer));
    if (!mixer) {
        return err_set(err, ERR_MEMORY, "mixer");
    }
    mixing_init(&mixer->mixing, duty->group, duty->generation, run->desired->resume_version);
    mixer->rate_step = duty->rate_step > 0 ? duty->rate_step : 1;
    mixer->every = duty->every;
    mixer->holds_out = run->desired->job_spec.test_local.holdout > 0;
    mixer->holds_at = MIXING_NEVER;
    mixer->timer_us = INT64_MAX;
    check_round_begins(&mixer->seen, run->desired->resume_version);
    *out = mixer;
    return 0;
}

void mixer_free(struct world *world, struct run *run, struct mixer **mixer)
{
    if (*mixer) {
        mixer_hang_up(world, run, *mixer);
        free(*mixer);
        *mixer = NULL;
    }
}

/* ---- what is due, and what is news ---- */

static bool is_open(const struct mixing_slot *slot)
{
    return slot->state == MIXING_MATCHED || slot->state == MIXING_COPIED ||
           slot->state == MIXING_FETCHED;
}

/* There is no record of orders that were seen: once per xid is the rule of the core. */
static void take_order(struct world *world, struct run *run, enum mixing_place place)
{
    struct mixer *mixer = mixer_of(run);
    const struct mix_match *match = &mixer->pending[place];
    const int64_t now_ms = world_now_ms(world, run->agent->actor);
    if (!mixer->waits[place]) {
        return;
    }
    const enum mixing_answer answer =
        now_ms < match->deadline_ms ? mixing_take(&mixer->mixing, match) : MIXING_KNOWN;
    mixer->waits[place] = answer == MIXING_FULL || answer == MIXING_BUSY;
    if (answer == MIXING_TAKEN) {
        mixer->match[place] = mixer->order[place];
        TRACE(world, run->agent->actor, "takes %s %" PRId64 "-%" PRId64 " as group %" PRId64,
              mix_kind_names[match->kind], match->xid.life, match->xid.counter, match->own.group);
    }
}

static void find_sum(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    const struct mixing_slot *slot = &mixer->mixing.slot[MIXING_AVERAGES];
    const struct mix_match *match = &slot->match;
    if (slot->state != MIXING_FETCHED || !match->averages ||
        mix_xid_is(match->xid, mixer->averaged)) {
        return;
    }
    mixer->average = (struct mix_state){{0}};
    for (size_t i = 0; i < match->peer_count; i++) {
        const bool own = match->peer[i].group == mixer->mixing.group;
        mix_digest_add(&mixer->average, own ? &mixer->own[MIXING_AVERAGES] : &mixer->peer[i],
                       match->peer[i].weight);
    }
    mixer->averaged = match->xid;
    mixer->upload.state = run->desired->data.test_samples > 0 ? MIXER_EVALUATES : MIXER_SENDS;
    mixer->upload.xid = match->xid;
    mixer->upload.tested = false;
    TRACE(world, run->agent->actor, "computes average %" PRId64 "-%" PRId64 " of %zu copies",
          match->xid.life, match->xid.counter, match->peer_count);
    check_computed(world, run, match->xid, mix_digest_file(&mixer->average, run->stage.units));
}

static bool is_due(const struct mixer *mixer, enum mixing_place place)
{
    const struct mixing_slot *slot = &mixer->mixing.slot[place];
    switch (mixing_due(&mixer->mixing, place)) {
    case MIXING_GO_ON: return false;
    case MIXING_COPY: return true;
    case MIXING_APPLY: return !slot->match.averages || mix_xid_is(slot->match.xid, mixer->averaged);
    }
    return false;
}

/* The newest average was evaluated on what the device holds out, or cannot be: it was to be
 * fetched, and did not come. */
static bool has_tests(const struct mixer *mixer)
{
    const struct mixing_slot *slot = &mixer->mixing.slot[MIXING_AVERAGES];
    const bool tested = mixer->tested.counter > 0 &&
                        mix_xid_is(mixer->tested, mixer->mixing.newest[MIXING_AVERAGES]);
    return tested || (mixer->holds_out && slot->match.kind == MIX_ADOPT &&
                      (slot->state == MIXING_EXPIRED || slot->state == MIXING_REJECTED));
}

static enum mixing_urgency find_news(struct mixer *mixer, const struct run *run)
{
    struct mixer_news news = {.has_tests = has_tests(mixer), .average = mixer->upload.state};
    const bool wants = mixing_wants(&mixer->mixing, run->step, mixer->every);
    mixing_find_news(&mixer->mixing, wants, &news.matches);
    const bool awaited =
        mixer->told.average != news.average || mixer->told.has_tests != news.has_tests;
    const enum mixing_urgency urgency =
        awaited ? MIXING_NOW : mixing_compare(&mixer->told.matches, &news.matches);
    mixer->told = news;
    return urgency;
}

static void tell(struct world *world, struct run *run, enum mixing_urgency urgency)
{
    const struct agent *agent = run->agent;
    const enum session_event_type type =
        urgency == MIXING_NOW ? SESSION_MIX_AWAITED : SESSION_MIX_CHANGED;
    for (size_t i = 0; i < agent->event_count; i++) {
        if (agent->event[i].type == type) {
            return;
        }
    }
    agent_tell(world, run->agent, type);
}

static void time_over(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    struct mixer *mixer = run && !run->cancelled ? mixer_of(run) : NULL;
    if (mixer) {
        mixer->timer_us = INT64_MAX;
        mixer_refresh(world, run);
    }
}

static void set_timer(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    const int actor = run->agent->actor;
    int64_t at_ms = MIXING_NEVER;
    if (mixer->pace == MIXING_SLOWS) {
        at_ms = mixing_slows_until_ms(&mixer->mixing, mixer->every, world_now_ms(world, actor));
    }
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        const struct mixing_slot *slot = &mixer->mixing.slot[p];
        at_ms = is_open(slot) && slot->match.deadline_ms < at_ms ? slot->match.deadline_ms : at_ms;
    }
    const int64_t at_us = at_ms == MIXING_NEVER ? INT64_MAX : world_when_us(world, actor, at_ms);
    if (at_us < mixer->timer_us) {
        mixer->timer_us = at_us;
        world_at(world, actor, at_us, time_over, run->agent, run->serial);
    }
}

static void wake(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    struct mixer *mixer = run && !run->cancelled ? mixer_of(run) : NULL;
    if (!mixer) {
        return;
    }
    mixer->woken = false;
    if (run->state == RUN_STOPPED) {
        mixer_boundary(world, run);
    } else {
        run->row->go_on(world, run);
    }
}

/* It may make a step again, or has work, and waits. */
static void wake_soon(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    mixer->goes_on = false;
    if (!run->computing) {
        mixer->woken = true;
        world_at(world, run->agent->actor, world->now_us + WAKE_US, wake, run->agent, run->serial);
    }
}

void mixer_refresh(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    mixing_tick(&mixer->mixing, world_now_ms(world, run->agent->actor));
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        take_order(world, run, (enum mixing_place)p);
    }
    find_sum(world, run);
    bool due = mixer->upload.state == MIXER_EVALUATES || mixer->to_probe.counter > 0 ||
               mixer->to_test.counter > 0;
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        due = due || is_due(mixer, (enum mixing_place)p);
    }
    const int64_t now_ms = world_now_ms(world, run->agent->actor);
    mixing_reach(&mixer->mixing, run->step, mixer->every, mixer->pace, now_ms);
    const int64_t holds_at = mixing_holds_at(&mixer->mixing, mixer->every, mixer->pace, now_ms);
    mixer->goes_on = mixer->goes_on || mixer->holds_at < holds_at;
    mixer->holds_at = holds_at;
    if ((due || mixer->goes_on) && !mixer->woken) {
        wake_soon(world, run);
    }
    const enum mixing_urgency urgency = find_news(mixer, run);
    if (urgency != MIXING_OLD) {
        tell(world, run, urgency);
        mixer_retry(world, run);
    }
    mixer_go_on(world, run);
    set_timer(world, run);
}

/* ---- the control side ---- */

static struct mix_match match_of(const struct mixer *mixer, const struct mix_order *order,
                                 int64_t now_ms)
{
    struct mix_match match = {
        .xid = order->xid,
        .kind = order->kind,
        .own = {.group = mixer->mixing.group, .generation = mixer->mixing.generation},
        .averages = order->averages,
        .peer_count = order->source_count,
        .alpha = order->alpha,
        .statistics_alpha = order->statistics_alpha,
        .rate_step = order->rate_step,
        .deadline_ms = now_ms + order->left_ms,
    };
    for (size_t i = 0; i < order->source_count; i++) {
        const struct mix_source *source = &order->source[i];
        match.peer[i] = (struct mix_member){
            .group = source->group, .generation = source->generation, .weight = source->weight};
    }
    return match;
}

static bool stands(const struct mix_duty *duty, struct mix_xid xid)
{
    bool found = false;
    for (size_t i = 0; i < duty->order_count; i++) {
        found = found || (duty->order[i].averages && mix_xid_is(duty->order[i].xid, xid));
    }
    return found;
}

void mixer_take(struct world *world, struct run *run, const struct mix_duty *duty)
{
    struct mixer *mixer = mixer_of(run);
    if (!mixer || duty->group != mixer->mixing.group ||
        duty->generation != mixer->mixing.generation) {
        return;
    }
    mixer->every = duty->every;
    mixer->pace = mixing_pace_of(duty);
    mixer->probes = duty->probes;
    mixing_pass(&mixer->mixing, duty->passed);
    mixing_stand(&mixer->mixing, duty);
    check_round_duty(world, run, &mixer->seen, duty);
    for (size_t i = 0; i < duty->order_count; i++) {
        const struct mix_order *order = &duty->order[i];
        const size_t place = order->kind == MIX_PAIR ? MIXING_PAIRS : MIXING_AVERAGES;
        mixer->order[place] = *order;
        mixer->pending[place] = match_of(mixer, order, world_now_ms(world, run->agent->actor));
        mixer->waits[place] = true;
    }
    if (mixer->upload.state != MIXER_NO_AVERAGE && !stands(duty, mixer->upload.xid)) {
        mixer->upload.state = MIXER_NO_AVERAGE;
    }
    mixer_refresh(world, run);
    mixer_retry(world, run); /* a request may wait for a match that was not known */
}

void mixer_stored(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    if (!mixer || mixer->reported.generation != mixer->mixing.generation) {
        return;
    }
    const size_t before = mixer->mixing.record_count;
    check_acknowledged(world, run, &mixer->reported);
    for (size_t i = 0; i < mixer->reported.record_count; i++) {
        mixing_acknowledge(&mixer->mixing, &mixer->reported.record[i]);
    }
    mixer->reported.record_count = 0;
    mixer_refresh(world, run);
    pipeline_settled(world, run);
    if (mixer->mixing.record_count > 0 && mixer->mixing.record_count < before) {
        tell(world, run, MIXING_NOW);
    }
}

static struct mix_status status_of(const struct mixer *mixer, enum mixing_place place)
{
    const struct mixing_slot *slot = &mixer->mixing.slot[place];
    return (struct mix_status){.xid = mixer->mixing.newest[place],
                               .state = (int)slot->state,
                               .copied = slot->has_copy,
                               .seconds = slot->state == MIXING_APPLIED ? 0.01 : 0};
}

void mixer_report(struct mixer *mixer, const struct run *run, struct heartbeat *out)
{
    const struct mixing *mixing = &mixer->mixing;
    struct mix_report *report = &out->mix;
    out->has_mix = true;
    *report =
        (struct mix_report){.group = mixing->group,
                            .generation = mixing->generation,
                            .wants = mixing_wants(&mixer->mixing, run->step, mixer->every),
                            .mixes = mixing->mixes,
                            .pair = status_of(mixer, MIXING_PAIRS),
                            .average = status_of(mixer, MIXING_AVERAGES),
                            .has_loss = mixer->probed.counter > 0 &&
                                        mix_xid_is(mixer->probed, mixing->newest[MIXING_AVERAGES]),
                            .loss = mixer->loss,
                            .has_tests = has_tests(mixer)};
    if (mixer->tested.counter > 0 && mix_xid_is(mixer->tested, mixing->newest[MIXING_AVERAGES])) {
        report->tests = mixer->tests;
    }
    if (mixing_lacks(mixing) >= 0) {
        report->has_lacks = true;
        report->lacks = mixing_lacks(mixing);
    }
    for (size_t i = 0; i < mixing->record_count && i < MIX_REPORTED_MAX; i++) {
        report->record[report->record_count++] = mixing->record[i];
    }
    mixer->reported = *report;
}

/* ---- the compute thread ---- */

/* The average on what its device holds out: each has other figures of it. */
static void test(struct world *world, struct run *run, struct mix_xid xid)
{
    struct mixer *mixer = mixer_of(run);
    const uint64_t file = mix_digest_file(&mixer->average, run->stage.units);
    const uint64_t bits = digest_mix(file, run->agent->index);
    const int64_t samples = run->desired->data.test_samples;
    mixer->tested = xid;
    mixer->tests = (struct mix_tests){.samples = samples,
                                      .correct = (int64_t)(bits % (uint64_t)(samples + 1)),
                                      .loss = (double)(bits / 1000 % 1000)};
    check_evaluated(world, run, xid, &mixer->tests);
}

static void evaluate(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    const uint64_t file = mix_digest_file(&mixer->average, run->stage.units);
    if (mixer->holds_out) {
        test(world, run, mixer->upload.xid);
    }
    mixer->upload.tested = !mixer->holds_out;
    mixer->upload.loss = (double)(file % 1000) / 100;
    mixer->upload.accuracy = (double)(file / 1000 % 1000) / 1000;
    mixer->upload.state = MIXER_SENDS;
}

/* Between the copy and whatever changes the state. */
static void probe(struct mixer *mixer)
{
    mixer->loss = (double)(mixer->own[MIXING_AVERAGES].unit[0] % 1000) / 250;
    mixer->probed = mixer->to_probe;
    mixer->to_probe = (struct mix_xid){0};
}

/* A copy for an average of itself alone is good: else the job could not end, as a job of weights
 * that are not finite fails by its loss. */
static void copy(struct world *world, struct run *run, enum mixing_place place)
{
    struct mixer *mixer = mixer_of(run);
    const struct mix_match *match = &mixer->mixing.slot[place].match;
    const bool alone = match->averages && match->peer_count == 1;
    memcpy(mixer->own[place].unit, run->stage.state, sizeof(mixer->own[place].unit));
    mixing_copied(&mixer->mixing, place, run->step,
                  place == MIXING_PAIRS || alone || !gossip_spoils(world, run->agent));
    if (place == MIXING_AVERAGES && mixer->probes) {
        mixer->to_probe = mixer->mixing.slot[place].match.xid;
        mixer->probed = (struct mix_xid){0};
    }
    TRACE(world, run->agent->actor, "copies step %" PRId64 " for %" PRId64 "-%" PRId64, run->step,
          mixer->mixing.slot[place].match.xid.life, mixer->mixing.slot[place].match.xid.counter);
}

static void apply(struct world *world, struct run *run, enum mixing_place place)
{
    struct mixer *mixer = mixer_of(run);
    const struct mix_match match = mixer->mixing.slot[place].match;
    const bool moves = mix_match_moves(&match);
    const struct mix_share share = {match.xid, match.alpha, match.statistics_alpha};
    if (moves && mixer->closed) {
        mixing_abandon(&mixer->mixing, place);
        return;
    }
    if (match.kind == MIX_ADOPT && mixer->holds_out && !mixer->closed) {
        mixer->to_test = match.xid;
    }
    if (moves) {
        check_applied(world, run, &mixer->mixing, place);
    }
    mixing_applied(&mixer->mixing, place, run->step);
    if (!moves) {
        return;
    }
    check_round_mixed(&mixer->seen, run->step);
    const struct mix_state *peer = place == MIXING_PAIRS ? &mixer->other : &mixer->average;
    mix_digest_move(&run->stage, &mixer->own[place], peer, &share);
    mixer->rate_step = match.rate_step > 0 ? match.rate_step : 1;
    TRACE(world, run->agent->actor, "applies %s %" PRId64 "-%" PRId64 " after step %" PRId64,
          mix_kind_names[match.kind], match.xid.life, match.xid.counter, run->step);
}

/* One thing that is due; false: there is nothing. */
static bool work(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    if (mixer->to_probe.counter > 0) {
        probe(mixer);
        return true;
    }
    if (mixer->upload.state == MIXER_EVALUATES) {
        evaluate(world, run);
        return true;
    }
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        const enum mixing_place place = (enum mixing_place)p;
        if (is_due(mixer, place)) {
            if (mixing_due(&mixer->mixing, place) == MIXING_COPY) {
                copy(world, run, place);
            } else {
                apply(world, run, place);
            }
            return true;
        }
    }
    if (mixer->to_test.counter > 0) {
        const struct mix_xid xid = mixer->to_test;
        mixer->to_test = (struct mix_xid){0};
        test(world, run, xid);
        return true;
    }
    return false;
}

void mixer_boundary(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    if (!mixer) {
        return;
    }
    mixer->woken = true; /* it is at a boundary already */
    do {
        mixer_refresh(world, run);
    } while (work(world, run));
    mixer->woken = false;
    if (mixer->goes_on) {
        wake_soon(world, run);
    }
}

bool mixer_holds(const struct run *run)
{
    const struct mixer *mixer = mixer_of(run);
    return mixer && run->step >= mixer->holds_at;
}

void mixer_close(struct world *world, struct run *run)
{
    struct mixer *mixer = mixer_of(run);
    if (mixer) {
        mixer->closed = true;
        mixer->to_test = (struct mix_xid){0};
        if (!mixing_is_logged(&mixer->mixing)) {
            tell(world, run, MIXING_NOW); /* its stop waits for the records */
        }
        mixer_refresh(world, run);
    }
}
