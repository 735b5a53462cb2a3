/* Where a job ends, and what it keeps on the way. */
#include <inttypes.h>

#include "schema/job_check.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"

/* The rule on the evaluations of the undisturbed run. */
static struct early_stop judge_all(const struct reference *reference, const struct job *job)
{
    const int64_t every = job_evaluate_steps(&job->spec, &job->data);
    struct early_stop judged = {0};
    for (int64_t step = 1; every > 0 && step <= reference->steps; step++) {
        if (step % every == 0 || step == reference->steps) {
            early_stop_judge(&job->spec.stop, step, reference->evaluation[step], &judged);
        }
    }
    return judged;
}

int64_t check_last_step(const struct world *world, const struct job *job)
{
    const struct reference *reference = check_reference(world, job->id.text);
    if (!job->spec.has_stop) {
        return reference->steps;
    }
    /* The evaluations of an asynchronous job depend on its plans. */
    const struct early_stop judged =
        check_course(world, job->id.text) ? job->early_stop : judge_all(reference, job);
    return early_stop_last(&judged, reference->steps);
}

/* The coordinator judges no evaluation that the undisturbed run does not have, and none twice. */
static void check_judged(struct world *world, const struct job *job)
{
    const struct reference *reference = check_reference(world, job->id.text);
    const int64_t every = job_evaluate_steps(&job->spec, &job->data);
    struct early_stop right = {0};
    if (!job->has_early_stop || check_course(world, job->id.text)) {
        return;
    }
    for (int64_t step = every; every > 0 && step <= job->early_stop.version; step += every) {
        early_stop_judge(&job->spec.stop, step, reference->evaluation[step], &right);
    }
    if (job->early_stop.version == reference->steps) {
        early_stop_judge(&job->spec.stop, reference->steps, reference->evaluation[reference->steps],
                         &right);
    }
    if (right.version != job->early_stop.version || right.since != job->early_stop.since ||
        right.best_version != job->early_stop.best_version || right.met != job->early_stop.met) {
        check_fail(world,
                   "%s judges version %" PRId64 " by %" PRId64 " evaluations since %" PRId64
                   ", not by %" PRId64 " since %" PRId64,
                   job->spec.name, job->early_stop.version, job->early_stop.since,
                   job->early_stop.best_version, right.since, right.best_version);
    }
}

/* Each listed checkpoint is a row of that version, and there are no more than the job asks for: one
 * more while the evaluation of the newest is not known. */
static void check_kept(struct world *world, const struct job *job)
{
    const struct rows *rows = &world->coordinator->rows;
    size_t stored = 0;
    for (size_t i = 0; i < job->kept_count; i++) {
        const struct kept_checkpoint *kept = &job->kept[i];
        bool found = kept->id.text[0] == '\0';
        stored += !found;
        found = found || (job_state_ended(job->state) && check_deleted(world, kept->id.text));
        for (size_t r = 0; r < rows->checkpoint_count && !found; r++) {
            found = id_equal(rows->checkpoint[r].id.text, kept->id.text) &&
                    rows->checkpoint[r].version == kept->version;
        }
        if (!found || !job_checkpoint_due(&job->spec, &job->data, kept->version)) {
            check_fail(world, "%s lists a checkpoint of step %" PRId64 " that is none",
                       job->spec.name, kept->version);
        }
    }
    if (stored > (size_t)job->spec.checkpoint.count + (job->spec.checkpoint.keep == KEEP_BEST)) {
        check_fail(world, "%s keeps %zu checkpoints", job->spec.name, stored);
    }
}

void check_stop(struct world *world, const struct job *job)
{
    if (check_reference(world, job->id.text)) {
        check_judged(world, job);
        check_kept(world, job);
    }
}

void check_overrun(struct world *world, const struct run *run)
{
    const struct job *job = rows_job(&world->coordinator->rows, run->desired->job.text);
    if (job && job->spec.has_stop && !check_course(world, job->id.text) &&
        check_reference(world, job->id.text) && run->step > check_last_step(world, job)) {
        check_fail(world, "%s trains step %" PRId64 " of %s, which ends before", run->agent->name,
                   run->step, job->spec.name);
    }
}
