#include "coordinator/core/submodel/submodel_revise.h"

#include <math.h>

#include "coordinator/core/generation/pace.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/parts/part_work.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/submodel/submodel_plan.h"

#define DIVISIONS_MAX 3      /* the first, its correction, and that of its new widths */
#define STEPS_MIN 8          /* of a slice that counts as measured */
#define DONE_MIN 0.05        /* share of the steps after which a device has measured well */
#define DONE_WAIT 0.15       /* share after which a device does not wait for slower ones */
#define DONE_MAX 0.3         /* share after which a new division would lose too much */
#define GAIN_MIN 0.05        /* least gain, as a share of the time that is left */
#define GAIN_SECONDS_MIN 3.0 /* deriving models and preparing groups takes a second or more */

/* Given groups, and those of data that stay on devices, are not divided again. */
static bool may_revise(const struct parent_slot *parent)
{
    const struct parent *row = &parent->parent;
    bool first = true; /* no group has failed yet */
    for (size_t g = 0; g < row->groups.count; g++) {
        first = first && row->part[g].state == PART_TRAINS && row->part[g].attempts == 1;
    }
    return first && row->divisions > 0 && row->divisions < DIVISIONS_MAX && !parent->work.weighed &&
           !parent->work.asked;
}

/* The steps of each group. */
struct group_steps {
    double done[GROUPS_MAX], all[GROUPS_MAX]; /* all is 0 if the group has no job */
};

static void take_steps(const struct core *core, const struct parent *row, struct group_steps *steps)
{
    for (size_t g = 0; g < row->groups.count; g++) {
        const struct job_slot *job = groups_job(core, &row->part[g]);
        steps->done[g] = job ? (double)job->progress.reached_step : 0;
        steps->all[g] = job ? (double)job->total_steps : 0;
    }
}

/* The share of its steps that a device has done, of all groups that were planned for it. */
static double share_done(const struct parent *row, const struct group_steps *steps,
                         const struct device_id *device)
{
    double done = 0, all = 0;
    for (size_t g = 0; g < row->groups.count; g++) {
        if (id_equal(row->groups.group[g].device.text, device->text)) {
            done += steps->done[g];
            all += steps->all[g];
        }
    }
    return all > 0 ? done / all : 0;
}

/* Return the largest share that a device has done. */
static double most_done(const struct parent *row, const struct group_steps *steps)
{
    double most = 0;
    for (size_t g = 0; g < row->groups.count; g++) {
        most = fmax(most, share_done(row, steps, &row->groups.group[g].device));
    }
    return most;
}

/* Take the slices that have STEPS_MIN steps, of devices that have done this share. */
static void take_slices(const struct core *core, const struct parent *row,
                        const struct group_steps *steps, double share, struct division_trial *trial)
{
    for (size_t g = 0; g < row->groups.count; g++) {
        const struct job_slot *job = groups_job(core, &row->part[g]);
        if (!job || job->job.state != JOB_RUNNING || job->progress.pace.settled.steps < STEPS_MIN) {
            continue;
        }
        const struct device_id *device = &job->plan.stage[0].device;
        if (share_done(row, steps, device) >= share) {
            trial->slice[trial->count++] = (struct slice_seconds){
                .device = *device,
                .group = g,
                .seconds = pace_settled_mean(&job->progress.pace) / (double)job->job.spec.batch};
        }
    }
}

/* Whether each device that groups were planned for has measured one. */
static bool is_measured(const struct parent *row, const struct division_trial *trial)
{
    bool all = true;
    for (size_t g = 0; g < row->groups.count; g++) {
        const char *device = row->groups.group[g].device.text;
        bool measured = false;
        for (size_t i = 0; i < trial->count; i++) {
            measured = measured || id_equal(trial->slice[i].device.text, device);
        }
        all = all && measured;
    }
    return all;
}

/* Whether the new division ends the phase early enough, and before the deadline of the groups. */
static bool is_worth(const struct core *core, const struct parent_slot *parent,
                     const struct division *division)
{
    const double least = fmax(GAIN_MIN * division->present_seconds, GAIN_SECONDS_MIN);
    const double end_ms = (double)core->now_ms + 1000 * (division->seconds + GAIN_SECONDS_MIN);
    return division->present_seconds - division->seconds > least &&
           (parent->work.deadline_ms == NEVER || end_ms < (double)parent->work.deadline_ms);
}

/* The operations of the steps that are lost count. */
static void end_jobs(struct core *core, struct parent_slot *parent)
{
    for (size_t g = 0; g < parent->parent.groups.count; g++) {
        struct parent_part *part = &parent->parent.part[g];
        part_work_count_lost(parent, part, groups_job(core, part));
        groups_cancel(core, part, "", "the groups are divided again");
        *part = (struct parent_part){.state = PART_WAITING};
    }
}

void submodel_revise(struct core *core, struct parent_slot *parent)
{
    struct parent *row = &parent->parent;
    struct division_trial trial = {0};
    struct division division = {0};
    struct err err = {0};
    if (!may_revise(parent)) {
        return;
    }
    struct group_steps steps;
    take_steps(core, row, &steps);
    const double most = most_done(row, &steps);
    take_slices(core, row, &steps, most > DONE_WAIT ? 0 : DONE_MIN, &trial);
    if (most <= DONE_MAX && !is_measured(row, &trial)) {
        return;
    }
    for (size_t g = 0; g < row->groups.count; g++) {
        trial.left[g] = steps.all[g] > 0 ? 1 - steps.done[g] / steps.all[g] : 1;
    }
    parent->work.weighed = true;
    if (most > DONE_MAX || submodel_plan_again(core, parent, &trial, &division, &err) != 0 ||
        !is_worth(core, parent, &division)) {
        return;
    }
    end_jobs(core, parent);
    row->groups = division.groups;
    row->divisions++;
    parent->work.weighed = false; /* the new division is compared too */
    groups_changed(parent);
    act_publish_job(core, "groups_divided", &parent->job, parent->job.id.text,
                    "the groups of '%s' are divided again: %.3g s are left instead of %.3g s",
                    parent->job.spec.name, division.seconds, division.present_seconds);
}
