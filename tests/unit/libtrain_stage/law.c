#include "tests/unit/libtrain_stage/law.h"

#include <stdlib.h>
#include <string.h>

const unsigned char *law_inputs(const struct law *law, int64_t step)
{
    return law->inputs + (size_t)(step - 1) * law->batch_bytes;
}

const int32_t *law_labels(const struct law *law, int64_t step)
{
    return law->labels + (size_t)(step - 1) * law->run.batch * law->model->positions;
}

void law_steps(struct law *law, struct pipeline *pipeline, int64_t first, int64_t last)
{
    for (int64_t step = first; step <= last; step++) {
        pipeline_step(pipeline, step, law_inputs(law, step), law_labels(law, step), &law->draws);
    }
}

struct law law_new(void **state, struct model *model, struct law_run run)
{
    static const struct optimizer heavy = {
        .type = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-4};
    return law_with(state, model, run, &heavy);
}

struct law law_with(void **state, struct model *model, struct law_run run,
                    const struct optimizer *optimizer)
{
    struct law law = {.pools = *state, .model = model, .run = run, .draws = draws_new(5)};
    law.recipe = (struct pipeline_recipe){
        .model = model,
        .batch = run.batch,
        .micro_batches = run.micro_batches,
        .optimizer = *optimizer,
        .learning_rate = optimizer->type == OPTIMIZER_SGD ? 0.02 : 0.001,
        .seed = 11,
    };
    law.batch_bytes = run.batch * shape_elements(model->input) * dtype_size(model->input_dtype);
    law.inputs = draw_bytes(&law.draws, (size_t)run.steps * law.batch_bytes);
    law.labels =
        draw_labels(&law.draws, (size_t)run.steps * run.batch * model->positions, model->classes);
    struct pipeline *pipeline =
        pipeline_new(&law.recipe, &model->unit_count, 1, law.pools->pool[0]);
    pipeline_initialise(pipeline);
    law_steps(&law, pipeline, 1, run.steps);
    law.expected = pipeline_save(pipeline, &law.expected_size);
    law.expected_loss = pipeline->last_loss;
    pipeline_free(pipeline);
    return law;
}

void law_done(struct law *law)
{
    free(law->inputs);
    free(law->labels);
    free(law->expected);
    model_free(&law->model);
}

void law_check_state(const struct law *law, const struct pipeline *pipeline)
{
    size_t size;
    unsigned char *blobs = pipeline_save(pipeline, &size);
    assert_int_equal(size, law->expected_size);
    assert_memory_equal(blobs, law->expected, size);
    assert_true(pipeline->last_loss == law->expected_loss);
    free(blobs);
}

void law_check_partition(struct law *law, const size_t *end, size_t count)
{
    for (size_t way = 0; way < 4; way++) {
        struct pipeline_recipe recipe = law->recipe;
        recipe.recompute = way < 2 ? RECOMPUTE_NONE : RECOMPUTE_UNIT;
        struct pipeline *pipeline = pipeline_new(&recipe, end, count, law->pools->pool[way % 2]);
        pipeline->poison = true;
        pipeline_initialise(pipeline);
        law_steps(law, pipeline, 1, law->run.steps);
        law_check_state(law, pipeline);
        pipeline_free(pipeline);
    }
}

size_t law_partition(uint64_t cuts, size_t units, size_t *end)
{
    size_t count = 0;
    for (size_t unit = 0; unit + 1 < units; unit++) {
        if (cuts >> unit & 1) {
            end[count++] = unit + 1;
        }
    }
    end[count++] = units;
    return count;
}

size_t law_draw_partition(struct law *law, size_t *end)
{
    uint64_t cuts = (uint64_t)rng_word(&law->draws.stream, law->draws.next++);
    uint64_t fewer = (uint64_t)rng_word(&law->draws.stream, law->draws.next++);
    return law_partition(draw_size(&law->draws, 0, 1) ? cuts : cuts & fewer, law->model->unit_count,
                         end);
}

void law_check_random_partitions(struct law *law, int times)
{
    size_t end[PIPELINE_STAGES_MAX];
    for (int i = 0; i < times; i++) {
        law_check_partition(law, end, law_draw_partition(law, end));
    }
}
