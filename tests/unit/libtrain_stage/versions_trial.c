#include "tests/unit/libtrain_stage/versions_trial.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/stage/stage.h"
#include "libtrain/stage/versions.h"

static size_t versions_of(const struct trial_plan *plan, size_t i)
{
    return plan->vertical ? plan->count : plan->in_flight[i];
}

static size_t floats_after(const struct trial *trial, size_t i)
{
    return shape_elements(trial->law->model->unit[trial->plan.end[i] - 1].out) * TRIAL_BATCH;
}

void trial_make(struct trial *trial, bool reference)
{
    const struct trial_plan *plan = &trial->plan;
    struct err err = {0};
    for (size_t i = 0; i < plan->count; i++) {
        const struct train_stage_config config = {
            .model = trial->law->model,
            .first = i == 0 ? 0 : plan->end[i - 1],
            .end = plan->end[i],
            .micro_batch = TRIAL_BATCH,
            .micro_batches = 1,
            .in_flight = reference ? 1 : plan->in_flight[i],
            .versions = reference ? 1 : versions_of(plan, i),
            .aggregate_every = reference ? 0 : plan->aggregate_every,
            .recompute = draw_size(&trial->law->draws, 0, 1) ? RECOMPUTE_UNIT : RECOMPUTE_NONE,
            .optimizer = trial->law->recipe.optimizer,
            .seed = trial->law->recipe.seed,
            .pool = trial->law->pools->pool[draw_size(&trial->law->draws, 0, KERNEL_POOLS - 1)]};
        assert_ok(train_stage_new(&config, &trial->stage[i], &err), &err);
        for (size_t step = 0; step <= TRIAL_STEPS; step++) {
            trial->activation[i][step] = calloc(floats_after(trial, i), sizeof(float));
            trial->gradient[i][step] = calloc(floats_after(trial, i), sizeof(float));
        }
    }
}

void trial_done(struct trial *trial)
{
    for (size_t i = 0; i < trial->plan.count; i++) {
        train_stage_free(&trial->stage[i]);
        for (size_t step = 0; step <= TRIAL_STEPS; step++) {
            free(trial->activation[i][step]);
            free(trial->gradient[i][step]);
        }
    }
}

struct train_stage *trial_stage(const struct trial *trial, size_t unit)
{
    size_t i = 0;
    while (trial->plan.end[i] <= unit) {
        i++;
    }
    return trial->stage[i];
}

void trial_load(struct trial *trial, unsigned char *const *blob)
{
    for (size_t unit = 0; unit < trial->law->model->unit_count; unit++) {
        struct train_stage *stage = trial_stage(trial, unit);
        struct err err = {0};
        if (!blob) {
            train_unit_initialise(stage, unit);
        } else {
            assert_ok(train_unit_load(stage, unit, blob[unit], train_unit_bytes(stage, unit), &err),
                      &err);
        }
    }
    for (size_t i = 0; i < trial->plan.count; i++) {
        train_restart(trial->stage[i], trial->plan.restarted);
    }
}

/* blob [unit_count]: replaced by the snapshots of stage i. */
static void save(const struct trial *trial, size_t i, unsigned char **blob)
{
    for (size_t unit = i == 0 ? 0 : trial->plan.end[i - 1]; unit < trial->plan.end[i]; unit++) {
        free(blob[unit]);
        blob[unit] = unit_save(trial->stage[i], unit);
    }
}

static void forward(struct trial *trial, size_t i, int64_t step, size_t slot)
{
    const bool last = i + 1 == trial->plan.count;
    const void *input =
        i == 0 ? (const void *)law_inputs(trial->law, step) : trial->activation[i - 1][step];
    double loss = 0;
    struct err err = {0};
    memset(trial->stage[i]->workspace, 0xff, (size_t)trial->stage[i]->bytes.workspace);
    assert_ok(train_forward(trial->stage[i], slot, (struct train_position){step, 0}, input,
                            last ? NULL : trial->activation[i][step],
                            last ? law_labels(trial->law, step) : NULL, last ? &loss : NULL, &err),
              &err);
}

static void backward(struct trial *trial, size_t i, int64_t step, size_t slot)
{
    const bool last = i + 1 == trial->plan.count;
    memset(trial->stage[i]->workspace, 0xff, (size_t)trial->stage[i]->bytes.workspace);
    train_backward(trial->stage[i], slot, last ? NULL : trial->gradient[i][step],
                   i == 0 ? NULL : trial->gradient[i - 1][step]);
}

static void update(struct trial *trial, size_t i, int64_t step)
{
    struct err err = {0};
    assert_ok(train_update(trial->stage[i], step, trial->law->recipe.learning_rate, &err), &err);
}

/* ---- the schedule: pipeline.md's guards ---- */

struct progress {
    int64_t forwards, backwards; /* the last batch of each */
};

static bool may_forward(const struct trial *trial, const struct progress *at, size_t i,
                        int64_t last)
{
    const int64_t s = trial->plan.restarted + 1;
    const int64_t d = (int64_t)trial->plan.in_flight[i];
    const int64_t t = at[i].forwards + 1;
    return t <= last && (i == 0 || at[i - 1].forwards >= t) &&
           (t - s < d || at[i].backwards == t - d);
}

static bool may_backward(const struct trial *trial, const struct progress *at, size_t i,
                         int64_t last)
{
    const int64_t d = (int64_t)trial->plan.in_flight[i];
    const int64_t t = at[i].backwards + 1;
    const bool here = i + 1 == trial->plan.count ? at[i].forwards >= t : at[i + 1].backwards >= t;
    return t <= last && here && (at[i].forwards == t + d - 1 || at[i].forwards == last);
}

void trial_run(struct trial *trial, int64_t last, size_t tasks, unsigned char ***states)
{
    struct progress at[TRIAL_STAGES_MAX];
    for (size_t i = 0; i < trial->plan.count; i++) {
        at[i] = (struct progress){trial->plan.restarted, trial->plan.restarted};
    }
    while (tasks-- > 0) {
        size_t ready[2 * TRIAL_STAGES_MAX], count = 0;
        for (size_t i = 0; i < trial->plan.count; i++) {
            /* Never both: the guards leave one order of a stage's work. */
            const bool goes = may_forward(trial, at, i, last);
            const bool returns = may_backward(trial, at, i, last);
            assert_false(goes && returns);
            if (goes || returns) {
                ready[count++] = 2 * i + returns;
            }
        }
        if (count == 0) {
            break;
        }
        const size_t task = ready[draw_size(&trial->law->draws, 0, count - 1)];
        const size_t i = task / 2, d = trial->plan.in_flight[i];
        if (task % 2 == 0) {
            const int64_t step = ++at[i].forwards;
            forward(trial, i, step, (size_t)step % d);
            continue;
        }
        const int64_t step = ++at[i].backwards;
        backward(trial, i, step, (size_t)step % d);
        update(trial, i, step);
        save(trial, i, states[step]);
    }
}

/* ---- the reference ---- */

struct copies {
    float *version[TRIAL_STEPS + 1]; /* of one stage; NULL: none */
};

static void put(struct train_stage *stage, const float *version)
{
    memcpy(stage->parameter, version, (size_t)stage->arena->trained_floats * sizeof(float));
    versions_latest(stage)->contents = ++stage->contents;
}

static float *copy_of(const struct train_stage *stage)
{
    return copy_floats(stage->parameter, (size_t)stage->arena->trained_floats);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void average(const struct trial *trial, size_t i, struct copies *copies, int64_t step)
{
    const int64_t first =
        later(trial->plan.restarted, step - (int64_t)versions_of(&trial->plan, i) + 1);
    float *mean = copy_of(trial->stage[i]);
    for (size_t k = 0; k < (size_t)trial->stage[i]->arena->trained_floats; k++) {
        float sum = copies->version[first][k];
        for (int64_t version = first + 1; version <= step; version++) {
            sum += copies->version[version][k];
        }
        mean[k] = sum / (float)(step - first + 1);
    }
    put(trial->stage[i], mean);
    free(copies->version[step]);
    copies->version[step] = mean;
}

void trial_run_reference(struct trial *trial, int64_t last, unsigned char ***states)
{
    const struct trial_plan *plan = &trial->plan;
    struct copies copies[TRIAL_STAGES_MAX] = {0};
    for (size_t i = 0; i < plan->count; i++) {
        copies[i].version[plan->restarted] = copy_of(trial->stage[i]);
    }
    for (int64_t step = plan->restarted + 1; step <= last; step++) {
        for (size_t i = 0; i < plan->count; i++) {
            const int64_t used = step - (int64_t)versions_of(plan, i);
            put(trial->stage[i], copies[i].version[later(plan->restarted, used)]);
            forward(trial, i, step, 0);
        }
        for (size_t i = plan->count; i-- > 0;) {
            backward(trial, i, step, 0);
            put(trial->stage[i], copies[i].version[step - 1]);
            update(trial, i, step);
            copies[i].version[step] = copy_of(trial->stage[i]);
            if (plan->aggregate_every > 0 && step % plan->aggregate_every == 0) {
                average(trial, i, &copies[i], step);
            }
            save(trial, i, states[step]);
        }
    }
    for (size_t i = 0; i < plan->count; i++) {
        for (size_t step = 0; step <= TRIAL_STEPS; step++) {
            free(copies[i].version[step]);
        }
    }
}
