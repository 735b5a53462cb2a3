#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "agent/gossip/mixer_parts.h"
#include "base/clock.h"
#include "base/log.h"

bool mixer_is_due(struct mixer *mixer, int64_t version)
{
    atomic_store(&mixer->version, version);
    return atomic_load(&mixer->due) || version >= atomic_load(&mixer->wants_at);
}

bool mixer_holds(const struct mixer *mixer, int64_t version)
{
    return version >= atomic_load(&mixer->holds_at);
}

double mixer_rate(const struct mixer *mixer)
{
    return learning_rate_at(&mixer->spec->learning_rate, atomic_load(&mixer->rate_step),
                            mixer->steps);
}

static void save(const struct mixer *mixer, float *out)
{
    const struct train_state to = mixer_state_of(mixer, out);
    const struct train_state *from = &mixer->state;
    if (from->parameters > 0) {
        memcpy(to.parameter, from->parameter, from->parameters * sizeof(float));
    }
    if (from->statistics > 0) {
        memcpy(to.statistic, from->statistic, from->statistics * sizeof(float));
    }
}

static void restore(struct mixer *mixer, float *data)
{
    const struct train_state from = mixer_state_of(mixer, data);
    const struct train_state *to = &mixer->state;
    if (to->parameters > 0) {
        memcpy(to->parameter, from.parameter, to->parameters * sizeof(float));
    }
    if (to->statistics > 0) {
        memcpy(to->statistic, from.statistic, to->statistics * sizeof(float));
    }
    train_state_changed(mixer->train);
}

/* Each of the following functions is called and returns under the lock, but works without it. The
 * state of the match keeps other threads away from the data in use. */

/* Evaluate with the average in place of the state. The state is restored exactly. */
static bool evaluate_average(struct mixer *mixer, struct mix_figures *out)
{
    float *own = mixer_scratch(mixer)->data;
    *out = (struct mix_figures){.loss = NAN, .accuracy = NAN};
    (void)pthread_mutex_unlock(&mixer->lock);
    save(mixer, own);
    restore(mixer, mixer->slab[MIXER_AVERAGE].data);
    const bool evaluated = mixer->config.evaluate(mixer->config.arg, out);
    restore(mixer, own);
    (void)pthread_mutex_lock(&mixer->lock);
    return evaluated && isfinite(out->loss) && isfinite(out->accuracy);
}

/* Note the sums of an evaluation on the device's hold-out, for the report. */
static void note_tests(struct mixer *mixer, struct mix_xid xid, bool evaluated,
                       const struct mix_figures *figures)
{
    mixer->tested = xid;
    mixer->tests = evaluated ? figures->sums : (struct mix_tests){0};
}

/* Evaluate this group's average. It is not sent before, because both need the scratch. */
static void evaluate_own(struct mixer *mixer)
{
    struct mixer_average *average = &mixer->average;
    const struct mix_xid xid = average->xid;
    struct mix_figures figures;
    average->state = AVERAGE_EVALUATING;
    const bool evaluated = evaluate_average(mixer, &figures);
    if (mixer->holds_out) {
        note_tests(mixer, xid, evaluated, &figures);
    }
    average->tested = evaluated && !mixer->holds_out;
    average->test_loss = figures.loss;
    average->test_accuracy = figures.accuracy;
    average->state = average->xid.counter > 0 ? AVERAGE_TO_SEND : AVERAGE_NONE;
}

/* Evaluate a fetched average. Counting as a reader keeps it unchanged. */
static void evaluate_fetched(struct mixer *mixer)
{
    struct mix_figures figures;
    const struct mix_xid xid = mixer->to_test;
    mixer->slab[MIXER_AVERAGE].readers++;
    const bool evaluated = evaluate_average(mixer, &figures);
    mixer->slab[MIXER_AVERAGE].readers--;
    mixer->to_test = (struct mix_xid){0};
    note_tests(mixer, xid, evaluated, &figures);
}

static void copy(struct mixer *mixer, enum mixing_place place, int64_t version)
{
    struct mixer_slab *slab = mixer_copy(mixer, place);
    const double began = clock_now_seconds();
    (void)pthread_mutex_unlock(&mixer->lock);
    save(mixer, slab->data);
    const bool finite = place == MIXING_PAIRS || mix_is_finite(mixer->floats, slab->data);
    (void)pthread_mutex_lock(&mixer->lock);
    if (mixing_due(&mixer->mixing, place) == MIXING_COPY) { /* the match has not expired */
        slab->deadline_ms = mixer->mixing.slot[place].match.deadline_ms;
        mixing_copied(&mixer->mixing, place, version, finite);
        if (!finite) {
            log_warn("mix_rejected", "group=%" PRId64 " error=\"its own copy is not finite\"",
                     mixer->mixing.group);
        }
        mixer->seconds[place] += clock_now_seconds() - began;
        if (place == MIXING_AVERAGES && mixer->probes) {
            mixer->to_probe = mixer->mixing.slot[place].match.xid;
            mixer->probed = (struct mix_xid){0};
        }
    }
}

/* Compute the probe loss. Others may fetch the copy during it. */
static void probe(struct mixer *mixer)
{
    const struct mix_xid xid = mixer->to_probe;
    struct mixer_signals signals = mixer_refresh(mixer);
    double loss = NAN;
    signals.wake = false;
    (void)pthread_mutex_unlock(&mixer->lock);
    mixer_tell(mixer, signals);
    const bool probed = mixer->config.probe(mixer->config.arg, &loss) && isfinite(loss);
    (void)pthread_mutex_lock(&mixer->lock);
    mixer->to_probe = (struct mix_xid){0};
    mixer->probed = probed ? xid : mixer->to_probe;
    mixer->loss = loss;
}

static void apply(struct mixer *mixer, enum mixing_place place, int64_t version)
{
    const struct mix_match *match = &mixer->mixing.slot[place].match;
    const double alpha = match->alpha, statistics_alpha = match->statistics_alpha;
    const bool moves = mix_match_moves(match);
    const int64_t rate_step = match->rate_step > 0 ? match->rate_step : 1;
    const struct train_state own = mixer_state_of(mixer, mixer_copy(mixer, place)->data);
    const struct train_state peer =
        mixer_state_of(mixer, mixer->slab[place == MIXING_PAIRS ? MIXER_PEER : MIXER_AVERAGE].data);
    const struct train_state *state = &mixer->state;
    const double began = clock_now_seconds();
    if (moves && mixer->closed) {
        mixing_abandon(&mixer->mixing, place);
        return;
    }
    if (match->kind == MIX_ADOPT && mixer->holds_out && !mixer->closed) {
        mixer->to_test = match->xid;
    }
    /* Mark it applied first, so that the match cannot end in another way. */
    mixing_applied(&mixer->mixing, place, version);
    if (!moves) {
        return;
    }
    (void)pthread_mutex_unlock(&mixer->lock);
    mix_parameters(state->parameters, alpha, own.parameter, peer.parameter, state->parameter);
    mix_statistics(state->statistics, statistics_alpha, peer.statistic, state->statistic);
    train_state_changed(mixer->train);
    atomic_store(&mixer->rate_step, rate_step);
    (void)pthread_mutex_lock(&mixer->lock);
    mixer->seconds[place] += clock_now_seconds() - began;
}

/* Do one piece of due work; false: there is none. */
static bool work(struct mixer *mixer, int64_t version)
{
    if (mixer->to_probe.counter > 0) { /* before anything changes the state */
        probe(mixer);
        return true;
    }
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        const enum mixing_place place = (enum mixing_place)p;
        const struct mixing_slot *slot = &mixer->mixing.slot[place];
        const enum mixing_work due = mixing_due(&mixer->mixing, place);
        if (due == MIXING_COPY && mixer_copy(mixer, place)->readers == 0) {
            copy(mixer, place, version);
            return true;
        }
        if (due == MIXING_APPLY &&
            (!slot->match.averages || mix_xid_is(slot->match.xid, mixer->averaged))) {
            apply(mixer, place, version);
            return true;
        }
    }
    /* Evaluations come last, because matches have deadlines. */
    if (mixer->average.state == AVERAGE_TO_EVALUATE) {
        evaluate_own(mixer);
        return true;
    }
    if (mixer->to_test.counter > 0) {
        evaluate_fetched(mixer);
        return true;
    }
    return false;
}

void mixer_close(struct mixer *mixer)
{
    struct mixer_signals signals = {0};
    (void)pthread_mutex_lock(&mixer->lock);
    mixer->closed = true;
    mixer->to_test = (struct mix_xid){0};
    /* The stop waits until the coordinator has stored the records. */
    signals.report = mixing_is_logged(&mixer->mixing) ? MIXING_OLD : MIXING_NOW;
    (void)pthread_mutex_unlock(&mixer->lock);
    mixer_tell(mixer, signals);
}

void mixer_note_step(struct mixer *mixer, double now_seconds)
{
    (void)pthread_mutex_lock(&mixer->lock);
    const double gap = mixer->stepped_seconds > 0 ? now_seconds - mixer->stepped_seconds : 0;
    mixer->gap_seconds = gap > mixer->gap_seconds ? gap : mixer->gap_seconds;
    mixer->stepped_seconds = now_seconds;
    (void)pthread_mutex_unlock(&mixer->lock);
}

bool mixer_is_logged(struct mixer *mixer)
{
    (void)pthread_mutex_lock(&mixer->lock);
    const bool logged = mixing_is_logged(&mixer->mixing);
    (void)pthread_mutex_unlock(&mixer->lock);
    return logged;
}

void mixer_boundary(struct mixer *mixer, int64_t version)
{
    (void)pthread_mutex_lock(&mixer->lock);
    struct mixer_signals signals = mixer_refresh(mixer);
    for (bool more = true; more;) {
        more = work(mixer, version);
        const struct mixer_signals then = mixer_refresh(mixer);
        signals.report = then.report > signals.report ? then.report : signals.report;
        signals.room = signals.room || then.room;
    }
    (void)pthread_mutex_unlock(&mixer->lock);
    signals.wake = false;
    mixer_tell(mixer, signals);
}
