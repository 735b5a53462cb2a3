/* What must hold of a job's course: no failure repeats without an end, and its metrics are those of
 * the undisturbed run, without holes. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "schema/job_check.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/trace.h"
#include "tests/sim/users.h"

#define REPEATS_MAX 20
#define METRICS_US SECOND /* coordinator/store writes metrics as often */

/* ---- plans in a row ---- */

uint64_t check_faults(const struct world *world, size_t agent)
{
    return world->actor[ACTOR_DEVICE + agent].faults + (uint64_t)world->agent[agent]->boots;
}

static bool has_stage(const struct plan *plan, const struct agent *agent)
{
    for (size_t s = 0; plan && s < plan->stage_count; s++) {
        if (id_equal(plan->stage[s].device.text, agent->id.text)) {
            return true;
        }
    }
    return false;
}

/* Whether a device of the job was struck since its newest plan was made: then what follows is no
 * repeat. Rows of an earlier time, which know no boot of now, explain a plan for each device and
 * one for themselves. */
static bool is_explained(struct world *world, size_t at, const struct plan *plan)
{
    struct check *check = world->check;
    const struct plan *before = rows_plan(&world->coordinator->rows, plan->job.text);
    bool struck = false;
    for (size_t i = 0; i < world->agent_count; i++) {
        const struct agent *agent = world->agent[i];
        const bool own = has_stage(plan, agent) || has_stage(before, agent);
        struck = struck || (own && check_faults(world, i) != check->known[at].faults[i]);
        check->known[at].faults[i] = check_faults(world, i);
    }
    if (!struck && check->known[at].put_back > 0) {
        check->known[at].put_back--;
        return true;
    }
    return struck;
}

void check_plan(struct world *world, const struct plan *plan)
{
    struct check *check = world->check;
    const size_t at = check_known(check, plan->job.text);
    if (at == check->known_count) {
        return;
    }
    check_survived(world, at, plan);
    if (plan->generation <= check->known[at].plan_generation) {
        return;
    }
    const int64_t furthest = check->known[at].furthest;
    const int reason = plan->reason;
    const bool explained = is_explained(world, at, plan);
    check->known[at].plan_generation = plan->generation;
    if (furthest > check->known[at].repeat[reason].furthest) {
        check->known[at].repeat[reason].count = 0;
        check->known[at].repeat[reason].furthest = furthest;
    }
    check->known[at].repeat[reason].count += !explained;
    const int count = check->known[at].repeat[reason].count;
    check->repeats = count > check->repeats ? count : check->repeats;
    if (count > REPEATS_MAX) {
        check_fail(world, "%s needs plan %d in a row by '%s' without getting beyond step %" PRId64,
                   trace_name(world, plan->job.text), count, plan_reason_names[reason], furthest);
    }
}

static bool has_reason(const struct job *job, enum plan_reason reason)
{
    return strcmp(job->state_reason, plan_reason_names[reason]) == 0;
}

/* No other change before this one has paid for itself, in steps of the new plan. */
static void check_cooldown(struct world *world, const struct job *job)
{
    const struct job_check *check = &job->last_check;
    const double step_seconds = job->trial.step_seconds - check->gain_seconds;
    const double pays_ms = 1000 * check->cost_seconds / check->gain_seconds * step_seconds;
    if ((double)job->cooldown_ms + 1 < pays_ms) {
        check_fail(world, "%s cools down for %" PRId64 " ms after a change that pays in %.0f ms",
                   job->spec.name, job->cooldown_ms, pays_ms);
    }
}

void check_own_change(struct world *world, const struct job *job)
{
    struct check *check = world->check;
    const struct actor *center = &world->actor[ACTOR_COORDINATOR];
    const size_t at = check_known(check, job->id.text);
    const int64_t clock_us = center->wall_ms * MS + center->ahead_us;
    const bool begins = job->state == JOB_REPLANNING && check->known[at].state != JOB_REPLANNING;
    const bool weighed = has_reason(job, PLAN_DRIFT) || has_reason(job, PLAN_DEVICE_JOINED);
    const bool own = weighed || has_reason(job, PLAN_ROLLED_BACK);
    if (begins && own && job->spec.replan_first == 0 && job->spec.replan_every == 0) {
        check_fail(world, "%s shall not change its plan by itself, and does", job->spec.name);
    }
    const bool corrects = job->corrected && !check->known[at].corrected && job->setbacks == 0;
    /* A change that made it slower is undone at once, and one that was predicted too short is
     * corrected once. */
    if (begins && weighed && !corrects && job->last_check.trigger != CHECK_SLOWER &&
        clock_us == check->known[at].clock_us &&
        job->cooldown_until_ms - job->cooldown_ms < check->known[at].cool_until_ms) {
        check_fail(world, "%s changes its plan %" PRId64 " ms before the cool-down is over",
                   job->spec.name,
                   check->known[at].cool_until_ms - (job->cooldown_until_ms - job->cooldown_ms));
    }
    if (begins && weighed && job->has_trial) {
        check_cooldown(world, job);
    }
    check->known[at].state = job->state;
    check->known[at].corrected = job->corrected;
    if (check->known[at].cool_until_ms != job->cooldown_until_ms) {
        check->known[at].cool_until_ms = job->cooldown_until_ms;
        check->known[at].clock_us = clock_us;
    }
}

int check_repeats(const struct world *world)
{
    return world->check->repeats;
}

/* ---- metrics ---- */

/* They become rows within METRICS_US: before that, they are lost when the coordinator dies. */
static void store_losses(struct world *world, int64_t until_us)
{
    struct check *check = world->check;
    for (size_t i = 0; i < check->known_count; i++) {
        for (size_t step = 0; step < CHECK_STEPS_MAX; step++) {
            int64_t *taken_us = &check->known[i].taken_us[step];
            if (*taken_us > 0 && *taken_us <= until_us) {
                check->known[i].stored[step] = true;
            }
            *taken_us = 0;
        }
    }
}

void check_crash(struct world *world)
{
    store_losses(world, world->now_us - METRICS_US);
}

static void take_loss(struct world *world, const char *id, int64_t step)
{
    struct check *check = world->check;
    const size_t at = check_known(check, id);
    if (at == check->known_count || step >= CHECK_STEPS_MAX) {
        return;
    }
    int64_t *taken_us = &check->known[at].taken_us[step];
    *taken_us = *taken_us > 0 ? *taken_us : world->now_us;
}

void check_metric(struct world *world, const struct action *action)
{
    const struct reference *reference = check_reference(world, action->id);
    const struct metric *metric = &action->metric;
    if (!reference || (metric->name != METRIC_LOSS && metric->name != METRIC_TEST_ACCURACY)) {
        return;
    }
    const bool depends_on_plans = check_course(world, action->id) != NULL;
    const double *right = metric->name == METRIC_LOSS ? reference->loss : reference->evaluation;
    if (!depends_on_plans &&
        (metric->value < right[metric->step] || metric->value > right[metric->step])) {
        check_fail(world, "metric %d of step %" PRId64 " of %s is another than without failures",
                   metric->name, metric->step, trace_name(world, action->id));
    }
    if (metric->name == METRIC_LOSS) {
        take_loss(world, action->id, metric->step);
    }
}

void check_measured(struct world *world, const struct run *run)
{
    struct check *check = world->check;
    const size_t at = check_known(check, run->desired->job.text);
    if (at == check->known_count || !run->row->has_loss(run) || run->step >= CHECK_STEPS_MAX) {
        return;
    }
    if (run->desired->generation >= check->known[at].measured[run->step].generation) {
        check->known[at].measured[run->step].generation = run->desired->generation;
        check->known[at].measured[run->step].agent = run->agent->index;
        check->known[at].measured[run->step].boots = run->agent->boots;
    }
}

void check_evaluation(struct world *world, const struct run *run, int64_t version)
{
    struct check *check = world->check;
    const size_t at = check_known(check, run->desired->job.text);
    if (at < check->known_count && version > check->known[at].evaluated) {
        check->known[at].evaluated = version;
    }
}

/* A job with a plan of its own ends with the evaluation of its last version. */
static void check_last_evaluation(struct world *world, size_t at, const struct job *job)
{
    const int64_t last = job->progress.steps;
    const bool trains =
        job->part == JOB_WHOLE && rows_plan(&world->coordinator->rows, job->id.text);
    if (trains && job_evaluate_steps(&job->spec, &job->data) > 0 &&
        world->check->known[at].evaluated < last) {
        check_fail(world, "%s has succeeded at step %" PRId64 " without its evaluation",
                   trace_name(world, job->id.text), last);
    }
}

/* Who measured a step last tells it again until it is stored. A device whose process has ended
 * since cannot, nor can one that the job has lost. */
static void check_curve(struct world *world, size_t at, const struct job *job)
{
    const struct check *check = world->check;
    const struct plan *plan = rows_plan(&world->coordinator->rows, job->id.text);
    for (int64_t step = 1; step <= job->progress.steps && step < CHECK_STEPS_MAX; step++) {
        const size_t index = check->known[at].measured[step].agent;
        const struct agent *agent = world->agent[index];
        const bool tells =
            has_stage(plan, agent) && agent->boots == check->known[at].measured[step].boots;
        if (!check->known[at].stored[step] && tells) {
            check_fail(world, "the loss of step %" PRId64 " of %s, which %s measured, is missing",
                       step, job->spec.name, agent->name);
            return;
        }
    }
}

void check_curves(struct world *world, const struct transaction *transaction)
{
    const struct check *check = world->check;
    store_losses(world, world->now_us);
    for (size_t i = 0; i < transaction->count; i++) {
        const struct change *change = &transaction->item[i];
        const struct job *job = change->kind == OBJECT_JOB && !change->forget ? change->row : NULL;
        if (job && job->state == JOB_SUCCEEDED && check->backups == 0) {
            const size_t at = check_known(check, job->id.text);
            check_curve(world, at, job);
            check_last_evaluation(world, at, job);
        }
    }
}
