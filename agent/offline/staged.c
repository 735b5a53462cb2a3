#include "agent/offline/staged.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/evaluations.h"
#include "agent/runtime/samples.h"
#include "base/clock.h"
#include "libtrain/quant/coder.h"
#include "schema/job_check.h"

struct staged {
    struct staged_config config;
    size_t batch, sample_bytes;
    int64_t evaluate_every; /* steps; 0: never */
    struct train_pool *pool;
    struct samples *samples;
    unsigned char *inputs; /* of a batch */
    int32_t *labels;
    unsigned char **blob;    /* [unit_count] snapshots between two plans; NULL: none */
    const struct plan *plan; /* of the stages */
    struct train_stage *stage[STAGES_MAX];
    float *activation[STAGES_MAX], *gradient[STAGES_MAX]; /* of a batch, after a stage */
    struct coder *coder[STAGES_MAX];                      /* for both tensors; NULL: not coded */
};

/* ---- stages ---- */

static void free_stages(struct staged *staged)
{
    for (size_t i = 0; i < STAGES_MAX; i++) {
        train_stage_free(&staged->stage[i]);
        coder_free(&staged->coder[i]);
        free(staged->activation[i]);
        free(staged->gradient[i]);
        staged->activation[i] = staged->gradient[i] = NULL;
    }
    staged->plan = NULL;
}

/* Return the floats of a batch between stage i and the next one. */
static size_t floats_after(const struct staged *staged, const struct plan *plan, size_t i)
{
    const struct unit *unit = &staged->config.model->unit[plan->stage[i].end - 1];
    return staged->batch * shape_elements(unit->out);
}

/* Make the buffers and the coder between stage i and the next one. */
static int make_link(struct staged *staged, const struct plan *plan, size_t i, struct err *err)
{
    const enum codec codec = (enum codec)plan->stage[i].codec;
    const size_t floats = floats_after(staged, plan, i);
    staged->activation[i] = calloc(floats, sizeof(float));
    staged->gradient[i] = calloc(floats, sizeof(float));
    if (!staged->activation[i] || !staged->gradient[i]) {
        return err_set(err, ERR_MEMORY, "%zu floats between two stages", floats);
    }
    return codec == CODEC_NONE ? 0 : coder_new(codec, floats, &staged->coder[i], err);
}

static int make_stage(struct staged *staged, const struct plan *plan, size_t i, struct err *err)
{
    const struct job_spec *spec = staged->config.spec;
    const struct model *model = staged->config.model;
    const struct plan_stage *planned = &plan->stage[i];
    const struct train_stage_config config = {
        .model = model,
        .first = (size_t)planned->first,
        .end = (size_t)planned->end,
        .micro_batch = staged->batch,
        .micro_batches = 1,
        .in_flight = 1,
        .versions = job_versions(spec, plan->stage_count, (size_t)planned->in_flight),
        .aggregate_every = spec->aggregate_every,
        .recompute = (enum recompute)spec->recompute,
        .optimizer = spec->optimizer,
        .seed = (uint64_t)spec->seed,
        .pool = staged->pool,
    };
    int rc = train_stage_new(&config, &staged->stage[i], err);
    return rc != 0 || i + 1 == plan->stage_count ? rc : make_link(staged, plan, i, err);
}

static struct train_stage *stage_of(const struct staged *staged, size_t unit)
{
    size_t i = 0;
    while ((size_t)staged->plan->stage[i].end <= unit) {
        i++;
    }
    return staged->stage[i];
}

/* ---- state ---- */

static int keep_unit(struct staged *staged, size_t unit, size_t bytes, struct err *err)
{
    free(staged->blob[unit]);
    staged->blob[unit] = malloc(bytes);
    return staged->blob[unit] ? 0 : err_set(err, ERR_MEMORY, "unit %zu of %zu bytes", unit, bytes);
}

/* Keep the state of the current stages for the next ones. */
static int keep_state(struct staged *staged, struct err *err)
{
    int rc = 0;
    for (size_t unit = 0; rc == 0 && unit < staged->config.model->unit_count; unit++) {
        const struct train_stage *stage = stage_of(staged, unit);
        rc = keep_unit(staged, unit, train_unit_bytes(stage, unit), err);
        if (rc == 0) {
            train_unit_save(stage, unit, staged->blob[unit]);
        }
    }
    return rc;
}

static int start_unit(struct staged *staged, size_t unit, struct err *err)
{
    const struct model *model = staged->config.model;
    struct state_layout *layout AUTO(state_layout_free) = NULL;
    int rc = state_layout_new(model, unit, &staged->config.spec->optimizer, &layout, err);
    rc = rc ? rc : keep_unit(staged, unit, (size_t)layout->blob_bytes, err);
    return rc ? rc
              : checkpoint_read_unit(staged->config.checkpoint, model, unit, layout,
                                     staged->blob[unit], err);
}

/* Load version 0 of the units that the checkpoint has; the others start from the seed. */
static int start_state(struct staged *staged, struct err *err)
{
    const struct model *model = staged->config.model;
    int rc = 0;
    for (size_t unit = 0; rc == 0 && unit < model->unit_count; unit++) {
        if (job_from_checkpoint(staged->config.spec, model->unit[unit].name)) {
            rc = start_unit(staged, unit, err);
        }
    }
    return rc;
}

static int load_unit(struct staged *staged, size_t unit, struct err *err)
{
    struct train_stage *stage = stage_of(staged, unit);
    if (!staged->blob[unit]) {
        train_unit_initialise(stage, unit);
        return 0;
    }
    int rc = train_unit_load(stage, unit, staged->blob[unit], train_unit_bytes(stage, unit), err);
    free(staged->blob[unit]);
    staged->blob[unit] = NULL;
    return rc;
}

/* Create the stages of a plan, with the state so far. */
static int enter_plan(struct staged *staged, const struct plan_span *span, struct err *err)
{
    int rc = staged->plan ? keep_state(staged, err) : start_state(staged, err);
    free_stages(staged);
    for (size_t i = 0; rc == 0 && i < span->plan->stage_count; i++) {
        rc = make_stage(staged, span->plan, i, err);
    }
    staged->plan = span->plan;
    for (size_t unit = 0; rc == 0 && unit < staged->config.model->unit_count; unit++) {
        rc = load_unit(staged, unit, err);
    }
    for (size_t i = 0; rc == 0 && i < span->plan->stage_count; i++) {
        train_restart(staged->stage[i], span->first);
    }
    return rc;
}

/* ---- batches ---- */

/* Pass a tensor through the link after stage i, because coded tensors lose precision. */
static int pass_link(struct staged *staged, size_t i, enum coder_data data, float *tensor,
                     struct err *err)
{
    if (!staged->coder[i]) {
        return 0;
    }
    const size_t floats = floats_after(staged, staged->plan, i);
    const size_t size = coder_encode(staged->coder[i], data, tensor, floats);
    return coder_decode(staged->coder[i], size, tensor, floats, err);
}

static int forward(struct staged *staged, int64_t step, double *loss_sum, struct err *err)
{
    const struct train_position position = {.step = step};
    const size_t last = staged->plan->stage_count - 1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i <= last; i++) {
        const void *input = i == 0 ? (const void *)staged->inputs : staged->activation[i - 1];
        rc = train_forward(staged->stage[i], 0, position, input, staged->activation[i],
                           i == last ? staged->labels : NULL, i == last ? loss_sum : NULL, err);
        rc = rc ? rc : pass_link(staged, i, CODER_ACTIVATION, staged->activation[i], err);
    }
    return rc;
}

static int backward(struct staged *staged, int64_t step, struct err *err)
{
    const struct job_spec *spec = staged->config.spec;
    const double rate = learning_rate_at(&spec->learning_rate, step, staged->config.total_steps);
    int rc = 0;
    for (size_t i = staged->plan->stage_count; rc == 0 && i-- > 0;) {
        train_backward(staged->stage[i], 0, staged->gradient[i],
                       i == 0 ? NULL : staged->gradient[i - 1]);
        rc = train_update(staged->stage[i], step, rate, err);
        rc = rc || i == 0 ? rc
                          : pass_link(staged, i - 1, CODER_GRADIENT, staged->gradient[i - 1], err);
    }
    return rc;
}

static int train_batch(struct staged *staged, int64_t step, struct err *err)
{
    const double began = clock_now_seconds();
    double loss_sum = 0;
    samples_inputs(staged->samples, step, 0, staged->batch, staged->inputs);
    samples_labels(staged->samples, step, 0, staged->batch, staged->labels);
    int rc = forward(staged, step, &loss_sum, err);
    rc = rc ? rc : backward(staged, step, err);
    if (rc != 0) {
        return err_wrap(err, "step %" PRId64, step);
    }
    work_report(staged->config.listener, step, METRIC_LOSS, loss_sum / (double)staged->batch);
    work_report(staged->config.listener, step, METRIC_STEP_SECONDS, clock_now_seconds() - began);
    return 0;
}

static int evaluate_some(struct staged *staged, size_t index, struct err *err)
{
    const size_t last = staged->plan->stage_count - 1;
    const size_t count = evaluations_part(&staged->config.samples, staged->batch, index).count;
    const void *input = staged->inputs;
    int rc = 0;
    samples_test_inputs(staged->samples, index, staged->inputs);
    for (size_t i = 0; rc == 0 && i < last; i++) {
        rc = train_evaluate(staged->stage[i], count, input, staged->activation[i], NULL, NULL, NULL,
                            err);
        input = staged->activation[i];
    }
    return rc ? rc
              : samples_evaluate_next(staged->samples, staged->stage[last], index, input,
                                      staged->labels, err);
}

static int evaluate(struct staged *staged, int64_t version, struct err *err)
{
    const struct staged_config *config = &staged->config;
    const size_t count = evaluations_batches(config->spec, &config->samples, staged->batch);
    for (size_t index = 0; index < count; index++) {
        int rc = evaluate_some(staged, index, err);
        if (rc != 0) {
            return err_wrap(err, "evaluation of version %" PRId64, version);
        }
    }
    tally_report(samples_tally(staged->samples), config->listener, version);
    return 0;
}

/* Restart after the pipeline has drained, so that later batches use no older version. */
static int drain(struct staged *staged, int64_t version, struct err *err)
{
    for (size_t i = 0; i < staged->plan->stage_count; i++) {
        train_restart(staged->stage[i], version);
    }
    return evaluate(staged, version, err);
}

static int run_span(struct staged *staged, const struct plan_span *span, struct err *err)
{
    const int64_t every = staged->evaluate_every;
    int rc = enter_plan(staged, span, err);
    for (int64_t step = span->first + 1; rc == 0 && step <= span->last; step++) {
        rc = train_batch(staged, step, err);
        if (rc == 0 && every > 0 && (step % every == 0 || step == staged->config.total_steps)) {
            rc = drain(staged, step, err);
        }
    }
    return rc;
}

/* ---- life ---- */

static int fill(struct staged *staged, struct err *err)
{
    const struct staged_config *config = &staged->config;
    const struct job_spec *spec = config->spec;
    const struct model *model = config->model;
    staged->batch = (size_t)spec->batch;
    staged->sample_bytes = shape_elements(model->input) * dtype_size(model->input_dtype);
    staged->evaluate_every = job_evaluate_steps(spec, &config->samples);
    staged->inputs = calloc(staged->batch, staged->sample_bytes);
    staged->labels = calloc(staged->batch * model->positions, sizeof(*staged->labels));
    staged->blob = calloc(model->unit_count, sizeof(*staged->blob));
    if (!staged->inputs || !staged->labels || !staged->blob) {
        return err_set(err, ERR_MEMORY, "a batch of %zu samples", staged->batch);
    }
    const struct samples_config samples = {.model = model,
                                           .spec = spec,
                                           .counts = config->samples,
                                           .data = config->data,
                                           .micro_batch = staged->batch,
                                           .last = true};
    int rc = train_pool_new(config->threads, &staged->pool, err);
    return rc ? rc : samples_new(&samples, &staged->samples, err);
}

int staged_new(const struct staged_config *config, struct staged **out, struct err *err)
{
    struct staged *staged AUTO(staged_free) = calloc(1, sizeof(*staged));
    if (!staged) {
        return err_set(err, ERR_MEMORY, "stages");
    }
    staged->config = *config;
    int rc = fill(staged, err);
    if (rc == 0) {
        *out = staged;
        staged = NULL;
    }
    return rc;
}

void staged_free(struct staged **staged_pointer)
{
    struct staged *staged = *staged_pointer;
    if (!staged) {
        return;
    }
    free_stages(staged);
    for (size_t unit = 0; staged->blob && unit < staged->config.model->unit_count; unit++) {
        free(staged->blob[unit]);
    }
    free(staged->blob);
    free(staged->inputs);
    free(staged->labels);
    samples_free(&staged->samples);
    train_pool_free(&staged->pool);
    free(staged);
    *staged_pointer = NULL;
}

int staged_run(struct staged *staged, const struct plan_file *plans, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < plans->count; i++) {
        rc = run_span(staged, &plans->span[i], err);
        rc = rc == 0 ? 0 : err_wrap(err, "plan %" PRId64, plans->span[i].plan->generation);
    }
    return rc;
}

int staged_export_unit(struct staged *staged, size_t unit, train_write_fn write, void *arg,
                       struct err *err)
{
    return train_unit_export(stage_of(staged, unit), unit, write, arg, err);
}
