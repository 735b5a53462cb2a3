#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/channel_sum.h"
#include "libtrain/ops/dropout.h"
#include "libtrain/ops/join.h"
#include "libtrain/ops/relu.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

/* One compute per pool, without scratch. */
static struct compute plain_compute(void **state, size_t pool)
{
    const struct kernel_pools *pools = *state;
    return compute_init(pools->pool[pool], (struct workspace_bytes){0});
}

/* ---- relu ---- */

static void check_relu(void **state, size_t pool, size_t count, float ceiling)
{
    struct draws draws = draws_new(41 + count);
    struct compute compute = plain_compute(state, pool);
    float *x = draw_floats(&draws, count);
    float *dy = draw_floats(&draws, count);
    float *start = draw_floats(&draws, count);
    float *y = draw_floats(&draws, count);
    float *dx = copy_floats(start, count);
    for (size_t i = 0; i < count; i++) {
        x[i] *= 10.0f;
    }
    relu_forward(&compute, count, ceiling, x, y);
    relu_backward(&compute, count, ceiling, y, dy, dx, true);
    float *in_place = copy_floats(x, count);
    relu_forward(&compute, count, ceiling, in_place, in_place);
    assert_memory_equal(in_place, y, count * sizeof(float));
    memcpy(in_place, dy, count * sizeof(float));
    relu_backward(&compute, count, ceiling, y, in_place, in_place, false);
    for (size_t i = 0; i < count; i++) {
        float top = ceiling > 0.0f ? ceiling : INFINITY;
        bool open = x[i] > 0.0f && x[i] < top;
        assert_true(y[i] == fminf(fmaxf(x[i], 0.0f), top));
        assert_true(in_place[i] == (open ? dy[i] : 0.0f));
        assert_true(dx[i] == start[i] + (open ? dy[i] : 0.0f));
    }
    float *all[] = {x, dy, start, y, dx, in_place};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
    compute_done(&compute);
}

static void rectifiers_clip_and_pass_gradients_where_they_did_not_clip(void **state)
{
    static const size_t counts[] = {1, 7, 16, 1000, 100003};
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            check_relu(state, pool, counts[i], RELU_NO_CEILING);
            check_relu(state, pool, counts[i], 6.0f);
        }
    }
}

static void rectifiers_pass_nan(void **state)
{
    struct compute compute = plain_compute(state, 0);
    float x[20];
    float y[20];
    for (size_t i = 0; i < 20; i++) {
        x[i] = NAN;
    }
    relu_forward(&compute, 20, RELU_NO_CEILING, x, y);
    for (size_t i = 0; i < 20; i++) {
        assert_true(isnan(y[i]));
    }
    relu_forward(&compute, 20, 6.0f, x, y);
    for (size_t i = 0; i < 20; i++) {
        assert_true(isnan(y[i]));
    }
    compute_done(&compute);
}

/* ---- join ---- */

static void sums_add_in_order_and_may_overwrite_their_first_input(void **state)
{
    struct draws draws = draws_new(51);
    const size_t count = 70001;
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = plain_compute(state, pool);
        float *x[4];
        for (size_t i = 0; i < 4; i++) {
            x[i] = draw_floats(&draws, count);
        }
        float *y = draw_floats(&draws, count);
        add_forward(&compute, count, (const float *const *)x, 4, y);
        for (size_t i = 0; i < count; i++) {
            assert_true(y[i] == ((x[0][i] + x[1][i]) + x[2][i]) + x[3][i]);
        }
        add_forward(&compute, count, (const float *const *)x, 4, x[0]);
        assert_memory_equal(x[0], y, count * sizeof(float));
        add_forward(&compute, count, (const float *const *)x, 1, y);
        assert_memory_equal(x[0], y, count * sizeof(float));
        copy_backward(&compute, count, x[1], y, true);
        for (size_t i = 0; i < count; i++) {
            assert_true(y[i] == x[1][i] + x[0][i]);
        }
        copy_backward(&compute, count, x[1], y, false);
        assert_memory_equal(x[1], y, count * sizeof(float));
        free(y);
        for (size_t i = 0; i < 4; i++) {
            free(x[i]);
        }
        compute_done(&compute);
    }
}

static void concatenation_lays_channels_side_by_side_and_backward_takes_them_apart(void **state)
{
    struct draws draws = draws_new(52);
    static const size_t widths[] = {3, 1, 17};
    const size_t M = 3001;
    const size_t width = 21;
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = plain_compute(state, pool);
        float *y = draw_floats(&draws, M * width);
        for (size_t i = 0, offset = 0; i < 3; offset += widths[i++]) {
            float *x = draw_floats(&draws, M * widths[i]);
            float *dx = draw_floats(&draws, M * widths[i]);
            concat_forward(&compute, M, widths[i], width, offset, x, y);
            concat_backward(&compute, M, widths[i], width, offset, y, dx, false);
            assert_memory_equal(x, dx, M * widths[i] * sizeof(float));
            concat_backward(&compute, M, widths[i], width, offset, y, dx, true);
            for (size_t k = 0; k < M * widths[i]; k++) {
                assert_true(dx[k] == 2.0f * x[k]);
                assert_true(y[k / widths[i] * width + offset + k % widths[i]] == x[k]);
            }
            free(x);
            free(dx);
        }
        free(y);
        compute_done(&compute);
    }
}

static void a_select_takes_a_range_of_channels_and_its_gradient_is_zero_elsewhere(void **state)
{
    struct draws draws = draws_new(54);
    static const struct {
        size_t M, C, width, offset;
    } cases[] = {{3001, 5, 21, 16}, {700, 21, 21, 0}, {1, 1, 3, 1}, {4000, 17, 40, 0}};
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = plain_compute(state, pool);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            const size_t M = cases[i].M, C = cases[i].C, width = cases[i].width;
            const size_t offset = cases[i].offset;
            float *x = draw_floats(&draws, M * width);
            float *y = draw_floats(&draws, M * C);
            float *dy = draw_floats(&draws, M * C);
            float *dx = draw_floats(&draws, M * width);
            float *sum = copy_floats(x, M * width);
            select_forward(&compute, M, C, width, offset, x, y);
            select_backward(&compute, M, C, width, offset, dy, dx, false);
            select_backward(&compute, M, C, width, offset, dy, sum, true);
            for (size_t k = 0; k < M * width; k++) {
                const size_t m = k / width, c = k % width;
                const bool taken = c >= offset && c < offset + C;
                const float gradient = taken ? dy[m * C + c - offset] : 0.0f;
                assert_true(!taken || y[m * C + c - offset] == x[k]);
                assert_true(dx[k] == gradient);
                assert_true(sum[k] == (taken ? gradient + x[k] : x[k]));
            }
            float *all[] = {x, y, dy, dx, sum};
            for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
                free(all[k]);
            }
        }
        compute_done(&compute);
    }
}

static void stored_samples_are_scaled_to_floats(void **state)
{
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = plain_compute(state, pool);
        unsigned char bytes[256];
        float floats[256];
        float y[256];
        for (size_t i = 0; i < 256; i++) {
            bytes[i] = (unsigned char)i;
            floats[i] = (float)i - 100.0f;
        }
        scale_bytes(&compute, 256, 1.0f / 255.0f, bytes, y);
        for (size_t i = 0; i < 256; i++) {
            assert_true(y[i] == (float)i * (1.0f / 255.0f));
        }
        scale_floats(&compute, 256, 0.3f, floats, y);
        for (size_t i = 0; i < 256; i++) {
            assert_true(y[i] == floats[i] * 0.3f);
        }
        compute_done(&compute);
    }
}

static void check_normalise(void **state, size_t pool, size_t pixels, size_t C, double scale)
{
    struct draws draws = draws_new(61 + C);
    struct compute compute = plain_compute(state, pool);
    const size_t count = pixels * C;
    float *floats = draw_floats(&draws, count);
    float *y = draw_floats(&draws, count);
    unsigned char *bytes = malloc(count);
    struct normalise normalise = {.mean_count = C, .std_count = C};
    assert_non_null(bytes);
    for (size_t c = 0; c < C; c++) {
        normalise.mean[c] = 0.3 + 0.05 * (double)c;
        normalise.std[c] = 0.2 + 0.01 * (double)c;
    }
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (unsigned char)draw_size(&draws, 0, 255);
    }
    normalise_bytes(&compute, count, scale, &normalise, bytes, y);
    for (size_t i = 0; i < count; i++) {
        const double expected =
            ((double)bytes[i] * scale - normalise.mean[i % C]) / normalise.std[i % C];
        assert_true(fabs((double)y[i] - expected) <= 1e-6 * fmax(1.0, fabs(expected)));
    }
    normalise_floats(&compute, count, scale, &normalise, floats, y);
    for (size_t i = 0; i < count; i++) {
        const double expected =
            ((double)floats[i] * scale - normalise.mean[i % C]) / normalise.std[i % C];
        assert_true(fabs((double)y[i] - expected) <= 1e-6 * fmax(1.0, fabs(expected)));
    }
    free(floats);
    free(bytes);
    free(y);
    compute_done(&compute);
}

static void samples_are_normalised_by_channel(void **state)
{
    static const size_t channels[] = {1, 3, 5, 16};
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++) {
            check_normalise(state, pool, 1, channels[i], 1.0 / 255.0);
            check_normalise(state, pool, 37, channels[i], 1.0 / 255.0);
            check_normalise(state, pool, 5000, channels[i], 1.0 / 128.0);
        }
    }
}

static void channel_sums_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(53);
    const struct kernel_pools *pools = *state;
    for (int round = 0; round < 20; round++) {
        size_t M = draw_size(&draws, 1, 9000);
        size_t C = draw_size(&draws, 1, 20);
        float *x = draw_floats(&draws, M * C);
        float *start = draw_floats(&draws, C);
        float *first = NULL;
        double *oracle = zeros(C);
        for (size_t i = 0; i < M * C; i++) {
            oracle[i % C] += (double)x[i];
        }
        for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
            struct compute compute = compute_init(
                pools->pool[pool],
                (struct workspace_bytes){.shared = SLAB_PARTIALS_MAX * C * sizeof(double)});
            float *sum = copy_floats(start, C);
            channel_sum(&compute, M, C, x, sum);
            assert_close_to_oracle(sum, start, oracle, C, 1e-6);
            compute_done(&compute);
            if (first) {
                assert_memory_equal(first, sum, C * sizeof(float));
                free(sum);
            } else {
                first = sum;
            }
        }
        free(first);
        free(x);
        free(start);
        free(oracle);
    }
}

/* ---- dropout ---- */

static void dropout_draws_the_same_mask_for_any_split_of_the_elements(void **state)
{
    const size_t count = 50000;
    struct draws draws = draws_new(61);
    struct dropout_mask mask = {
        .stream = rng_stream(7, RNG_DROPOUT, 3, 5), .first = 1001, .rate = 0.3};
    float *x = draw_floats(&draws, count);
    float *whole = draw_floats(&draws, count);
    float *parts = draw_floats(&draws, count);
    size_t dropped = 0;
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = plain_compute(state, pool);
        dropout_apply(&compute, count, &mask, x, whole, false);
        for (size_t from = 0; from < count; from += 777) {
            struct dropout_mask part = mask;
            part.first += from;
            size_t length = count - from < 777 ? count - from : 777;
            dropout_apply(&compute, length, &part, x + from, parts + from, false);
        }
        assert_memory_equal(whole, parts, count * sizeof(float));
        compute_done(&compute);
    }
    float scale = (float)(1.0 / 0.7);
    for (size_t i = 0; i < count; i++) {
        bool keep = rng_uniform(&mask.stream, mask.first + i) >= 0.3f;
        assert_true(whole[i] == (keep ? x[i] * scale : 0.0f));
        dropped += !keep;
    }
    assert_in_range(dropped, count * 29 / 100, count * 31 / 100);
    free(x);
    free(whole);
    free(parts);
}

static void dropout_accumulates_and_works_in_place_and_rate_zero_changes_nothing(void **state)
{
    struct compute compute = plain_compute(state, 1);
    struct draws draws = draws_new(62);
    struct dropout_mask mask = {
        .stream = rng_stream(7, RNG_DROPOUT, 1, 0), .first = 3, .rate = 0.5};
    float *x = draw_floats(&draws, 999);
    float *y = draw_floats(&draws, 999);
    float *sum = copy_floats(x, 999);
    dropout_apply(&compute, 999, &mask, x, y, false);
    dropout_apply(&compute, 999, &mask, x, sum, true);
    for (size_t i = 0; i < 999; i++) {
        assert_true(sum[i] == x[i] + y[i]);
    }
    memcpy(sum, x, 999 * sizeof(float));
    dropout_apply(&compute, 999, &mask, sum, sum, false);
    assert_memory_equal(sum, y, 999 * sizeof(float));
    mask.rate = 0.0;
    dropout_apply(&compute, 999, &mask, x, y, false);
    assert_memory_equal(x, y, 999 * sizeof(float));
    free(x);
    free(y);
    free(sum);
    compute_done(&compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rectifiers_clip_and_pass_gradients_where_they_did_not_clip),
        cmocka_unit_test(rectifiers_pass_nan),
        cmocka_unit_test(sums_add_in_order_and_may_overwrite_their_first_input),
        cmocka_unit_test(concatenation_lays_channels_side_by_side_and_backward_takes_them_apart),
        cmocka_unit_test(a_select_takes_a_range_of_channels_and_its_gradient_is_zero_elsewhere),
        cmocka_unit_test(stored_samples_are_scaled_to_floats),
        cmocka_unit_test(samples_are_normalised_by_channel),
        cmocka_unit_test(channel_sums_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(dropout_draws_the_same_mask_for_any_split_of_the_elements),
        cmocka_unit_test(dropout_accumulates_and_works_in_place_and_rate_zero_changes_nothing),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
