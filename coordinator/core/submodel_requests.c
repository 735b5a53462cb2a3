#include "coordinator/core/submodel_requests.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/act.h"
#include "coordinator/core/groups.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "coordinator/core/states.h"
#include "coordinator/core/submodel_plan.h"

void submodel_on_submit(struct core *core, const struct event *event)
{
    const struct event_job_submit *submit = &event->job_submit;
    const struct event_classes *classes = submit->classes;
    struct err err = {0};
    ASSERT(classes && classes->count <= COUNTED_CLASSES_MAX);
    if (!classes->groups && submodel_plan_check(submit->model, submit->spec, classes, &err) != 0) {
        act_problem(core, PROBLEM_INVALID_FIELDS, "/submodel: %.200s", err.text);
        return;
    }
    if (jobs_refuse(core, submit, NULL)) {
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

static bool do_verb(struct core *core, struct parent_slot *parent, enum job_verb verb)
{
    switch (states_parent_verb(parent->parent.phase, verb)) {
    case EFFECT_PAUSE: groups_pause(core, parent); break;
    case EFFECT_QUEUE: groups_resume(core, parent); break;
    case EFFECT_CANCEL: groups_end(core, parent, JOB_CANCELLED, "", "cancelled"); break;
    case EFFECT_KEEP:
        parent->job.checkpoint = parent->parent.harvest;
        groups_end(core, parent, JOB_CANCELLED, "", "cancelled; the harvested model is kept");
        break;
    case EFFECT_REFUSE:
    case EFFECT_NOTHING:
    case EFFECT_PAUSE_LATER:
    case EFFECT_STOP:
    case EFFECT_RETRY:
    case EFFECT_EXPORT: return false;
    }
    parent->work.touched = true;
    groups_changed(parent);
    return true;
}

void submodel_on_verb(struct core *core, const struct event *event)
{
    static const char *const words[] = {
        [JOB_PAUSE] = "pause",   [JOB_RESUME] = "resume",
        [JOB_CANCEL] = "cancel", [JOB_CANCEL_KEEP] = "cancel and keep",
        [JOB_EXPORT] = "export", [JOB_REPLAN] = "replan"};
    const struct event_job_verb *verb = &event->job_verb;
    struct parent_slot *parent = slots_parent(core, verb->job.text);
    if (verb->if_revision != 0 && verb->if_revision != parent->job.revision) {
        act_problem(core, PROBLEM_REVISION_MISMATCH,
                    "job '%s' has revision %" PRId64 ", not %" PRId64 "; read it and retry",
                    verb->job.text, parent->job.revision, verb->if_revision);
    } else if (do_verb(core, parent, verb->verb)) {
        act_reply(core, 202, OBJECT_JOB, &parent->job);
    } else {
        act_problem(core, PROBLEM_WRONG_STATE, "cannot %s a job of sub-models in the phase %s (%s)",
                    words[verb->verb], parent_phase_names[parent->parent.phase],
                    parent->job.message);
    }
}
