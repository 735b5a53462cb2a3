#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/description/description.h"
#include "libtrain/kernels/kernel_table.h"
#include "libtrain/stage/stage.h"
#include "tests/unit/libtrain_stage/whole.h"

static const struct train_position first_position = {.step = 1};

/* ---- bad input, divergence ---- */

static void a_label_outside_the_classes_is_rejected(void **state)
{
    struct whole whole = whole_new(state, "lenet5", 2);
    struct err err = {0};
    unsigned char input[2 * 784] = {0};
    double loss = -1.0;
    uint64_t correct = 0;
    static const int32_t bad[][2] = {{0, 10}, {-1, 3}, {9, INT32_MAX}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            train_forward(whole.stage, 0, first_position, input, NULL, bad[i], &loss, &err),
            ERR_INVALID);
        assert_holds(err.text, "label");
        assert_int_equal(train_evaluate(whole.stage, 2, input, NULL, bad[i], &loss, &correct, &err),
                         ERR_INVALID);
    }
    assert_true(loss == -1.0);
    whole_done(&whole);
}

#define FEW_ROWS                                                                                   \
    "{\"name\": \"m\", \"input\": {\"scale\": 1}, \"units\": [{\"name\": \"a\", \"ops\": ["        \
    "{\"type\": \"embedding\", \"rows\": 100, \"units\": 8}, {\"type\": \"linear\", \"units\": "   \
    "100}]}]}"

static void a_token_without_a_row_is_rejected(void **state)
{
    static const int32_t labels[6] = {0, 1, 2, 3, 4, 99};
    static const uint8_t bytes[6] = {0, 1, 99, 5, 100, 2};
    static const float broken[] = {-1.0f, 100.0f, 2.5f, 1e20f, NAN, INFINITY};
    for (size_t i = 0; i < 7; i++) {
        const enum dtype dtype = i < 6 ? DTYPE_F32 : DTYPE_U8;
        struct whole whole =
            whole_of(state, good_model(FEW_ROWS, &(struct model_fit){{3, 1, 1}, dtype, 100, 3}), 2);
        struct err err = {0};
        double loss = -1.0;
        uint64_t correct = 0;
        float floats[6] = {99.0f, 1.0f, 2.0f, 3.0f, i < 6 ? broken[i] : 0.0f, 5.0f};
        const void *input = i < 6 ? (const void *)floats : bytes;
        assert_int_equal(
            train_forward(whole.stage, 0, first_position, input, NULL, labels, &loss, &err),
            ERR_INVALID);
        assert_holds(err.text, "sample 1 of the micro-batch has token");
        assert_holds(err.text, "'a.0' takes whole numbers from 0 to 99");
        assert_int_equal(train_evaluate(whole.stage, 2, input, NULL, labels, &loss, &correct, &err),
                         ERR_INVALID);
        assert_ok(train_evaluate(whole.stage, 1, input, NULL, labels, &loss, &correct, &err), &err);
        whole_done(&whole);
    }
}

/* Scores that do not depend on the input: the loss of every label is log(classes), and so is a
 * sample's mean. */
static void the_loss_of_a_sequence_is_the_mean_over_its_positions(void **state)
{
    struct whole whole =
        whole_of(state, good_model(FEW_ROWS, &(struct model_fit){{3, 1, 1}, DTYPE_U8, 100, 3}), 2);
    static const int32_t labels[6] = {0, 0, 7, 0, 5, 0};
    static const uint8_t bytes[6] = {1, 2, 3, 4, 5, 6};
    struct err err = {0};
    double loss = 0.0;
    double evaluated = 0.0;
    uint64_t correct = 0;
    memset(whole.stage->parameter, 0, (size_t)whole.stage->arena->parameter_floats * sizeof(float));
    assert_ok(train_forward(whole.stage, 0, first_position, bytes, NULL, labels, &loss, &err),
              &err);
    assert_ok(train_evaluate(whole.stage, 2, bytes, NULL, labels, &evaluated, &correct, &err),
              &err);
    assert_true(fabs(loss - 2.0 * log(100.0)) < 1e-6);
    assert_true(loss == evaluated);
    assert_int_equal(correct, 4); /* the first of equal scores counts */
    whole_done(&whole);
}

/* And it comes to the bits of one that trains. */
static void a_stage_that_only_evaluates_has_no_slots_and_gives_scores(void **state)
{
    struct whole whole = whole_new(state, "resnet8", 2);
    struct train_stage_config config = whole.stage->config;
    struct train_stage *stage = NULL;
    struct err err = {0};
    unsigned char input[2 * 784];
    static const int32_t labels[2] = {1, 2};
    float scores[2][20] = {{0}};
    double loss[2] = {0};
    uint64_t correct[2] = {0};
    config.in_flight = 0;
    assert_ok(train_stage_new(&config, &stage, &err), &err);
    assert_null(stage->activation);
    for (size_t i = 0; i < sizeof(input); i++) {
        input[i] = (unsigned char)(i * 37);
    }
    for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
        train_unit_initialise(stage, unit);
    }
    assert_ok(train_evaluate(whole.stage, 2, input, NULL, labels, &loss[0], &correct[0], &err),
              &err);
    assert_ok(train_evaluate(stage, 2, input, scores[0], labels, &loss[1], &correct[1], &err),
              &err);
    assert_ok(train_evaluate(stage, 2, input, scores[1], NULL, NULL, NULL, &err), &err);
    assert_memory_equal(&loss[0], &loss[1], sizeof(loss[0]));
    assert_int_equal(correct[0], correct[1]);
    assert_memory_equal(scores[0], scores[1], sizeof(scores[0]));
    double sum = 0.0;
    for (size_t c = 0; c < 10; c++) {
        sum += exp((double)scores[0][c] - (double)scores[0][1]);
    }
    double second = 0.0;
    for (size_t c = 0; c < 10; c++) {
        second += exp((double)scores[0][10 + c] - (double)scores[0][12]);
    }
    assert_true(fabs(log(sum) + log(second) - loss[0]) < 1e-6);
    train_stage_free(&stage);
    whole_done(&whole);
}

static void a_loss_that_is_not_finite_is_reported(void **state)
{
    struct whole whole = whole_new(state, "mlp", 2);
    struct err err = {0};
    unsigned char input[2 * 784];
    static const int32_t labels[2] = {1, 2};
    double loss = -1.0;
    uint64_t correct = 0;
    memset(input, 200, sizeof(input));
    whole.stage->parameter[5] = NAN;
    assert_int_equal(
        train_forward(whole.stage, 0, first_position, input, NULL, labels, &loss, &err),
        ERR_DIVERGED);
    assert_holds(err.text, "step 1");
    assert_int_equal(train_evaluate(whole.stage, 2, input, NULL, labels, &loss, &correct, &err),
                     ERR_DIVERGED);
    assert_true(loss == -1.0);
    whole_done(&whole);
}

static void a_gradient_that_is_not_finite_changes_no_parameter(void **state)
{
    struct whole whole = whole_new(state, "resnet8", 2);
    struct err err = {0};
    struct draws draws = draws_new(1);
    unsigned char *input = draw_bytes(&draws, 2 * 784);
    static const int32_t labels[2] = {1, 2};
    double loss;
    unsigned char *before[32];
    for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
        before[unit] = unit_save(whole.stage, unit);
    }
    assert_ok(train_forward(whole.stage, 0, first_position, input, NULL, labels, &loss, &err),
              &err);
    train_backward(whole.stage, 0, NULL, NULL);
    const struct arena *arena = whole.stage->arena;
    whole.stage->gradient[arena->op[arena->op_count - 1].tensor[0] + 3] = INFINITY;
    assert_int_equal(train_update(whole.stage, 1, 0.1, &err), ERR_DIVERGED);
    assert_holds(err.text, "weight' is not finite");
    train_discard(whole.stage);
    for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
        unsigned char *after = unit_save(whole.stage, unit);
        assert_memory_equal(before[unit], after, train_unit_bytes(whole.stage, unit));
        free(before[unit]);
        free(after);
    }
    assert_ok(train_update(whole.stage, 1, 0.1, &err), &err);
    free(input);
    whole_done(&whole);
}

static void sums_of_squares_are_checked(void **state)
{
    struct whole whole = whole_new(state, "resnet8", 2);
    struct err err = {0};
    struct draws draws = draws_new(1);
    unsigned char *input = draw_bytes(&draws, 2 * 784);
    static const int32_t labels[2] = {1, 2};
    static const double bad[] = {-1.0, NAN, INFINITY};
    double loss;
    double sum = -1.0;
    double more = -1.0;
    whole.stage->config.optimizer.clip_norm = 1.0;
    assert_ok(train_forward(whole.stage, 0, first_position, input, NULL, labels, &loss, &err),
              &err);
    train_backward(whole.stage, 0, NULL, NULL);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(train_sum_squares(whole.stage, bad[i], &sum, &err), ERR_INVALID);
        assert_int_equal(train_clip(whole.stage, bad[i], &err), ERR_INVALID);
        assert_holds(err.text, "is not the sum of squares");
    }
    assert_true(sum == -1.0);
    assert_ok(train_sum_squares(whole.stage, 0.0, &sum, &err), &err);
    assert_ok(train_sum_squares(whole.stage, 3.0, &more, &err), &err);
    assert_true(sum > 0.0 && fabs(more - sum - 3.0) < 1e-9 * more);
    const struct arena *arena = whole.stage->arena;
    whole.stage->gradient[arena->op[arena->op_count - 1].tensor[0] + 3] = NAN;
    assert_int_equal(train_sum_squares(whole.stage, 0.0, &sum, &err), ERR_DIVERGED);
    assert_holds(err.text, "weight' is not finite");
    free(input);
    whole_done(&whole);
}

static void an_impossible_stage_is_rejected(void **state)
{
    struct whole whole = whole_new(state, "lenet5", 2);
    struct err err = {0};
    struct train_stage *stage = NULL;
    struct train_stage_config good = whole.stage->config;
    struct train_stage_config bad = good;
    bad.end = 99;
    assert_int_equal(train_stage_new(&bad, &stage, &err), ERR_INVALID);
    bad = good;
    bad.end = 0;
    assert_int_equal(train_stage_new(&bad, &stage, &err), ERR_INVALID);
    bad = good;
    bad.micro_batch = 0;
    assert_int_equal(train_stage_new(&bad, &stage, &err), ERR_INVALID);
    bad = good;
    bad.micro_batches = 0;
    assert_int_equal(train_stage_new(&bad, &stage, &err), ERR_INVALID);
    bad = good;
    bad.in_flight = MEMORY_IN_FLIGHT_MAX + 1;
    assert_int_equal(train_stage_new(&bad, &stage, &err), ERR_INVALID);
    assert_null(stage);
    whole_done(&whole);
}

static void a_kernel_of_another_build_is_chosen_by_shape(void **state)
{
    const struct kernel_pools *pools = *state;
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    struct err err = {0};
    struct train_stage *stage = NULL;
    json_t *table = read_json("{\"conv2.0\": {\"backward_data\": \"onednn_nhwc\"}}");
    assert_ok(kernel_table_apply(model, table, NULL, &err), &err);
    json_decref(table);
    const struct train_stage_config config = {.model = model,
                                              .end = model->unit_count,
                                              .micro_batch = 2,
                                              .micro_batches = 1,
                                              .in_flight = 1,
                                              .pool = pools->pool[0]};
    assert_ok(train_stage_new(&config, &stage, &err), &err);
    const struct op *op = find_op(model, "conv2.0");
    for (size_t g = 0; g < stage->arena->op_count; g++) {
        if (stage->arena->op[g].op == op) {
            enum conv2d_kernel expected =
                train_backend() == CONV2D_BACKEND_OWN ? CONV2D_COLUMNS : CONV2D_ONEDNN_NHWC;
            assert_int_equal(stage->arena->op[g].kernels.pass[CONV2D_BACKWARD_DATA], expected);
        }
    }
    train_stage_free(&stage);
    model_free(&model);
}

/* ---- training ---- */

static void training_on_a_few_samples_learns_them(void **state)
{
    static const char *const names[] = {"mlp", "lenet5", "resnet8"};
    for (size_t n = 0; n < 3; n++) {
        struct whole whole = whole_new(state, names[n], 8);
        struct draws draws = draws_new(2);
        struct err err = {0};
        unsigned char *input = draw_bytes(&draws, 8 * 784);
        static const int32_t labels[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        double loss = 0.0;
        uint64_t correct = 0;
        for (int64_t step = 1; step <= 60; step++) {
            struct train_position position = {.step = step};
            assert_ok(train_forward(whole.stage, 0, position, input, NULL, labels, &loss, &err),
                      &err);
            train_backward(whole.stage, 0, NULL, NULL);
            assert_ok(train_update(whole.stage, step, 0.02, &err), &err);
        }
        assert_true(loss / 8.0 < 0.1);
        loss = 0.0;
        assert_ok(train_evaluate(whole.stage, 8, input, NULL, labels, &loss, &correct, &err), &err);
        assert_int_equal(correct, 8);
        free(input);
        whole_done(&whole);
    }
}

/* A second per reading. */
static double tick(void *arg)
{
    size_t *readings = arg;
    return (double)++*readings;
}

static void every_unit_is_timed_and_the_clock_changes_no_bit(void **state)
{
    double forward[16];
    double backward[16];
    size_t readings = 0;
    const struct train_clock clock = {.seconds = tick,
                                      .arg = &readings,
                                      .forward_seconds = forward,
                                      .backward_seconds = backward};
    struct whole plain = whole_new(state, "lenet5", 2);
    struct whole timed = whole_timed(state, zoo_model("lenet5", 28, 28, 1), 2, &clock);
    const size_t units = timed.model->unit_count;
    assert_true(units <= 16);
    static const int32_t labels[] = {1, 7};
    unsigned char input[2 * 784];
    double loss[2] = {0, 0};
    struct err err = {0};
    for (size_t i = 0; i < sizeof(input); i++) {
        input[i] = (unsigned char)(i * 7);
    }
    struct train_stage *stages[] = {plain.stage, timed.stage};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(train_forward(stages[i], 0, first_position, input, NULL, labels, &loss[i], &err),
                  &err);
    }
    /* One reading at the start, one after the input; the same for the units; one after the loss. */
    assert_int_equal(readings, units + 4);
    for (size_t i = 0; i < units; i++) {
        assert_true(forward[i] == (i == 0 || i + 1 == units ? 2 : 1));
    }
    train_backward(plain.stage, 0, NULL, NULL);
    train_backward(timed.stage, 0, NULL, NULL);
    assert_int_equal(readings, 2 * units + 5);
    for (size_t i = 0; i < units; i++) {
        assert_true(backward[i] == 1);
    }
    assert_true(loss[0] == loss[1]);
    assert_memory_equal(plain.stage->gradient, timed.stage->gradient,
                        (size_t)plain.stage->arena->trained_floats * sizeof(float));
    whole_done(&plain);
    whole_done(&timed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_label_outside_the_classes_is_rejected),
        cmocka_unit_test(a_token_without_a_row_is_rejected),
        cmocka_unit_test(the_loss_of_a_sequence_is_the_mean_over_its_positions),
        cmocka_unit_test(a_stage_that_only_evaluates_has_no_slots_and_gives_scores),
        cmocka_unit_test(a_loss_that_is_not_finite_is_reported),
        cmocka_unit_test(a_gradient_that_is_not_finite_changes_no_parameter),
        cmocka_unit_test(sums_of_squares_are_checked),
        cmocka_unit_test(an_impossible_stage_is_rejected),
        cmocka_unit_test(a_kernel_of_another_build_is_chosen_by_shape),
        cmocka_unit_test(training_on_a_few_samples_learns_them),
        cmocka_unit_test(every_unit_is_timed_and_the_clock_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
