#include "schema/early_stop.h"

#include <math.h>

#include "schema/heartbeat.h"
#include "schema/limits.h"

const char *const judged_metric_names[] = {
    [JUDGED_TEST_ACCURACY] = "test_accuracy",
    [JUDGED_TEST_LOSS] = "test_loss",
    [JUDGED_RECALL] = "recall",
    NULL,
};

const char *const keep_policy_names[] = {[KEEP_LAST] = "last", [KEEP_BEST] = "best", NULL};

static const struct field rule_fields[] = {
    MEMBER_ENUM(struct stop_rule, metric, "metric", 0, judged_metric_names,
                .about = "The metric by which the rule judges evaluations.",
                .rule = "`recall` with a hold-out of `view`, the others with `dataset.test`"),
    MEMBER_INT(struct stop_rule, patience, "patience", FIELD_NULLABLE, 1, EPOCHS_MAX,
               .about = "The job ends after this number of evaluations in a row that are not "
                        "better than the best before them; null: no such limit.",
               .rule = "this or `target`"),
    MEMBER_DOUBLE(struct stop_rule, target, "target", FIELD_NULLABLE, 1e-9, 1e9,
                  .about = "The job ends with the first version whose metric is at least as good; "
                           "null: no target.",
                  .rule = "at most 1 except with `test_loss`"),
};
const struct record stop_rule_record =
    RECORD_WITH(struct stop_rule, "stop_rule", rule_fields,
                .about = "The rule by which the job ends before its last step.");

static const struct field state_fields[] = {
    MEMBER_INT(struct early_stop, version, "version", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The newest evaluated version."),
    MEMBER_INT(struct early_stop, best_version, "best_version", FIELD_NULLABLE, 0, INTEGER_MAX,
               .about = "The best evaluated version, of equal ones the first."),
    MEMBER_DOUBLE(struct early_stop, best, "best", 0, 0, 0,
                  .about = "The metric of the best version; 0: there is none."),
    MEMBER_INT(struct early_stop, since, "since", 0, 0, INTEGER_MAX,
               .about = "Evaluations in a row that were not better."),
    MEMBER_BOOL(struct early_stop, met, "met", 0,
                .about = "The rule is met: the job ends with `version`."),
};
const struct record early_stop_record =
    RECORD_WITH(struct early_stop, "early_stop", state_fields, .answer = true,
                .about = "The judgement of the evaluations so far by `stop` of the job.");

static const struct field policy_fields[] = {
    MEMBER_INT(struct checkpoint_policy, every_epochs, "every_epochs", 0, 1, EPOCHS_MAX,
               .about = "Epochs between two checkpoints.",
               .rule = "with `best` a multiple of `evaluate.every_epochs`"),
    MEMBER_ENUM(struct checkpoint_policy, keep, "keep", 0, keep_policy_names,
                .about = "Which checkpoints stay: the newest, or those with the best metric. The "
                         "metric is `stop.metric`; without `stop` it is `test_accuracy`, or "
                         "`recall` if there is no `dataset.test`.",
                .rule = "`best` with evaluations"),
    MEMBER_INT(struct checkpoint_policy, count, "count", 0, 1, KEPT_CHECKPOINTS_MAX,
               .about = "How many checkpoints stay, besides the trained model."),
};
const struct record checkpoint_policy_record =
    RECORD_WITH(struct checkpoint_policy, "checkpoint_policy", policy_fields,
                .about = "Versions that become checkpoints while the job trains.");

static const struct field kept_fields[] = {
    MEMBER_FORM(struct kept_checkpoint, id.text, "checkpoint", FIELD_NULLABLE, &checkpoint_id_form,
                .about = "The id of the checkpoint; null: it is not stored yet."),
    MEMBER_INT(struct kept_checkpoint, version, "version", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The step after which the model was stored."),
    MEMBER_DOUBLE_OPTIONAL(struct kept_checkpoint, value, has_value, "value", 0, 0, 0,
                           .about =
                               "With `keep` `best`: the metric of the version; null: not known."),
    MEMBER_FORM(struct kept_checkpoint, sha256, "sha256", FIELD_NULLABLE, &sha256_form),
};
const struct record kept_checkpoint_record =
    RECORD_WITH(struct kept_checkpoint, "kept_checkpoint", kept_fields, .answer = true,
                .about = "A checkpoint that a job stored while it trained.");

int judged_metric_of(int metric)
{
    static const int names[] = {[JUDGED_TEST_ACCURACY] = METRIC_TEST_ACCURACY,
                                [JUDGED_TEST_LOSS] = METRIC_TEST_LOSS,
                                [JUDGED_RECALL] = METRIC_RECALL};
    return names[metric];
}

bool judged_better(int metric, double value, double than)
{
    return metric == JUDGED_TEST_LOSS ? value < than : value > than;
}

bool early_stop_meets(const struct stop_rule *rule, const struct early_stop *state)
{
    const bool reached = rule->target > 0 && state->best_version > 0 && state->since == 0 &&
                         !judged_better(rule->metric, rule->target, state->best);
    return reached || (rule->patience > 0 && state->since >= rule->patience);
}

void early_stop_judge(const struct stop_rule *rule, int64_t version, double value,
                      struct early_stop *state)
{
    if (state->met || version <= state->version) {
        return;
    }
    const bool first = state->best_version == 0;
    state->version = version;
    state->since++;
    if (isfinite(value) && (first || judged_better(rule->metric, value, state->best))) {
        state->best = value;
        state->best_version = version;
        state->since = 0;
    }
    state->met = early_stop_meets(rule, state);
}

int64_t early_stop_last(const struct early_stop *state, int64_t total_steps)
{
    return state->met && state->version < total_steps ? state->version : total_steps;
}
