/* The stages judge evaluations themselves, so that a job ends at the same step without its
 * coordinator and after any failure. The core keeps their judgement: the next generation continues
 * from it. Steps that are retrained are evaluated again but judged once. */
#include "coordinator/core/generation/early_stops.h"

#include <inttypes.h>
#include <math.h>

#include "coordinator/core/generation/progress.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "schema/job_check.h"

static int64_t spec_steps(const struct job_slot *job)
{
    return job_total_steps(&job->job.spec, job_epoch_samples(&job->job.data));
}

void early_stops_init(struct job_slot *job)
{
    job->total_steps = early_stop_last(&job->job.early_stop, spec_steps(job));
}

/* Whether a reported judgement is possible. */
static bool is_valid(const struct job_slot *job, const struct early_stop *judged)
{
    const int64_t every = job_evaluate_steps(&job->job.spec, &job->job.data);
    return job->job.spec.has_stop && every > 0 && judged->version > 0 &&
           judged->version <= job->total_steps &&
           (judged->version % every == 0 || judged->version == job->total_steps) &&
           judged->best_version <= judged->version && isfinite(judged->best) &&
           judged->met == early_stop_meets(&job->job.spec.stop, judged);
}

void early_stops_take(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat)
{
    const struct early_stop *judged = &heartbeat->early_stop;
    char reason[MESSAGE_SIZE];
    if (!heartbeat->has_early_stop || judged->version <= job->job.early_stop.version ||
        job->job.early_stop.met || !is_valid(job, judged)) {
        return;
    }
    job->job.early_stop = *judged;
    job->job.has_early_stop = true;
    early_stops_init(job);
    if (early_stops_reason(job, reason)) {
        act_publish_job(core, "job_stops_early", &job->job, job->job.id.text, "job '%s' %.200s",
                        job->job.spec.name, reason);
    }
    progress_set_step(job, job->job.progress.step);
    mark_job_changed(core, job);
}

bool early_stops_reason(const struct job_slot *job, char out[MESSAGE_SIZE])
{
    const struct early_stop *judged = &job->job.early_stop;
    const struct stop_rule *rule = &job->job.spec.stop;
    const char *metric = judged_metric_names[rule->metric];
    if (!judged->met || judged->version == spec_steps(job)) {
        return false;
    }
    if (judged->since == 0 && rule->target > 0 &&
        !judged_better(rule->metric, rule->target, judged->best)) {
        text_set(out, MESSAGE_SIZE, "stopped at step %" PRId64 ": %s %.6g reaches the target %.6g",
                 judged->version, metric, judged->best, rule->target);
    } else if (judged->best_version == 0) {
        text_set(out, MESSAGE_SIZE, "stopped at step %" PRId64 ": %s is not a number",
                 judged->version, metric);
    } else {
        text_set(out, MESSAGE_SIZE,
                 "stopped at step %" PRId64 ": %s was not better than %.6g of step %" PRId64
                 " in %" PRId64 " evaluation%s",
                 judged->version, metric, judged->best, judged->best_version, judged->since,
                 judged->since == 1 ? "" : "s");
    }
    return true;
}
