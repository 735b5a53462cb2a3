/* Trajectories of the optimizers over 20 steps with clipping, label smoothing and schedules,
 * against PyTorch: make_recipe_fixtures.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/join.h"
#include "libtrain/ops/softmax_cross_entropy.h"
#include "libtrain/optim/gradient.h"
#include "libtrain/optim/optimizer.h"
#include "libtrain/stage/stage.h"
#include "tests/golden/fixture.h"
#include "tests/unit/libtrain_stage/pipeline.h"

#define SEED 7         /* of initial weights, as make_fixtures.py has it */
#define TOLERANCE 1e-5 /* of a tensor's largest value */
#define FIRST_SIZE 20  /* of the first of the two parameters */

static struct fixture recipe;

static int setup(void **state)
{
    fixture_open(&recipe, "recipe");
    return kernel_pools_setup(state);
}

static int teardown(void **state)
{
    fixture_close(&recipe);
    return kernel_pools_teardown(state);
}

/* The doubles "<op>.<number>.<name>". */
static const double *doubles(const char *op, size_t number, const char *name, size_t expected)
{
    char key[64];
    size_t count = 0;
    (void)snprintf(key, sizeof(key), "%s.%zu.%s", op, number, name);
    const double *values = fixture_data(&recipe, key, DTYPE_F64, &count);
    assert_non_null(values);
    assert_int_equal(count, expected);
    return values;
}

static struct optimizer optimizer_of(const double *settings)
{
    return (struct optimizer){.type = (int)settings[0],
                              .momentum = settings[1],
                              .nesterov = settings[2] > 0.0,
                              .beta1 = settings[3],
                              .beta2 = settings[4],
                              .epsilon = settings[5],
                              .weight_decay = settings[6],
                              .clip_value = settings[7],
                              .clip_norm = settings[8]};
}

/* As if the two parameters belonged to two units. */
static void clip_norm(const struct compute *compute, size_t count, double limit, float *gradient)
{
    double squares = gradient_sum_squares(compute, count - FIRST_SIZE, gradient + FIRST_SIZE);
    squares += gradient_sum_squares(compute, FIRST_SIZE, gradient);
    gradient_scale(compute, count, gradient_norm_factor(limit, squares), gradient);
}

static void check_trajectory(const struct compute *compute, size_t number)
{
    const int64_t *shape = fixture_shape(&recipe, "optimizer", number);
    const double *settings = doubles("optimizer", number, "settings", 10);
    const struct optimizer optimizer = optimizer_of(settings);
    size_t steps = (size_t)shape[0];
    size_t count = (size_t)shape[1];
    size_t length;
    assert_int_equal(optimizer_state_arrays(&optimizer), shape[2]);
    float *parameter =
        copy_floats(fixture_floats(&recipe, "optimizer", number, "start", &length), count);
    float *gradients = copy_floats(
        fixture_floats(&recipe, "optimizer", number, "gradients", &length), steps * count);
    const float *expected = fixture_floats(&recipe, "optimizer", number, "parameters", &length);
    float *arrays = calloc(OPTIMIZER_ARRAYS_MAX * count, sizeof(float));
    assert_int_equal(length, steps * count);
    assert_non_null(arrays);
    for (size_t step = 0; step < steps; step++) {
        float *gradient = gradients + step * count;
        if (optimizer.clip_value > 0) {
            gradient_clip_value(compute, count, (float)optimizer.clip_value, gradient);
        }
        if (optimizer.clip_norm > 0) {
            clip_norm(compute, count, optimizer.clip_norm, gradient);
        }
        optimizer_update(compute, &(struct optimizer_call){.optimizer = &optimizer,
                                                           .step = (int64_t)step + 1,
                                                           .rate = settings[9],
                                                           .count = count,
                                                           .before = parameter,
                                                           .parameter = parameter,
                                                           .gradient = gradient,
                                                           .array = {arrays, arrays + count}});
        assert_close(parameter, expected + step * count, count, TOLERANCE);
    }
    for (size_t array = 0; array < (size_t)shape[2]; array++) {
        const float *last = fixture_floats(&recipe, "optimizer", number, "arrays", &length);
        assert_close(arrays + array * count, last + array * count, count, TOLERANCE);
    }
    free(parameter);
    free(gradients);
    free(arrays);
}

static void optimizers_go_where_pytorchs_go(void **state)
{
    const struct kernel_pools *pools = *state;
    struct compute compute = compute_init(pools->pool[1], (struct workspace_bytes){0});
    size_t number = 0;
    for (; fixture_has(&recipe, "optimizer", number); number++) {
        check_trajectory(&compute, number);
    }
    assert_int_equal(number, 9);
    compute_done(&compute);
}

/* The norm of each parameter's gradient: the momentum of a first step. */
static void check_norms(const struct pipeline *pipeline, const double *expected,
                        size_t expected_count)
{
    size_t parameter = 0;
    for (size_t unit = 0; unit < pipeline->recipe.model->unit_count; unit++) {
        const struct state_layout *layout = pipeline->stage[unit]->layout[0];
        unsigned char *blob = unit_save(pipeline->stage[unit], unit);
        for (size_t i = 0; i < layout->header.tensor_count; i++) {
            const struct safetensors_tensor *tensor = &layout->header.tensor[i];
            const float *values =
                (const float *)(blob + layout->header.data_offset + tensor->begin);
            double squares = 0.0;
            if (layout->source[i].kind != STATE_OPTIMIZER) {
                continue;
            }
            for (size_t k = 0; k < (tensor->end - tensor->begin) / sizeof(float); k++) {
                squares += (double)values[k] * (double)values[k];
            }
            assert_true(parameter < expected_count);
            assert_true(fabs(sqrt(squares) - expected[parameter]) <=
                        1e-4 * expected[parameter] + 1e-7);
            parameter++;
        }
        free(blob);
    }
    assert_int_equal(parameter, expected_count);
}

/* Each unit is a stage of its own. Bit u of `frozen`: unit u is. */
static void check_clipped_step(const struct kernel_pools *pools, const char *name, size_t number,
                               unsigned frozen)
{
    const int64_t *shape = fixture_shape(&recipe, "clip_norm", number);
    const double *settings = doubles("clip_norm", number, "settings", 2);
    struct draws draws = draws_new(1);
    char key[64];
    size_t count;
    struct model *model =
        zoo_model(name, (uint32_t)shape[1], (uint32_t)shape[2], (uint32_t)shape[3]);
    const struct pipeline_recipe step = {
        .model = model,
        .batch = (size_t)shape[0],
        .micro_batches = 1,
        .optimizer = {.type = OPTIMIZER_SGD, .momentum = 0.9, .clip_norm = settings[0]},
        .learning_rate = 0.05,
        .seed = SEED};
    size_t end[PIPELINE_STAGES_MAX];
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        end[unit] = unit + 1;
        model->unit[unit].frozen = frozen >> unit & 1;
    }
    struct pipeline *pipeline = pipeline_new(&step, end, model->unit_count, pools->pool[1]);
    pipeline_initialise(pipeline);
    (void)snprintf(key, sizeof(key), "clip_norm.%zu.inputs", number);
    const unsigned char *inputs = fixture_data(&recipe, key, DTYPE_U8, &count);
    assert_int_equal(count, step.batch * shape_elements(model->input));
    (void)snprintf(key, sizeof(key), "clip_norm.%zu.labels", number);
    const int32_t *labels = fixture_data(&recipe, key, DTYPE_I32, &count);
    assert_int_equal(count, step.batch);
    pipeline_step(pipeline, 1, inputs, labels, &draws);
    assert_true(fabs(sqrt(pipeline->last_squares) - settings[1]) <= 1e-4 * settings[1]);
    (void)snprintf(key, sizeof(key), "clip_norm.%zu.norms", number);
    const double *norms = fixture_data(&recipe, key, DTYPE_F64, &count);
    assert_non_null(norms);
    check_norms(pipeline, norms, count);
    pipeline_free(pipeline);
    model_free(&model);
}

static void a_net_is_clipped_by_the_norm_pytorch_finds(void **state)
{
    check_clipped_step(*state, "lenet5", 0, 0);
    check_clipped_step(*state, "resnet8", 1, 0);
}

static void gradients_go_through_frozen_units_as_in_pytorch(void **state)
{
    check_clipped_step(*state, "resnet8", 2, 1 << 0 | 1 << 2);
    check_clipped_step(*state, "lenet5", 3, 1 << 0 | 1 << 1);
    assert_false(fixture_has(&recipe, "clip_norm", 4));
}

static void label_smoothing_is_the_one_pytorch_computes(void **state)
{
    const struct kernel_pools *pools = *state;
    size_t number = 0;
    for (; fixture_has(&recipe, "softmax_cross_entropy", number); number++) {
        static const char op[] = "softmax_cross_entropy";
        const int64_t *shape = fixture_shape(&recipe, op, number);
        const double smoothing = *doubles(op, number, "settings", 1);
        size_t N = (size_t)shape[0];
        size_t C = (size_t)shape[1];
        size_t length;
        char key[64];
        (void)snprintf(key, sizeof(key), "%s.%zu.labels", op, number);
        struct compute compute = compute_init(pools->pool[1], softmax_cross_entropy_workspace(N));
        const float *x = fixture_floats(&recipe, op, number, "x", &length);
        const int32_t *labels = fixture_data(&recipe, key, DTYPE_I32, &length);
        float *dx = copy_floats(x, N * C);
        float mean = (float)(softmax_cross_entropy(&compute, N, C, x, labels, smoothing,
                                                   1.0 / (double)N, dx) /
                             (double)N);
        assert_close(&mean, fixture_floats(&recipe, op, number, "mean", &length), 1, TOLERANCE);
        assert_close(dx, fixture_floats(&recipe, op, number, "dx", &length), N * C, TOLERANCE);
        free(dx);
        compute_done(&compute);
    }
    assert_int_equal(number, 3);
}

/* PyTorch works its rates out from one step to the next and so gathers errors; ours do not. */
static void schedules_are_pytorchs(void **state)
{
    (void)state;
    size_t number = 0;
    for (; fixture_has(&recipe, "schedule", number); number++) {
        const double *settings = doubles("schedule", number, "settings", 6);
        const struct learning_rate rate = {.type = (int)settings[0],
                                           .value = settings[1],
                                           .warmup_steps = (int64_t)settings[2],
                                           .step_size = (int64_t)settings[3],
                                           .gamma = settings[4],
                                           .final_value = settings[5]};
        int64_t steps = fixture_shape(&recipe, "schedule", number)[0];
        const double *expected = doubles("schedule", number, "rates", (size_t)steps);
        for (int64_t step = 1; step <= steps; step++) {
            double actual = learning_rate_at(&rate, step, steps);
            if (!(fabs(actual - expected[step - 1]) <= 1e-12 * settings[1])) {
                fail_msg("schedule %zu, step %d: %.17g, PyTorch has %.17g", number, (int)step,
                         actual, expected[step - 1]);
            }
        }
    }
    assert_int_equal(number, 7);
}

static bool is_view(const float *y, const float *view, size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs((double)y[i] - (double)view[i]));
    }
    return worst < 2e-6;
}

/* A loader and a stage's entry give one of PyTorch's views for every draw, and each of them for
 * some draw. */
static void check_views(const struct compute *compute, size_t number)
{
    const int64_t *shape = fixture_shape(&recipe, "augment", number);
    const size_t C = (size_t)shape[2];
    const size_t offsets = 2 * (size_t)shape[3] + 1;
    const size_t elements = (size_t)(shape[0] * shape[1] * shape[2]);
    const struct augment augment[] = {{.type = AUGMENT_CROP, .padding = shape[3]},
                                      {.type = AUGMENT_FLIP}};
    const double *settings = doubles("augment", number, "settings", 2 * C);
    const struct model model = {.input = {(uint32_t)shape[0], (uint32_t)shape[1], (uint32_t)C},
                                .input_dtype = DTYPE_U8};
    struct normalise normalise = {.mean_count = C, .std_count = C};
    memcpy(normalise.mean, settings, C * sizeof(double));
    memcpy(normalise.std, settings + C, C * sizeof(double));
    char key[32];
    size_t count;
    (void)snprintf(key, sizeof(key), "augment.%zu.image", number);
    const struct train_loader loader =
        train_loader_of(&model, augment, 2, 3, fixture_data(&recipe, key, DTYPE_U8, &count));
    assert_int_equal(count, elements);
    const float *views = fixture_floats(&recipe, "augment", number, "views", &count);
    assert_int_equal(count, 2 * offsets * offsets * elements);
    unsigned char *loaded = malloc(elements);
    float *y = malloc(elements * sizeof(*y));
    bool seen[128] = {false};
    assert_true(loaded && y && 2 * offsets * offsets <= 128);
    for (int64_t step = 1; step <= 1000; step++) {
        static const uint32_t first = 0;
        train_load(&loader, step, 0, 1, &first, loaded);
        normalise_bytes(compute, elements, 1.0 / 255.0, &normalise, loaded, y);
        size_t found = 0;
        for (size_t view = 0; view < 2 * offsets * offsets; view++) {
            const bool same = is_view(y, views + view * elements, elements);
            found += same;
            seen[view] = seen[view] || same;
        }
        assert_int_equal(found, 1);
    }
    for (size_t view = 0; view < 2 * offsets * offsets; view++) {
        assert_true(seen[view]);
    }
    free(loaded);
    free(y);
}

static void augmented_samples_are_those_of_pytorch(void **state)
{
    const struct kernel_pools *pools = *state;
    struct compute compute = compute_init(pools->pool[1], (struct workspace_bytes){0});
    size_t number = 0;
    for (; fixture_has(&recipe, "augment", number); number++) {
        check_views(&compute, number);
    }
    assert_int_equal(number, 2);
    compute_done(&compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_go_where_pytorchs_go),
        cmocka_unit_test(a_net_is_clipped_by_the_norm_pytorch_finds),
        cmocka_unit_test(gradients_go_through_frozen_units_as_in_pytorch),
        cmocka_unit_test(label_smoothing_is_the_one_pytorch_computes),
        cmocka_unit_test(schedules_are_pytorchs),
        cmocka_unit_test(augmented_samples_are_those_of_pytorch),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
