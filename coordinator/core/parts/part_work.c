#include "coordinator/core/parts/part_work.h"

#include "coordinator/core/parts/groups.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/submodel/savings.h"
#include "schema/job_check.h"

/* Count the plan's steps up to this version, each once. Return whether there are any. */
static bool count_steps(struct parent_slot *parent, struct parent_part *part,
                        const struct job_slot *job, const struct plan *plan, int64_t version)
{
    const int64_t steps = version - part->counted;
    if (steps <= 0) {
        return false;
    }
    part->counted = version;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stage[s];
        savings_add(&parent->parent.work, &stage->device,
                    (double)(steps * job->job.spec.batch) *
                        savings_flops(job->model, (size_t)stage->first, (size_t)stage->end));
    }
    return true;
}

/* If the coordinator did not know that a plan ran, its versions count for the next plan. */
static bool count_plan(struct parent_slot *parent, struct parent_part *part,
                       const struct job_slot *job, const struct plan *plan)
{
    return plan->state == PLAN_DONE && count_steps(parent, part, job, plan, plan->last_version);
}

static void compare(struct parent_slot *parent)
{
    struct parent *row = &parent->parent;
    double flops[GROUPS_MAX];
    for (size_t g = 0; g < row->groups.count; g++) {
        flops[g] = row->part[g].flops_per_sample;
    }
    const struct job_spec *spec = &parent->job.spec;
    const double samples =
        (double)(job_total_steps(spec, job_epoch_samples(&parent->job.data)) * spec->batch);
    const double sample_flops = savings_flops(parent->model, 0, parent->model->unit_count);
    const struct savings_base base = {.sample_flops = sample_flops,
                                      .flops = samples * sample_flops};
    savings_compare(&base, &row->work, flops, row->groups.count, &row->compute);
    parent->job.compute = row->compute;
    parent->job.has_compute = true;
    parent->work.job_changed = true;
    groups_changed(parent);
}

void part_work_count(struct parent_slot *parent, const struct job_slot *job)
{
    struct parent_part *part = groups_part_of(parent, job);
    if (!part) {
        return;
    }
    const bool earlier = count_plan(parent, part, job, &job->previous);
    const bool newest = job->has_plan && count_plan(parent, part, job, &job->plan);
    if (earlier || newest) {
        compare(parent);
    }
}

void part_work_count_lost(struct parent_slot *parent, struct parent_part *part,
                          const struct job_slot *job)
{
    if (job && job->has_plan &&
        count_steps(parent, part, job, &job->plan, job->progress.reached_step)) {
        compare(parent);
    }
}
