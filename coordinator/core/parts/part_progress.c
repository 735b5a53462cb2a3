#include "coordinator/core/parts/part_progress.h"

#include <math.h>

#include "coordinator/core/parts/groups.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "schema/job_check.h"

#define ROW_HEARTBEATS 5 /* between two rows that only progress has changed */

/* Steps of parts: completed and total. */
struct steps {
    int64_t done, all;
};

/* An abandoned part has no steps left. */
static void add(const struct core *core, const struct parent_part *part, int64_t all,
                struct steps *steps)
{
    const struct job_slot *job = groups_job(core, part);
    const bool ended = part->state == PART_TRAINED || part->state == PART_MISSING;
    steps->all += all;
    steps->done += ended ? all : job ? job->job.progress.step : 0;
}

static int64_t steps_of(const struct job_spec *spec, int64_t epochs, int64_t samples)
{
    return epochs * (samples / spec->batch);
}

/* An estimate until the groups are planned: own samples and the negatives drawn for them. */
static int64_t unplanned(const struct parent_slot *parent)
{
    const struct job_spec *spec = &parent->job.spec;
    const struct submodel_options *options = &spec->submodel;
    const double count = options->group_count > 0 ? (double)options->group_count : 2;
    const double drawn = fmin(options->negatives, count - 1);
    return steps_of(spec, spec->epochs * options->replicas,
                    (int64_t)((double)parent->job.data.train_samples * (1 + drawn)));
}

static void add_groups(const struct core *core, const struct parent_slot *parent,
                       struct steps *steps)
{
    const struct parent *row = &parent->parent;
    for (size_t g = 0; g < row->groups.count; g++) {
        struct view view;
        struct view_sizes sizes;
        submodel_part_view(row, parent->job.spec.submodel.negatives, g, &view, &sizes);
        add(core, &row->part[g],
            steps_of(&parent->job.spec, parent->job.spec.epochs, (int64_t)view_epoch(&sizes)),
            steps);
    }
    steps->all += row->groups.count == 0 ? unplanned(parent) : 0;
}

static struct steps count(const struct core *core, const struct parent_slot *parent)
{
    const struct parent *row = &parent->parent;
    const struct job_spec *spec = &parent->job.spec;
    const struct job_slot *joint = groups_job(core, &row->joint);
    const struct job_data *data = &parent->job.data;
    const int64_t samples = job_epoch_samples(data),
                  joint_samples = data->joint_samples > 0 ? data->joint_samples : samples;
    struct steps steps = {0};
    add(core, &row->stem, steps_of(spec, spec->submodel.stem_epochs, samples), &steps);
    add_groups(core, parent, &steps);
    /* without the samples of missing classes */
    add(core, &row->joint,
        joint ? joint->total_steps : steps_of(spec, spec->submodel.joint_epochs, joint_samples),
        &steps);
    return steps;
}

/* The other parts evaluate models that differ from the parent's. The last evaluation may come with
 * the end of the job. */
static void show_accuracy(const struct core *core, struct parent_slot *parent)
{
    const struct job_slot *joint = slots_job(core, parent->parent.joint.job.text);
    if (joint) {
        parent->job.progress.has_accuracy = joint->job.progress.has_accuracy;
        parent->job.progress.accuracy = joint->job.progress.accuracy;
    }
}

void part_progress_show(struct core *core, struct parent_slot *parent)
{
    struct job_progress *progress = &parent->job.progress;
    const struct steps steps = count(core, parent);
    const int64_t step = steps.done > progress->step ? steps.done : progress->step;
    const int64_t all = steps.all > step ? steps.all : step;
    const bool late =
        core->now_ms - parent->work.shown_ms >= ROW_HEARTBEATS * core->config.heartbeat_ms;
    show_accuracy(core, parent);
    if (step != progress->step || all != progress->steps) {
        const double fraction = all > 0 ? (double)step / (double)all : 0;
        progress->step = step;
        progress->steps = all;
        progress->fraction = fmax(fraction, progress->fraction);
        parent->work.job_changed = parent->work.job_changed || late;
    }
}

void part_progress_end(const struct core *core, struct parent_slot *parent)
{
    struct job_progress *progress = &parent->job.progress;
    show_accuracy(core, parent);
    progress->step = progress->steps;
    progress->fraction = 1;
}
