#include "coordinator/core/gossip/gossip_watch.h"

#include <math.h>

#include "coordinator/core/gossip/gossip_groups.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/state.h"

static void measure(struct core *core, const struct job *job, int64_t step, int name, double value)
{
    const struct metric metric = {.step = step, .name = name, .value = value};
    act_metric(core, job->id.text, &metric);
}

/* ---- matches that end ---- */

/* Whether the match has ended and was not counted yet: a group repeats a status until the next
 * match of its kind. */
static bool has_ended(const struct mix_status *status, struct mix_xid *counted)
{
    const bool over = status->xid.counter > 0 && status->state != MIX_NONE &&
                      !mix_is_open(status->state) && mix_xid_after(status->xid, *counted);
    *counted = over ? status->xid : *counted;
    return over;
}

static void count_end(struct core *core, struct gossip_watch *watch, const struct job_slot *job,
                      const struct mix_status *status)
{
    struct core_gossip *counts = &core->gossip;
    counts->applied += status->state == MIX_APPLIED;
    counts->expired += status->state == MIX_EXPIRED;
    counts->rejected += status->state == MIX_REJECTED;
    if (status->state == MIX_APPLIED && status->seconds > 0) {
        counts->mix_seconds += status->seconds;
        watch->mix_seconds = status->seconds;
        measure(core, &job->job, job->job.progress.step, METRIC_MIX_SECONDS, status->seconds);
    }
}

/* ---- distances ---- */

/* The greatest known distance of a group from this average. */
static double greatest(const struct parent_slot *parent, struct mix_xid average)
{
    double distance = 0;
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        const struct gossip_watch *watch = &parent->mixes.group[g].watch;
        distance =
            mix_xid_is(watch->distance_of, average) ? fmax(distance, watch->distance) : distance;
    }
    return distance;
}

static void take_distance(struct core *core, struct parent_slot *parent, size_t group,
                          const struct job_slot *job, const struct mix_report *report)
{
    struct gossip_watch *watch = &parent->mixes.group[group].watch;
    const struct gossip *gossip = &parent->mixes.gossip;
    if (!report->has_distance || mix_xid_is(watch->distance_of, report->average.xid)) {
        return;
    }
    watch->distance_of = report->average.xid;
    watch->distance = report->distance;
    measure(core, &job->job, job->job.progress.step, METRIC_DISTANCE, report->distance);
    if (mix_xid_is(gossip->average, report->average.xid)) {
        measure(core, &parent->job, gossip->average_step, METRIC_DISTANCE,
                greatest(parent, gossip->average));
    }
}

void gossip_watch_report(struct core *core, struct parent_slot *parent, size_t group,
                         const struct job_slot *job, const struct mix_report *report)
{
    struct gossip_watch *watch = &parent->mixes.group[group].watch;
    if (has_ended(&report->pair, &watch->pair)) {
        count_end(core, watch, job, &report->pair);
    }
    if (has_ended(&report->average, &watch->average)) {
        count_end(core, watch, job, &report->average);
    }
    take_distance(core, parent, group, job, report);
    if (report->gap_seconds > watch->gap_seconds) {
        measure(core, &job->job, job->job.progress.step, METRIC_GAP_SECONDS, report->gap_seconds);
    }
    watch->gap_seconds = report->gap_seconds; /* it is smaller after a new generation began */
}

/* ---- matches and averages ---- */

void gossip_watch_match(struct core *core)
{
    core->gossip.matches++;
}

double gossip_variation(const double *value, size_t count)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += value[i];
    }
    const double mean = count > 0 ? sum / (double)count : 0;
    for (size_t i = 0; i < count; i++) {
        squares += (value[i] - mean) * (value[i] - mean);
    }
    return count > 1 && mean > 0 ? sqrt(squares / (double)count) / mean : 0;
}

/* The metrics are about the seconds that groups take for their steps between two mixes, and about
 * their newest mix. Groups that slow down before their mixes have no such seconds. */
void gossip_watch_average(struct core *core, const struct parent_slot *parent, int64_t step)
{
    double period[GROUPS_MAX], mix_seconds = 0;
    size_t periods = 0, mixes = 0;
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        const struct gossip_group_work *work = &parent->mixes.group[g];
        const struct job_slot *job = groups_job(core, &parent->parent.part[g]);
        const double speed = job && work->incarnation > 0 ? gossip_measured_speed(parent, job) : 0;
        if (speed > 0 && work->every > 0 && !work->slows) {
            period[periods++] = (double)(work->every * parent->job.spec.batch) / speed;
        }
        mix_seconds += work->watch.mix_seconds;
        mixes += work->watch.mix_seconds > 0;
    }
    core->gossip.averages++;
    if (periods > 1) {
        measure(core, &parent->job, step, METRIC_PERIOD_CV, gossip_variation(period, periods));
    }
    if (mixes > 0) {
        measure(core, &parent->job, step, METRIC_MIX_SECONDS, mix_seconds / (double)mixes);
    }
}
