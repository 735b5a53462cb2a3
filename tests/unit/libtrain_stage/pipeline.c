#include "tests/unit/libtrain_stage/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/schedule/schedule.h"
#include "libtrain/stage/stage.h"

static size_t micro_batch_of(const struct pipeline *pipeline)
{
    return pipeline->recipe.batch / pipeline->recipe.micro_batches;
}

/* Floats of one micro-batch after stage i. */
static size_t border_floats(const struct pipeline *pipeline, size_t i)
{
    const struct model *model = pipeline->recipe.model;
    return shape_elements(model->unit[pipeline->end[i] - 1].out) * micro_batch_of(pipeline);
}

struct pipeline *pipeline_new(const struct pipeline_recipe *recipe, const size_t *end, size_t count,
                              struct train_pool *pool)
{
    struct pipeline *pipeline = calloc(1, sizeof(*pipeline));
    struct err err = {0};
    assert_non_null(pipeline);
    assert_in_range(count, 1, PIPELINE_STAGES_MAX);
    assert_int_equal(end[count - 1], recipe->model->unit_count);
    pipeline->recipe = *recipe;
    pipeline->count = count;
    for (size_t i = 0; i < count; i++) {
        pipeline->end[i] = end[i];
        const struct train_stage_config config = {
            .model = recipe->model,
            .first = i == 0 ? 0 : end[i - 1],
            .end = end[i],
            .micro_batch = micro_batch_of(pipeline),
            .micro_batches = recipe->micro_batches,
            .in_flight = schedule_in_flight(i, count, recipe->micro_batches),
            .recompute = recipe->recompute,
            .reduction = recipe->reduction,
            .share = {0, recipe->micro_batches},
            .optimizer = recipe->optimizer,
            .seed = recipe->seed,
            .pool = pool};
        assert_ok(train_stage_new(&config, &pipeline->stage[i], &err), &err);
        size_t floats = border_floats(pipeline, i) * recipe->micro_batches;
        pipeline->activation[i] = calloc(floats, sizeof(float));
        pipeline->gradient[i] = calloc(floats, sizeof(float));
        assert_non_null(pipeline->activation[i]);
        assert_non_null(pipeline->gradient[i]);
    }
    return pipeline;
}

void pipeline_free(struct pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->count; i++) {
        train_stage_free(&pipeline->stage[i]);
        free(pipeline->activation[i]);
        free(pipeline->gradient[i]);
    }
    free(pipeline);
}

/* The stage that runs a unit. */
static struct train_stage *stage_of(const struct pipeline *pipeline, size_t unit)
{
    size_t i = 0;
    while (pipeline->end[i] <= unit) {
        i++;
    }
    return pipeline->stage[i];
}

void pipeline_initialise(struct pipeline *pipeline)
{
    for (size_t unit = 0; unit < pipeline->recipe.model->unit_count; unit++) {
        train_unit_initialise(stage_of(pipeline, unit), unit);
    }
}

static void poison(const struct pipeline *pipeline, size_t i)
{
    struct train_stage *stage = pipeline->stage[i];
    if (pipeline->poison) {
        memset(stage->workspace, 0xff, (size_t)stage->bytes.workspace);
    }
}

/* ---- a step ---- */

struct step_state {
    struct pipeline *pipeline;
    int64_t step;
    const unsigned char *inputs;
    const int32_t *labels;
    struct schedule_progress progress[PIPELINE_STAGES_MAX];
    bool summed[PIPELINE_STAGES_MAX];
    double squares[PIPELINE_STAGES_MAX]; /* from the last stage to this one */
    bool updated[PIPELINE_STAGES_MAX];
    struct draws *draws;
};

/* train_forward, or the same in up to four parts. */
static int forward_stage(const struct step_state *state, size_t i, size_t slot, size_t micro_batch,
                         const void *input, float *output, const int32_t *labels, double *loss,
                         struct err *err)
{
    struct train_stage *stage = state->pipeline->stage[i];
    const struct train_position position = {state->step, micro_batch};
    if (!state->pipeline->in_parts) {
        return train_forward(stage, slot, position, input, output, labels, loss, err);
    }
    size_t layers, end = 0;
    (void)train_layers(stage, &layers);
    int rc = train_forward_begin(stage, slot, position, input, labels, err);
    for (size_t part = 0; part < 3 && rc == 0; part++) {
        end = draw_size(state->draws, end, layers);
        train_forward_layers(stage, end);
    }
    return rc ? rc : train_forward_end(stage, output, loss, err);
}

static void forward(struct step_state *state, size_t i)
{
    struct pipeline *pipeline = state->pipeline;
    const struct model *model = pipeline->recipe.model;
    struct schedule_progress *progress = &state->progress[i];
    size_t m = progress->forwards++;
    size_t samples = micro_batch_of(pipeline);
    size_t positions = model->positions;
    bool last = i + 1 == pipeline->count;
    const void *input =
        state->inputs + m * samples * shape_elements(model->input) * dtype_size(model->input_dtype);
    if (i > 0) {
        input = pipeline->activation[i - 1] + m * border_floats(pipeline, i - 1);
    }
    double loss = 0.0;
    struct err err = {0};
    poison(pipeline, i);
    assert_ok(forward_stage(state, i, m % progress->in_flight, m, input,
                            last ? NULL : pipeline->activation[i] + m * border_floats(pipeline, i),
                            last ? state->labels + m * samples * positions : NULL,
                            last ? &loss : NULL, &err),
              &err);
    if (last) {
        pipeline->last_loss += loss;
        progress->gradients = progress->forwards;
    } else {
        state->progress[i + 1].inputs++;
    }
}

static void backward(struct step_state *state, size_t i)
{
    struct pipeline *pipeline = state->pipeline;
    struct schedule_progress *progress = &state->progress[i];
    size_t m = progress->backwards++;
    bool last = i + 1 == pipeline->count;
    poison(pipeline, i);
    train_backward(pipeline->stage[i], m % progress->in_flight,
                   last ? NULL : pipeline->gradient[i] + m * border_floats(pipeline, i),
                   i == 0 ? NULL : pipeline->gradient[i - 1] + m * border_floats(pipeline, i - 1));
    if (i > 0) {
        state->progress[i - 1].gradients++;
    }
}

/* The stage's passes are done: add its squares when those of the later stages are there. Whether
 * all are. */
static bool sum_squares(struct step_state *state, size_t i)
{
    struct pipeline *pipeline = state->pipeline;
    struct err err = {0};
    bool last = i + 1 == pipeline->count;
    if (!state->summed[i] && (last || state->summed[i + 1])) {
        double after = last ? 0.0 : state->squares[i + 1];
        assert_ok(train_sum_squares(pipeline->stage[i], after, &state->squares[i], &err), &err);
        state->summed[i] = true;
        pipeline->last_squares = state->squares[i];
    }
    return state->summed[0];
}

static void update_stage(const struct step_state *state, size_t i)
{
    const struct pipeline_recipe *recipe = &state->pipeline->recipe;
    struct train_stage *stage = state->pipeline->stage[i];
    struct err err = {0};
    if (recipe->optimizer.clip_norm > 0) {
        assert_ok(train_clip(stage, state->squares[0], &err), &err);
    }
    assert_ok(train_update(stage, state->step, recipe->learning_rate, &err), &err);
}

static void run_step(struct step_state *state, bool update)
{
    struct pipeline *pipeline = state->pipeline;
    const bool clips = pipeline->recipe.optimizer.clip_norm > 0;
    pipeline->last_loss = 0.0;
    for (size_t i = 0; i < pipeline->count; i++) {
        size_t micro_batches = pipeline->recipe.micro_batches;
        state->progress[i] = (struct schedule_progress){
            .micro_batches = micro_batches,
            .flush = micro_batches,
            .in_flight = schedule_in_flight(i, pipeline->count, micro_batches),
            .inputs = i == 0 ? micro_batches : 0};
    }
    for (size_t left = pipeline->count, idle = 0; left > 0;) {
        size_t i = draw_size(state->draws, 0, pipeline->count - 1);
        enum schedule_work work =
            state->updated[i] ? SCHEDULE_WAIT : schedule_next(&state->progress[i]);
        if (work == SCHEDULE_UPDATE && clips && !sum_squares(state, i)) {
            work = SCHEDULE_WAIT;
        }
        idle = work == SCHEDULE_WAIT ? idle + 1 : 0;
        assert_true(idle < 10000);
        switch (work) {
        case SCHEDULE_WAIT: break;
        case SCHEDULE_FORWARD: forward(state, i); break;
        case SCHEDULE_BACKWARD: backward(state, i); break;
        case SCHEDULE_UPDATE:
            if (update) {
                update_stage(state, i);
            }
            state->updated[i] = true;
            left--;
            break;
        }
    }
}

void pipeline_step(struct pipeline *pipeline, int64_t step, const unsigned char *inputs,
                   const int32_t *labels, struct draws *draws)
{
    struct step_state state = {
        .pipeline = pipeline, .step = step, .inputs = inputs, .labels = labels, .draws = draws};
    run_step(&state, true);
}

void pipeline_half_step(struct pipeline *pipeline, int64_t step, const unsigned char *inputs,
                        const int32_t *labels, struct draws *draws)
{
    struct step_state state = {
        .pipeline = pipeline, .step = step, .inputs = inputs, .labels = labels, .draws = draws};
    run_step(&state, false);
}

void pipeline_evaluate(struct pipeline *pipeline, size_t count, const unsigned char *inputs,
                       const int32_t *labels, double *loss_sum, uint64_t *correct)
{
    struct err err = {0};
    const void *input = inputs;
    for (size_t i = 0; i < pipeline->count; i++) {
        bool last = i + 1 == pipeline->count;
        poison(pipeline, i);
        assert_ok(train_evaluate(pipeline->stage[i], count, input,
                                 last ? NULL : pipeline->activation[i], last ? labels : NULL,
                                 last ? loss_sum : NULL, last ? correct : NULL, &err),
                  &err);
        input = pipeline->activation[i];
    }
}

/* ---- state ---- */

unsigned char *unit_save(const struct train_stage *stage, size_t unit)
{
    unsigned char *blob = malloc(train_unit_bytes(stage, unit));
    assert_non_null(blob);
    train_unit_save(stage, unit, blob);
    return blob;
}

unsigned char *pipeline_save(const struct pipeline *pipeline, size_t *out_size)
{
    size_t units = pipeline->recipe.model->unit_count;
    size_t size = 0;
    for (size_t unit = 0; unit < units; unit++) {
        size += train_unit_bytes(stage_of(pipeline, unit), unit);
    }
    if (size == 0) {
        fail_msg("a model without units");
        return NULL;
    }
    unsigned char *blobs = malloc(size);
    assert_non_null(blobs);
    for (size_t unit = 0, offset = 0; unit < units; unit++) {
        struct train_stage *stage = stage_of(pipeline, unit);
        train_unit_save(stage, unit, blobs + offset);
        offset += train_unit_bytes(stage, unit);
    }
    *out_size = size;
    return blobs;
}

void pipeline_load(struct pipeline *pipeline, const unsigned char *blobs)
{
    struct err err = {0};
    for (size_t unit = 0; unit < pipeline->recipe.model->unit_count; unit++) {
        struct train_stage *stage = stage_of(pipeline, unit);
        size_t size = train_unit_bytes(stage, unit);
        assert_ok(train_unit_load(stage, unit, blobs, size, &err), &err);
        blobs += size;
    }
}

/* ---- data ---- */

unsigned char *draw_bytes(struct draws *draws, size_t count)
{
    unsigned char *bytes = malloc(count);
    assert_non_null(bytes);
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (unsigned char)rng_word(&draws->stream, draws->next++);
    }
    return bytes;
}

int32_t *draw_labels(struct draws *draws, size_t count, uint32_t classes)
{
    int32_t *labels = calloc(count, sizeof(*labels));
    assert_non_null(labels);
    for (size_t i = 0; i < count; i++) {
        labels[i] = (int32_t)draw_size(draws, 0, classes - 1);
    }
    return labels;
}
