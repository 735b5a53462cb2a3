#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/gossip/mixer_parts.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "base/size.h"
#include "libtrain/memory/arena.h"

#define ALIGNMENT 64
#define MIXER_TEXTS_MAX (2 * MIXER_WORKERS_MAX + 1) /* header buffers: two per thread */
#define ALIGNED_FLOATS (ALIGNMENT / sizeof(float))

/* ---- memory ---- */

/* scratch: floats of the largest tensor that an export transposes. */
static size_t floats_of(size_t floats, size_t scratch, size_t groups)
{
    const size_t slabs = mix_states(groups, floats * sizeof(float));
    const size_t turned = scratch > floats ? scratch - floats : 0;
    return slabs * size_align(floats, ALIGNED_FLOATS) + size_align(turned, ALIGNED_FLOATS);
}

static size_t largest_tensor(const struct model *model)
{
    size_t most = 0;
    for (size_t u = 0; u < model->unit_count; u++) {
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            const struct op *op = &model->unit[u].op[k];
            for (size_t t = 0; t < op->tensor_count; t++) {
                most = op->tensor[t].elements > most ? op->tensor[t].elements : most;
            }
        }
    }
    return most;
}

uint64_t mixer_bytes(const struct model *model, const struct mix_duty *duty)
{
    const struct arena_request request = {.end = model->unit_count, .micro_batch = 1};
    struct arena *arena AUTO(arena_free) = NULL;
    if (arena_new(model, &request, &arena, NULL) != 0) {
        return 0;
    }
    const size_t floats = (size_t)(arena->trained_floats + arena->buffer_floats);
    return floats_of(floats, largest_tensor(model), (size_t)duty->groups) * sizeof(float) +
           sizeof(struct mixer) + (MIXER_WORKERS_MAX + 1) * sizeof(struct mix_note) +
           MIXER_TEXTS_MAX * (MIX_BODY_HEADER_MAX + 1) + RECEIVES_MAX * MIX_BODY_KEPT_MAX;
}

/* Allocate all slabs and the buffers of the threads in one block. The scratch may be larger and is
 * at the end. */
static int make_slabs(struct mixer *mixer, struct err *err)
{
    const size_t scratch = train_scratch_floats(mixer->train);
    const size_t bytes = floats_of(mixer->floats, scratch, mixer->groups) * sizeof(float);
    const size_t slabs = mix_copies(mixer->groups);
    const size_t states = mix_states(mixer->groups, mixer->floats * sizeof(float));
    mixer->memory = aligned_alloc(ALIGNMENT, bytes);
    if (!mixer->memory) {
        return err_set(err, ERR_MEMORY, "%zu bytes for copies of the state", bytes);
    }
    /* Padding is never written, but must be finite. */
    memset(mixer->memory, 0, bytes);
    const size_t stride = size_align(mixer->floats, ALIGNED_FLOATS);
    size_t place = 0;
    for (size_t s = 0; s < slabs; s++) {
        mixer->slab[s].data = mixer->memory + (s == MIXER_SUM ? states - 1 : place++) * stride;
    }
    for (size_t w = MIXING_AVERAGES; place + 1 < states; w++) {
        mixer->worker[w].buffer = mixer->memory + place++ * stride;
    }
    return 0;
}

static int make_worker(struct mixer *mixer, struct mixer_worker *worker, struct err *err)
{
    const size_t index = (size_t)(worker - mixer->worker);
    worker->mixer = mixer;
    worker->place = index == MIXING_PAIRS ? MIXING_PAIRS : MIXING_AVERAGES;
    worker->fetches = index > MIXING_AVERAGES;
    buf_init(&worker->head, MIX_BODY_HEADER_MAX);
    buf_init(&worker->text, MIX_BODY_HEADER_MAX);
    worker->note = calloc(1, sizeof(*worker->note));
    if (!worker->note) {
        return err_set(err, ERR_MEMORY, "records of mixes");
    }
    return reach_caller_init(&worker->caller, err);
}

static int fill(struct mixer *mixer, struct err *err)
{
    const struct assignment_run *run = mixer->config.work->run;
    const struct mix_duty *duty = &run->mix;
    mixer->work = *mixer->config.work;
    mixer->work.run = NULL;
    mixer->config.work = NULL;
    mixer->job = run->job;
    mixer->generation = run->generation;
    mixer->peer_ms = run->peer_ms;
    mixer->spec = keeper_config(mixer->config.keeper)->spec;
    mixer->train = keeper_train(mixer->config.keeper);
    mixer->cancel = keeper_cancelled(mixer->config.keeper);
    mixer->state = train_state(mixer->train);
    mixer->body = (struct mix_body){mixer->state.parameters, mixer->state.statistics};
    mixer->floats = mixer->body.parameters + mixer->body.statistics;
    mixer->groups = (size_t)duty->groups;
    mixer->holds_out = mixer->config.evaluate && mixer->spec->test_local.holdout > 0;
    atomic_init(&mixer->holds_at, MIXING_NEVER);
    atomic_init(&mixer->version, run->resume_version);
    mixer->steps = duty->steps;
    atomic_init(&mixer->rate_step, duty->rate_step > 0 ? duty->rate_step : 1);
    mixing_init(&mixer->mixing, duty->group, duty->generation, run->resume_version);
    buf_init(&mixer->served_text, MIX_BODY_HEADER_MAX);
    for (size_t i = 0; i < RECEIVES_MAX; i++) {
        buf_init(&mixer->header[i].text, 2 * MIX_BODY_HEADER_MAX);
    }
    mixer->served = calloc(1, sizeof(*mixer->served));
    if (!mixer->served) {
        return err_set(err, ERR_MEMORY, "records of mixes");
    }
    mixer->workers = MIXING_PLACES - 1 + mix_fetches(mixer->groups, mixer->floats * sizeof(float));
    int rc = make_slabs(mixer, err);
    for (size_t w = 0; rc == 0 && w < mixer->workers; w++) {
        rc = make_worker(mixer, &mixer->worker[w], err);
    }
    if (rc == 0) {
        mixer_take(mixer, duty);
    }
    return rc;
}

int mixer_new(const struct mixer_config *config, struct mixer **out, struct err *err)
{
    struct mixer *mixer = calloc(1, sizeof(*mixer));
    if (!mixer || pthread_mutex_init(&mixer->lock, NULL) != 0) {
        free(mixer);
        return err_set(err, ERR_MEMORY, "mixes");
    }
    int rc = thread_condition_init(&mixer->changed, err);
    if (rc != 0) {
        (void)pthread_mutex_destroy(&mixer->lock);
        free(mixer);
        return rc;
    }
    mixer->config = *config;
    rc = fill(mixer, err);
    if (rc != 0) {
        mixer_free(&mixer);
        return rc;
    }
    *out = mixer;
    return 0;
}

void mixer_free(struct mixer **pointer)
{
    struct mixer *mixer = *pointer;
    if (!mixer) {
        return;
    }
    for (size_t w = 0; w < mixer->workers; w++) {
        reach_caller_done(&mixer->worker[w].caller);
        buf_done(&mixer->worker[w].head);
        buf_done(&mixer->worker[w].text);
        free(mixer->worker[w].note);
    }
    (void)pthread_cond_destroy(&mixer->changed);
    (void)pthread_mutex_destroy(&mixer->lock);
    for (size_t i = 0; i < RECEIVES_MAX; i++) {
        buf_done(&mixer->header[i].text);
    }
    buf_done(&mixer->served_text);
    free(mixer->served);
    free(mixer->memory);
    free(mixer);
    *pointer = NULL;
}

int mixer_start(struct mixer *mixer, struct err *err)
{
    int rc = 0;
    for (size_t w = 0; rc == 0 && w < mixer->workers; w++) {
        struct mixer_worker *worker = &mixer->worker[w];
        rc = thread_start(&worker->thread, mixer_work, worker, err);
        worker->started = rc == 0;
    }
    return rc;
}

void mixer_cancel(struct mixer *mixer)
{
    (void)pthread_mutex_lock(&mixer->lock);
    (void)pthread_cond_broadcast(&mixer->changed);
    (void)pthread_mutex_unlock(&mixer->lock);
    work_has_room(mixer->work.room_fd);
}

void mixer_stop(struct mixer *mixer)
{
    for (size_t w = 0; w < mixer->workers; w++) {
        struct mixer_worker *worker = &mixer->worker[w];
        if (worker->started) {
            (void)pthread_join(worker->thread, NULL);
            worker->started = false;
        }
    }
}

bool mixer_is_cancelled(const struct mixer *mixer)
{
    return cancel_is_set(mixer->cancel);
}

/* ---- what is due, and what is news ---- */

static enum mixing_place place_of(int kind)
{
    return kind == MIX_PAIR ? MIXING_PAIRS : MIXING_AVERAGES;
}

/* Take an order that is known, as soon as there is room for it. */
static void take_order(struct mixer *mixer, enum mixing_place place, int64_t now_ms)
{
    struct mixer_order *seen = &mixer->order[place];
    const struct mix_order *order = &seen->order;
    if (!seen->waits) {
        return;
    }
    struct mix_match match = {
        .xid = order->xid,
        .kind = order->kind,
        .own = {.group = mixer->mixing.group, .generation = mixer->mixing.generation},
        .averages = order->averages,
        .peer_count = order->source_count,
        .alpha = order->alpha,
        .statistics_alpha = order->statistics_alpha,
        .rate_step = order->rate_step,
        .deadline_ms = seen->deadline_ms,
    };
    for (size_t i = 0; i < order->source_count; i++) {
        const struct mix_source *source = &order->source[i];
        match.peer[i] = (struct mix_member){
            .group = source->group, .generation = source->generation, .weight = source->weight};
    }
    const enum mixing_answer answer =
        now_ms < seen->deadline_ms ? mixing_take(&mixer->mixing, &match) : MIXING_KNOWN;
    seen->waits = answer == MIXING_FULL || answer == MIXING_BUSY;
    if (answer == MIXING_TAKEN) {
        mixer->match[place] = *order;
        mixer->seconds[place] = 0;
        (void)pthread_cond_broadcast(&mixer->changed);
    }
}

static bool is_due(struct mixer *mixer, enum mixing_place place)
{
    const struct mixing_slot *slot = &mixer->mixing.slot[place];
    struct mixer_slab *copy = mixer_copy(mixer, place);
    switch (mixing_due(&mixer->mixing, place)) {
    case MIXING_GO_ON: return false;
    case MIXING_COPY: copy->wanted = copy->readers > 0; return !copy->wanted;
    case MIXING_APPLY: return !slot->match.averages || mix_xid_is(slot->match.xid, mixer->averaged);
    }
    return false;
}

/* Return whether the newest average was evaluated on the device's hold-out. */
static bool tests_newest(const struct mixer *mixer)
{
    return mixer->tested.counter > 0 &&
           mix_xid_is(mixer->tested, mixer->mixing.newest[MIXING_AVERAGES]);
}

/* Return whether it cannot be evaluated, because its fetch has failed. */
static bool lacks_newest(const struct mixer *mixer)
{
    const struct mixing_slot *slot = &mixer->mixing.slot[MIXING_AVERAGES];
    return mixer->holds_out && slot->match.kind == MIX_ADOPT &&
           (slot->state == MIXING_EXPIRED || slot->state == MIXING_REJECTED);
}

static struct mixer_news find_news(const struct mixer *mixer, int64_t wants_at)
{
    struct mixer_news news = {.has_distance = mixer->distance_xid.counter > 0,
                              .has_loss = mixer->probed.counter > 0,
                              .has_tests = tests_newest(mixer) || lacks_newest(mixer),
                              .average = mixer->average.state};
    mixing_find_news(&mixer->mixing, atomic_load(&mixer->version) >= wants_at, &news.matches);
    return news;
}

static enum mixing_urgency compare(const struct mixer_news *told, const struct mixer_news *news)
{
    const enum mixing_urgency matches = mixing_compare(&told->matches, &news->matches);
    if (told->has_loss != news->has_loss || told->has_tests != news->has_tests ||
        told->average != news->average) {
        return MIXING_NOW;
    }
    return matches == MIXING_OLD && told->has_distance != news->has_distance ? MIXING_SOON
                                                                             : matches;
}

struct mixer_signals mixer_refresh(struct mixer *mixer)
{
    struct mixing *mixing = &mixer->mixing;
    const int64_t now_ms = clock_now_ms();
    mixing_tick(mixing, now_ms);
    bool due = mixer->average.state == AVERAGE_TO_EVALUATE || mixer->to_test.counter > 0;
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        take_order(mixer, (enum mixing_place)p, now_ms);
    }
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        due = is_due(mixer, (enum mixing_place)p) || due;
    }
    mixing_reach(mixing, atomic_load(&mixer->version), mixer->every, mixer->pace, now_ms);
    const int64_t next = mixing_due_at(mixing, mixer->every);
    const int64_t wants_at = mixing_wants(mixing, next, mixer->every) ? next : MIXING_NEVER;
    const struct mixer_news news = find_news(mixer, wants_at);
    const enum mixing_urgency urgency = compare(&mixer->told, &news);
    const bool slows = mixer->pace == MIXING_SLOWS && !mixing_is_reached(mixing, mixer->every);
    atomic_store(&mixer->wants_at, slows ? next : news.matches.wants ? MIXING_NEVER : wants_at);
    const int64_t holds_at = mixing_holds_at(mixing, mixer->every, mixer->pace, now_ms);
    const bool goes_on = atomic_exchange(&mixer->holds_at, holds_at) < holds_at;
    mixer->told = news;
    if (urgency != MIXING_OLD) {
        (void)pthread_cond_broadcast(&mixer->changed);
    }
    return (struct mixer_signals){.wake = (!atomic_exchange(&mixer->due, due) && due) || goes_on,
                                  .report = urgency,
                                  .room = urgency != MIXING_OLD};
}

void mixer_tell(struct mixer *mixer, struct mixer_signals signals)
{
    if (signals.wake && mixer->config.wake) {
        mixer->config.wake(mixer->config.arg);
    }
    if (signals.room) {
        work_has_room(mixer->work.room_fd);
    }
    if (signals.report != MIXING_OLD && mixer->work.mix_changed) {
        mixer->work.mix_changed(mixer->work.arg, signals.report == MIXING_NOW);
    }
}

/* ---- the control side ---- */

static bool stands(const struct mix_duty *duty, struct mix_xid xid)
{
    bool found = false;
    for (size_t i = 0; i < duty->order_count; i++) {
        found = found || (duty->order[i].averages && mix_xid_is(duty->order[i].xid, xid));
    }
    return found;
}

static bool is_same(const struct mix_order *a, const struct mix_order *b)
{
    return mix_xid_is(a->xid, b->xid) && a->kind == b->kind && a->averages == b->averages;
}

static void see_order(struct mixer *mixer, const struct mix_order *order)
{
    struct mixer_order *seen = &mixer->order[place_of(order->kind)];
    const bool older = mix_xid_after(seen->order.xid, order->xid);
    if (older || is_same(order, &seen->order) || order->source_count > mixer->groups) {
        return;
    }
    seen->order = *order;
    seen->deadline_ms = clock_now_ms() + order->left_ms;
    seen->waits = true;
}

void mixer_take(struct mixer *mixer, const struct mix_duty *duty)
{
    struct mixer_average *average = &mixer->average;
    struct mixer_signals signals = {0};
    (void)pthread_mutex_lock(&mixer->lock);
    if (duty->group == mixer->mixing.group && duty->generation == mixer->mixing.generation) {
        mixer->every = duty->every;
        mixer->pace = mixing_pace_of(duty);
        mixer->probes = duty->probes;
        mixing_pass(&mixer->mixing, duty->passed);
        mixing_stand(&mixer->mixing, duty);
        for (size_t i = 0; i < duty->order_count; i++) {
            see_order(mixer, &duty->order[i]);
        }
        if (average->state != AVERAGE_NONE && !stands(duty, average->xid)) {
            const bool evaluates = average->state == AVERAGE_EVALUATING;
            average->state = evaluates ? AVERAGE_EVALUATING : AVERAGE_NONE;
            average->xid = (struct mix_xid){0};
        }
        signals = mixer_refresh(mixer);
        signals.room = true; /* a parked request may have waited for this match */
    }
    (void)pthread_mutex_unlock(&mixer->lock);
    mixer_tell(mixer, signals);
}

void mixer_stored(struct mixer *mixer, const struct mix_report *report)
{
    struct mixing *mixing = &mixer->mixing;
    struct mixer_signals signals = {0};
    (void)pthread_mutex_lock(&mixer->lock);
    if (report->group == mixing->group && report->generation == mixing->generation) {
        const size_t before = mixing->record_count;
        for (size_t i = 0; i < report->record_count; i++) {
            mixing_acknowledge(mixing, &report->record[i]);
        }
        (void)pthread_cond_broadcast(&mixer->changed); /* an average may be sent now */
        signals = mixer_refresh(mixer);
        if (mixing->record_count > 0 && mixing->record_count < before) {
            signals.report = MIXING_NOW;
        }
        signals.wake = signals.wake || (before > 0 && mixing_is_logged(mixing));
    }
    (void)pthread_mutex_unlock(&mixer->lock);
    mixer_tell(mixer, signals);
}

_Static_assert((int)MIX_NONE == (int)MIXING_NONE && (int)MIX_COPIED == (int)MIXING_COPIED &&
                   (int)MIX_FETCHED == (int)MIXING_FETCHED &&
                   (int)MIX_APPLIED == (int)MIXING_APPLIED &&
                   (int)MIX_REJECTED == (int)MIXING_REJECTED,
               "states are reported by their numbers");

static struct mix_status status_of(const struct mixer *mixer, enum mixing_place place)
{
    const struct mixing_slot *slot = &mixer->mixing.slot[place];
    /* The group has all copies, but has not added all of them yet. */
    const bool adds = slot->state == MIXING_FETCHED && slot->match.averages &&
                      !mix_xid_is(slot->match.xid, mixer->averaged);
    return (struct mix_status){
        .xid = mixer->mixing.newest[place],
        .state = adds ? (int)MIX_COPIED : (int)slot->state,
        .copied = slot->has_copy,
        .seconds = slot->state == MIXING_APPLIED ? mixer->seconds[place] : 0,
    };
}

void mixer_report(struct mixer *mixer, struct heartbeat *out)
{
    const struct mixing *mixing = &mixer->mixing;
    (void)pthread_mutex_lock(&mixer->lock);
    struct mixer_signals signals = mixer_refresh(mixer);
    signals.report = MIXING_OLD; /* this report contains the news */
    struct mix_report *report = &out->mix;
    const int64_t lacks = mixing_lacks(mixing);
    out->has_mix = true;
    *report = (struct mix_report){
        .group = mixing->group,
        .generation = mixing->generation,
        .wants = mixing_wants(mixing, atomic_load(&mixer->version), mixer->every),
        .mixes = mixing->mixes,
        .pair = status_of(mixer, MIXING_PAIRS),
        .average = status_of(mixer, MIXING_AVERAGES),
        .has_loss =
            mixer->probed.counter > 0 && mix_xid_is(mixer->probed, mixing->newest[MIXING_AVERAGES]),
        .loss = mixer->loss,
        .has_tests = tests_newest(mixer) || lacks_newest(mixer),
        .tests = tests_newest(mixer) ? mixer->tests : (struct mix_tests){0},
        .has_lacks = lacks >= 0,
        .lacks = lacks < 0 ? 0 : lacks,
        .has_distance = mixer->distance_xid.counter > 0 &&
                        mix_xid_is(mixer->distance_xid, mixing->newest[MIXING_AVERAGES]),
        .distance = mixer->distance,
        .gap_seconds = mixer->gap_seconds,
    };
    for (size_t i = 0; i < mixing->record_count && i < MIX_REPORTED_MAX; i++) {
        report->record[report->record_count++] = mixing->record[i];
    }
    (void)pthread_mutex_unlock(&mixer->lock);
    mixer_tell(mixer, signals);
}

bool mixer_sends(struct mixer *mixer, struct mix_xid xid)
{
    (void)pthread_mutex_lock(&mixer->lock);
    const struct mixer_average *average = &mixer->average;
    const bool sends = average->state == AVERAGE_TO_SEND && mix_xid_is(average->xid, xid);
    (void)pthread_mutex_unlock(&mixer->lock);
    return sends && !mixer_is_cancelled(mixer);
}
