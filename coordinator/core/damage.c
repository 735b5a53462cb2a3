/* What damage in the center's blobs costs the jobs: a version with a damaged unit counts as not
 * held, and the job goes on from what its devices have. */
#include <inttypes.h>
#include <string.h>

#include "coordinator/core/core_private.h"

/* ---- a version on its way ---- */

/* The devices think that the unit is stored: they are asked for all of it again, by the next round
 * or, at a stop and at the end, by a generation that starts where this one stopped. */
static void lose_coming(struct core *core, struct job_slot *job)
{
    if (job_phase(job) != PHASE_FINISHED) {
        rounds_abandon_center(core, job);
        return;
    }
    generation_fail(core, job, (struct blame){.cause = FAILURE_ERROR, .since_ms = core->now_ms},
                    "a unit of step %" PRId64 " in the center is damaged",
                    center_coming(job)->version);
}

/* ---- a whole version ---- */

/* Whether the job works with the version now: loads it, or waits for its export. */
static bool rests_on(const struct job_slot *job, int64_t version)
{
    enum phase phase = job_phase(job);
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
                 "cancelled; step %" PRId64 ", which was to be kept, is damaged in the center",
                 version);
        job_end(core, job, JOB_FAILED, "export_failed", message);
    } else if (!plan_active(job)) {
        job_set_state(
            core, job, job->job.state, job->job.state_reason,
            "step %" PRId64
            " in the center is damaged; the next start is from what the devices hold, or step 0",
            version);
    } else if (rested) {
        generation_fail(core, job, (struct blame){.cause = FAILURE_ERROR, .since_ms = core->now_ms},
                        "step %" PRId64 " in the center is damaged", version);
    }
}

void handle_blob_damaged(struct core *core, const struct event *event)
{
    const struct event_blob_damaged *damaged = &event->blob_damaged;
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = job_slot_at(core, i);
        if (center_refers(center_coming(job), job->unit_count, damaged->sha256)) {
            lose_coming(core, job);
        }
        if (center_refers(center_whole(job), job->unit_count, damaged->sha256)) {
            lose_whole(core, job);
        }
    }
    act_publish(core, "blob_damaged", "", "%.250s", damaged->message);
}
