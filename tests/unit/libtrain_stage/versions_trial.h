/* versions_trial.h: a model trained by stages of several versions, in the order that the guards of
 * the asynchronous schedule leave, and its reference: stages of one version that train one batch
 * after the other and keep a copy of every version of the parameters. Tests only. */
#ifndef TESTS_UNIT_LIBTRAIN_STAGE_VERSIONS_TRIAL_H
#define TESTS_UNIT_LIBTRAIN_STAGE_VERSIONS_TRIAL_H

#include "tests/unit/libtrain_stage/law.h"

#define TRIAL_STAGES_MAX 4
#define TRIAL_STEPS 12
#define TRIAL_BATCH 2

/* The stages of a generation and the rules of its schedule. */
struct trial_plan {
    size_t count, end[TRIAL_STAGES_MAX], in_flight[TRIAL_STAGES_MAX];
    bool vertical;
    int64_t aggregate_every;
    int64_t restarted; /* the version it begins after */
};

struct trial {
    struct law *law;
    struct trial_plan plan;
    struct train_stage *stage[TRIAL_STAGES_MAX];
    float *activation[TRIAL_STAGES_MAX][TRIAL_STEPS + 1]; /* after stage i, of each step */
    float *gradient[TRIAL_STAGES_MAX][TRIAL_STEPS + 1];
};

/* reference: stages of one version and one slot. */
void trial_make(struct trial *trial, bool reference);
void trial_done(struct trial *trial);
/* The stage that runs a unit. */
struct train_stage *trial_stage(const struct trial *trial, size_t unit);
/* Load the state that the plan begins after. blob [unit_count]; NULL: version 0. */
void trial_load(struct trial *trial, unsigned char *const *blob);

/* Train the batches from the restart to `last`; each unit's snapshot goes to states[step][unit].
 * Stop after `tasks` tasks, as a device that is killed does. Which stage works next is drawn. */
void trial_run(struct trial *trial, int64_t last, size_t tasks, unsigned char ***states);
void trial_run_reference(struct trial *trial, int64_t last, unsigned char ***states);

#endif
