#include "coordinator/plan/timeline.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/schedule/schedule.h"

/* Arrival times of the tensors on their way to a stage, oldest first. A stage is never more than
 * its in-flight limit ahead of the next one, so the ring cannot overflow. */
struct ring {
    double at[TIMELINE_IN_FLIGHT_MAX];
    size_t taken, put;
};

/* The state of a stage in the simulation. All counts are since its last update. */
struct player {
    struct ring input, gradient;
    size_t inputs, gradients; /* taken from the rings: the arrivals at the stage's last check */
    size_t forwards, backwards;
    bool summed; /* its sum of squares is on its way */
    double norm_at,
        total_at;   /* when that of the next stage arrives, and the total; INFINITY: not sent yet */
    bool waiting;   /* it found no work, and checks again when a tensor arrives */
    double free_at; /* end of its last work */
    double saved_seconds; /* unused running time of its share; at most TIMELINE_BURST_SECONDS */
    double forward_link_free_at;  /* to the next stage */
    double backward_link_free_at; /* to the previous stage */
};

struct game {
    const struct timeline_stage *stage;
    size_t stage_count, micro_batches;
    size_t flush; /* as schedule_progress */
    bool clips_norm, strict;
    uint32_t held;
    struct player player[PARTITION_STAGES_MAX];
    double look_at[PARTITION_STAGES_MAX]; /* time of each stage's next check for work */
};

static void ring_put(struct ring *ring, double at)
{
    ASSERT(ring->put - ring->taken < TIMELINE_IN_FLIGHT_MAX);
    ring->at[ring->put++ % TIMELINE_IN_FLIGHT_MAX] = at;
}

static double ring_next(const struct ring *ring)
{
    return ring->taken < ring->put ? ring->at[ring->taken % TIMELINE_IN_FLIGHT_MAX] : INFINITY;
}

/* Take the arrivals until `now`; those after the flush stay in the ring. */
static void ring_take(struct ring *ring, size_t *count, size_t limit, double now)
{
    while (*count < limit && ring_next(ring) <= now) {
        ring->taken++;
        (*count)++;
    }
}

/* The time at which the stage checks for work next. */
static double look_at(const struct game *game, const struct player *player)
{
    if (!player->waiting) {
        return player->free_at;
    }
    double input = player->inputs < game->flush ? ring_next(&player->input) : INFINITY;
    double gradient = player->gradients < game->flush ? ring_next(&player->gradient) : INFINITY;
    if (game->clips_norm && player->backwards == game->micro_batches) {
        return player->summed ? player->total_at : player->norm_at;
    }
    return gradient < input ? gradient : input;
}

/* The work of a stage changes the next check of it and its neighbours. */
static void set_look_at(struct game *game, size_t index)
{
    size_t first = index > 0 ? index - 1 : 0;
    size_t last = index + 1 < game->stage_count ? index + 1 : index;
    for (size_t i = first; i <= last; i++) {
        game->look_at[i] = look_at(game, &game->player[i]);
    }
}

/* The stage with the earliest check; among equal times the first in the pipeline. */
static size_t next_to_look(const struct game *game)
{
    size_t next = 0;
    double now = game->look_at[0];
    for (size_t i = 1; i < game->stage_count; i++) {
        if (game->look_at[i] < now) {
            next = i;
            now = game->look_at[i];
        }
    }
    return next;
}

static enum schedule_work next_work(struct game *game, size_t index, double now)
{
    struct player *player = &game->player[index];
    bool first = index == 0, last = index + 1 == game->stage_count;
    ring_take(&player->input, &player->inputs, game->flush, now);
    ring_take(&player->gradient, &player->gradients, game->flush, now);
    const struct schedule_progress progress = {
        .micro_batches = game->micro_batches,
        .flush = game->flush,
        .strict = game->strict,
        .in_flight = game->stage[index].in_flight,
        .inputs = first ? game->flush : player->inputs,
        .gradients = last ? player->forwards : player->gradients,
        .forwards = player->forwards,
        .backwards = player->backwards,
    };
    const enum schedule_work work = schedule_next(&progress);
    if (work == SCHEDULE_WAIT && progress.inputs > progress.forwards &&
        progress.forwards < game->flush) {
        game->held |= (uint32_t)1 << index;
    }
    return work;
}

/* A tensor leaves when both its work is done and the tensor before it on the link is answered. */
static double send(double *link_free_at, double ready_at, double send_seconds, double after_seconds)
{
    *link_free_at = (*link_free_at > ready_at ? *link_free_at : ready_at) + send_seconds;
    return *link_free_at + after_seconds;
}

static double send_sum(double *link_free_at, double ready_at, double latency_seconds)
{
    return send(link_free_at, ready_at, latency_seconds, -latency_seconds / 2);
}

/* Let the stage do work of this running time. It runs freely until it is too far ahead of its
 * processor share, then with stops. */
static void work(struct game *game, size_t index, double now, double seconds)
{
    struct player *player = &game->player[index];
    const double share = game->stage[index].share;
    if (!(share > 0 && share < 1)) {
        player->free_at = now + seconds;
        return;
    }
    const double saved = player->saved_seconds + (now - player->free_at) * share;
    player->saved_seconds = saved < TIMELINE_BURST_SECONDS ? saved : TIMELINE_BURST_SECONDS;
    const double freely = player->saved_seconds / (1 - share);
    if (seconds <= freely) {
        player->saved_seconds -= seconds * (1 - share);
        player->free_at = now + seconds;
    } else {
        player->saved_seconds = 0;
        player->free_at = now + freely + (seconds - freely) / share;
    }
}

static void work_forward(struct game *game, size_t index, double now)
{
    const struct timeline_stage *stage = &game->stage[index];
    struct player *player = &game->player[index];
    work(game, index, now, stage->forward_seconds);
    player->forwards++;
    if (index + 1 < game->stage_count) {
        ring_put(&game->player[index + 1].input,
                 send(&player->forward_link_free_at, player->free_at, stage->send_forward_seconds,
                      stage->after_seconds));
    }
}

static void work_backward(struct game *game, size_t index, double now)
{
    struct player *player = &game->player[index];
    work(game, index, now, game->stage[index].backward_seconds);
    player->backwards++;
    if (index > 0) {
        const struct timeline_stage *previous = &game->stage[index - 1];
        ring_put(&game->player[index - 1].gradient,
                 send(&player->backward_link_free_at, player->free_at,
                      previous->send_backward_seconds, previous->after_seconds));
    }
}

/* Whether a stage after its passes has the total norm for its update; else it waits for a part.
 * Sums take no time but the links' latency; they queue after the tensors. */
static bool has_total(struct game *game, size_t index, double now)
{
    struct player *player = &game->player[index];
    bool last = index + 1 == game->stage_count;
    if (!player->summed) {
        if (!last && player->norm_at > now) {
            return false;
        }
        player->summed = true;
        if (index == 0) {
            player->total_at = now;
        } else {
            game->player[index - 1].norm_at = send_sum(&player->backward_link_free_at, now,
                                                       game->stage[index - 1].latency_seconds);
        }
    }
    if (player->total_at > now) {
        return false;
    }
    if (!last) {
        game->player[index + 1].total_at =
            send_sum(&player->forward_link_free_at, now, game->stage[index].latency_seconds);
    }
    return true;
}

static void work_update(struct game *game, size_t index, double now)
{
    struct player *player = &game->player[index];
    work(game, index, now, game->stage[index].update_seconds);
    player->forwards -= game->micro_batches;
    player->backwards -= game->micro_batches;
    player->inputs -= index > 0 ? game->micro_batches : 0;
    player->gradients -= index + 1 < game->stage_count ? game->micro_batches : 0;
    player->summed = false;
    player->norm_at = player->total_at = INFINITY;
}

static size_t steps_played(size_t stage_count, const struct timeline_rules *rules)
{
    return rules->async ? TIMELINE_ASYNC_STEPS * stage_count : TIMELINE_STEPS;
}

/* Return the seconds per step. Stages check for work in the order of time, so all arrivals before a
 * check are known by then. */
static double play(const struct timeline_stage *stage, size_t stage_count, size_t micro_batches,
                   const struct timeline_rules *rules, uint32_t *held)
{
    struct game game = {.stage = stage,
                        .stage_count = stage_count,
                        .micro_batches = micro_batches,
                        .flush = rules->async ? SCHEDULE_NO_FLUSH : micro_batches,
                        .clips_norm = rules->clips_norm,
                        .strict = rules->strict || rules->async};
    const size_t last = steps_played(stage_count, rules);
    const size_t warm =
        rules->async ? TIMELINE_ASYNC_WARMUP_STEPS * stage_count : TIMELINE_WARMUP_STEPS;
    for (size_t i = 0; i < stage_count; i++) {
        game.player[i].norm_at = game.player[i].total_at = INFINITY;
    }
    double warm_at = 0;
    size_t steps = 0;
    while (steps < last) {
        size_t next = next_to_look(&game);
        double now = game.look_at[next];
        ASSERT(isfinite(now));
        enum schedule_work what = next_work(&game, next, now);
        if (what == SCHEDULE_UPDATE && game.clips_norm && !has_total(&game, next, now)) {
            what = SCHEDULE_WAIT;
        }
        game.player[next].waiting = what == SCHEDULE_WAIT;
        switch (what) {
        case SCHEDULE_WAIT: break;
        case SCHEDULE_FORWARD: work_forward(&game, next, now); break;
        case SCHEDULE_BACKWARD: work_backward(&game, next, now); break;
        case SCHEDULE_UPDATE:
            work_update(&game, next, now);
            /* The first stage ends every step, because it has the last gradient. */
            steps += next == 0;
            if (next == 0 && steps == warm) {
                warm_at = game.player[0].free_at;
            }
            break;
        }
        set_look_at(&game, next);
    }
    *held |= game.held;
    return (game.player[0].free_at - warm_at) / (double)(last - warm);
}

double timeline_work(size_t stage_count, const struct timeline_rules *rules)
{
    size_t most = TIMELINE_MICRO_BATCHES_MAX;
    size_t played = rules->micro_batches <= most ? rules->micro_batches : most + most / 2;
    return (double)steps_played(stage_count, rules) * (double)stage_count * (double)played;
}

void timeline_play(const struct timeline_stage *stage, size_t stage_count,
                   const struct timeline_rules *rules, struct timeline_result *out)
{
    const size_t micro_batches = rules->micro_batches;
    ASSERT(stage_count >= 1 && stage_count <= PARTITION_STAGES_MAX && micro_batches >= 1);
    size_t played =
        micro_batches < TIMELINE_MICRO_BATCHES_MAX ? micro_batches : TIMELINE_MICRO_BATCHES_MAX;
    for (size_t i = 0; i < stage_count; i++) {
        ASSERT(stage[i].in_flight >= 1 && stage[i].in_flight <= TIMELINE_IN_FLIGHT_MAX);
    }
    uint32_t held = 0;
    double seconds = play(stage, stage_count, played, rules, &held);
    if (played < micro_batches) {
        size_t half = TIMELINE_MICRO_BATCHES_MAX / 2;
        double each =
            (seconds - play(stage, stage_count, half, rules, &held)) / (double)(played - half);
        seconds += each * (double)(micro_batches - played);
    }
    *out = (struct timeline_result){.step_seconds = seconds, .held = held};
    for (size_t i = 0; i < stage_count; i++) {
        const double running =
            (stage[i].forward_seconds + stage[i].backward_seconds) * (double)micro_batches +
            stage[i].update_seconds;
        const double long_run = running / (stage[i].share > 0 ? stage[i].share : 1);
        out->busy[i] = seconds > 0 ? fmin(long_run / seconds, 1) : 0;
    }
}
