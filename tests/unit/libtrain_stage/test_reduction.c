/* Gradients that are added by the tree, on one device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/stage/stage.h"
#include "tests/unit/libtrain_stage/law.h"

#define BATCH 8
#define STEPS 3
#define MICRO_BATCHES_TRIED 8

static const size_t tried[] = {1, 2, 4, 8};

static struct law_run run_of(size_t micro_batches)
{
    return (struct law_run){BATCH, micro_batches, STEPS, REDUCTION_TREE};
}

/* The gradients of each micro-batch alone, added as the definition says. */
static void add_tree(float *const *gradient, size_t floats, size_t a, size_t b, float *out)
{
    if (b - a == 1) {
        memcpy(out, gradient[a], floats * sizeof(float));
        return;
    }
    size_t power = 1;
    while (power * 2 < b - a) {
        power *= 2;
    }
    float *right = calloc(floats, sizeof(float));
    assert_non_null(right);
    add_tree(gradient, floats, a, a + power, out);
    add_tree(gradient, floats, a + power, b, right);
    for (size_t i = 0; i < floats; i++) {
        out[i] = out[i] + right[i];
    }
    free(right);
}

static void the_sum_is_that_of_the_definition(void **state)
{
    for (size_t i = 0; i < 4; i++) {
        const size_t micro_batches = tried[i];
        struct law law =
            law_with(state, zoo_model("lenet5", 28, 28, 1), run_of(micro_batches), law_optimizers);
        struct train_stage *stage = law_tree_stage(&law, 0, law.model->unit_count, 1,
                                                   (struct reduce_range){0, micro_batches}, 0);
        const size_t floats = (size_t)stage->arena->trained_floats;
        float *alone[MICRO_BATCHES_TRIED], *sum = calloc(floats, sizeof(float));
        assert_non_null(sum);
        for (size_t m = 0; m < micro_batches; m++) {
            (void)law_pass(&law, stage, 1, m);
            const struct reduce_range range = {m, m + 1};
            alone[m] = copy_floats(train_block(stage, range), floats);
            train_discard(stage);
        }
        for (size_t m = 0; m < micro_batches; m++) {
            (void)law_pass(&law, stage, 1, m);
        }
        add_tree(alone, floats, 0, micro_batches, sum);
        assert_memory_equal(train_gradient(stage), sum, floats * sizeof(float));
        for (size_t m = 0; m < micro_batches; m++) {
            free(alone[m]);
        }
        free(sum);
        train_stage_free(&stage);
        law_done(&law);
    }
}

static void every_partition_gives_the_same_bits(void **state)
{
    for (size_t i = 0; i < LAW_OPTIMIZERS; i++) {
        struct model *model =
            i % 2 ? zoo_model("resnet8", 16, 16, 1)
                  : good_model(law_everything, &(struct model_fit){{9, 11, 5}, DTYPE_U8, 7, 1});
        struct law law = law_with(state, model, run_of(tried[i]), &law_optimizers[i]);
        law_check_random_partitions(&law, 1);
        law_done(&law);
    }
}

static void the_tree_is_not_the_sum_in_place(void **state)
{
    struct law tree = law_new(state, zoo_model("resnet8", 16, 16, 1), run_of(4));
    struct law place =
        law_new(state, zoo_model("resnet8", 16, 16, 1), (struct law_run){BATCH, 4, STEPS, 0});
    assert_int_equal(tree.expected_size, place.expected_size);
    assert_memory_not_equal(tree.expected, place.expected, tree.expected_size);
    law_done(&tree);
    law_done(&place);
}

static void a_discarded_step_leaves_no_trace(void **state)
{
    struct law law = law_new(state, zoo_model("resnet8", 16, 16, 1), run_of(8));
    struct pipeline *pipeline =
        pipeline_new(&law.recipe, &law.model->unit_count, 1, law.pools->pool[1]);
    pipeline_initialise(pipeline);
    for (size_t m = 0; m < 5; m++) {
        (void)law_pass(&law, pipeline->stage[0], 1, m);
    }
    train_discard(pipeline->stage[0]);
    law_steps(&law, pipeline, 1, STEPS);
    law_check_state(&law, pipeline);
    pipeline_free(pipeline);
    law_done(&law);
}

/* In double, one micro-batch after the other, rounded once; batch-norm's momentum is 0.1. */
static void statistics_follow_their_definition(void **state)
{
    struct law law = law_new(state, zoo_model("resnet8", 16, 16, 1), run_of(4));
    struct train_stage *stage =
        law_tree_stage(&law, 0, law.model->unit_count, 1, (struct reduce_range){0, 4}, 0);
    const size_t floats = (size_t)stage->arena->buffer_floats;
    struct err err = {0};
    for (int64_t step = 1; step <= STEPS; step++) {
        float *before = copy_floats(stage->buffer, floats);
        size_t moved = 0;
        for (size_t m = 0; m < 4; m++) {
            (void)law_pass(&law, stage, step, m);
        }
        assert_ok(train_update(stage, step, law.recipe.learning_rate, &err), &err);
        for (size_t i = 0; i < floats; i++) {
            double value = before[i];
            for (size_t m = 0; m < 4; m++) {
                value = 0.9 * value + (double)train_statistics(stage, m)[i];
            }
            assert_true(stage->buffer[i] == (float)value);
            moved += stage->buffer[i] < before[i] || stage->buffer[i] > before[i];
        }
        assert_true(2 * moved > floats);
        free(before);
    }
    train_stage_free(&stage);
    law_done(&law);
}

/* With one micro-batch both ways apply the same numbers, rounded otherwise. */
static void statistics_of_one_micro_batch_are_those_in_place(void **state)
{
    struct law tree = law_new(state, zoo_model("resnet8", 16, 16, 1), run_of(1));
    struct law place =
        law_new(state, zoo_model("resnet8", 16, 16, 1), (struct law_run){BATCH, 1, STEPS, 0});
    struct train_stage *stage =
        law_tree_stage(&tree, 0, tree.model->unit_count, 1, (struct reduce_range){0, 1}, 0);
    struct pipeline *pipeline =
        pipeline_new(&place.recipe, &place.model->unit_count, 1, place.pools->pool[0]);
    struct err err = {0};
    pipeline_initialise(pipeline);
    (void)law_pass(&tree, stage, 1, 0);
    assert_ok(train_update(stage, 1, tree.recipe.learning_rate, &err), &err);
    law_steps(&place, pipeline, 1, 1);
    for (size_t i = 0; i < (size_t)stage->arena->buffer_floats; i++) {
        const float a = stage->buffer[i], b = pipeline->stage[0]->buffer[i];
        assert_true(fabsf(a - b) <= 1e-6f * (1 + fabsf(b)));
    }
    pipeline_free(pipeline);
    train_stage_free(&stage);
    law_done(&tree);
    law_done(&place);
}

/* Each thread would keep denormals or not by its own mode. */
static void sums_of_blocks_do_not_depend_on_the_threads(void **state)
{
    struct law law = {.pools = *state,
                      .model = zoo_model("lenet5", 28, 28, 1),
                      .run = run_of(1),
                      .recipe = {.micro_batches = 1}};
    enum { FLOATS = 60000 };
    static float block[FLOATS], sum[KERNEL_POOLS][FLOATS];
    for (size_t threads = 0; threads < KERNEL_POOLS; threads++) {
        struct train_stage *stage =
            law_tree_stage(&law, 0, law.model->unit_count, 0, (struct reduce_range){0, 0}, threads);
        for (size_t i = 0; i < FLOATS; i++) {
            block[i] = 1.5e-38f;
            sum[threads][i] = i % 2 == 0 ? -1.2e-38f : (float)i;
        }
        train_add(stage, FLOATS, block, sum[threads]);
        assert_memory_equal(sum[threads], sum[0], sizeof(block));
        train_stage_free(&stage);
    }
    assert_true(sum[0][0] >= 0 && sum[0][0] <= 0);
    model_free(&law.model);
}

static void the_plan_counts_every_gradient_and_statistic(void **state)
{
    static const struct {
        struct reduce_range share;
        size_t gradients, statistics;
    } plan[] = {{{0, 8}, 4, 8}, {{1, 7}, 5, 6}, {{4, 8}, 3, 4}, {{0, 0}, 1, 8}};
    for (size_t i = 0; i < sizeof(plan) / sizeof(plan[0]); i++) {
        struct law law = {.pools = *state,
                          .model = zoo_model("resnet8", 16, 16, 1),
                          .run = run_of(8),
                          .recipe = {.micro_batches = 8}};
        struct train_stage *stage =
            law_tree_stage(&law, 0, law.model->unit_count, 1, plan[i].share, 0);
        const struct arena *arena = stage->arena;
        assert_int_equal(stage->bytes.gradients,
                         (plan[i].gradients * arena->trained_floats + arena->turn_floats) *
                             sizeof(float));
        assert_int_equal(
            stage->bytes.parameters,
            (arena->parameter_floats + (1 + plan[i].statistics) * arena->buffer_floats) *
                sizeof(float));
        train_stage_free(&stage);
        model_free(&law.model);
    }
}

static void the_layers_of_the_zoo_are_its_matrices(void **state)
{
    static const struct {
        const char *name;
        size_t layers;
    } zoo[] = {
        {"mobilenetv2", 53}, {"resnet18", 21}, {"vgg11-bn", 9}, {"resnet8", 10}, {"lenet5", 5}};
    for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++) {
        struct law law = {.pools = *state,
                          .model = zoo_model(zoo[i].name, 32, 32, 3),
                          .run = run_of(1),
                          .recipe = {.micro_batches = 1}};
        struct train_stage *stage =
            law_tree_stage(&law, 0, law.model->unit_count, 0, (struct reduce_range){0, 1}, 0);
        size_t count, at = 0;
        const struct train_layer *layer = train_layers(stage, &count);
        assert_int_equal(count, zoo[i].layers);
        for (size_t l = 0; l < count; l++) {
            assert_int_equal(layer[l].first, at);
            at += layer[l].count;
        }
        assert_int_equal(at, (size_t)stage->arena->trained_floats);
        train_stage_free(&stage);
        model_free(&law.model);
    }
}

/* The loss stays finite: batch-norm divides by what overflows. */
static void a_statistic_that_is_not_finite_is_reported(void **state)
{
    struct law law = law_new(state, zoo_model("resnet8", 16, 16, 1), run_of(4));
    struct train_stage *stage =
        law_tree_stage(&law, 0, law.model->unit_count, 1, (struct reduce_range){0, 4}, 0);
    const struct arena_op *first = &stage->arena->op[0];
    struct err err = {0};
    double loss;
    for (size_t i = 0; i < first->op->tensor[0].elements; i++) {
        stage->parameter[(size_t)first->tensor[0] + i] *= 1e25F;
    }
    train_parameters_changed(stage);
    assert_int_equal(train_forward(stage, 0, (struct train_position){.step = 1},
                                   law_inputs(&law, 1), NULL, law_labels(&law, 1), &loss, &err),
                     ERR_DIVERGED);
    assert_holds(err.text, "a statistic of '");
    train_stage_free(&stage);
    law_done(&law);
}

static void what_the_tree_does_not_support_is_rejected(void **state)
{
    const struct kernel_pools *pools = *state;
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    struct train_stage_config config = {.model = model,
                                        .end = model->unit_count,
                                        .micro_batch = 1,
                                        .micro_batches = 1,
                                        .in_flight = 1,
                                        .versions = 2,
                                        .reduction = REDUCTION_TREE,
                                        .pool = pools->pool[0]};
    struct train_stage *stage = NULL;
    struct err err = {0};
    assert_int_equal(train_stage_new(&config, &stage, &err), ERR_INVALID);
    assert_holds(err.text, "keeps one version");
    config.versions = 1;
    config.share = (struct reduce_range){1, 2};
    assert_int_equal(train_stage_new(&config, &stage, &err), ERR_INVALID);
    assert_holds(err.text, "micro-batches 1 to 2 of 1");
    config.share = (struct reduce_range){0, 1};
    config.micro_batches = REDUCE_COUNT_MAX + 1;
    assert_int_equal(train_stage_new(&config, &stage, &err), ERR_INVALID);
    assert_holds(err.text, "1025 micro-batches");
    config.micro_batches = 1;
    config.worker = true;
    config.share = (struct reduce_range){0, 0};
    assert_int_equal(train_stage_new(&config, &stage, &err), ERR_INVALID);
    assert_holds(err.text, "a worker computes a share");
    config.share = (struct reduce_range){0, 1};
    config.reduction = REDUCTION_IN_PLACE;
    assert_int_equal(train_stage_new(&config, &stage, &err), ERR_INVALID);
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_that_of_the_definition),
        cmocka_unit_test(every_partition_gives_the_same_bits),
        cmocka_unit_test(the_tree_is_not_the_sum_in_place),
        cmocka_unit_test(a_discarded_step_leaves_no_trace),
        cmocka_unit_test(statistics_follow_their_definition),
        cmocka_unit_test(statistics_of_one_micro_batch_are_those_in_place),
        cmocka_unit_test(sums_of_blocks_do_not_depend_on_the_threads),
        cmocka_unit_test(the_plan_counts_every_gradient_and_statistic),
        cmocka_unit_test(the_layers_of_the_zoo_are_its_matrices),
        cmocka_unit_test(a_statistic_that_is_not_finite_is_reported),
        cmocka_unit_test(what_the_tree_does_not_support_is_rejected),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
