/* Passes layer by layer: a forward that begins with the first layers' parameters, and sums that are
 * final while a backward goes on; the times of both. */
#include <stdlib.h>
#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/stage/stage.h"
#include "tests/unit/libtrain_stage/law.h"

#define BATCH 8
#define STEPS 2
#define MICRO_BATCHES 4

static const struct law_run run = {BATCH, MICRO_BATCHES, STEPS, REDUCTION_TREE};

/* The models of a test by number: every op, sequences, residuals, and, where no sanitizer makes it
 * take a minute, the deepest of the zoo. */
#if defined(SIMD_BASELINE_ONLY)
#define MODELS 3
#else
#define MODELS 4
#endif
static struct model *model_of(size_t i)
{
    switch (i % MODELS) {
    case 0: return good_model(law_everything, &(struct model_fit){{9, 11, 5}, DTYPE_U8, 7, 1});
    case 1: return good_model(law_sequence, &(struct model_fit){{37, 1, 1}, DTYPE_U8, 200, 37});
    case 2: return zoo_model("resnet8", 16, 16, 1);
    default: return zoo_model("mobilenetv2", 16, 16, 3);
    }
}

static void freeze_some(struct model *model)
{
    for (size_t unit = 0; unit + 1 < model->unit_count; unit++) {
        model->unit[unit].frozen = unit % 3 == 1;
    }
}

/* ---- forward ---- */

/* NaN in place of the parameters. */
static void take_away(struct train_stage *stage)
{
    memset(train_parameters(stage), 0xff, (size_t)stage->arena->trained_floats * sizeof(float));
    train_parameters_changed(stage);
}

static void bring(struct train_stage *stage, const float *parameters, size_t first, size_t end)
{
    size_t count;
    const struct train_layer *layer = train_layers(stage, &count);
    for (size_t l = first; l < end; l++) {
        memcpy(train_parameters(stage) + layer[l].first, parameters + layer[l].first,
               layer[l].count * sizeof(float));
    }
    train_parameters_changed(stage);
}

/* Forward with a part before each layer in `cuts`. Each part has the parameters of its own layers
 * only: it uses no others, and it is computed when it is asked for. */
static double forward_in_parts(const struct law *law, struct train_stage *stage, int64_t step,
                               size_t m, uint64_t cuts)
{
    const size_t samples = law->run.batch / law->recipe.micro_batches;
    const size_t floats = (size_t)stage->arena->trained_floats;
    float *parameters = copy_floats(train_parameters(stage), floats);
    size_t count;
    double loss = 0;
    struct err err = {0};
    (void)train_layers(stage, &count);
    take_away(stage);
    assert_ok(train_forward_begin(
                  stage, 0, (struct train_position){.step = step, .micro_batch = m},
                  law_inputs(law, step) + m * law->batch_bytes / law->recipe.micro_batches,
                  law_labels(law, step) + m * samples * law->model->positions, &err),
              &err);
    size_t first = 0;
    for (size_t l = 1; l < count; l++) {
        if (cuts >> (l % 64) & 1) {
            bring(stage, parameters, first, l);
            train_forward_layers(stage, l);
            take_away(stage);
            first = l;
        }
    }
    bring(stage, parameters, first, count);
    assert_ok(train_forward_end(stage, NULL, &loss, &err), &err);
    take_away(stage);
    bring(stage, parameters, 0, count);
    free(parameters);
    return loss;
}

static void check_saved(const struct law *law, const struct train_stage *stage)
{
    const unsigned char *expected = law->expected;
    for (size_t unit = 0; unit < law->model->unit_count; unit++) {
        unsigned char *blob = unit_save(stage, unit);
        assert_memory_equal(blob, expected, train_unit_bytes(stage, unit));
        expected += train_unit_bytes(stage, unit);
        free(blob);
    }
}

/* Train all steps with another cut in every micro-batch. cuts: of the first. */
static void check_parts(const struct law *law, uint64_t cuts, enum recompute recompute,
                        struct draws *draws)
{
    struct train_stage_config config =
        law_tree_config(law, (struct reduce_range){0, MICRO_BATCHES}, 1);
    config.recompute = recompute;
    struct train_stage *stage = law_stage_of(&config);
    struct err err = {0};
    double loss = 0;
    for (int64_t step = 1; step <= STEPS; step++) {
        loss = 0;
        for (size_t m = 0; m < MICRO_BATCHES; m++) {
            loss += forward_in_parts(law, stage, step, m, cuts);
            train_backward(stage, 0, NULL, NULL);
            cuts = draw_size(draws, 0, SIZE_MAX - 1);
        }
        assert_ok(train_update(stage, step, law->recipe.learning_rate, &err), &err);
    }
    assert_true(loss == law->expected_loss);
    check_saved(law, stage);
    train_stage_free(&stage);
}

static void every_cut_of_lenet5_gives_the_same_bits(void **state)
{
    struct law law = law_new(state, zoo_model("lenet5", 28, 28, 1), run);
    struct draws draws = draws_new(3);
    for (uint64_t cuts = 0; cuts < 1u << 5; cuts++) {
        check_parts(&law, cuts, cuts % 2 ? RECOMPUTE_UNIT : RECOMPUTE_NONE, &draws);
    }
    law_done(&law);
}

static void random_cuts_give_the_same_bits_with_every_op(void **state)
{
    struct draws draws = draws_new(4);
    for (size_t i = 0; i < 2 * MODELS; i++) {
        struct model *model = model_of(i);
        if (i >= MODELS) {
            freeze_some(model);
        }
        struct law law = law_new(state, model, run);
        check_parts(&law, UINT64_MAX, RECOMPUTE_NONE, &draws);
        check_parts(&law, 0, RECOMPUTE_UNIT, &draws);
        law_done(&law);
    }
}

static void stages_of_a_pipeline_in_parts_give_the_same_bits(void **state)
{
    for (size_t i = 0; i < 2 * MODELS; i++) {
        const enum reduction reduction = i < MODELS ? REDUCTION_IN_PLACE : REDUCTION_TREE;
        struct law law =
            law_new(state, model_of(i), (struct law_run){BATCH, MICRO_BATCHES, STEPS, reduction});
        size_t end[PIPELINE_STAGES_MAX];
        const size_t count = law_draw_partition(&law, end);
        struct pipeline *pipeline =
            pipeline_new(&law.recipe, end, count, law.pools->pool[i % KERNEL_POOLS]);
        pipeline->in_parts = true;
        pipeline_initialise(pipeline);
        law_steps(&law, pipeline, 1, STEPS);
        law_check_state(&law, pipeline);
        pipeline_free(pipeline);
        law_done(&law);
    }
}

static void an_abandoned_forward_leaves_no_trace(void **state)
{
    for (int reduction = REDUCTION_IN_PLACE; reduction <= REDUCTION_TREE; reduction++) {
        struct law law =
            law_new(state, zoo_model("resnet8", 16, 16, 1),
                    (struct law_run){BATCH, MICRO_BATCHES, STEPS, (enum reduction)reduction});
        struct pipeline *pipeline =
            pipeline_new(&law.recipe, &law.model->unit_count, 1, law.pools->pool[0]);
        struct train_stage *stage = pipeline->stage[0];
        struct err err = {0};
        pipeline_initialise(pipeline);
        for (size_t end = 0; end < 10; end += 3) {
            assert_ok(train_forward_begin(stage, 0, (struct train_position){1, 0},
                                          law_inputs(&law, 1), law_labels(&law, 1), &err),
                      &err);
            train_forward_layers(stage, end);
            train_discard(stage);
        }
        law_steps(&law, pipeline, 1, STEPS);
        law_check_state(&law, pipeline);
        pipeline_free(pipeline);
        law_done(&law);
    }
}

static void a_model_without_trained_layers_has_no_parts(void **state)
{
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        model->unit[unit].frozen = true;
    }
    struct law law = law_new(state, model, run);
    struct train_stage *stage =
        law_tree_stage(&law, 0, model->unit_count, 1, (struct reduce_range){0, MICRO_BATCHES}, 0);
    size_t count;
    double loss = 0;
    (void)train_layers(stage, &count);
    assert_int_equal(count, 0);
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        loss += forward_in_parts(&law, stage, STEPS, m, UINT64_MAX);
        train_backward(stage, 0, NULL, NULL);
    }
    assert_true(loss == law.expected_loss);
    train_stage_free(&stage);
    law_done(&law);
}

/* ---- sums ---- */

/* What the stage says of a block while its last backward runs. */
struct sums {
    const struct train_stage *stage;
    const float *sum;
    size_t calls;
    float *seen; /* the layers as they were when they were final */
};

static void take_layer(void *arg, const float *sum, size_t layer)
{
    struct sums *sums = arg;
    size_t count;
    const struct train_layer *at = &train_layers(sums->stage, &count)[layer];
    assert_true(sums->calls == 0 || sum == sums->sum);
    assert_int_equal(layer, count - 1 - sums->calls);
    memcpy(sums->seen + at->first, sum + at->first, at->count * sizeof(float));
    sums->sum = sum;
    sums->calls++;
}

/* The blocks of one step of a share: final where and when the stage says so, and until released. */
static void check_blocks(const struct law *law, struct train_stage *stage, struct sums *sums,
                         int64_t step)
{
    const struct reduce_range share = stage->config.share;
    const size_t floats = (size_t)stage->arena->trained_floats;
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    float *seen[REDUCE_BLOCKS_MAX];
    size_t count, done = 0;
    const size_t blocks = reduce_blocks(stage->config.micro_batches, share, block);
    (void)train_layers(stage, &count);
    for (size_t m = share.first; m < share.end; m++) {
        sums->calls = 0;
        (void)law_pass(law, stage, step, m);
        if (m + 1 < block[done].end) {
            assert_int_equal(sums->calls, 0);
            continue;
        }
        assert_int_equal(sums->calls, count);
        assert_ptr_equal(sums->sum, train_block(stage, block[done]));
        seen[done++] = copy_floats(sums->seen, floats);
    }
    assert_int_equal(done, blocks);
    for (size_t i = 0; i < blocks; i++) {
        assert_memory_equal(seen[i], train_block(stage, block[i]), floats * sizeof(float));
        train_block_release(stage, block[i]);
        free(seen[i]);
    }
    train_discard(stage);
}

static void check_share(const struct law *law, struct reduce_range share, enum recompute recompute)
{
    struct sums sums = {0};
    struct train_stage_config config = law_tree_config(law, share, 1);
    config.worker = true;
    config.recompute = recompute;
    config.summed = take_layer;
    config.summed_arg = &sums;
    struct train_stage *stage = law_stage_of(&config);
    sums.stage = stage;
    sums.seen = calloc((size_t)stage->arena->trained_floats, sizeof(float));
    assert_non_null(sums.seen);
    for (int64_t step = 1; step <= STEPS; step++) {
        check_blocks(law, stage, &sums, step);
    }
    free(sums.seen);
    train_stage_free(&stage);
}

static void sums_are_final_layer_by_layer_in_every_share(void **state)
{
    struct law law = law_new(state, zoo_model("lenet5", 28, 28, 1),
                             (struct law_run){BATCH, 8, STEPS, REDUCTION_TREE});
    for (size_t first = 0; first < 8; first++) {
        for (size_t end = first + 1; end <= 8; end++) {
            check_share(&law, (struct reduce_range){first, end}, RECOMPUTE_NONE);
        }
    }
    law_done(&law);
}

static void sums_are_final_layer_by_layer_with_every_op(void **state)
{
    for (size_t i = 0; i < 2 * MODELS; i++) {
        struct model *model = model_of(i);
        if (i >= MODELS) {
            freeze_some(model);
        }
        struct law law = law_new(state, model, run);
        check_share(&law, (struct reduce_range){i % 2, MICRO_BATCHES},
                    i % 3 ? RECOMPUTE_NONE : RECOMPUTE_UNIT);
        law_done(&law);
    }
}

/* ---- times ---- */

#define WAIT 1000.0

static double tick(void *arg)
{
    double *now = arg;
    return *now += 1;
}

static double sum_of(const double *seconds, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(seconds[i] >= 1 && seconds[i] < WAIT);
        sum += seconds[i];
    }
    return sum;
}

/* Each unit and each layer takes its time, waiting between parts belongs to none. */
static void every_layer_is_timed_and_the_clock_changes_no_bit(void **state)
{
    struct law law = law_new(state, zoo_model("resnet8", 16, 16, 1), run);
    double unit[2][16], layer[2][16], now = 0;
    const struct reduce_range share = {0, MICRO_BATCHES};
    struct train_stage_config config = law_tree_config(&law, share, 1);
    config.clock = (struct train_clock){.seconds = tick,
                                        .arg = &now,
                                        .forward_seconds = unit[0],
                                        .backward_seconds = unit[1],
                                        .layer_forward_seconds = layer[0],
                                        .layer_backward_seconds = layer[1]};
    struct train_stage *timed = law_stage_of(&config);
    struct train_stage *plain = law_tree_stage(&law, 0, law.model->unit_count, 1, share, 1);
    const size_t units = law.model->unit_count, layers = 10;
    struct err err = {0};
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        double loss = 0;
        const size_t at = m * (BATCH / MICRO_BATCHES);
        assert_ok(train_forward_begin(timed, 0, (struct train_position){1, m},
                                      law_inputs(&law, 1) + at * 16 * 16, law_labels(&law, 1) + at,
                                      &err),
                  &err);
        for (size_t end = m; end < layers; end += 1 + m) {
            now += WAIT;
            train_forward_layers(timed, end);
        }
        now += WAIT;
        assert_ok(train_forward_end(timed, NULL, &loss, &err), &err);
        assert_true(sum_of(unit[0], units) == sum_of(layer[0], layers));
        now += WAIT;
        train_backward(timed, 0, NULL, NULL);
        assert_true(sum_of(unit[1], units) == sum_of(layer[1], layers));
        assert_true(loss == law_pass(&law, plain, 1, m));
    }
    assert_memory_equal(train_gradient(timed), train_gradient(plain),
                        (size_t)plain->arena->trained_floats * sizeof(float));
    train_stage_free(&timed);
    train_stage_free(&plain);
    law_done(&law);
}

/* A reading is 1: of the input, the ops of each part of a unit and the loss. lenet5's third unit
 * begins with a flatten, which is computed with the second layer. */
static void an_op_is_timed_with_its_unit_and_its_layer(void **state)
{
    static const double expected[4][5] = {
        {2, 1, 2, 1, 2}, {2, 2, 1, 1, 2}, {1, 1, 2, 1, 1}, {1, 2, 1, 1, 1}};
    double seconds[4][5], now = 0;
    struct law law = law_new(state, zoo_model("lenet5", 28, 28, 1), run);
    struct train_stage_config config =
        law_tree_config(&law, (struct reduce_range){0, MICRO_BATCHES}, 0);
    config.clock = (struct train_clock){.seconds = tick,
                                        .arg = &now,
                                        .forward_seconds = seconds[0],
                                        .layer_forward_seconds = seconds[1],
                                        .backward_seconds = seconds[2],
                                        .layer_backward_seconds = seconds[3]};
    struct train_stage *stage = law_stage_of(&config);
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        (void)law_pass(&law, stage, 1, m);
        assert_memory_equal(seconds, expected, sizeof(expected));
    }
    train_stage_free(&stage);
    law_done(&law);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_of_lenet5_gives_the_same_bits),
        cmocka_unit_test(random_cuts_give_the_same_bits_with_every_op),
        cmocka_unit_test(stages_of_a_pipeline_in_parts_give_the_same_bits),
        cmocka_unit_test(an_abandoned_forward_leaves_no_trace),
        cmocka_unit_test(sums_are_final_layer_by_layer_in_every_share),
        cmocka_unit_test(sums_are_final_layer_by_layer_with_every_op),
        cmocka_unit_test(every_layer_is_timed_and_the_clock_changes_no_bit),
        cmocka_unit_test(an_op_is_timed_with_its_unit_and_its_layer),
        cmocka_unit_test(a_model_without_trained_layers_has_no_parts),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
