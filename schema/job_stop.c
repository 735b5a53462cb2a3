/* The rules of `stop` and `checkpoint` of a job, and the steps that follow from them. */
#include <inttypes.h>

#include "schema/check.h"
#include "schema/job_check.h"

int job_judged_metric(const struct job_spec *spec)
{
    return spec->has_stop       ? spec->stop.metric
           : job_has_test(spec) ? JUDGED_TEST_ACCURACY
                                : JUDGED_RECALL;
}

int64_t job_evaluate_steps(const struct job_spec *spec, const struct job_data *data)
{
    return data->test_samples + data->holdout_samples > 0
               ? spec->evaluate_every_epochs * (job_epoch_samples(data) / spec->batch)
               : 0;
}

int64_t job_checkpoint_steps(const struct job_spec *spec, const struct job_data *data)
{
    return spec->has_checkpoint
               ? spec->checkpoint.every_epochs * (job_epoch_samples(data) / spec->batch)
               : 0;
}

bool job_center_rounds(const struct job_spec *spec)
{
    return spec->center_every > 0 || spec->has_checkpoint;
}

bool job_checkpoint_due(const struct job_spec *spec, const struct job_data *data, int64_t version)
{
    const int64_t every = job_checkpoint_steps(spec, data);
    return every > 0 && version > 0 && version % every == 0;
}

static bool judges(const struct job_spec *spec, int metric)
{
    return metric == JUDGED_RECALL ? spec->has_view && spec->view.holdout > 0 : job_has_test(spec);
}

static void check_stop(struct check *check, const struct job_spec *spec)
{
    const struct stop_rule *rule = &spec->stop;
    if (!spec->has_stop) {
        return;
    }
    if (spec->evaluate_every_epochs == 0) {
        check_fault(check, "/stop", "needs evaluations: set evaluate.every_epochs above 0");
    }
    if (!judges(spec, rule->metric)) {
        check_fault(check, "/stop/metric", "'%s' needs %s", judged_metric_names[rule->metric],
                    rule->metric == JUDGED_RECALL ? "view.holdout above 0" : "dataset.test");
    }
    if (rule->patience == 0 && rule->target <= 0) {
        check_fault(check, "/stop", "needs patience, target, or both");
    }
    if (rule->metric != JUDGED_TEST_LOSS && rule->target > 1) {
        check_fault(check, "/stop/target", "'%s' is at most 1", judged_metric_names[rule->metric]);
    }
}

static void check_checkpoint(struct check *check, const struct job_spec *spec)
{
    const struct checkpoint_policy *policy = &spec->checkpoint;
    if (!spec->has_checkpoint || policy->keep != KEEP_BEST) {
        return;
    }
    if (spec->evaluate_every_epochs == 0 || !judges(spec, job_judged_metric(spec))) {
        check_fault(check, "/checkpoint/keep",
                    "'best' needs evaluations: give dataset.test, or view.holdout, and "
                    "evaluate.every_epochs above 0");
    } else if (policy->every_epochs % spec->evaluate_every_epochs != 0) {
        check_fault(check, "/checkpoint/every_epochs",
                    "must be a multiple of evaluate.every_epochs (%" PRId64
                    "): 'best' compares evaluated versions",
                    spec->evaluate_every_epochs);
    }
}

int job_stop_check(const struct job_spec *spec, struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    check_stop(&check, spec);
    check_checkpoint(&check, spec);
    return check.rc;
}
