#include "tests/unit/libtrain_stage/law.h"

#include <stdlib.h>
#include <string.h>

/* Every op and every way to join them, stored bytes that are scaled and normalised, a sum of a
 * unit's input with itself. */
const char law_everything[] =
    "{\"name\": \"everything\", \"input\": {\"shape\": [9, 11, 5], \"dtype\": \"uint8\", "
    "\"scale\": 0.0078125,"
    " \"mean\": [0.5, 0.6, 0.7, 0.8, 0.9], \"std\": [0.2, 0.3, 0.4, 0.5, 0.6]},"
    " \"units\": ["
    "  {\"name\": \"first\", \"ops\": [{\"type\": \"relu\"}, {\"type\": \"avg_pool\", \"kernel\": "
    "3, \"stride\": 1,"
    "    \"padding\": 1}]},"
    "  {\"name\": \"groups\", \"ops\": [{\"type\": \"conv2d\", \"filters\": 20, \"kernel\": 3, "
    "\"padding\": 1,"
    "    \"groups\": 5}, {\"type\": \"relu6\"}, {\"type\": \"dropout\", \"rate\": 0.25}]},"
    "  {\"name\": \"mix\", \"branches\": [[{\"type\": \"conv2d\", \"filters\": 6, \"kernel\": 1}, "
    "{\"type\": "
    "\"relu\"}],"
    "    [], [{\"type\": \"max_pool\", \"kernel\": 3, \"stride\": 1, \"padding\": 1}, {\"type\": "
    "\"batch_norm\"}]],"
    "    \"then\": [{\"type\": \"batch_norm\"}]},"
    "  {\"name\": \"deep\", \"residual\": {\"body\": [{\"type\": \"conv2d\", \"filters\": 46, "
    "\"kernel\": 3,"
    "    \"padding\": 1, \"groups\": 46, \"bias\": false}, {\"type\": \"batch_norm\"}, {\"type\": "
    "\"relu\"}]},"
    "    \"then\": [{\"type\": \"relu\"}, {\"type\": \"dropout\", \"rate\": 0.5}]},"
    "  {\"name\": \"twice\", \"residual\": {\"body\": [{\"type\": \"relu\"}]}},"
    "  {\"name\": \"wide\", \"ops\": [{\"type\": \"conv2d\", \"filters\": 12, \"kernel\": [2, 5],"
    "    \"stride\": [1, 2], \"padding\": [1, 2]}, {\"type\": \"max_pool\", \"kernel\": [3, 2], "
    "\"stride\": 2,"
    "    \"ceil_mode\": true}]},"
    "  {\"name\": \"down\", \"residual\": {\"body\": [{\"type\": \"conv2d\", \"filters\": 8, "
    "\"kernel\": 3, "
    "\"stride\": 2,"
    "    \"padding\": 1}, {\"type\": \"batch_norm\"}], \"shortcut\": [{\"type\": \"conv2d\", "
    "\"filters\": 8,"
    "    \"kernel\": 1, \"stride\": 2}]}, \"then\": [{\"type\": \"relu\"}]},"
    "  {\"name\": \"flat\", \"ops\": [{\"type\": \"flatten\"}]},"
    "  {\"name\": \"rest\", \"ops\": [{\"type\": \"dropout\", \"rate\": 0.1}]},"
    "  {\"name\": \"dense\", \"ops\": [{\"type\": \"linear\", \"units\": 16}, {\"type\": "
    "\"batch_norm\"},"
    "    {\"type\": \"relu\"}]},"
    "  {\"name\": \"head\", \"ops\": [{\"type\": \"linear\", \"units\": \"classes\"}]}],"
    " \"loss\": {\"type\": \"softmax_cross_entropy\"}}";

/* Token numbers, every op of a sequence, attention that sees everything, a label at each position.
 */
const char law_sequence[] =
    "{\"name\": \"sequence\", \"input\": {\"scale\": 1},"
    " \"units\": ["
    "  {\"name\": \"embed\", \"ops\": [{\"type\": \"embedding\", \"rows\": 256, \"units\": 12},"
    "    {\"type\": \"positions\"}, {\"type\": \"dropout\", \"rate\": 0.1}]},"
    "  {\"name\": \"past\", \"residual\": {\"body\": [{\"type\": \"layer_norm\"}, {\"type\": "
    "\"linear\", \"units\": "
    "36},"
    "    {\"type\": \"attention\", \"heads\": 3}, {\"type\": \"linear\", \"units\": 12}]}},"
    "  {\"name\": \"more\", \"residual\": {\"body\": [{\"type\": \"layer_norm\"}, {\"type\": "
    "\"linear\", \"units\": "
    "20},"
    "    {\"type\": \"gelu\"}, {\"type\": \"linear\", \"units\": 12}]}, \"then\": [{\"type\": "
    "\"positions\"}]},"
    "  {\"name\": \"all\", \"residual\": {\"body\": [{\"type\": \"linear\", \"units\": 36},"
    "    {\"type\": \"attention\", \"heads\": 1, \"causal\": false}], \"shortcut\": [{\"type\": "
    "\"silu\"},"
    "    {\"type\": \"layer_norm\", \"epsilon\": 0.001}]}},"
    "  {\"name\": \"gate\", \"ops\": [{\"type\": \"silu\"}]},"
    "  {\"name\": \"mean\", \"branches\": [[{\"type\": \"gelu\"}], [{\"type\": \"layer_norm\"}], "
    "[]]},"
    "  {\"name\": \"norm\", \"ops\": [{\"type\": \"layer_norm\"}]},"
    "  {\"name\": \"head\", \"ops\": [{\"type\": \"linear\", \"units\": \"classes\"}]}],"
    " \"loss\": {\"type\": \"softmax_cross_entropy\"}}";

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
        .reduction = run.reduction,
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

/* ---- the tree ---- */

#define ADAM .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8
const struct optimizer law_optimizers[LAW_OPTIMIZERS] = {
    {.type = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-4},
    {.type = OPTIMIZER_SGD, .momentum = 0.9, .clip_value = 1e-3},
    {.type = OPTIMIZER_ADAM, ADAM, .weight_decay = 1e-4},
    {.type = OPTIMIZER_ADAMW, ADAM, .weight_decay = 0.1, .clip_norm = 0.1},
};

struct train_stage_config law_tree_config(const struct law *law, struct reduce_range share,
                                          size_t threads)
{
    const struct pipeline_recipe *recipe = &law->recipe;
    return (struct train_stage_config){.model = law->model,
                                       .end = law->model->unit_count,
                                       .micro_batch = law->run.batch / recipe->micro_batches,
                                       .micro_batches = recipe->micro_batches,
                                       .in_flight = 1,
                                       .optimizer = recipe->optimizer,
                                       .reduction = REDUCTION_TREE,
                                       .share = share,
                                       .seed = recipe->seed,
                                       .pool = law->pools->pool[threads]};
}

struct train_stage *law_stage_of(const struct train_stage_config *config)
{
    struct train_stage *stage = NULL;
    struct err err = {0};
    assert_ok(train_stage_new(config, &stage, &err), &err);
    for (size_t unit = config->first; unit < config->end; unit++) {
        train_unit_initialise(stage, unit);
    }
    return stage;
}

struct train_stage *law_tree_stage(const struct law *law, size_t first, size_t end,
                                   size_t in_flight, struct reduce_range share, size_t threads)
{
    struct train_stage_config config = law_tree_config(law, share, threads);
    config.first = first;
    config.end = end;
    config.in_flight = in_flight;
    return law_stage_of(&config);
}

double law_pass(const struct law *law, struct train_stage *stage, int64_t step, size_t m)
{
    const size_t samples = law->run.batch / law->recipe.micro_batches;
    const size_t bytes = law->batch_bytes / law->recipe.micro_batches;
    const struct train_position position = {.step = step, .micro_batch = m};
    struct err err = {0};
    double loss = 0;
    assert_ok(train_forward(stage, 0, position, law_inputs(law, step) + m * bytes, NULL,
                            law_labels(law, step) + m * samples * law->model->positions, &loss,
                            &err),
              &err);
    train_backward(stage, 0, NULL, NULL);
    return loss;
}
