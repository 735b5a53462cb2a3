#include "coordinator/core/gossip/gossip_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/core/failures/stall.h"
#include "coordinator/core/gossip/gossip_form.h"
#include "coordinator/core/gossip/gossip_groups.h"
#include "coordinator/core/gossip/gossip_life.h"
#include "coordinator/core/gossip/gossip_parts.h"
#include "coordinator/core/gossip/gossip_records.h"
#include "coordinator/core/gossip/gossip_result.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/parts/local_groups.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "schema/job_check.h"

#define FAILURES_MAX 3 /* failures of a group by itself */

/* ---- matches ---- */

/* A restored backup has an earlier life. The time of day never repeats a life, and it is later than
 * the lives that devices know, unless the clock was set back (docs/adr/0153). */
static int64_t next_life(const struct core *core, int64_t last)
{
    return core->wall_ms > last ? core->wall_ms : gossip_life_after(core->seed, last);
}

static void begin_work(const struct core *core, struct parent_slot *parent)
{
    const struct job_spec *spec = &parent->job.spec;
    const enum levels_weights weights = gossip_by_samples(spec)                    ? LEVELS_SAMPLES
                                        : spec->gossip.weights == WEIGHTS_ACCURACY ? LEVELS_ACCURACY
                                                                                   : LEVELS_EQUAL;
    parent->parent.gossip.life = next_life(core, parent->parent.gossip.life);
    const struct gossip_rules rules = {
        .seed = (uint64_t)spec->seed,
        .life = parent->parent.gossip.life,
        .batch = spec->batch,
        .rounds = spec->gossip.schedule == SCHEDULE_ROUNDS,
        .level = spec->gossip.level,
        .weights = weights,
        .uniform = spec->gossip.pairs == PAIRS_UNIFORM,
        .adopts = spec->gossip.adopt,
        .tests = spec->test_local.holdout > 0,
        .average_every = gossip_average_every(&spec->gossip, parent->parent.gossip.member_count),
        .test_samples = parent->job.data.test_samples};
    gossip_init(&parent->mixes.gossip, &rules);
    gossip_vary_author(parent);
    parent->mixes.begun = true;
    groups_changed(parent);
}

/* If the steps until the next mix changed by a quarter or less, the group gets them with its next
 * order. */
static bool is_far(int64_t every, int64_t told)
{
    return 4 * llabs(every - told) > told;
}

/* Wake the groups whose steps until the next mix have changed much. */
static void assign_steps(struct core *core, struct parent_slot *parent)
{
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        struct gossip_group_work *work = &parent->mixes.group[g];
        if (work->incarnation == 0) {
            continue;
        }
        const int64_t every = gossip_steps(&parent->mixes.gossip, g);
        const int64_t passed = gossip_passed(&parent->mixes.gossip, g);
        const bool slows = gossip_slows(&parent->mixes.gossip, g);
        work->every = every;
        if (is_far(every, work->told) || passed != work->passed || slows != work->slows) {
            work->told = every;
            work->passed = passed;
            work->slows = slows;
            gossip_touch(core, parent, g);
        }
    }
}

/* A pair match has an order for each side. Only the order of the first side is counted. */
static void count_order(struct core *core, const struct gossip_order *order)
{
    const struct mix_match *match = &order->match;
    if (match->kind == MIX_PAIR && match->peer[0].group > match->own.group) {
        gossip_watch_match(core);
    }
}

/* Withdraw the orders of an average that no group computes any more. A group with such an order
 * expects to adopt the average, and mixes with no other group. */
static void take_back_orders(struct core *core, struct parent_slot *parent)
{
    const bool over = parent->mixes.gossip.phase == GOSSIP_MIXES;
    for (size_t g = 0; over && g < parent->parent.gossip.member_count; g++) {
        struct mix_match *order = &parent->mixes.group[g].order[1];
        if (order->xid.counter > 0 && order->kind == MIX_AVERAGE && !order->averages &&
            order->alpha > 0) {
            order->xid.counter = 0;
            gossip_touch(core, parent, g);
        }
    }
}

/* While the disk is nearly full, make no matches: their records could not be stored. */
static void match(struct core *core, struct parent_slot *parent)
{
    struct gossip *gossip = &parent->mixes.gossip;
    struct gossip_order order;
    if (core->disk_nearly_full) {
        return;
    }
    if (gossip_steps_done(parent) >= gossip_steps_all(parent)) {
        gossip_finish(gossip);
    }
    gossip_tick(gossip, gossip_steps_done(parent), core->now_ms);
    while (gossip_next(gossip, &order)) {
        const size_t place = order.match.kind == MIX_PAIR ? 0 : 1;
        count_order(core, &order);
        parent->mixes.group[order.group].order[place] = order.match;
        parent->mixes.group[order.group].told = gossip_steps(gossip, order.group);
        gossip_touch(core, parent, order.group);
    }
    take_back_orders(core, parent);
    assign_steps(core, parent);
}

/* ---- parts that have ended ---- */

/* By itself a group ends only at the greatest number of steps of any job. */
static void take_part(struct core *core, struct parent_slot *parent, const struct job_slot *job)
{
    struct parent_part *part = parent->work.ended ? NULL : groups_part_of(parent, job);
    if (!part || !job->mark.ended) {
        return;
    }
    struct gossip_member *member = &parent->parent.gossip.member[job->job.group];
    const bool possible = gossip_take_steps(core, parent, (size_t)job->job.group, job);
    gossip_leave_job(parent, (size_t)job->job.group);
    if (job->job.state == JOB_SUCCEEDED && possible) {
        part->state = PART_TRAINED;
        part->checkpoint = job->job.checkpoint;
        return;
    }
    member->failures++;
    part->state = member->failures < FAILURES_MAX ? PART_WAITING : PART_MISSING;
    act_publish_job(core, "group_lost", &parent->job, parent->job.id.text,
                    "group %" PRId64 " of '%s' has failed: %.150s", job->job.group,
                    parent->job.spec.name, job->job.message);
}

/* ---- progress ---- */

static void show_progress(struct core *core, struct parent_slot *parent)
{
    struct job_progress *progress = &parent->job.progress;
    const int64_t all = gossip_steps_all(parent);
    const int64_t done = gossip_steps_done(parent) < all ? gossip_steps_done(parent) : all;
    const bool late = core->now_ms - parent->work.shown_ms >= core->config.heartbeat_ms;
    double speed = 0;
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        const struct job_slot *job = groups_job(core, &parent->parent.part[g]);
        speed +=
            job && parent->mixes.group[g].incarnation > 0 ? gossip_measured_speed(parent, job) : 0;
    }
    /* Progress goes with every other change of the row, and at times by itself. */
    if (done > progress->step && (late || parent->work.job_changed)) {
        progress->step = done;
        parent->work.job_changed = true;
    }
    progress->steps = all;
    progress->fraction = all > 0 ? (double)progress->step / (double)all : 0;
    progress->samples_per_second = speed;
    progress->eta_seconds = speed > 0 ? (double)((all - done) * parent->job.spec.batch) / speed : 0;
}

/* ---- a step ---- */

static bool is_due(const struct core *core, const struct parent_slot *parent)
{
    return core->now_ms >= parent->work.tick_ms || groups_has_room(core, parent);
}

static void begin_groups(struct core *core, struct parent_slot *parent)
{
    if (groups_count(&parent->parent, PART_WAITING) == 0) {
        return;
    }
    if (!job_is_local(&parent->job.spec)) {
        gossip_divide_parent(core, parent);
    }
    for (size_t g = 0; g < parent->parent.groups.count && !parent->work.full; g++) {
        if (parent->parent.part[g].state == PART_WAITING && act_room(core)) {
            gossip_begin_group(core, parent, g);
        }
    }
}

static void go_on(struct core *core, struct parent_slot *parent)
{
    struct parent *row = &parent->parent;
    if (row->gossip.member_count == 0) {
        gossip_form(core, parent);
    }
    if (groups_has_room(core, parent)) {
        parent->work.full = false;
    }
    begin_groups(core, parent);
    const size_t trained = groups_count(row, PART_TRAINED),
                 missing = groups_count(row, PART_MISSING);
    if (row->groups.count > 0 && trained + missing == row->groups.count) {
        bool without[GROUPS_MAX];
        size_t last = 0;
        while (last < row->groups.count && row->part[last].state != PART_TRAINED) {
            last++;
        }
        for (size_t g = 0; g < row->groups.count; g++) {
            without[g] = g != last;
        }
        if (trained == 0 && gossip_has_result(parent)) {
            gossip_end_without_groups(core, parent);
        } else if (trained == 0) {
            groups_end(core, parent, JOB_FAILED, "no_groups", "no group was trained");
        } else {
            gossip_succeed(core, parent, &row->part[last].checkpoint, "", without);
        }
    }
}

/* The offers of devices change without any change of a part. And if all groups were replaced in
 * this step, no reports come that would let the next ones begin. */
static int64_t next_tick_ms(const struct core *core, const struct parent_slot *parent)
{
    const int64_t beat_ms = core->now_ms + core->config.heartbeat_ms;
    if (core->disk_nearly_full) {
        return beat_ms; /* due matches wait until the disk has room */
    }
    const int64_t due_ms = gossip_due_ms(&parent->mixes.gossip);
    const bool waits = groups_count(&parent->parent, PART_WAITING) > 0;
    const bool beats = parent->work.wait[0] != '\0' ||
                       ((job_is_local(&parent->job.spec) || waits) && beat_ms < due_ms);
    return beats ? beat_ms : due_ms;
}

static void run(struct core *core, struct parent_slot *parent)
{
    if (!parent->mixes.begun) {
        begin_work(core, parent);
    }
    groups_follow(core, parent);
    if (!parent->parent.paused) {
        go_on(core, parent);
    }
    if (parent->work.ended) {
        return;
    }
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        gossip_look_at(core, parent, g);
    }
    match(core, parent);
    if (!parent->parent.paused) {
        gossip_judge(core, parent);
    } else if (gossip_has_result(parent)) {
        gossip_repeat_last(&parent->mixes.gossip); /* the groups that evaluated it have stopped */
    }
    if (parent->work.ended) {
        return;
    }
    local_groups_note(core, parent);
    parent->work.tick_ms = next_tick_ms(core, parent);
    groups_show(core, parent);
    show_progress(core, parent);
}

static const struct checkpoint_id *kept(const struct parent_slot *parent)
{
    static const struct checkpoint_id none;
    const struct gossip_state *state = &parent->parent.gossip;
    return state->average_count > 0 ? &state->average[state->average_count - 1].checkpoint : &none;
}

const struct parent_row gossip_row = {
    .take_part = take_part, .is_due = is_due, .run = run, .kept = kept};

/* ---- reports ---- */

static bool has_computed(const struct gossip *gossip, const struct mix_report *report)
{
    bool computed = false;
    for (size_t i = 0; i < report->record_count; i++) {
        const struct mix_record *record = &report->record[i];
        computed =
            computed ||
            (record->kind == MIX_AVERAGE && mix_xid_is(record->xid, gossip->average) &&
             record->own.group == report->group && record->own.generation == report->generation);
    }
    return computed;
}

static struct gossip_report report_of(const struct gossip *gossip, const struct mix_report *report,
                                      int64_t step)
{
    struct gossip_report out = {.generation = report->generation,
                                .wants = report->wants,
                                .mixed = report->mixes > 0,
                                .computed = has_computed(gossip, report),
                                .step = step};
    out.pair.xid = report->pair.xid;
    out.pair.open = mix_is_open(report->pair.state);
    out.pair.copied = report->pair.copied;
    out.pair.fetched = report->pair.state == MIX_FETCHED;
    out.pair.applied = report->pair.state == MIX_APPLIED;
    out.average.xid = report->average.xid;
    out.average.open = mix_is_open(report->average.state);
    out.average.copied = report->average.copied;
    out.average.fetched = report->average.state == MIX_FETCHED;
    out.average.tested = report->has_tests;
    out.average.has_loss = report->has_loss;
    out.average.loss = report->loss;
    out.average.applied = report->average.state == MIX_APPLIED;
    out.average.failed =
        report->average.state == MIX_EXPIRED || report->average.state == MIX_REJECTED;
    out.average.has_lacks = report->has_lacks;
    out.average.lacks = report->lacks;
    return out;
}

struct job_slot *gossip_job_of(const struct core *core, const struct heartbeat *heartbeat)
{
    const struct device_slot *device = slots_device(core, heartbeat->device.text);
    struct job_slot *job =
        heartbeat->has_mix && device ? slots_job(core, heartbeat->job.text) : NULL;
    return job && device->job == job && job->job.part == JOB_GROUP ? job : NULL;
}

/* A group gives its copy for an average as soon as it is between two steps. A group that owes it is
 * within a step, or hangs. A copy for a pair may have to wait for a slow reader of the last one. */
static bool waits_for_others(const struct mix_report *report)
{
    const bool averages = mix_is_open(report->average.state);
    const bool owes = averages && !report->average.copied;
    return !owes && (report->wants || averages || mix_is_open(report->pair.state));
}

/* Called before the records of the report are checked. A group is matched only after its first
 * report, so the first report cannot name a match of this life. Later reports, and those of another
 * incarnation, are not trusted to name a life. */
static void learn_life(const struct core *core, struct parent_slot *parent, size_t group,
                       const struct mix_report *report)
{
    struct gossip *gossip = &parent->mixes.gossip;
    if (gossip->group[group].heard || report->group != (int64_t)group ||
        report->generation != parent->parent.gossip.member[group].incarnation) {
        return;
    }
    gossip_outlive(gossip, core->seed, report->pair.xid);
    gossip_outlive(gossip, core->seed, report->average.xid);
    for (size_t i = 0; i < report->record_count; i++) {
        gossip_outlive(gossip, core->seed, report->record[i].xid);
    }
    if (parent->mixes.begun && gossip->rules.life != parent->parent.gossip.life) {
        parent->parent.gossip.life = gossip->rules.life;
        groups_changed(parent);
    }
}

void gossip_job_hear(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat)
{
    const struct mix_report *report = &heartbeat->mix;
    struct parent_slot *parent = slots_parent(core, job->job.parent.text);
    if (!parent || parent->job.spec.strategy != STRATEGY_GOSSIP || parent->work.ended) {
        return;
    }
    learn_life(core, parent, (size_t)job->job.group, report);
    for (size_t i = 0; i < report->record_count; i++) {
        if (gossip_record_fits(parent, &report->record[i])) {
            gossip_record(core, parent, &report->record[i]);
        } else {
            core->gossip.records_refused++;
        }
    }
    const size_t index = (size_t)job->job.group;
    struct gossip_group_work *group = &parent->mixes.group[index];
    if (report->group != job->job.group || group->incarnation == 0 ||
        group->incarnation != report->generation) {
        return;
    }
    const bool holds =
        parent->job.spec.gossip.schedule == SCHEDULE_ROUNDS && waits_for_others(report);
    struct gossip *gossip = &parent->mixes.gossip;
    if (holds || gossip_is_testing(gossip, index) ||
        gossip_is_evaluating(gossip, index, core->now_ms)) {
        stall_watch(core, job); /* the group makes no steps now, and need not */
    }
    const struct gossip_report heard = report_of(gossip, report, heartbeat->step);
    gossip_note_tests(parent, index, report);
    gossip_hear(gossip, index, &heard, core->now_ms);
    group->measured = group->measured || heartbeat->link_count > 0;
    group->mixes = report->mixes;
    group->distance = report->distance;
    group->has_distance = report->has_distance;
    gossip_watch_report(core, parent, index, job, report);
    parent->work.touched = true;
}
