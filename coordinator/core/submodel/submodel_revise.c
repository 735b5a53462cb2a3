#include "coordinator/core/submodel/submodel_revise.h"

#include <math.h>

#include "coordinator/core/generation/pace.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/parts/part_work.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/submodel/submodel_plan.h"
#include "schema/job_check.h"

#define DIVISIONS_MAX 3
#define STEPS_MIN 8          /* of a slice that counts as measured */
#define PART_MIN 0.05        /* the part of the steps of a group that measures its slice well */
#define LEFT_MIN 0.85        /* if a group has less left, slower ones are measured by STEPS_MIN */
#define GAIN_MIN 0.05        /* least gain, as a share of the time that is left */
#define GAIN_SECONDS_MIN 3.0 /* deriving models and preparing groups again takes some seconds */

static double all_steps(const struct job_slot *job)
{
    return (double)job_total_steps(&job->job.spec, job_epoch_samples(&job->job.data));
}

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

/* Set the parts of their steps that groups have not done. Return the smallest. */
static double take_left(const struct core *core, const struct parent *row,
                        struct division_trial *trial)
{
    double least = 1;
    for (size_t g = 0; g < row->groups.count; g++) {
        const struct job_slot *job = groups_job(core, &row->part[g]);
        trial->left[g] = job ? 1 - (double)job->progress.reached_step / all_steps(job) : 1;
        least = fmin(least, trial->left[g]);
    }
    return least;
}

/* Take the slices that have run for this part of the steps of their groups, and for STEPS_MIN. */
static void take_slices(const struct core *core, const struct parent *row, double part,
                        struct division_trial *trial)
{
    for (size_t g = 0; g < row->groups.count; g++) {
        const struct job_slot *job = groups_job(core, &row->part[g]);
        if (!job || job->job.state != JOB_RUNNING) {
            continue;
        }
        const struct pace *pace = &job->progress.pace;
        if ((double)pace->settled.steps >= fmax(STEPS_MIN, part * all_steps(job))) {
            trial->slice[trial->count++] = (struct slice_seconds){
                .device = job->plan.stage[0].device,
                .group = g,
                .seconds = pace_settled_mean(pace) / (double)job->job.spec.batch};
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

static bool is_worth(const struct division *division)
{
    const double least = fmax(GAIN_MIN * division->present_seconds, GAIN_SECONDS_MIN);
    return division->present_seconds - division->seconds > least;
}

/* The operations of the steps that are lost count. */
static void end_jobs(struct core *core, struct parent_slot *parent)
{
    for (size_t g = 0; g < parent->parent.groups.count; g++) {
        struct parent_part *part = &parent->parent.part[g];
        const struct job_slot *job = groups_job(core, part);
        groups_cancel(core, part, "", "the groups are divided again");
        if (job) {
            part_work_count(parent, job);
        }
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
    const double left = take_left(core, row, &trial);
    take_slices(core, row, left < LEFT_MIN ? 0 : PART_MIN, &trial);
    if (!is_measured(row, &trial)) {
        return;
    }
    parent->work.weighed = true;
    if (submodel_plan_again(core, parent, &trial, &division, &err) != 0 || !is_worth(&division)) {
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
