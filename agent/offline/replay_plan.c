#include "agent/offline/replay_plan.h"

#include <stdlib.h>

#include "agent/offline/replay_log.h"
#include "agent/offline/replay_needs.h"
#include "base/assert.h"

/* A wanted copy, indexed by the first of its wants, or an average. */
struct copy {
    size_t uses;  /* that are left */
    size_t place; /* REPLAY_NONE: not made yet */
};

/* The progress of an incarnation. */
struct runner {
    bool begun;
    size_t moves; /* that are done */
    size_t want;  /* the next one */
    int64_t version, rate_step;
    size_t state; /* its place */
};

/* A set of places. Places that were given back are reused first. */
struct places {
    size_t *free;
    size_t free_count, count;
};

struct planner {
    const struct replay_log *log;
    struct replay_index index;
    struct replay_needs needs;
    struct runner *runner; /* [index.incarnations] */
    struct copy *copy;     /* [needs.wants] */
    struct copy *average;  /* [index.averages] */
    size_t *missing;       /* [index.averages] copies that are not made yet */
    struct places states, copies;
    size_t sources;
    struct replay_plan *plan;
};

/* ---- actions ---- */

static size_t take_place(struct places *places)
{
    return places->free_count > 0 ? places->free[--places->free_count] : places->count++;
}

static void give_place(struct places *places, size_t place)
{
    places->free[places->free_count++] = place;
}

static struct replay_action *act(struct planner *planner, enum replay_work work,
                                 const struct mix_record *record)
{
    struct replay_action *action = &planner->plan->action[planner->plan->count++];
    *action = (struct replay_action){.work = work,
                                     .state = REPLAY_NONE,
                                     .own = REPLAY_NONE,
                                     .peer = REPLAY_NONE,
                                     .group = record->own.group,
                                     .record = record};
    return action;
}

/* Use a copy once. Returns its place, which is free after the last use. */
static size_t use(struct planner *planner, struct copy *copy)
{
    ASSERT(copy->uses > 0 && copy->place != REPLAY_NONE);
    if (--copy->uses == 0) {
        give_place(&planner->copies, copy->place);
    }
    return copy->place;
}

static struct copy *copy_of(const struct planner *planner, const struct mix_member *member)
{
    return &planner->copy[replay_needs_want(&planner->needs, &planner->index, member)];
}

static struct copy *average_of(const struct planner *planner, const struct mix_record *record)
{
    return &planner->average[replay_needs_average(&planner->index, record)];
}

static void begin(struct planner *planner, size_t at)
{
    struct runner *runner = &planner->runner[at];
    const struct mix_record *start = planner->index.incarnation[at].start;
    runner->begun = true;
    runner->version = start->own.version;
    runner->rate_step = start->rate_step;
    runner->state = take_place(&planner->states);
    if (mix_record_forks(start)) {
        return;
    }
    struct replay_action *action = act(planner, REPLAY_START, start);
    action->state = runner->state;
    if (start->xid.counter > 0) {
        action->peer = use(planner, average_of(planner, start));
    }
}

static void train(struct planner *planner, size_t at, int64_t version)
{
    struct runner *runner = &planner->runner[at];
    if (runner->version == version) {
        return;
    }
    struct replay_action *action = act(planner, REPLAY_TRAIN, planner->index.incarnation[at].start);
    action->state = runner->state;
    action->first = runner->version;
    action->last = version;
    action->rate_step = runner->rate_step > 0 ? runner->rate_step : 1;
    planner->plan->steps += version - runner->version;
    runner->version = version;
}

static void add_up(struct planner *planner, const struct mix_record *record)
{
    struct copy *average = average_of(planner, record);
    struct replay_plan *plan = planner->plan;
    const bool is_last = record == plan->last;
    average->place = take_place(&planner->copies);
    struct replay_action *action = act(planner, REPLAY_AVERAGE, record);
    action->own = average->place;
    action->first = (int64_t)planner->sources;
    plan->groups = record->peer_count > plan->groups ? record->peer_count : plan->groups;
    for (size_t i = 0; i < record->peer_count; i++) {
        plan->source[planner->sources++] = use(planner, copy_of(planner, &record->peer[i]));
    }
    if (is_last || planner->log->all_averages) {
        act(planner, REPLAY_WRITE, record)->own = use(planner, average);
    }
    if (is_last && planner->log->all_averages) {
        (void)use(planner, average);
    }
}

/* Begin the incarnations whose start is among the wants [first, end) of this state. Returns the
 * number of the other wants. */
static size_t fork_states(struct planner *planner, const struct runner *runner, size_t first,
                          size_t end)
{
    size_t others = 0;
    for (size_t i = first; i < end; i++) {
        const struct mix_record *by = planner->needs.want[i].by;
        if (by->kind != MIX_START) {
            others++;
            continue;
        }
        const size_t begins = replay_index_find(&planner->index, &by->own);
        begin(planner, begins);
        struct replay_action *action = act(planner, REPLAY_FORK, by);
        action->own = runner->state;
        action->state = planner->runner[begins].state;
    }
    return others;
}

/* Make the copy that the next want names, possibly together with later wants. Then compute the
 * averages that it completes. */
static void take_copy(struct planner *planner, size_t at)
{
    struct runner *runner = &planner->runner[at];
    const struct replay_want *want = planner->needs.want;
    const size_t first = runner->want, end = planner->needs.life[at].end;
    struct copy *copy = &planner->copy[first];
    train(planner, at, want[first].version);
    while (runner->want < end && replay_wants_agree(&want[runner->want], &want[first])) {
        runner->want++;
    }
    copy->uses = fork_states(planner, runner, first, runner->want);
    if (copy->uses > 0) {
        copy->place = take_place(&planner->copies);
        struct replay_action *action =
            act(planner, REPLAY_COPY, planner->index.incarnation[at].start);
        action->state = runner->state;
        action->own = copy->place;
    }
    for (size_t i = first; i < runner->want; i++) {
        const struct mix_record *by = want[i].by;
        if (by->kind == MIX_AVERAGE &&
            --planner->missing[replay_needs_average(&planner->index, by)] == 0) {
            add_up(planner, by);
        }
    }
}

static void mix(struct planner *planner, size_t at)
{
    struct runner *runner = &planner->runner[at];
    const struct mix_record *record = planner->index.incarnation[at].move[runner->moves];
    train(planner, at, record->applied_step);
    struct replay_action *action = act(planner, REPLAY_MIX, record);
    action->state = runner->state;
    action->own = use(planner, copy_of(planner, &record->own));
    action->peer = use(planner, record->kind == MIX_PAIR ? copy_of(planner, &record->peer[0])
                                                         : average_of(planner, record));
    runner->moves++;
    runner->rate_step = record->rate_step;
}

/* ---- their order ---- */

/* Return whether the next copy comes before the next move. */
static bool copies_next(const struct planner *planner, size_t at)
{
    const struct runner *runner = &planner->runner[at];
    return runner->want < planner->needs.life[at].end &&
           (size_t)planner->needs.want[runner->want].mixes == runner->moves;
}

static bool is_done(const struct planner *planner, size_t at)
{
    const struct runner *runner = &planner->runner[at];
    const struct replay_life *life = &planner->needs.life[at];
    return runner->want == life->end && runner->moves == life->moves;
}

static bool may_begin(const struct planner *planner, size_t at)
{
    const struct mix_record *start = planner->index.incarnation[at].start;
    return !mix_record_forks(start) &&
           (start->xid.counter == 0 || average_of(planner, start)->place != REPLAY_NONE);
}

/* Return whether the incarnation can advance. *xid: the match for which it advances. */
static bool is_ready(const struct planner *planner, size_t at, struct mix_xid *xid)
{
    const struct runner *runner = &planner->runner[at];
    if (is_done(planner, at) || (!runner->begun && !may_begin(planner, at))) {
        return false;
    }
    if (copies_next(planner, at)) {
        *xid = planner->needs.want[runner->want].by->xid;
        return true;
    }
    const struct mix_record *record = planner->index.incarnation[at].move[runner->moves];
    const struct copy *peer =
        record->kind == MIX_PAIR ? copy_of(planner, &record->peer[0]) : average_of(planner, record);
    *xid = record->xid;
    return peer->place != REPLAY_NONE;
}

static size_t choose(const struct planner *planner)
{
    size_t best = planner->index.incarnations;
    struct mix_xid least = {0}, xid = {0};
    for (size_t at = 0; at < planner->index.incarnations; at++) {
        if (is_ready(planner, at, &xid) &&
            (best == planner->index.incarnations || mix_xid_after(least, xid))) {
            best = at;
            least = xid;
        }
    }
    return best;
}

/* Report that no incarnation is ready: they wait for each other. */
static int refuse_cycle(const struct planner *planner, struct err *err)
{
    for (size_t at = 0; at < planner->index.incarnations; at++) {
        const struct runner *runner = &planner->runner[at];
        const struct replay_incarnation *incarnation = &planner->index.incarnation[at];
        if (!is_done(planner, at)) {
            const struct mix_record *record =
                runner->begun ? incarnation->move[runner->moves] : incarnation->start;
            return err_set(err, ERR_INVALID, "%s needs a state that depends on it",
                           replay_name(record).text);
        }
    }
    return 0;
}

static int make_actions(struct planner *planner, struct err *err)
{
    const size_t none = planner->index.incarnations;
    for (size_t at = choose(planner); at < none; at = choose(planner)) {
        if (!planner->runner[at].begun) {
            begin(planner, at);
        }
        if (copies_next(planner, at)) {
            take_copy(planner, at);
        } else {
            mix(planner, at);
        }
        if (is_done(planner, at)) {
            give_place(&planner->states, planner->runner[at].state);
        }
    }
    planner->plan->states = planner->states.count;
    planner->plan->copies = planner->copies.count;
    return refuse_cycle(planner, err);
}

/* ---- life ---- */

/* The action list is bounded: an incarnation has one start, a want has a training and a copy or a
 * fork, and a record has a training and a move, or an average and its writing. */
static int allocate(struct planner *planner, struct err *err)
{
    const struct replay_index *index = &planner->index;
    const size_t wants = planner->needs.wants, averages = index->averages;
    struct replay_plan *plan = planner->plan = calloc(1, sizeof(*plan));
    if (plan) {
        plan->action =
            calloc(index->incarnations + 2 * (wants + index->count) + 1, sizeof(plan->action[0]));
        plan->source = calloc(wants + 1, sizeof(plan->source[0]));
    }
    planner->runner = calloc(index->incarnations + 1, sizeof(planner->runner[0]));
    planner->copy = calloc(wants + 1, sizeof(planner->copy[0]));
    planner->average = calloc(averages + 1, sizeof(planner->average[0]));
    planner->missing = calloc(averages + 1, sizeof(planner->missing[0]));
    planner->states.free = calloc(index->incarnations + 1, sizeof(size_t));
    planner->copies.free = calloc(wants + averages + 1, sizeof(size_t));
    return plan && plan->action && plan->source && planner->runner && planner->copy &&
                   planner->average && planner->missing && planner->states.free &&
                   planner->copies.free
               ? 0
               : err_set(err, ERR_MEMORY, "a plan of %zu records", index->count);
}

static void fill(struct planner *planner)
{
    const struct replay_index *index = &planner->index;
    planner->plan->last = planner->needs.last;
    for (size_t at = 0; at < index->incarnations; at++) {
        planner->runner[at].want = planner->needs.life[at].first;
    }
    for (size_t i = 0; i < planner->needs.wants; i++) {
        planner->copy[i].place = REPLAY_NONE;
    }
    for (size_t i = 0; i < index->averages; i++) {
        planner->average[i] = (struct copy){planner->needs.uses[i], REPLAY_NONE};
        planner->missing[i] = index->average[i]->peer_count;
    }
}

static void release(struct planner *planner)
{
    replay_index_done(&planner->index);
    replay_needs_done(&planner->needs);
    replay_plan_free(&planner->plan);
    free(planner->runner);
    free(planner->copy);
    free(planner->average);
    free(planner->missing);
    free(planner->states.free);
    free(planner->copies.free);
}

int replay_plan_new(const struct replay_log *log, struct replay_plan **out, struct err *err)
{
    struct planner planner = {.log = log};
    int rc = replay_index_new(log->record, log->count, log->groups, &planner.index, err);
    rc = rc ? rc : replay_needs_find(&planner.index, log->all_averages, &planner.needs, err);
    rc = rc ? rc : allocate(&planner, err);
    if (rc == 0) {
        fill(&planner);
        rc = make_actions(&planner, err);
    }
    if (rc == 0) {
        *out = planner.plan;
        planner.plan = NULL;
    }
    release(&planner);
    return rc;
}

void replay_plan_free(struct replay_plan **plan)
{
    if (*plan) {
        free((*plan)->action);
        free((*plan)->source);
    }
    free(*plan);
    *plan = NULL;
}
