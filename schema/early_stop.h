/* early_stop.h: when a job ends before its last step, and which of its versions are kept on the
 * way. Both follow from the evaluated versions alone, so a stage, a coordinator and a job in one
 * process decide alike. Meaning: docs/jobs.md. Plain structs; pure; any thread. */
#ifndef SCHEMA_EARLY_STOP_H
#define SCHEMA_EARLY_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"

/* A number of an evaluation by which versions are compared. */
enum judged_metric { JUDGED_TEST_ACCURACY, JUDGED_TEST_LOSS, JUDGED_RECALL };
extern const char *const judged_metric_names[];
/* Return its enum metric_name (heartbeat.h). */
int judged_metric_of(int metric);
/* Return whether `value` is better than `than`: a lower loss is better. NaN is never better. */
bool judged_better(int metric, double value, double than);

/* `stop` of a job. */
struct stop_rule {
    int metric;       /* enum judged_metric */
    int64_t patience; /* evaluations in a row without a better value; 0: any number */
    double target;    /* the job ends once it reaches this value; 0: no target */
};
extern const struct record stop_rule_record;

/* What the evaluations so far mean for the rule. */
struct early_stop {
    int64_t version;      /* the newest judged evaluation; 0: none */
    int64_t best_version; /* 0: none had a finite value */
    double best;          /* its value */
    int64_t since;        /* evaluations in a row that were not better */
    bool met;             /* the job ends with `version` */
};
extern const struct record early_stop_record;

/* Return whether the newest evaluation meets the rule. A value that reaches the target is the best
 * so far: the job would have ended with an earlier one. */
bool early_stop_meets(const struct stop_rule *rule, const struct early_stop *state);
/* Judge the evaluation of a version. Versions up to the newest judged one change nothing, because a
 * job that retrains steps evaluates them again. Nothing changes after the rule is met. */
void early_stop_judge(const struct stop_rule *rule, int64_t version, double value,
                      struct early_stop *state);
/* Return the last step of a job that would have total_steps without early stop. */
int64_t early_stop_last(const struct early_stop *state, int64_t total_steps);

/* `checkpoint` of a job: versions that become checkpoints while it trains. */
enum keep_policy { KEEP_LAST, KEEP_BEST };
extern const char *const keep_policy_names[];

#define KEPT_CHECKPOINTS_MAX 16

struct checkpoint_policy {
    int64_t every_epochs;
    int keep;      /* enum keep_policy */
    int64_t count; /* checkpoints to keep */
};
#define CHECKPOINT_POLICY_DEFAULT                                                                  \
    {                                                                                              \
        .every_epochs = 1, .keep = KEEP_LAST, .count = 1                                           \
    }
extern const struct record checkpoint_policy_record;

/* A version that becomes a checkpoint. */
struct kept_checkpoint {
    struct checkpoint_id id; /* "": not stored yet */
    int64_t version;
    double value; /* of the metric that decides; has_value */
    bool has_value;
    char sha256[SHA256_SIZE]; /* of the stored model */
};
/* Beside the kept ones: one to drop, and one that is not stored yet. */
#define KEPT_LIST_MAX (KEPT_CHECKPOINTS_MAX + 2)
extern const struct record kept_checkpoint_record;

#endif
