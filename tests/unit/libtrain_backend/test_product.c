#include <stdlib.h>

#include "libtrain/backend/product_isa.h"
#include "libtrain/backend/simd.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

typedef void (*product_fn)(const struct product *product);

/* The builds that this machine can run. */
static size_t builds(product_fn *build)
{
    size_t count = 0;
    build[count++] = product_baseline;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        build[count++] = product_avx2;
    }
    if (__builtin_cpu_supports("avx512f")) {
        build[count++] = product_avx512;
    }
#endif
    return count;
}

static size_t index_of_b(const struct product *p, size_t k, size_t n)
{
    return n / PRODUCT_PANEL * p->b_panel + k * p->b_step + n % PRODUCT_PANEL;
}

static void check(struct draws *draws, struct product p, size_t a_floats, size_t b_floats)
{
    float *A = draw_floats(draws, a_floats);
    float *B = draw_floats(draws, b_floats);
    float *start = draw_floats(draws, p.M * p.c_row);
    double *expected = zeros(p.M * p.c_row);
    for (size_t m = 0; m < p.M; m++) {
        for (size_t n = 0; n < p.N; n++) {
            double sum = p.accumulate ? (double)start[m * p.c_row + n] : 0.0;
            for (size_t i = 0; i < p.K * (p.runs ? p.runs : 1); i++) {
                size_t k = i % p.K;
                size_t run = i / p.K;
                sum += (double)A[m * p.a_row + k * p.a_step + run * p.a_run] *
                       (double)B[index_of_b(&p, k, n) + run * p.b_run];
            }
            expected[m * p.c_row + n] = sum;
        }
        for (size_t n = p.N; n < p.c_row; n++) {
            expected[m * p.c_row + n] = (double)start[m * p.c_row + n]; /* is left alone */
        }
    }
    product_fn build[3];
    size_t count = builds(build);
    for (size_t i = 0; i < count; i++) {
        p.A = A;
        p.B = B;
        p.C = copy_floats(start, p.M * p.c_row);
        build[i](&p);
        assert_close_to_oracle(p.C, NULL, expected, p.M * p.c_row, 1e-5);
        free(p.C);
    }
    free(A);
    free(B);
    free(start);
    free(expected);
}

static void products_of_any_size_match_the_oracle_in_every_build(void **state)
{
    (void)state;
    struct draws draws = draws_new(1);
    for (int i = 0; i < 60; i++) {
        size_t M = draw_size(&draws, 1, 27);
        size_t N = draw_size(&draws, 1, 100);
        size_t K = draw_size(&draws, 1, 40);
        size_t panels = (N + PRODUCT_PANEL - 1) / PRODUCT_PANEL;
        bool accumulate = draw_size(&draws, 0, 1);
        struct product packed = {.M = M,
                                 .N = N,
                                 .K = K,
                                 .a_row = K,
                                 .a_step = 1,
                                 .b_step = PRODUCT_PANEL,
                                 .b_panel = K * PRODUCT_PANEL,
                                 .c_row = N + draw_size(&draws, 0, 5),
                                 .accumulate = accumulate};
        check(&draws, packed, M * K, panels * K * PRODUCT_PANEL);
        struct product plain = packed; /* A transposed, B row after row */
        plain.a_row = 1;
        plain.a_step = M;
        plain.b_step = N;
        plain.b_panel = PRODUCT_PANEL;
        check(&draws, plain, M * K, K * N);
        struct product windows =
            packed; /* rows of A overlap, and one run's elements with the next one's */
        windows.runs = draw_size(&draws, 1, 4);
        windows.a_row = draw_size(&draws, 1, K);
        windows.a_run = draw_size(&draws, 1, K);
        windows.b_run = draw_size(&draws, 0, 2) * PRODUCT_PANEL;
        check(&draws, windows, M * windows.a_row + K + 4 * windows.a_run,
              panels * (K + 8) * PRODUCT_PANEL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_any_size_match_the_oracle_in_every_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
