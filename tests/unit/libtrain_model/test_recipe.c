#include <math.h>

#include "libtrain/model/recipe.h"
#include "tests/support/test.h"

static void assert_near(double actual, double expected)
{
    if (!(fabs(actual - expected) <= 1e-13 * fabs(expected) + 1e-15)) {
        fail_msg("%.17g instead of %.17g", actual, expected);
    }
}

static void constant_stays(void **state)
{
    (void)state;
    struct learning_rate rate = {.type = LEARNING_RATE_CONSTANT, .value = 0.05};
    assert_near(learning_rate_at(&rate, 1, 100), 0.05);
    assert_near(learning_rate_at(&rate, 100, 100), 0.05);
}

static void warm_up_is_linear_and_ends_at_the_value(void **state)
{
    (void)state;
    struct learning_rate rate = {.type = LEARNING_RATE_CONSTANT, .value = 0.4, .warmup_steps = 4};
    assert_near(learning_rate_at(&rate, 1, 100), 0.1);
    assert_near(learning_rate_at(&rate, 3, 100), 0.3);
    assert_near(learning_rate_at(&rate, 4, 100), 0.4);
    assert_near(learning_rate_at(&rate, 5, 100), 0.4);
}

static void step_drops_by_gamma(void **state)
{
    (void)state;
    struct learning_rate rate = {
        .type = LEARNING_RATE_STEP, .value = 1, .step_size = 10, .gamma = 0.5};
    assert_near(learning_rate_at(&rate, 10, 100), 1);
    assert_near(learning_rate_at(&rate, 11, 100), 0.5);
    assert_near(learning_rate_at(&rate, 35, 100), 0.125);
    rate.warmup_steps = 5;
    assert_near(learning_rate_at(&rate, 15, 100), 1);
    assert_near(learning_rate_at(&rate, 16, 100), 0.5);
}

static void cosine_follows_libm_to_the_last_digits(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    const int64_t total = 10007;
    struct learning_rate rate = {.type = LEARNING_RATE_COSINE, .value = 0.1, .final_value = 0.001};
    for (int64_t step = 1; step <= total; step++) {
        double part = (double)(step - 1) / (double)(total - 1);
        double expected = 0.001 + 0.099 * 0.5 * (1 + cos(pi * part));
        double actual = learning_rate_at(&rate, step, total);
        assert_true(fabs(actual - expected) <= 1e-15);
    }
}

static void cosine_starts_at_value_and_ends_at_final_value(void **state)
{
    (void)state;
    struct learning_rate rate = {
        .type = LEARNING_RATE_COSINE, .value = 0.1, .final_value = 0.01, .warmup_steps = 10};
    assert_near(learning_rate_at(&rate, 11, 100), 0.1);
    assert_near(learning_rate_at(&rate, 100, 100), 0.01);
    assert_near(learning_rate_at(&rate, 500, 100), 0.01);
    /* A single step after the warm-up trains at the value, not at the end of the curve. */
    assert_near(learning_rate_at(&rate, 11, 11), 0.1);
}

static void an_optimizers_row_states_its_arrays_and_passes(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        struct optimizer optimizer;
        size_t passes, count;
        const char *array[OPTIMIZER_ARRAYS_MAX];
    } rows[] = {
        {"sgd", {.type = OPTIMIZER_SGD}, 3, 0, {NULL}},
        {"sgd", {.type = OPTIMIZER_SGD, .momentum = 0.9}, 5, 1, {"momentum"}},
        {"sgd", {.type = OPTIMIZER_SGD, .momentum = 0.9, .clip_norm = 1}, 8, 1, {"momentum"}},
        {"adam", {.type = OPTIMIZER_ADAM}, 7, 2, {"exp_avg", "exp_avg_sq"}},
        {"adamw",
         {.type = OPTIMIZER_ADAMW, .momentum = 0.9, .clip_value = 1},
         9,
         2,
         {"exp_avg", "exp_avg_sq"}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(optimizer_type_names[rows[i].optimizer.type], rows[i].type);
        assert_int_equal(optimizer_state_arrays(&rows[i].optimizer), rows[i].count);
        assert_int_equal(optimizer_update_passes(&rows[i].optimizer), rows[i].passes);
        for (size_t k = 0; k < rows[i].count; k++) {
            assert_string_equal(optimizer_array_name(&rows[i].optimizer, k), rows[i].array[k]);
        }
    }
    assert_null(optimizer_type_names[OPTIMIZER_ADAMW + 1]);
    assert_string_equal(learning_rate_type_names[LEARNING_RATE_COSINE], "cosine");
}

static void the_bias_correction_is_libms(void **state)
{
    (void)state;
    static const double betas[] = {0.0, 0.5, 0.9, 0.999, 0.999999};
    for (size_t i = 0; i < sizeof(betas) / sizeof(betas[0]); i++) {
        for (int64_t step = 1; step < 1000000000; step = step * 3 + 1) {
            double expected = 1.0 - pow(betas[i], (double)step);
            assert_true(fabs(optimizer_bias_correction(betas[i], step) - expected) <= 1e-9);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_stays),
        cmocka_unit_test(warm_up_is_linear_and_ends_at_the_value),
        cmocka_unit_test(step_drops_by_gamma),
        cmocka_unit_test(cosine_follows_libm_to_the_last_digits),
        cmocka_unit_test(cosine_starts_at_value_and_ends_at_final_value),
        cmocka_unit_test(an_optimizers_row_states_its_arrays_and_passes),
        cmocka_unit_test(the_bias_correction_is_libms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
