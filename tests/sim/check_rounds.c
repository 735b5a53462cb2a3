/* Rounds as the coordinator closes them, and as groups keep them. */
#include "agent/core/mixing.h"
#include "tests/sim/check_rounds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "tests/sim/check.h"
#include "tests/sim/check_log.h"
#include "tests/sim/coordinator.h"

#define OPEN_MS_MAX 30000 /* longer than a lease */
#define STEP_MS_MAX 200   /* in which the coordinator was frozen, or had nothing to do */
#define LATE_PERIODS 1.5  /* of a levelled round, from when the last one was closed */

/* A parent after the step before this one. */
struct seen {
    struct job_id parent;
    uint64_t lives; /* of the coordinator: a restored backup repeats the numbers of its own */
    int64_t counter, now_ms, closed_ms;
    int64_t open_ms; /* since when the round might be closed, while the coordinator ran */
    struct mix_xid average;
    struct gossip_group group[LEVELS_GROUPS_MAX];
};

struct check_rounds {
    struct seen seen[PARENTS_SEEN_MAX];
    size_t count;
};

int check_rounds_new(struct check_rounds **out, struct err *err)
{
    *out = calloc(1, sizeof(**out));
    return *out ? 0 : err_set(err, ERR_MEMORY, "check");
}

void check_rounds_free(struct check_rounds **rounds)
{
    free(*rounds);
    *rounds = NULL;
}

/* ---- at the coordinator ---- */

enum answer { NO_ANSWER, PAIRED, PASSED, AVERAGED, ANSWERS };

/* A parent in this step. */
struct look {
    struct world *world;
    const struct core *core;
    const struct parent_slot *parent;
    const struct gossip *gossip;
    struct seen *seen;
    const struct event *event;
    size_t answers[ANSWERS], present, waiting;
};

static struct seen *seen_of(struct check_rounds *rounds, const struct parent_slot *parent)
{
    size_t at = 0;
    while (at < rounds->count && !id_equal(rounds->seen[at].parent.text, parent->job.id.text)) {
        at++;
    }
    if (at == rounds->count) {
        ASSERT(at < PARENTS_SEEN_MAX);
        rounds->seen[rounds->count++].parent = parent->job.id;
    }
    return &rounds->seen[at];
}

static void remember(const struct look *round, bool closed)
{
    const struct gossip *gossip = round->gossip;
    struct seen *seen = round->seen;
    seen->closed_ms = closed ? round->core->now_ms : seen->closed_ms;
    seen->now_ms = round->core->now_ms;
    seen->lives = round->world->coordinator->lives;
    seen->counter = gossip->counter;
    seen->average = gossip->average;
    memcpy(seen->group, gossip->group, sizeof(seen->group));
}

static bool begins_average(const struct look *round)
{
    return !mix_xid_is(round->gossip->average, round->seen->average);
}

static enum answer answer_of(const struct look *round, size_t g)
{
    const struct gossip *gossip = round->gossip;
    const struct gossip_group *now = &gossip->group[g], *then = &round->seen->group[g];
    const bool adopts = gossip->rules.adopts && !gossip->is_last;
    if (!now->present) {
        return NO_ANSWER;
    }
    return now->open.life == gossip->rules.life && now->open.counter > round->seen->counter ? PAIRED
           : now->passed > 0 && now->passed != then->passed                                 ? PASSED
           : begins_average(round) && adopts && now->asked ? AVERAGED
                                                           : NO_ANSWER;
}

static bool still_waits(const struct gossip_group *group)
{
    return group->present && group->heard && group->open.counter == 0 && group->wants;
}

/* Its report says so, in this step or before. */
static bool has_waited(const struct look *round, size_t g)
{
    const struct gossip_group *now = &round->gossip->group[g], *then = &round->seen->group[g];
    const struct heartbeat *heartbeat =
        round->event->type == EVENT_HEARTBEAT ? round->event->heartbeat.heartbeat : NULL;
    const bool reports = heartbeat && heartbeat->has_mix && heartbeat->mix.wants &&
                         heartbeat->mix.group == (int64_t)g &&
                         heartbeat->mix.generation == now->generation;
    return reports || (then->present && then->wants && then->generation == now->generation);
}

static void check_answer(struct look *round, size_t g)
{
    const struct gossip_group *now = &round->gossip->group[g], *then = &round->seen->group[g];
    const enum answer answer = answer_of(round, g);
    const bool begins = then->generation != now->generation;
    round->answers[answer] += now->present;
    round->present += now->present;
    round->waiting += answer == NO_ANSWER && still_waits(now);
    if (answer == NO_ANSWER) {
        return;
    }
    if (!has_waited(round, g)) {
        check_fail(round->world, "group %zu of %s is in a round, and does not wait for it", g,
                   round->parent->job.spec.name);
    } else if (!begins && then->passed > 0 && now->step <= then->passed) {
        check_fail(round->world,
                   "group %zu of %s passed after step %" PRId64
                   " and is in another round at %" PRId64,
                   g, round->parent->job.spec.name, then->passed, now->step);
    }
}

/* Groups that make their steps still, beside those that wait. */
static bool are_late(const struct look *round)
{
    return round->gossip->rules.level &&
           round->core->now_ms >=
               round->seen->closed_ms + (int64_t)(1000 * LATE_PERIODS * round->gossip->period);
}

static void check_closed(const struct look *round)
{
    const char *name = round->parent->job.spec.name;
    const size_t answered =
        round->answers[PAIRED] + round->answers[PASSED] + round->answers[AVERAGED];
    if (round->waiting > 0) {
        check_fail(round->world, "%zu groups of %s wait and are left out of their round",
                   round->waiting, name);
    } else if (round->answers[PASSED] > 1 ||
               (round->answers[AVERAGED] > 0 && answered > round->answers[AVERAGED])) {
        check_fail(round->world, "in a round of %s %zu are paired, %zu pass, %zu are averaged",
                   name, round->answers[PAIRED], round->answers[PASSED], round->answers[AVERAGED]);
    } else if (round->answers[PAIRED] > 0 && round->gossip->rules.adopts &&
               round->gossip->rounds >= round->gossip->rules.average_every) {
        check_fail(round->world, "pairs of %s take the place of an average", name);
    } else if (answered < round->present && (answered < 2 || !are_late(round))) {
        check_fail(round->world, "a round of %s is closed with %zu of %zu groups", name, answered,
                   round->present);
    }
}

/* No average keeps it open, and nothing else does: only for a moment. A phase of an average ends in
 * one step and the round in another, and the reports of all groups may be lost meanwhile. */
static void check_open(const struct look *round)
{
    const struct gossip *gossip = round->gossip;
    struct seen *seen = round->seen;
    const bool may_close = !gossip->finishes && gossip->arrives_until_ms == 0 &&
                           (gossip->phase == GOSSIP_MIXES || !gossip->rules.adopts) &&
                           !round->core->disk_nearly_full;
    const bool all = round->waiting > 0 && round->waiting == round->present;
    const int64_t step_ms = round->core->now_ms - seen->now_ms;
    if (!may_close || !(all || (round->waiting > 1 && are_late(round)))) {
        seen->open_ms = 0;
        return;
    }
    seen->open_ms += step_ms < STEP_MS_MAX ? step_ms : STEP_MS_MAX;
    if (seen->open_ms > OPEN_MS_MAX) {
        check_fail(round->world, "%zu of %zu groups of %s wait, and the round is not closed",
                   round->waiting, round->present, round->parent->job.spec.name);
    }
}

static void check_round(struct look *round)
{
    const size_t count = round->gossip->count;
    if (round->seen->lives != round->world->coordinator->lives) {
        round->seen->closed_ms = round->seen->open_ms = 0;
        memset(round->seen->group, 0, sizeof(round->seen->group));
        round->seen->counter = 0;
        round->seen->average = (struct mix_xid){0};
    }
    for (size_t g = 0; g < count; g++) {
        check_answer(round, g);
    }
    const bool closed =
        round->answers[PAIRED] + round->answers[PASSED] + round->answers[AVERAGED] > 0;
    if (closed) {
        round->seen->open_ms = 0;
        check_closed(round);
    } else {
        check_open(round);
    }
    remember(round, closed || begins_average(round));
}

void check_rounds(struct world *world, const struct event *event)
{
    const struct core *core = world->coordinator->core;
    for (size_t i = 0; i < core->parents.count; i++) {
        const struct parent_slot *parent = slots_parent_at(core, i);
        if (parent->job.spec.strategy == STRATEGY_GOSSIP &&
            parent->job.spec.gossip.schedule == SCHEDULE_ROUNDS && parent->mixes.begun &&
            !parent->work.ended) {
            struct look round = {.world = world,
                                 .core = core,
                                 .parent = parent,
                                 .gossip = &parent->mixes.gossip,
                                 .seen = seen_of(world->check->rounds, parent),
                                 .event = event};
            check_round(&round);
        }
    }
}

/* ---- at a device ---- */

void check_round_begins(struct check_hold *hold, int64_t version)
{
    *hold = (struct check_hold){.mixed_at = version};
}

void check_round_duty(struct world *world, const struct run *run, struct check_hold *hold,
                      const struct mix_duty *duty)
{
    hold->every = duty->every;
    hold->holds = duty->holds;
    hold->slows = duty->slows;
    hold->passed = duty->passed > hold->passed ? duty->passed : hold->passed;
    if (duty->passed > run->step) {
        check_fail(world, "%s at step %" PRId64 " passes after step %" PRId64, run->agent->name,
                   run->step, duty->passed);
    }
}

void check_round_mixed(struct check_hold *hold, int64_t step)
{
    hold->mixed_at = step;
}

/* The first step after the one that the mix was due after is not checked: it may have begun before
 * the group was told to slow down. */
static bool is_slow_enough(const struct world *world, const struct run *run,
                           struct check_hold *hold, int64_t due, int64_t step)
{
    const int64_t now_ms = world_now_ms(world, run->agent->actor);
    if (!hold->slows || hold->slow_from != due) {
        hold->slow_from = hold->slows ? due : 0;
        hold->slow_step = step;
        hold->slow_ms = now_ms;
        return true;
    }
    const int64_t elapsed_ms = now_ms - hold->slow_ms;
    return elapsed_ms >= MIXING_SLOW_FOR_MS - 2 * MIXING_SLOW_MS ||
           step - hold->slow_step <= elapsed_ms / MIXING_SLOW_MS + 1;
}

void check_round_step(struct world *world, const struct run *run, struct check_hold *hold,
                      int64_t step)
{
    const int64_t from = hold->mixed_at > hold->passed ? hold->mixed_at : hold->passed;
    const int64_t due = from + hold->every;
    if (step <= due) {
        return;
    }
    if (hold->holds || !is_slow_enough(world, run, hold, due, step)) {
        check_fail(world, "%s makes step %" PRId64 ", %" PRId64 " after its last mix, too early",
                   run->agent->name, step, step - from);
    }
}
