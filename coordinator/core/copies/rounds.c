/* Rounds of replication. The plan's first keeper proposes a version; the core commits it when every
 * copy is proven, or abandons it after a timeout. Only a committed version lets devices drop older
 * ones, so a slow or failed round never costs a version that the job may need. */
#include "coordinator/core/copies/rounds.h"

#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/state.h"
#include "schema/job_check.h"

/* ---- life of a round ---- */

void rounds_reset(struct job_slot *job)
{
    for (size_t k = 0; k < ROUND_KINDS; k++) {
        job->round[k] = (struct open_round){0};
        job->timer_ms[TIMER_ROUND + k] = NEVER;
    }
}

bool rounds_is_paused(const struct core *core, enum round_kind kind)
{
    return kind == ROUND_OF_CENTER && core->disk_nearly_full;
}

bool rounds_is_wanted(const struct job_slot *job, enum round_kind kind)
{
    return kind == ROUND_OF_CENTER ? job_center_rounds(&job->job.spec)
                                   : job->job.spec.neighbor_every > 0 && job->plan.stage_count > 1;
}

void rounds_finish(struct core *core, struct job_slot *job, enum round_kind kind)
{
    job->round[kind].version = 0;
    job->timer_ms[TIMER_ROUND + kind] = NEVER;
    mark_job(core, job);
}

static void abandon(struct core *core, struct job_slot *job, enum round_kind kind)
{
    rounds_finish(core, job, kind);
    if (kind == ROUND_OF_CENTER) {
        center_discard(core, job);
    }
}

void rounds_abandon_center(struct core *core, struct job_slot *job)
{
    abandon(core, job, ROUND_OF_CENTER);
}

void rounds_begin(struct core *core, struct job_slot *job, enum round_kind kind, int64_t version)
{
    struct open_round *round = &job->round[kind];
    if (round->version > 0) {
        abandon(core, job, kind); /* a new request of the lead means that it gave this one up */
    }
    *round = (struct open_round){.version = version, .last = version};
    job->timer_ms[TIMER_ROUND + kind] = core->now_ms + job->job.deadlines.round_ms;
    if (kind == ROUND_OF_CENTER) {
        center_expect(core, job, version);
    }
    mark_job(core, job);
}

void rounds_restore_center(struct core *core, struct job_slot *job)
{
    const struct center_version *coming = center_coming(job);
    if (coming->count > 0) {
        job->round[ROUND_OF_CENTER] =
            (struct open_round){.version = coming->version, .last = coming->version};
        job->timer_ms[TIMER_ROUND + ROUND_OF_CENTER] = core->now_ms + job->job.deadlines.round_ms;
    }
}

void rounds_center_done(struct core *core, struct job_slot *job)
{
    rounds_finish(core, job, ROUND_OF_CENTER);
    holdings_touch_job(core, job);
}

void rounds_tick(struct core *core, struct job_slot *job)
{
    for (size_t k = 0; k < ROUND_KINDS; k++) {
        if (job->timer_ms[TIMER_ROUND + k] <= core->now_ms) {
            abandon(core, job, (enum round_kind)k);
        }
    }
}
