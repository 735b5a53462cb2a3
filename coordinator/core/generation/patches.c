/* Checks of the plan follow new periods at once. New periods of copies take effect with the next
 * plan: devices reserve memory for copies, and stage 0 counts its rounds, by plan. */
#include "coordinator/core/generation/patches.h"

#include <inttypes.h>

#include "coordinator/core/state/act.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

void patches_apply(struct job_slot *job)
{
    if (job->job.has_next_replication) {
        job->job.spec.neighbor_every = job->job.next_replication.neighbor_every;
        job->job.spec.center_every = job->job.next_replication.center_every;
        job->job.has_next_replication = false;
    }
}

void patches_on_patch(struct core *core, const struct event *event)
{
    const struct event_job_patch *patch = &event->job_patch;
    struct job_slot *job = slots_job(core, patch->job.text);
    if (slots_parent(core, patch->job.text)) {
        act_problem(core, PROBLEM_WRONG_STATE, "a job that consists of groups cannot be changed");
        return;
    }
    if (!job) {
        act_problem(core, PROBLEM_UNKNOWN_JOB, "job '%s' is unknown or has ended", patch->job.text);
        return;
    }
    if (patch->if_revision != 0 && patch->if_revision != job->job.revision) {
        act_problem(core, PROBLEM_REVISION_MISMATCH,
                    "job '%s' has revision %" PRId64 ", not %" PRId64 "; read it and retry",
                    patch->job.text, job->job.revision, patch->if_revision);
        return;
    }
    if (job->job.part != JOB_WHOLE) {
        act_problem(core, PROBLEM_GROUP_OF_JOB,
                    "job '%s' is a part of job '%s', which cannot be changed", patch->job.text,
                    job->job.parent.text);
        return;
    }
    job->job.spec.replan_first = patch->replan_first;
    job->job.spec.replan_every = patch->replan_every;
    job->job.next_replication = patch->replication;
    job->job.has_next_replication =
        patch->replication.neighbor_every != job->job.spec.neighbor_every ||
        patch->replication.center_every != job->job.spec.center_every;
    if (!states_plan_active(job)) {
        patches_apply(job);
    }
    mark_job_changed(core, job);
    act_reply(core, 200, OBJECT_JOB, &job->job);
}
