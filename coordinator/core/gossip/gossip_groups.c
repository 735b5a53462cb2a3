#include "coordinator/core/gossip/gossip_groups.h"

#include <math.h>
#include <string.h>

#include "coordinator/core/gossip/gossip_parts.h"
#include "coordinator/core/gossip/gossip_records.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/parts/local_groups.h"
#include "coordinator/core/placement/local_data.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "schema/job_check.h"

#define CHANGE 0.2 /* relative change of a speed or link that levels the groups again */

int64_t gossip_steps_done(const struct parent_slot *parent)
{
    int64_t steps = 0;
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        steps += parent->parent.gossip.member[g].steps + parent->mixes.group[g].claims.reached;
    }
    return steps;
}

int64_t gossip_steps_all(const struct parent_slot *parent)
{
    return job_total_steps(&parent->job.spec, job_epoch_samples(&parent->job.data));
}

/* The steps of the job count, although its state is lost. */
void gossip_leave_job(struct parent_slot *parent, size_t group)
{
    struct gossip_group_work *work = &parent->mixes.group[group];
    struct gossip_member *member = &parent->parent.gossip.member[group];
    member->steps += work->claims.reached;
    member->lost = 0;
    work->claims = (struct gossip_claims){0};
    groups_changed(parent);
}

/* The job may have gone back, or gone on again with copies that returned. */
static void move_lost(struct parent_slot *parent, size_t group, const struct job_slot *job)
{
    if (gossip_move_lost(&parent->mixes.group[group].claims, &parent->parent.gossip.member[group],
                         job->job.progress.step)) {
        groups_changed(parent);
    }
}

/* The age of the job is taken by the wall clock, so that steps before the coordinator's start
 * count. */
bool gossip_take_steps(const struct core *core, struct parent_slot *parent, size_t group,
                       const struct job_slot *job)
{
    struct gossip_claims *claims = &parent->mixes.group[group].claims;
    const int64_t began_ms = job->job.started_ms > 0 ? job->job.started_ms : core->wall_ms;
    const int64_t age_ms = began_ms < core->wall_ms ? core->wall_ms - began_ms : 0;
    move_lost(parent, group, job);
    gossip_claim(claims, job->job.progress.step, job->plan.predicted_step_seconds,
                 core->now_ms - age_ms, core->now_ms);
    return claims->reached >= job->job.progress.step;
}

/* ---- incarnations ---- */

static int64_t incarnation_in(const struct parent_part *part, int64_t generation)
{
    return (part->attempts << MIX_ATTEMPT_SHIFT) + generation;
}

static int64_t incarnation_of(const struct parent_part *part, const struct job_slot *job)
{
    return incarnation_in(part, job->plan.generation);
}

/* The incarnation that computed the version from which the plan resumes. It is the last one on the
 * lineage that began before this version; the newest incarnation may have begun after it. */
static int64_t resumed_from(const struct parent_part *part, const struct gossip_member *member,
                            const struct job_slot *job)
{
    for (size_t i = job->job.line_count; i-- > 0;) {
        const struct line_start *start = &job->job.line[i];
        if (start->generation < job->plan.generation && start->first < job->plan.resume_version) {
            return incarnation_in(part, start->generation);
        }
    }
    return member->incarnation;
}

/* Whether the plan starts again from version 0 although the group has trained and a newer average
 * exists: that average is the better start. */
static bool is_outdated(const struct parent_slot *parent, size_t group, const struct job_slot *job)
{
    const struct gossip_state *state = &parent->parent.gossip;
    const struct gossip_member *member = &state->member[group];
    return job->plan.resume_version == 0 && member->incarnation > 0 && state->average_count > 0 &&
           !mix_xid_is(member->origin, state->average[state->average_count - 1].xid);
}

static void replace(struct core *core, struct parent_slot *parent, size_t group, const char *why)
{
    struct parent_part *part = &parent->parent.part[group];
    struct job_slot *job = groups_job(core, part);
    struct parent_part gone = *part;
    gossip_leave_job(parent, group);
    part->state = PART_WAITING;
    if (job) {
        incidents_hand_over(job, &parent->mixes.group[group].incidents);
        groups_cancel(core, &gone, "replaced", why);
    }
}

/* The first plan of an incarnation: the log records its start before any device trains. */
static void begin_incarnation(struct core *core, struct parent_slot *parent, size_t group,
                              const struct job_slot *job)
{
    struct parent_part *part = &parent->parent.part[group];
    struct gossip_member *member = &parent->parent.gossip.member[group];
    const int64_t incarnation = incarnation_of(part, job), version = job->plan.resume_version;
    move_lost(parent, group, job);
    member->lost = 0; /* from now on the group retrains them */
    struct mix_record record = {
        .kind = MIX_START,
        .own = {.group = (int64_t)group, .generation = incarnation, .version = version},
        .rate_step = gossip_steps_done(parent)};
    if (version > 0) {
        record.peer[record.peer_count++] =
            (struct mix_member){.group = (int64_t)group,
                                .generation = resumed_from(part, member, job),
                                .version = version};
    } else {
        record.xid = member->origin;
        record.peer[0] = member->origin_author;
        record.peer_count = record.peer[0].generation > 0;
    }
    if (job_is_local(&parent->job.spec)) {
        record.samples = job->job.data.train_samples;
        record.steps = gossip_steps_all(parent);
        memcpy(record.sha256, job->job.spec.train_local.sha256, SHA256_SIZE);
        member->samples = job_epoch_samples(&job->job.data);
        member->held = job->job.spec.test_local.holdout > 0 ? job->job.data.test_samples : 0;
    }
    member->incarnation = incarnation;
    member->rate_step = record.rate_step;
    groups_take_class(parent, &job->job);
    groups_changed(parent);
    gossip_record(core, parent, &record);
}

/* ---- who runs ---- */

/* The device of the group's plan, or NULL. */
static struct device_slot *device_of(const struct core *core, const struct parent_slot *parent,
                                     size_t group)
{
    const struct job_slot *job = groups_job(core, &parent->parent.part[group]);
    return job && job->has_plan ? slots_stage_device(core, job, 0) : NULL;
}

void gossip_touch(struct core *core, const struct parent_slot *parent, size_t group)
{
    struct device_slot *device = device_of(core, parent, group);
    if (device && device->job == groups_job(core, &parent->parent.part[group])) {
        mark_device_touched(core, device);
    }
}

static void touch_all(struct core *core, const struct parent_slot *parent)
{
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        gossip_touch(core, parent, g);
    }
}

static bool differs(double value, double known)
{
    return fabs(value - known) > CHANGE * known;
}

/* Take the links to all other running groups. Return whether one has changed. */
static bool measure_links(const struct core *core, struct parent_slot *parent, size_t group)
{
    struct gossip *gossip = &parent->mixes.gossip;
    const struct device_slot *own = device_of(core, parent, group);
    bool changed = false;
    for (size_t g = 0; own && g < parent->parent.gossip.member_count; g++) {
        const struct device_slot *other = device_of(core, parent, g);
        if (g == group || !other || parent->mixes.group[g].incarnation == 0) {
            continue;
        }
        const double seconds = gossip_copy_seconds(core, own, other, parent->model);
        if (differs(seconds, gossip->seconds[group][g])) {
            gossip_link(gossip, group, g, seconds);
            changed = true;
        }
    }
    return changed;
}

double gossip_measured_speed(const struct parent_slot *parent, const struct job_slot *job)
{
    const double seconds = pace_mean(&job->progress.pace);
    return seconds > 0 ? (double)parent->job.spec.batch / seconds : 0;
}

static double planned_speed(const struct parent_slot *parent, const struct job_slot *job)
{
    const double measured = gossip_measured_speed(parent, job);
    const double predicted = job->plan.predicted_step_seconds;
    return measured > 0 ? measured : predicted > 0 ? (double)parent->job.spec.batch / predicted : 1;
}

static void enter(struct core *core, struct parent_slot *parent, size_t group,
                  const struct job_slot *job)
{
    struct gossip_group_work *work = &parent->mixes.group[group];
    const bool successor =
        parent->parent.gossip.member[group].origin.counter > 0 && job->plan.resume_version == 0;
    const double speed = planned_speed(parent, job);
    work->incarnation = parent->parent.gossip.member[group].incarnation;
    work->told = 0;
    memset(work->order, 0, sizeof(work->order));
    (void)measure_links(core, parent, group);
    gossip_enter(&parent->mixes.gossip, group, work->incarnation,
                 parent->parent.gossip.member[group].samples, speed, successor, core->now_ms);
    gossip_hold_out(&parent->mixes.gossip, group, parent->parent.gossip.member[group].held);
    touch_all(core, parent);
    act_publish_job(core, "group_started", &parent->job, parent->job.id.text,
                    "group %zu of '%s' trains", group, parent->job.spec.name);
}

/* Whether the group lost its device or its state, and was not stopped for a pause or a new plan. */
static bool is_lost(const struct job_slot *job)
{
    return job->job.state == JOB_RECOVERING || job->job.state == JOB_WAITING_FOR_DEVICES ||
           (states_phase(job) == PHASE_PREPARE && !plan_reason_is_planned(job->plan.reason));
}

static void leave(struct core *core, struct parent_slot *parent, size_t group, bool lost)
{
    struct gossip_group_work *work = &parent->mixes.group[group];
    work->incarnation = 0;
    work->passed = 0; /* the next incarnation counts other steps */
    gossip_leave(&parent->mixes.gossip, group);
    touch_all(core, parent);
    if (lost) {
        act_publish_job(core, "group_lost", &parent->job, parent->job.id.text,
                        "group %zu of '%s' does not train", group, parent->job.spec.name);
    }
}

/* A copy that arrives late is a measurement of its slow link: the timeout of the next match then
 * suffices. */
static void follow_measurements(const struct core *core, struct parent_slot *parent, size_t group,
                                const struct job_slot *job)
{
    struct gossip *gossip = &parent->mixes.gossip;
    struct gossip_group_work *work = &parent->mixes.group[group];
    const double speed = gossip_measured_speed(parent, job);
    bool changed = work->measured && measure_links(core, parent, group);
    work->measured = false;
    if (speed > 0 && differs(speed, gossip->group[group].speed)) {
        gossip_speed(gossip, group, speed);
        changed = true;
    }
    if (changed) {
        gossip_level(gossip);
    }
}

/* ---- appended data ---- */

/* The group has taken part in an average since its data grew, and has no match now. The other side
 * of its last pair may still fetch its copy: for that side the match then ends as if the group were
 * lost. */
static bool may_take_data(const struct parent_slot *parent, size_t group)
{
    const struct gossip *gossip = &parent->mixes.gossip;
    return parent->mixes.group[group].averages && gossip->phase == GOSSIP_MIXES &&
           !gossip->finishes && gossip->group[group].open.counter == 0 &&
           !gossip_is_averaging(gossip, group) && !gossip_is_testing(gossip, group);
}

/* A generation trains on the data with which it began. The next generation takes the appended
 * samples (local_data_take) and the whole state. */
static void follow_data(struct core *core, struct parent_slot *parent, size_t group,
                        struct job_slot *job)
{
    struct gossip_group_work *work = &parent->mixes.group[group];
    if (!job_is_local(&parent->job.spec) || !local_data_grew(core, job)) {
        work->averages = false;
        return;
    }
    const struct gossip *gossip = &parent->mixes.gossip;
    const bool averages = gossip->phase != GOSSIP_MIXES && gossip->group[group].asked;
    const bool alone = gossip_present(gossip) < 2; /* no average will come */
    work->averages = work->averages || averages || alone;
    if (job->job.state == JOB_RUNNING && may_take_data(parent, group) && act_room(core)) {
        work->averages = false;
        states_set(core, job, JOB_REPLANNING, plan_reason_names[PLAN_DATA_APPENDED],
                   "stops to go on with the samples that its device has added");
        generations_stop(core, job, PLAN_DATA_APPENDED);
    }
}

void gossip_look_at(struct core *core, struct parent_slot *parent, size_t group)
{
    struct parent_part *part = &parent->parent.part[group];
    struct gossip_group_work *work = &parent->mixes.group[group];
    struct job_slot *job = groups_job(core, part);
    const bool lost = job && is_lost(job);
    if (job && local_groups_changed(core, parent, job)) {
        replace(core, parent, group, "its data have changed: its group begins again");
        job = NULL;
    }
    const bool planned = job && states_plan_active(job);
    if (planned && incarnation_of(part, job) != parent->parent.gossip.member[group].incarnation) {
        if (is_outdated(parent, group, job)) {
            replace(core, parent, group, "its group begins again with the newest average");
            job = NULL;
        } else {
            begin_incarnation(core, parent, group, job);
        }
    }
    if (job && states_phase(job) == PHASE_RUN) {
        follow_data(core, parent, group, job);
    }
    const bool runs = job && states_phase(job) == PHASE_RUN;
    if (work->incarnation > 0 &&
        (!runs || work->incarnation != parent->parent.gossip.member[group].incarnation)) {
        leave(core, parent, group, lost);
    }
    if (runs && work->incarnation == 0) {
        enter(core, parent, group, job);
    }
    if (runs) {
        follow_measurements(core, parent, group, job);
    }
    if (job) {
        (void)gossip_take_steps(core, parent, group, job);
    }
}
