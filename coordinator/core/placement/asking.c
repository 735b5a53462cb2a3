#include "coordinator/core/placement/asking.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/failures/failure.h"
#include "coordinator/core/placement/candidates.h"
#include "coordinator/core/placement/placement.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

static struct placement_request request_of(const struct job_slot *job)
{
    return (struct placement_request){
        .spec = &job->job.spec, .model = job->model, .job = job, .candidates = CANDIDATES_FREE};
}

/* The replication periods of the job's next plan. */
static struct replication_periods periods_of(const struct job_slot *job)
{
    const struct job_spec *spec = &job->job.spec;
    return job->job.has_next_replication
               ? job->job.next_replication
               : (struct replication_periods){spec->neighbor_every, spec->center_every};
}

static void fill_next(struct core *core, const struct placement_request *request,
                      struct planning *planning)
{
    const struct replication_periods periods = periods_of(request->job);
    candidates_fill(core, request, planning);
    planning->spec.neighbor_every = periods.neighbor_every;
    planning->spec.center_every = periods.center_every;
}

/* ---- questions ---- */

/* The stage boundaries in the spec apply to the first plan, on any devices. A replan request is
 * tried once, because the devices may have changed since. A plan with an excluded device is better
 * than no plan. */
void asking_next(struct core *core, const struct job_slot *job, const struct replan_request *wanted,
                 const struct absent *without, struct planning *planning)
{
    struct placement_request request = request_of(job);
    request.without = *without;
    fill_next(core, &request, planning);
    const bool stays = !wanted && job->stay;
    const bool first = !wanted && placement_first_request(&job->job.spec, job->job.generation,
                                                          &planning->wanted) != NULL;
    const enum planning_stages stages = first ? STAGES_WANTED : STAGES_ANY;
    if (wanted) {
        planning->wanted = *wanted;
        planning_try(planning, STAGES_WANTED, AVOID_ALL, CANDIDATES_FREE);
    }
    if (stays) {
        planning->stay = job->ran;
        planning_try(planning, STAGES_STAY, AVOID_FAILURES, CANDIDATES_FREE);
    }
    planning_try(planning, stages, AVOID_ALL, CANDIDATES_FREE);
    planning_try(planning, stages, AVOID_FAILURES, CANDIDATES_FREE);
    if (stays) {
        planning_try(planning, STAGES_STAY, AVOID_NONE, CANDIDATES_FREE);
    }
    planning_try(planning, stages, AVOID_NONE, CANDIDATES_FREE);
}

void asking_request(struct core *core, const struct placement_request *request,
                    struct planning *planning)
{
    const enum planning_stages stages = request->wanted ? STAGES_WANTED : STAGES_ANY;
    candidates_fill(core, request, planning);
    if (request->wanted) {
        planning->wanted = *request->wanted;
    }
    if (request->candidates == CANDIDATES_ONLINE) {
        planning_try(planning, stages, request->avoid, CANDIDATES_FREE);
    }
    planning_try(planning, stages, request->avoid, request->candidates);
}

void asking_what_if(struct core *core, const struct job_slot *job,
                    const struct event_plan_question *asked, const struct job_spec *spec,
                    struct planning *planning)
{
    const struct plan_question *question = asked->question;
    struct replan_request first;
    const struct replan_request *wanted = job ? NULL : placement_first_request(spec, 0, &first);
    const struct placement_request request = {
        .spec = spec,
        .model = job ? job->model : asked->model,
        .job = job,
        .candidates = job ? CANDIDATES_FREE : CANDIDATES_ONLINE,
        .without = {.device = question->without, .count = question->without_count},
        .question = question};
    if (job) {
        fill_next(core, &request, planning);
    } else {
        candidates_fill(core, &request, planning);
    }
    if (wanted) {
        planning->wanted = *wanted;
    }
    const enum planning_stages stages = wanted ? STAGES_WANTED : STAGES_ANY;
    planning_try(planning, stages, AVOID_ALL, CANDIDATES_FREE);
    planning_try(planning, stages, AVOID_NONE, request.candidates);
    const double count = (double)what_if_combinations(question);
    planning->work_max *= fmin(ASKING_SEARCHES / count, 1);
}

/* Ask for the best devices, and for the step time of the present stages to compare with. */
static void ask_change(struct core *core, const struct job_slot *job, struct planning *planning)
{
    struct placement_request request = request_of(job);
    request.is_change = true;
    fill_next(core, &request, planning);
    planning_try(planning, STAGES_ANY, AVOID_ALL, CANDIDATES_FREE);
    layout_request(&job->plan, &planning->present);
    planning->has_present = true;
}

/* ---- within the step ---- */

int asking_at_once(struct core *core, struct err *err)
{
    core->planning->work_max = core->planning->memory_max = PLANNING_WORK_AT_ONCE;
    core->planning->at_once = true;
    int rc = placement_solve(core->planning, core->planned, err);
    core->asking.work += core->planning->work;
    return rc;
}

bool asking_spent(const struct core *core)
{
    return core->asking.work >= PLANNING_WORK_AT_ONCE;
}

/* ---- outside ---- */

void asking_open(struct core *core, const struct job_slot *job, enum asking_kind kind)
{
    struct asking *asking = &core->asking;
    ASSERT(asking->number == 0);
    asking->number = ++asking->last;
    asking->kind = kind;
    asking->job = job->job.id;
    asking->generation = job->job.generation;
    asking->in_pass = core->in_pass;
    act_plan(core, job->job.id.text, asking->number);
}

bool asking_has(const struct core *core, const struct job_slot *job)
{
    return core->asking.number != 0 && id_equal(core->asking.job.text, job->job.id.text);
}

/* The job of the open question, if it still needs the answer. */
static struct job_slot *asker(const struct core *core)
{
    struct job_slot *job = slots_job(core, core->asking.job.text);
    if (!job || job->mark.ended || job->job.generation != core->asking.generation ||
        job->failure.cause != FAILURE_NONE) {
        return NULL;
    }
    bool stops = job->job.state == JOB_REPLANNING && states_plan_active(job) &&
                 job->plan.state == PLAN_STOPPING;
    bool needs = core->asking.kind == ASKING_NEXT
                     ? stops || job->job.state == JOB_PLANNING ||
                           (job->job.state == JOB_WAITING_FOR_DEVICES && job->asked.outside)
                     : job->job.state == JOB_RUNNING && states_phase(job) == PHASE_RUN;
    return needs ? job : NULL;
}

void asking_check(struct core *core)
{
    if (core->asking.number != 0 && !asker(core)) {
        core->asking.number = 0;
    }
}

bool core_planning(struct core *core, uint64_t question, struct planning *planning)
{
    const struct job_slot *job = asker(core);
    if (core->asking.number != question || !job) {
        return false;
    }
    core->in_pass = core->asking.in_pass;
    if (core->asking.kind == ASKING_CHANGE) {
        ask_change(core, job, planning);
    } else {
        const struct replan_request *wanted = job->job.has_wish ? &job->job.wish : NULL;
        asking_next(core, job, wanted, &device_all_present, planning);
    }
    core->in_pass = false;
    return true;
}

struct job_slot *asking_take(struct core *core, const struct event_planned *event, int *rc,
                             struct err *err)
{
    struct job_slot *job = asker(core);
    if (core->asking.number != event->question || !job) {
        return NULL;
    }
    core->asking.number = 0;
    *core->planned = *event->planned;
    *rc = event->code != 0 ? err_set(err, event->code, "%s", event->message) : 0;
    return job;
}

bool asking_holds(const struct core *core, const struct job_slot *job,
                  const struct planned *planned)
{
    struct placement_request request = request_of(job);
    const struct replication_periods periods = periods_of(job);
    if (periods.neighbor_every != planned->replication.neighbor_every ||
        periods.center_every != planned->replication.center_every) {
        return false; /* changed since */
    }
    request.avoid = planned->attempt.avoid;
    for (size_t s = 0; s < planned->stage_count; s++) {
        const struct device_slot *device = slots_device(core, planned->stage[s].device.text);
        if (!device || !candidates_has(core, &request, device)) {
            return false;
        }
    }
    return true;
}
