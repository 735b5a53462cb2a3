#include "coordinator/core/gossip_job.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/act.h"
#include "coordinator/core/exports.h"
#include "coordinator/core/gossip_form.h"
#include "coordinator/core/gossip_groups.h"
#include "coordinator/core/gossip_local.h"
#include "coordinator/core/gossip_parts.h"
#include "coordinator/core/gossip_records.h"
#include "coordinator/core/groups.h"
#include "coordinator/core/kept.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/stall.h"
#include "coordinator/core/state.h"
#include "coordinator/core/text.h"
#include "schema/job_check.h"

#define FAILURES_MAX 3  /* of a group, by itself */
#define GOOD_AVERAGES 3 /* that end a job with target_accuracy */

/* ---- matches ---- */

static void begin_work(struct parent_slot *parent)
{
    const struct job_spec *spec = &parent->job.spec;
    const enum levels_weights weights = gossip_by_samples(spec)                    ? LEVELS_SAMPLES
                                        : spec->gossip.weights == WEIGHTS_ACCURACY ? LEVELS_ACCURACY
                                                                                   : LEVELS_EQUAL;
    const struct gossip_rules rules = {.seed = (uint64_t)spec->seed,
                                       .life = ++parent->parent.gossip.life,
                                       .batch = spec->batch,
                                       .rounds = spec->gossip.schedule == SCHEDULE_ROUNDS,
                                       .level = spec->gossip.level,
                                       .weights = weights,
                                       .uniform = spec->gossip.pairs == PAIRS_UNIFORM,
                                       .adopts = spec->gossip.adopt,
                                       .average_every = spec->gossip.average_every};
    gossip_init(&parent->mixes.gossip, &rules);
    parent->mixes.begun = true;
    groups_changed(parent);
}

/* Groups whose steps until the next mix have changed are told. */
static void assign_steps(struct core *core, struct parent_slot *parent)
{
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        struct gossip_group_work *work = &parent->mixes.group[g];
        if (work->incarnation == 0) {
            continue;
        }
        const int64_t every = gossip_steps(&parent->mixes.gossip, g);
        const int64_t passed = gossip_passed(&parent->mixes.gossip, g);
        if (every != work->every || passed != work->passed) {
            work->every = every;
            work->passed = passed;
            gossip_touch(core, parent, g);
        }
    }
}

/* A match of a pair has an order for each side: that of the first counts. */
static void count_order(struct core *core, const struct gossip_order *order)
{
    const struct mix_match *match = &order->match;
    if (match->kind == MIX_PAIR && match->peer[0].group > match->own.group) {
        gossip_watch_match(core);
    }
}

/* While the disk is full, no record could be stored: no match is made. */
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
        gossip_touch(core, parent, order.group);
    }
    assign_steps(core, parent);
}

/* ---- the end ---- */

/* Append the groups that are not in the result, by number. false: all are. */
static bool name_left_out(const struct parent *row, const bool without[GROUPS_MAX],
                          char message[MESSAGE_SIZE])
{
    bool any = false;
    for (size_t g = 0; g < row->groups.count; g++) {
        const size_t size = strlen(message);
        if (without[g]) {
            text_set(message + size, MESSAGE_SIZE - size, "%s %zu",
                     any ? "," : "; not in the last average: group", g);
            any = true;
        }
    }
    return any;
}

static void succeed(struct core *core, struct parent_slot *parent,
                    const struct checkpoint_id *checkpoint, const char *reason,
                    const bool without[GROUPS_MAX])
{
    struct job_progress *progress = &parent->job.progress;
    struct parent *row = &parent->parent;
    char message[MESSAGE_SIZE] = "trained";
    if (name_left_out(row, without, message)) {
        reason = "degraded";
    }
    parent->job.checkpoint = *checkpoint;
    progress->step = gossip_steps_done(parent);
    progress->steps =
        progress->step > gossip_steps_all(parent) ? progress->step : gossip_steps_all(parent);
    progress->fraction = 1;
    for (size_t g = 0; g < row->groups.count; g++) {
        if (row->part[g].state == PART_TRAINS) {
            gossip_leave_job(parent, g);
            groups_cancel(core, &row->part[g], "", "the last average is stored");
            row->part[g].state = PART_TRAINED;
        }
    }
    groups_end(core, parent, JOB_SUCCEEDED, reason, message);
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
    if (done > progress->step && late) {
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
    if (!gossip_is_local(&parent->job.spec)) {
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
        if (trained == 0) {
            groups_end(core, parent, JOB_FAILED, "no_groups", "no group was trained");
        } else {
            succeed(core, parent, &row->part[last].checkpoint, "", without);
        }
    }
}

/* What devices offer changes without a part that does. */
static int64_t next_tick_ms(const struct core *core, const struct parent_slot *parent)
{
    const int64_t beat_ms = core->now_ms + core->config.heartbeat_ms;
    const int64_t due_ms = gossip_due_ms(&parent->mixes.gossip);
    const bool beats =
        parent->work.wait[0] != '\0' || (gossip_is_local(&parent->job.spec) && beat_ms < due_ms);
    return beats ? beat_ms : due_ms;
}

static void run(struct core *core, struct parent_slot *parent)
{
    if (!parent->mixes.begun) {
        begin_work(parent);
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
    gossip_local_note(core, parent);
    parent->work.tick_ms = next_tick_ms(core, parent);
    show_progress(core, parent);
    groups_show(core, parent);
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

static struct gossip_report report_of(const struct mix_report *report, int64_t step)
{
    struct gossip_report out = {.generation = report->generation,
                                .wants = report->wants,
                                .mixed = report->mixes > 0,
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
    out.average.has_loss = report->has_loss;
    out.average.loss = report->loss;
    out.average.applied = report->average.state == MIX_APPLIED;
    return out;
}

struct job_slot *gossip_job_of(const struct core *core, const struct heartbeat *heartbeat)
{
    const struct device_slot *device = slots_device(core, heartbeat->device.text);
    struct job_slot *job =
        heartbeat->has_mix && device ? slots_job(core, heartbeat->job.text) : NULL;
    return job && device->job == job && job->job.part == JOB_GROUP ? job : NULL;
}

static bool waits_for_others(const struct mix_report *report)
{
    return report->wants || mix_is_open(report->pair.state) || mix_is_open(report->average.state);
}

void gossip_job_hear(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat)
{
    const struct mix_report *report = &heartbeat->mix;
    struct parent_slot *parent = slots_parent(core, job->job.parent.text);
    if (!parent || parent->job.spec.strategy != STRATEGY_GOSSIP || parent->work.ended) {
        return;
    }
    for (size_t i = 0; i < report->record_count; i++) {
        if (gossip_record_fits(parent, &report->record[i])) {
            gossip_record(core, parent, &report->record[i]);
        } else {
            core->gossip.records_refused++;
        }
    }
    struct gossip_group_work *group = &parent->mixes.group[job->job.group];
    if (report->group != job->job.group || group->incarnation == 0 ||
        group->incarnation != report->generation) {
        return;
    }
    if (parent->job.spec.gossip.schedule == SCHEDULE_ROUNDS && waits_for_others(report)) {
        stall_watch(core, job); /* it makes no step, and shall not */
    }
    const struct gossip_report heard = report_of(report, heartbeat->step);
    gossip_hear(&parent->mixes.gossip, (size_t)job->job.group, &heard, core->now_ms);
    group->mixes = report->mixes;
    group->distance = report->distance;
    group->has_distance = report->has_distance;
    gossip_watch_report(core, parent, (size_t)job->job.group, job, report);
    parent->work.touched = true;
}

/* ---- averages ---- */

/* The job of the group that is to send the average, or NULL. */
static const struct job_slot *author_of(const struct core *core, const char *device_id,
                                        const struct stored_average *average,
                                        struct parent_slot **parent)
{
    const struct job_slot *job = slots_job(core, average->job.text);
    const struct device_slot *device = slots_device(core, device_id);
    *parent = job ? slots_parent(core, job->job.parent.text) : NULL;
    if (!*parent || !device || device->job != job ||
        (*parent)->job.spec.strategy != STRATEGY_GOSSIP ||
        job->plan.generation != average->generation) {
        return NULL;
    }
    const struct gossip *gossip = &(*parent)->mixes.gossip;
    const bool expected =
        mix_xid_is(gossip->average, average->xid) && gossip->averager == (size_t)job->job.group;
    return expected ? job : NULL;
}

const struct job_spec *core_average_job(const struct core *core, const char *device_id,
                                        const struct stored_average *average,
                                        const struct model **model)
{
    struct parent_slot *parent;
    const struct job_slot *job = author_of(core, device_id, average, &parent);
    *model = job ? parent->model : NULL;
    return job ? &parent->job.spec : NULL;
}

/* The newest ones stay. */
static void keep_average(struct core *core, struct parent_slot *parent,
                         const struct gossip_average *average)
{
    struct gossip_state *state = &parent->parent.gossip;
    if (state->average_count == GOSSIP_AVERAGES_KEPT) {
        const struct gossip_average gone = state->average[0];
        memmove(&state->average[0], &state->average[1],
                (GOSSIP_AVERAGES_KEPT - 1) * sizeof(state->average[0]));
        state->average_count--;
        kept_discard(core, &gone.checkpoint, gone.sha256);
    }
    state->average[state->average_count++] = *average;
    state->averages++;
}

static void show_accuracy(struct core *core, struct parent_slot *parent,
                          const struct gossip_average *average, double loss)
{
    struct job_progress *progress = &parent->job.progress;
    const struct metric metric[] = {
        {.step = average->step, .name = METRIC_TEST_LOSS, .value = loss},
        {.step = average->step, .name = METRIC_TEST_ACCURACY, .value = average->accuracy}};
    for (size_t i = 0; average->has_accuracy && i < 2; i++) {
        act_metric(core, parent->job.id.text, &metric[i]);
    }
    progress->accuracy = average->accuracy;
    progress->has_accuracy = average->has_accuracy;
    parent->work.job_changed = true;
}

/* Mark the groups that are not in the average. */
static void find_left_out(const struct parent_slot *parent, bool out[GROUPS_MAX])
{
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        out[g] = !parent->mixes.gossip.group[g].gave;
    }
}

void gossip_on_average(struct core *core, const struct event *event)
{
    const struct event_average_stored *stored = &event->average_stored;
    struct parent_slot *parent;
    const struct job_slot *author = author_of(core, stored->device.text, &stored->average, &parent);
    if (stored->refused) {
        if (author) {
            gossip_refuse(&parent->mixes.gossip, core->now_ms);
            parent->work.touched = true;
        }
        return;
    }
    if (!author) {
        act_problem(core, PROBLEM_STALE_GENERATION, "the average is not expected any more");
        return;
    }
    struct gossip_state *state = &parent->parent.gossip;
    const struct gossip_average *newest =
        state->average_count > 0 ? &state->average[state->average_count - 1] : NULL;
    bool without[GROUPS_MAX] = {false};
    act_reply(core, 204, OBJECT_NOTHING, NULL);
    if (newest && mix_xid_is(newest->xid, stored->average.xid)) {
        return; /* a repeat */
    }
    const int64_t group = author->job.group;
    struct gossip_average average = {
        .xid = stored->average.xid,
        .author = {.group = group, .generation = parent->mixes.group[group].incarnation},
        .bytes = stored->bytes,
        .step = parent->mixes.gossip.average_step,
        .accuracy = stored->average.accuracy,
        .has_accuracy = stored->average.has_accuracy};
    memcpy(average.sha256, stored->sha256, SHA256_SIZE);
    exports_store(core, &parent->job, average.step, average.sha256, average.bytes);
    average.checkpoint = core->checkpoint.id;
    keep_average(core, parent, &average);
    gossip_stored(&parent->mixes.gossip, average.xid);
    show_accuracy(core, parent, &average, stored->average.loss);
    gossip_watch_average(core, parent, average.step);
    const double target = parent->job.spec.gossip.target_accuracy;
    state->good =
        target > 0 && average.has_accuracy && average.accuracy >= target ? state->good + 1 : 0;
    groups_changed(parent);
    parent->work.touched = true;
    act_publish_job(core, "average_stored", &parent->job, average.checkpoint.text,
                    "average %" PRId64 " of '%s' is stored", state->averages,
                    parent->job.spec.name);
    if (gossip_is_last(&parent->mixes.gossip)) {
        find_left_out(parent, without);
        succeed(core, parent, &average.checkpoint, "", without);
    } else if (state->good >= GOOD_AVERAGES) {
        succeed(core, parent, &average.checkpoint, "stopped_early", without);
    }
}
