/* A free device may make a running job faster. It joins if the saved step time is worth the
 * move. The plan is searched for outside of the step, job after job. */
#include "coordinator/core/join.h"

#include <math.h>

#include "coordinator/core/act.h"
#include "coordinator/core/asking.h"
#include "coordinator/core/avoidance.h"
#include "coordinator/core/generations.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "coordinator/core/states.h"

#define WORTH 1.5           /* least ratio of savings to costs */
#define REBUILD_SECONDS 1.0 /* of a plan that has not been prepared yet */
#define STEPS_MEASURED 5    /* before their median is trusted */
#define MOVE_BYTES_PER_SECOND 50e6

static bool may_grow(const struct core *core, const struct job_slot *job)
{
    return !job->mark.ended && job->job.state == JOB_RUNNING && states_phase(job) == PHASE_RUN &&
           job->failure.cause == FAILURE_NONE && job->join.looked != core->join_pass &&
           (int64_t)job->plan.stage_count < job->job.spec.devices_max &&
           job->plan.stage_count < job->unit_count && core->now_ms >= job->join.after_ms;
}

/* Predicted seconds per step of the running plan, at most its measured time: a wrong estimate must
 * not make it look slow. 0: unknown. */
static double present_seconds(const struct job_slot *job, const struct planned *planned)
{
    bool measured = job->plan.measured_steps >= STEPS_MEASURED;
    return measured ? fmin(planned->present_seconds, job->plan.measured_step_seconds)
                    : planned->present_seconds;
}

/* Share of the units that change hands by the answer. */
static double moved_share(const struct job_slot *job, const struct planned *planned)
{
    size_t moved = 0, stage = 0, old = 0;
    for (size_t u = 0; u < job->unit_count; u++) {
        while (planned->stage[stage].end <= (int64_t)u) {
            stage++;
        }
        while (job->plan.stage[old].end <= (int64_t)u) {
            old++;
        }
        moved += !id_equal(planned->stage[stage].device.text, job->plan.stage[old].device.text);
    }
    return (double)moved / (double)job->unit_count;
}

void join_planned(struct core *core, struct job_slot *job, int code)
{
    const struct planned *planned = core->planned;
    double present = code == 0 ? present_seconds(job, planned) : 0;
    if (code == 0 && !asking_holds(core, job, planned)) {
        job->join.looked = 0;
        core->joinable = true; /* a device of the answer has left: look again */
        return;
    }
    if (!(present > 0) || planned->stage_count <= job->plan.stage_count) {
        return;
    }
    double gain = present - planned->step_seconds;
    double steps_left = (double)(job->total_steps - job->progress.reached_step);
    double rebuild = job->plan.prepare_seconds > 0 ? job->plan.prepare_seconds : REBUILD_SECONDS;
    double cost =
        present +
        moved_share(job, planned) * (double)job->generation.state_bytes / MOVE_BYTES_PER_SECOND +
        rebuild;
    if (!(gain * steps_left > WORTH * cost)) {
        return;
    }
    /* No other change before this one has paid for itself. */
    double pays_ms = 1000 * cost / gain * planned->step_seconds;
    job->join.after_ms = core->now_ms + (pays_ms < 1e12 ? (int64_t)pays_ms : (int64_t)1e12);
    states_set(core, job, JOB_REPLANNING, plan_reason_names[PLAN_DEVICE_JOINED],
               "stops to resume on %zu devices: expected step time %.3g s instead of %.3g s",
               planned->stage_count, planned->step_seconds, present);
    generations_stop_for(core, job, PLAN_DEVICE_JOINED);
}

void join_run(struct core *core)
{
    if (core->asking.number != 0) {
        return; /* after that answer */
    }
    if (!core->join_open) {
        core->joinable = false;
        core->join_open = true;
        core->join_pass++;
    }
    for (size_t i = 0; i < core->jobs.count && scheduler_any_free(core); i++) {
        struct job_slot *job = slots_job_at(core, i);
        if (!may_grow(core, job)) {
            continue;
        }
        if (!act_room(core)) {
            return; /* the rest in the next step */
        }
        job->join.looked = core->join_pass;
        asking_open(core, job, ASKING_JOIN);
        return;
    }
    core->join_open = false;
}
