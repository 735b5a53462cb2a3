/* The effect of damaged blobs of the center on jobs. A version with a damaged unit counts as not
 * held; the job continues with the snapshots of its devices. */
#include "coordinator/core/copies/damage.h"

#include <inttypes.h>

#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/failures/failure.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

/* ---- a coming version ---- */

/* The devices assume that the unit is stored, so the core requests it again: by the next round or,
 * at a stop and at the end, by a generation that starts where this one stopped. */
static void lose_coming(struct core *core, struct job_slot *job)
{
    if (states_phase(job) != PHASE_FINISHED) {
        rounds_abandon_center(core, job);
        return;
    }
    failure_note(core, job, (struct blame){.cause = FAILURE_ERROR, .since_ms = core->now_ms},
                 "a unit of step %" PRId64 " in the center is damaged",
                 center_coming(job)->version);
}

/* ---- a whole version ---- */

/* Whether the job uses the version now: it loads it, or waits for its export. */
static bool rests_on(const struct job_slot *job, int64_t version)
{
    enum phase phase = states_phase(job);
    return (phase == PHASE_PREPARE && job->plan.resume_version == version) ||
           (phase == PHASE_FINISHED && job->plan.last_version == version);
}

static void lose_whole(struct core *core, struct job_slot *job)
{
    const int64_t version = center_whole(job)->version;
    const bool rested = rests_on(job, version);
    char message[MESSAGE_SIZE];
    center_lose(core, job);
    if (job->job.state == JOB_CANCELLING) {
        text_set(message, sizeof(message),
                 "cancelled; step %" PRId64 " could not be kept: it is damaged in the center",
                 version);
        ending_job(core, job, JOB_FAILED, "export_failed", message);
    } else if (!states_plan_active(job)) {
        states_set(core, job, job->job.state, job->job.state_reason,
                   "step %" PRId64 " in the center is damaged; the job resumes from its devices' "
                   "snapshots, or from step 0",
                   version);
    } else if (rested) {
        failure_note(core, job, (struct blame){.cause = FAILURE_ERROR, .since_ms = core->now_ms},
                     "step %" PRId64 " in the center is damaged", version);
    }
}

void damage_on_blob(struct core *core, const struct event *event)
{
    const struct event_blob_damaged *damaged = &event->blob_damaged;
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        if (center_refers(center_coming(job), job->unit_count, damaged->sha256)) {
            lose_coming(core, job);
        }
        if (center_refers(center_whole(job), job->unit_count, damaged->sha256)) {
            lose_whole(core, job);
        }
    }
    act_publish(core, "blob_damaged", "", "%.250s", damaged->message);
}
