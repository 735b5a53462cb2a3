/* The threads of a mixer. They fetch the copies that the match of their place needs, compute
 * averages, and send them to the coordinator. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/gossip/mix_fetch.h"
#include "agent/runtime/links.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "base/log.h"

#define IDLE_MS 60000
#define BLOCKED_MS 20
#define TURN_MS 1000  /* a thread that waits for its turn checks for a deadline or the end */
#define AGAIN_MS 1000 /* retry of an average that the coordinator could not take */

static bool is_average(const struct mixer_worker *worker)
{
    return worker->place == MIXING_AVERAGES;
}

static struct mixing_slot *slot_of(struct mixer_worker *worker)
{
    return &worker->mixer->mixing.slot[worker->place];
}

/* ---- what is done with it ---- */

/* Return |own - average| / |average|. The caller is a reader of the own copy. */
static double distance_of(const struct mixer *mixer, const float *own, const float *average)
{
    const double apart = mix_squares(mixer->body.parameters, own, average);
    return sqrt(apart / mix_squares(mixer->body.parameters, average, NULL));
}

/* Note the distance if the average is that of the newest match. Under the lock. */
static void note_distance(struct mixer *mixer, struct mix_xid xid, double distance)
{
    mixer->distance_xid = distance <= MIX_DISTANCE_MAX ? xid : (struct mix_xid){0};
    mixer->distance = distance;
}

/* Finish the average if the sum has all copies and the match is still open. Under the lock. */
static void finish_sum(struct mixer *mixer, double distance)
{
    const struct mixer_sum *sum = &mixer->sum;
    const struct mixing_slot *slot = &mixer->mixing.slot[MIXING_AVERAGES];
    if (sum->sum.added < sum->sum.groups || slot->state != MIXING_FETCHED ||
        !mix_xid_is(slot->match.xid, sum->xid)) {
        return;
    }
    const bool tests = mixer->config.evaluate != NULL;
    mixer->averaged = sum->xid;
    mixer->slab[MIXER_AVERAGE].deadline_ms = slot->match.deadline_ms;
    note_distance(mixer, sum->xid, distance);
    mixer->average = (struct mixer_average){
        .state = tests ? AVERAGE_TO_EVALUATE : AVERAGE_TO_SEND,
        .xid = sum->xid,
    };
}

/* Add the next state. Not under the lock: `adds` keeps other threads away. */
static double add(struct mixer *mixer, const float *data)
{
    struct mix_sum *sum = &mixer->sum.sum;
    float *place = mix_sum_next(sum);
    if (data != place) {
        memcpy(place, data, mixer->floats * sizeof(float));
    }
    mix_sum_add(sum);
    return sum->added == sum->groups
               ? distance_of(mixer, mixer_copy(mixer, MIXING_AVERAGES)->data, sum->part[0])
               : NAN;
}

/* End an addition, so that the next copy can be added. Under the lock. */
static void end_add(struct mixer *mixer)
{
    mixer->sum.adds = false;
    (void)pthread_cond_broadcast(&mixer->changed);
}

static bool is_of(const struct mix_member *copy, const struct mix_source *source)
{
    return copy->group == source->group && copy->generation == source->generation;
}

static void log_rejected(const struct mix_fetch *fetch, const char *why)
{
    log_warn("mix_rejected", "group=%" PRId64 " device=%s error=%s", fetch->source.group,
             fetch->source.peer.device.text, log_quote(why).text);
}

/* Pass a fetched copy, good or not, to the protocol, and log a rejection. Under the lock. */
static void end_fetch(struct mix_fetch *fetch, bool good)
{
    struct mixer_worker *worker = fetch->worker;
    struct mixing *mixing = &worker->mixer->mixing;
    const struct mix_note *note = worker->note;
    const struct mixing_room room = mixing_room(mixing, note->record, note->record_count);
    char why[MESSAGE_SIZE];
    mixing_fetched(mixing, worker->place, &note->copy, good, note->record, note->record_count);
    if (slot_of(worker)->state != MIXING_REJECTED) {
        return;
    }
    if (!good) {
        log_rejected(fetch, is_of(&note->copy, &fetch->source) ? "the copy is not finite"
                                                               : "not the copy that was named");
        return;
    }
    (void)snprintf(why, sizeof(why), "no room for its records: %zu bytes, %zu are free",
                   room.needed * sizeof(note->record[0]), room.available * sizeof(note->record[0]));
    log_rejected(fetch, why);
}

/* Take a fetched copy. Called with the lock, which it releases for the arithmetic. It counts as a
 * reader of the own copy, so that this copy stays unchanged. */
static void take_copy(struct mix_fetch *fetch)
{
    struct mixer_worker *worker = fetch->worker;
    struct mixer *mixer = worker->mixer;
    const struct mix_note *note = worker->note;
    const float *data = (const float *)(const void *)fetch->out;
    struct mixer_slab *own = mixer_copy(mixer, worker->place);
    const bool sums = slot_of(worker)->match.averages;
    double distance = NAN;
    own->readers++;
    mixer->sum.adds = mixer->sum.adds || sums;
    (void)pthread_mutex_unlock(&mixer->lock);
    const bool good = mix_is_finite(mixer->floats, data) && is_of(&note->copy, &fetch->source);
    if (good && sums) {
        distance = add(mixer, data);
    } else if (good && is_average(worker)) {
        distance = distance_of(mixer, own->data, data);
    }
    (void)pthread_mutex_lock(&mixer->lock);
    own->readers--;
    if (sums) {
        end_add(mixer);
    }
    if (!mix_fetch_is_open(fetch)) {
        return;
    }
    mixer->seconds[worker->place] += fetch->seconds;
    end_fetch(fetch, good);
    if (sums) {
        finish_sum(mixer, distance);
    } else if (is_average(worker) && slot_of(worker)->state == MIXING_FETCHED) {
        note_distance(mixer, fetch->xid, distance);
    }
}

/* End the match because the copy cannot arrive. Under the lock. */
static void end_match(struct mix_fetch *fetch, int rc, const struct err *why)
{
    struct mixer_worker *worker = fetch->worker;
    if (rc == ERR_CANCELLED || !mix_fetch_is_open(fetch)) {
        return;
    }
    const bool rejected = rc == ERR_FORMAT || rc == ERR_PROTOCOL;
    if (rejected) {
        mixing_fetched(&worker->mixer->mixing, worker->place, &worker->note->copy, false, NULL, 0);
        log_rejected(fetch, why->text);
    } else {
        mixing_abandon(&worker->mixer->mixing, worker->place);
        log_info("mix_abandoned", "group=%" PRId64 " device=%s error=%s", fetch->source.group,
                 fetch->source.peer.device.text, log_quote(why->text).text);
    }
}

/* Wait until the copies of all groups before this one are added, or the copy is no longer wanted.
 * Called with the lock, which it releases while it waits. */
static void await_turn(const struct mix_fetch *fetch)
{
    struct mixer *mixer = fetch->worker->mixer;
    const struct mixer_sum *sum = &mixer->sum;
    while (mix_fetch_is_open(fetch) && !mixer_is_cancelled(mixer) &&
           (sum->adds || sum->sum.added < fetch->index)) {
        (void)thread_condition_wait(&mixer->changed, &mixer->lock, TURN_MS * NS_PER_MS);
    }
}

/* Fetch the copy of a peer of the match. Called with the lock, which it releases for the fetch. */
static void fetch_copy(struct mixer_worker *worker, size_t index, float *out)
{
    struct mixer *mixer = worker->mixer;
    const struct mixing_slot *slot = slot_of(worker);
    struct mix_fetch fetch = {.worker = worker,
                              .xid = slot->match.xid,
                              .index = index,
                              .average = slot->match.kind == MIX_ADOPT,
                              .deadline_ms = slot->match.deadline_ms,
                              .source = mixer->match[worker->place].source[index],
                              .out = (unsigned char *)out};
    struct err err = {0};
    double bytes, seconds;
    (void)pthread_mutex_unlock(&mixer->lock);
    const int rc = mix_fetch_run(&fetch, &err);
    /* Count also a part of a copy that arrived too slowly. Otherwise a slow link would never be
     * measured. */
    if (mixer->work.links && mix_fetch_measure(&fetch, rc == 0, &bytes, &seconds)) {
        links_note(mixer->work.links, LINK_FETCH, &fetch.source.peer.device, bytes, seconds);
    }
    (void)pthread_mutex_lock(&mixer->lock);
    if (slot->match.averages) {
        await_turn(&fetch);
    }
    if (rc == 0 && mix_fetch_is_open(&fetch)) {
        take_copy(&fetch);
    } else {
        end_match(&fetch, rc, &err);
    }
}

/* ---- averages ---- */

/* Return whether the average may be overwritten. Under the lock. */
static bool is_free(struct mixer *mixer)
{
    struct mixer_slab *slab = &mixer->slab[MIXER_AVERAGE];
    slab->wanted = slab->readers > 0;
    if (slab->wanted || mixer->sum.adds || mixer->average.state == AVERAGE_EVALUATING) {
        return false;
    }
    mixer->average.state = AVERAGE_NONE; /* discard the earlier average, and its test */
    mixer->to_test = (struct mix_xid){0};
    return true;
}

static void begin_sum(struct mixer *mixer)
{
    struct mixer_sum *sum = &mixer->sum;
    const struct mix_match *match = &mixer->mixing.slot[MIXING_AVERAGES].match;
    bool weighted = false;
    mixer->averaged = (struct mix_xid){0};
    sum->xid = match->xid;
    sum->begun = 0;
    sum->sum = (struct mix_sum){.groups = match->peer_count, .count = mixer->floats};
    sum->sum.part[0] = mixer->slab[MIXER_AVERAGE].data;
    for (size_t i = 1; i < mix_sums(match->peer_count); i++) {
        sum->sum.part[i] = mixer->slab[MIXER_SUM + i - 1].data;
    }
    for (size_t i = 0; i < match->peer_count; i++) {
        sum->weight[i] = match->peer[i].weight;
        weighted = weighted || match->peer[i].weight > 0;
    }
    sum->sum.weight = weighted ? sum->weight : NULL;
}

/* Add this group's own copy. Called with the lock, which it releases for the arithmetic. */
static void add_own(struct mixer *mixer)
{
    struct mixer_slab *own = mixer_copy(mixer, MIXING_AVERAGES);
    own->readers++;
    mixer->sum.adds = true;
    (void)pthread_mutex_unlock(&mixer->lock);
    const double distance = add(mixer, own->data);
    (void)pthread_mutex_lock(&mixer->lock);
    own->readers--;
    end_add(mixer);
    finish_sum(mixer, distance);
}

/* Do the next work for the sum. Called with the lock, which it may release. false: no work now;
 * *blocked: but soon. */
static bool sum_up(struct mixer_worker *worker, bool *blocked)
{
    struct mixer *mixer = worker->mixer;
    struct mixer_sum *sum = &mixer->sum;
    const struct mixing_slot *slot = slot_of(worker);
    const struct mix_member *peer = slot->match.peer;
    const int64_t own = mixer->mixing.group;
    const bool open = slot->state == MIXING_COPIED || slot->state == MIXING_FETCHED;
    if (!open || !slot->match.averages || mix_xid_is(slot->match.xid, mixer->averaged)) {
        return false;
    }
    if (!mix_xid_is(sum->xid, slot->match.xid)) {
        /* Only the thread that sends averages begins a sum, because both use the scratch. */
        *blocked = !worker->fetches && !is_free(mixer);
        if (worker->fetches || *blocked) {
            return false;
        }
        begin_sum(mixer);
        return true;
    }
    if (!sum->adds && sum->sum.added < sum->sum.groups && peer[sum->sum.added].group == own) {
        add_own(mixer);
        return true;
    }
    while (sum->begun < sum->sum.groups && peer[sum->begun].group == own) {
        sum->begun++;
    }
    if (sum->begun == sum->sum.groups) {
        return false; /* all are on their way, or the match ended before the sum was whole */
    }
    const size_t next = sum->begun++;
    fetch_copy(worker, next, worker->buffer ? worker->buffer : mix_sum_next(&sum->sum));
    return true;
}

/* Fetch an average that the group adopts. As sum_up. */
static bool adopt(struct mixer_worker *worker, bool *blocked)
{
    struct mixer *mixer = worker->mixer;
    if (!mixing_fetch(&mixer->mixing, worker->place) || slot_of(worker)->match.kind != MIX_ADOPT) {
        return false;
    }
    *blocked = !is_free(mixer);
    if (*blocked) {
        return false;
    }
    mixer->averaged = (struct mix_xid){0};
    fetch_copy(worker, 0, mixer->slab[MIXER_AVERAGE].data);
    return true;
}

/* Send the average. As sum_up; *wait_ms: time until the next try. */
static bool send_average(struct mixer_worker *worker, int64_t *wait_ms)
{
    struct mixer *mixer = worker->mixer;
    const struct mixer_average average = mixer->average;
    struct err err = {0};
    if (average.state != AVERAGE_TO_SEND || !mixing_average_is_logged(&mixer->mixing)) {
        return false;
    }
    (void)pthread_mutex_unlock(&mixer->lock);
    const int rc = average_file_send(worker, &average, &err);
    (void)pthread_mutex_lock(&mixer->lock);
    *wait_ms = rc == ERR_STATE ? AGAIN_MS : 0;
    if (rc != ERR_STATE && mix_xid_is(mixer->average.xid, average.xid)) {
        mixer->average.state = AVERAGE_NONE;
    }
    return rc != ERR_STATE;
}

/* ---- the threads ---- */

/* Do one piece of work. Called with the lock, which it may release. false: wait. */
static bool step(struct mixer_worker *worker, int64_t *wait_ms)
{
    bool blocked = false;
    bool done;
    if (is_average(worker)) {
        done = sum_up(worker, &blocked) ||
               (!worker->fetches && (adopt(worker, &blocked) || send_average(worker, wait_ms)));
    } else {
        done = mixing_fetch(&worker->mixer->mixing, worker->place) != NULL;
        if (done) {
            fetch_copy(worker, 0, worker->mixer->slab[MIXER_PEER].data);
        }
    }
    if (blocked && (*wait_ms == 0 || *wait_ms > BLOCKED_MS)) {
        *wait_ms = BLOCKED_MS;
    }
    return done;
}

/* Return the time until the match of the place expires, or the group may make a step again. Each
 * thread checks the latter, because the other one may be busy with a fetch. */
static int64_t deadline_left_ms(struct mixer_worker *worker)
{
    const struct mixer *mixer = worker->mixer;
    const struct mixing_slot *slot = slot_of(worker);
    const int64_t now_ms = clock_now_ms();
    const bool open = slot->state == MIXING_MATCHED || slot->state == MIXING_COPIED ||
                      slot->state == MIXING_FETCHED;
    int64_t until_ms = open ? slot->match.deadline_ms : MIXING_NEVER;
    if (mixer->pace == MIXING_SLOWS) {
        const int64_t step_ms = mixing_slows_until_ms(&mixer->mixing, mixer->every, now_ms);
        until_ms = step_ms < until_ms ? step_ms : until_ms;
    }
    return until_ms <= now_ms ? 1 : until_ms - now_ms < IDLE_MS ? until_ms - now_ms : IDLE_MS;
}

void *mixer_work(void *arg)
{
    struct mixer_worker *worker = arg;
    struct mixer *mixer = worker->mixer;
    thread_set_name(is_average(worker) ? "average" : "mix");
    (void)pthread_mutex_lock(&mixer->lock);
    while (!mixer_is_cancelled(mixer)) {
        int64_t wait_ms = 0;
        const bool done = step(worker, &wait_ms);
        const struct mixer_signals signals = mixer_refresh(mixer);
        if (signals.wake || signals.report || signals.room) {
            (void)pthread_mutex_unlock(&mixer->lock);
            mixer_tell(mixer, signals);
            (void)pthread_mutex_lock(&mixer->lock);
            continue; /* the state may have changed without the lock */
        }
        const int64_t left_ms = deadline_left_ms(worker);
        if (!done && !mixer_is_cancelled(mixer)) {
            (void)thread_condition_wait(&mixer->changed, &mixer->lock,
                                        (wait_ms > 0 && wait_ms < left_ms ? wait_ms : left_ms) *
                                            NS_PER_MS);
        }
    }
    (void)pthread_mutex_unlock(&mixer->lock);
    return NULL;
}
