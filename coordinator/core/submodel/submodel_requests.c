#include "coordinator/core/submodel/submodel_requests.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/jobs/jobs.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/submodel/submodel_local.h"
#include "coordinator/core/submodel/submodel_plan.h"

/* Samples that stay on their devices bind the groups, not the target. Without a joint phase no
 * device trains the target, so that it needs no check. */
static bool refuse_target(struct core *core, const struct event_job_submit *submit)
{
    struct event_job_submit anywhere = *submit;
    if (job_is_local(submit->spec) && submit->spec->submodel.joint_epochs == 0) {
        return false;
    }
    struct job_spec spec = *submit->spec;
    spec.train_local = job_spec_default.train_local;
    anywhere.spec = &spec;
    return jobs_refuse(core, &anywhere, NULL);
}

void submodel_on_submit(struct core *core, const struct event *event)
{
    const struct event_job_submit *submit = &event->job_submit;
    const struct event_classes *classes = submit->classes;
    struct err err = {0};
    ASSERT(classes && classes->count <= COUNTED_CLASSES_MAX);
    if (job_is_local(submit->spec)) {
        if (submodel_local_check(core, submit, &err) != 0) {
            act_problem(core, PROBLEM_INVALID_FIELDS, "/dataset/train/local: %.200s", err.text);
            return;
        }
    } else if (!classes->groups &&
               submodel_plan_check(submit->model, submit->spec, classes, &err) != 0) {
        act_problem(core, PROBLEM_INVALID_FIELDS, "/submodel: %.200s", err.text);
        return;
    }
    if (refuse_target(core, submit)) {
        return;
    }
    if (submit->dry_run) {
        jobs_dry_run(core, submit);
        return;
    }
    struct parent_slot *parent = groups_add(core, submit);
    if (!parent) {
        act_problem(core, PROBLEM_TOO_MANY,
                    "the coordinator has its maximum of %zu jobs of sub-models; cancel one, or "
                    "wait until one ends",
                    core->parents.max);
        return;
    }
    struct parent *row = &parent->parent;
    submodel_take_classes(parent, classes);
    if (parent->job.spec.submodel.stem_epochs == 0) {
        row->stem.state = PART_TRAINED;
        row->stem.checkpoint = parent->job.spec.init_checkpoint;
        memcpy(row->stem.sha256, parent->job.data.checkpoint_sha256, SHA256_SIZE);
        row->stem.bytes = parent->job.data.checkpoint_bytes;
    }
    act_reply(core, 201, OBJECT_JOB, &parent->job);
}
