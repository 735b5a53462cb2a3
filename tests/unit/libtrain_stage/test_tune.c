/* Which kernels are chosen by time, under a clock that the test moves. */
#include <string.h>

#include "libtrain/backend/onednn.h"
#include "libtrain/kernels/kernel_table.h"
#include "libtrain/kernels/kernel_text.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/train.h"
#include "tests/unit/libtrain_description/model_support.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

#define BATCH 2

/* It moves on by `step` seconds with each look, which grows by `factor` then. */
struct clock {
    double now, step, factor;
    size_t looks;
};

static const struct clock even = {.step = 1, .factor = 1};
static const struct clock slowing = {.step = 1000,
                                     .factor = 0.98}; /* later measurements took less */

static double look(void *arg)
{
    struct clock *clock = arg;
    clock->looks++;
    clock->now += clock->step;
    clock->step *= clock->factor;
    return clock->now;
}

struct tuned {
    struct model *model;
    struct clock clock;
};

static struct tuned tune(struct train_tuner *tuner, struct train_pool *pool, struct clock clock,
                         double budget)
{
    struct tuned tuned = {.model = zoo_model("resnet8", 8, 8, 3), .clock = clock};
    struct err err = {0};
    const struct train_tuning tuning = {.end = tuned.model->unit_count,
                                        .micro_batch = BATCH,
                                        .pool = pool,
                                        .seconds = look,
                                        .arg = &tuned.clock,
                                        .budget_seconds = budget};
    assert_ok(train_tune(tuner, tuned.model, &tuning, &err), &err);
    assert_false(kernel_text_wanted(tuned.model)); /* every pass has its kernel */
    return tuned;
}

static struct train_tuner *tuner_new(void)
{
    struct train_tuner *tuner = NULL;
    struct err err = {0};
    assert_ok(train_tuner_new(&tuner, &err), &err);
    return tuner;
}

/* Convolutions' passes whose kernel is not that of the shape. */
static size_t others(const struct model *model)
{
    size_t count = 0;
    for (size_t u = 0; u < model->unit_count; u++) {
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            struct op op = model->unit[u].op[k];
            struct conv2d_kernels chosen = op.kernels;
            memset(&op.kernels, 0, sizeof(op.kernels));
            if (op.type == OP_CONV2D) {
                struct conv2d_kernels by_shape = op_conv2d_kernels(&op, train_backend());
                for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
                    count += chosen.pass[pass] != by_shape.pass[pass];
                }
            }
        }
    }
    return count;
}

static void kernels_that_take_as_long_do_not_replace_that_of_the_shape(void **state)
{
    struct kernel_pools *pools = *state;
    struct train_tuner *tuner = tuner_new();
    struct tuned tuned = tune(tuner, pools->pool[1], even, 1e9);
    assert_int_equal(others(tuned.model), 0);
    assert_true(tuned.clock.looks > 100);
    model_free(&tuned.model);
    train_tuner_free(&tuner);
}

static void the_fastest_kernel_is_chosen_and_remembered(void **state)
{
    struct kernel_pools *pools = *state;
    struct train_tuner *tuner = tuner_new();
    struct tuned tuned = tune(tuner, pools->pool[1], slowing, 1e9);
    /* All that can be done in two ways: 1 x 1 with a stride and 3 x 3 by columns are one of ours
     * alone. */
    assert_true(others(tuned.model) >= 6);
    struct tuned again = tune(tuner, pools->pool[1], even, 1e9);
    char text[2][KERNEL_TEXT_SIZE];
    kernel_text_write(tuned.model, 0, tuned.model->unit_count, text[0]);
    kernel_text_write(again.model, 0, again.model->unit_count, text[1]);
    assert_string_equal(text[0], text[1]);
    assert_true(again.clock.looks < 60); /* nothing was run */
    struct tuned threads = tune(tuner, pools->pool[2], even, 1e9);
    assert_int_equal(others(threads.model), 0); /* other threads, other times */
    model_free(&tuned.model);
    model_free(&again.model);
    model_free(&threads.model);
    train_tuner_free(&tuner);
}

static void passes_outside_the_budget_follow_the_shape_and_are_measured_later(void **state)
{
    struct kernel_pools *pools = *state;
    struct train_tuner *tuner = tuner_new();
    struct tuned none = tune(tuner, pools->pool[0], slowing, 0);
    assert_int_equal(others(none.model), 0);
    assert_true(none.clock.looks < 60);
    /* How long a measurement takes depends on the kernels that the processor has. */
    size_t last = 0, steps = 0;
    for (double budget = 1000; budget < 1e9; budget *= 2) {
        struct tuned some = tune(tuner, pools->pool[0], slowing, budget);
        assert_true(others(some.model) >= last);
        steps += others(some.model) > last;
        last = others(some.model);
        model_free(&some.model);
    }
    assert_true(steps > 1); /* not all at once */
    struct tuned all = tune(tuner, pools->pool[0], slowing, 1e9);
    assert_int_equal(others(all.model), last);
    model_free(&none.model);
    model_free(&all.model);
    train_tuner_free(&tuner);
}

static void kernels_that_the_model_names_are_not_measured(void **state)
{
    struct kernel_pools *pools = *state;
    struct train_tuner *tuner = tuner_new();
    struct model *model = zoo_model("resnet8", 8, 8, 3);
    const struct op *op = find_op(model, "block1.body.3");
    json_t *table = read_json("{\"block1.body.3\": {\"forward\": \"winograd4\"}}");
    struct clock clock = slowing;
    struct err err = {0};
    assert_ok(kernel_table_apply(model, table, NULL, &err), &err);
    json_decref(table);
    /* Unit 1 alone, too: the others stay open. */
    const struct train_tuning tuning = {.first = 1,
                                        .end = 2,
                                        .micro_batch = BATCH,
                                        .pool = pools->pool[0],
                                        .seconds = look,
                                        .arg = &clock,
                                        .budget_seconds = 1e9};
    assert_ok(train_tune(tuner, model, &tuning, &err), &err);
    assert_int_equal(op->kernels.pass[CONV2D_FORWARD], CONV2D_WINOGRAD4);
    assert_int_not_equal(op->kernels.pass[CONV2D_BACKWARD_DATA], CONV2D_BY_SHAPE);
    assert_int_not_equal(op->kernels.pass[CONV2D_BACKWARD_WEIGHTS], CONV2D_BY_SHAPE);
    assert_int_equal(find_op(model, "block2.body.0")->kernels.pass[CONV2D_FORWARD],
                     CONV2D_BY_SHAPE);
    model_free(&model);
    train_tuner_free(&tuner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_that_take_as_long_do_not_replace_that_of_the_shape),
        cmocka_unit_test(the_fastest_kernel_is_chosen_and_remembered),
        cmocka_unit_test(passes_outside_the_budget_follow_the_shape_and_are_measured_later),
        cmocka_unit_test(kernels_that_the_model_names_are_not_measured),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
