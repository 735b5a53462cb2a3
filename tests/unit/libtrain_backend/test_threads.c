#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "libtrain/backend/denormal.h"
#include "libtrain/backend/gemm.h"
#include "libtrain/train.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

#define TASKS 37

struct counted {
    atomic_bool stranger; /* a task ran on a worker that the pool does not have */
    atomic_int done[TASKS];
    size_t threads;
};

static void count_task(const void *arg, size_t task, size_t worker)
{
    const struct counted *job = arg;
    struct counted *counted = (struct counted *)(uintptr_t)job;
    if (worker >= counted->threads) {
        atomic_store(&counted->stranger, true);
    }
    atomic_fetch_add(&counted->done[task], 1);
}

static void every_task_is_done_once_in_every_round(void **state)
{
    const struct kernel_pools *pools = *state;
    for (size_t p = 0; p < KERNEL_POOLS; p++) {
        struct counted counted = {.threads = pool_threads(pools->pool[p])};
        for (int round = 1; round <= 300; round++) {
            pool_run(pools->pool[p], TASKS, count_task, &counted);
            assert_false(atomic_load(&counted.stranger));
            for (size_t task = 0; task < TASKS; task++) {
                assert_int_equal(atomic_load(&counted.done[task]), round);
            }
        }
    }
}

/* The caller has done its task long before a worker ends the other one. */
static void uneven_task(const void *arg, size_t task, size_t worker)
{
    atomic_bool *begun = *(atomic_bool *const *)arg;
    (void)task;
    if (worker > 0) {
        atomic_store(begun, true);
        (void)poll(NULL, 0, 20);
    }
    while (!atomic_load(begun)) {
        (void)sched_yield();
    }
}

/* A clock that counts how often it is read. */
static double ticks(void)
{
    static double count;
    return ++count;
}

static void the_callers_sleep_for_its_workers_is_timed(void **state)
{
    const struct kernel_pools *pools = *state;
    struct train_pool *pool = pools->pool[1];
    atomic_bool begun = false, *pointer = &begun;
    assert_true(train_pool_waited_seconds(pool) == 0);
    train_pool_time_waits(pool, ticks);
    pool_run(pool, 2, uneven_task, &pointer);
    assert_true(train_pool_waited_seconds(pool) == 1);
    pool_run(pool, 1, uneven_task, &pointer); /* the caller alone */
    assert_true(train_pool_waited_seconds(pool) == 1);
    train_pool_time_waits(pool, NULL);
}

static void denormal_task(const void *arg, size_t task, size_t worker)
{
    float *const *result = arg;
    volatile float tiny = 1e-30f;
    (void)worker;
    (*result)[task] = tiny * 1e-10f;
}

static void workers_flush_denormals_and_the_caller_gets_its_mode_back(void **state)
{
    const struct kernel_pools *pools = *state;
    volatile float tiny = 1e-30f;
    float result[64];
    float *pointer = result;
    uint64_t mode = denormal_flush();
    pool_run(pools->pool[2], 64, denormal_task, &pointer);
    denormal_restore(mode);
    for (size_t i = 0; i < 64; i++) {
        assert_true(result[i] == 0.0f);
    }
    assert_true(tiny * 1e-10f > 0.0f);
}

static void a_pool_without_threads_or_with_too_many_is_rejected(void **state)
{
    (void)state;
    struct train_pool *pool = NULL;
    struct err err = {0};
    assert_int_equal(train_pool_new(0, &pool, &err), ERR_INVALID);
    assert_int_equal(train_pool_new(100000, &pool, &err), ERR_INVALID);
    assert_null(pool);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITED 0 /* a sanitizer needs addresses of its own */
#else
#define LIMITED 1
#endif

static void a_pool_without_room_for_the_buffers_of_products_is_rejected_at_once(void **state)
{
    (void)state;
    enum { THREADS = 24 }; /* more than any other test here has */
    struct train_pool *pool = NULL;
    struct err err = {0};
    struct rlimit before;
    if (!LIMITED) {
        test_skip("a sanitizer needs addresses of its own");
    }
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    const struct rlimit narrow = {.rlim_cur = 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &narrow), 0);
    const int rc = train_pool_new(THREADS, &pool, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(rc, ERR_MEMORY);
    assert_null(pool);
    assert_holds(err.text, "no room for the buffers of matrix products, 24 x");
    assert_ok(train_pool_new(THREADS, &pool, &err), &err);
    train_pool_free(&pool);
}

/* ---- products from several threads at once ---- */

#define SIZE 64
#define PRODUCTS 3000

struct products {
    float *a, *b, *expected;
    size_t wrong;
};

static void *multiply(void *arg)
{
    struct products *job = arg;
    float *c = calloc(SIZE * SIZE, sizeof(float));
    for (int i = 0; c && i < PRODUCTS; i++) {
        gemm(false, true, SIZE, SIZE, SIZE, job->a, SIZE, job->b, SIZE, 0.0f, c, SIZE);
        for (size_t k = 0; k < SIZE * SIZE; k++) {
            job->wrong += c[k] != job->expected[k];
        }
    }
    free(c);
    return NULL;
}

static void products_on_several_threads_at_once_do_not_disturb_each_other(void **state)
{
    (void)state;
    struct draws draws = draws_new(91);
    struct products job[4] = {{.a = draw_floats(&draws, SIZE * SIZE),
                               .b = draw_floats(&draws, SIZE * SIZE),
                               .expected = draw_floats(&draws, SIZE * SIZE)}};
    pthread_t thread[4];
    struct err err = {0};
    assert_ok(gemm_reserve(4, &err), &err);
    gemm(false, true, SIZE, SIZE, SIZE, job[0].a, SIZE, job[0].b, SIZE, 0.0f, job[0].expected,
         SIZE);
    for (size_t i = 1; i < 4; i++) {
        job[i] = job[0];
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, multiply, &job[i]), 0);
    }
    size_t wrong = 0;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        wrong += job[i].wrong;
    }
    assert_int_equal(wrong, 0);
    gemm_release(4);
    free(job[0].a);
    free(job[0].b);
    free(job[0].expected);
}

static void products_match_plain_loops_in_all_four_forms(void **state)
{
    (void)state;
    struct draws draws = draws_new(92);
    for (int i = 0; i < 60; i++) {
        size_t M = draw_size(&draws, 1, 40);
        size_t N = draw_size(&draws, 1, 40);
        size_t K = draw_size(&draws, 1, 90);
        bool transpose_a = i % 2;
        bool transpose_b = i / 2 % 2;
        float beta = i / 4 % 2 ? 1.0f : 0.0f;
        float *a = draw_floats(&draws, M * K);
        float *b = draw_floats(&draws, K * N);
        float *start = draw_floats(&draws, M * N);
        float *c = copy_floats(start, M * N);
        double *oracle = zeros(M * N);
        gemm(transpose_a, transpose_b, M, N, K, a, transpose_a ? M : K, b, transpose_b ? K : N,
             beta, c, N);
        for (size_t m = 0; m < M; m++) {
            for (size_t n = 0; n < N; n++) {
                for (size_t k = 0; k < K; k++) {
                    oracle[m * N + n] += (double)a[transpose_a ? k * M + m : m * K + k] *
                                         (double)b[transpose_b ? n * K + k : k * N + n];
                }
            }
        }
        assert_close_to_oracle(c, beta > 0.0f ? start : NULL, oracle, M * N, 2e-6);
        free(a);
        free(b);
        free(start);
        free(c);
        free(oracle);
    }
}

static void the_numeric_class_names_all_that_decides_bits(void **state)
{
    (void)state;
    char name[TRAIN_NUMERIC_CLASS_MAX];
    train_numeric_class(name);
    assert_holds(name, "libtrain-");
    assert_holds(name, "/openblas-");
    assert_holds(name, "/ftz");
}

static void the_probe_measures_speeds_above_zero(void **state)
{
    const struct kernel_pools *pools = *state;
    struct train_probe probe;
    struct err err = {0};
    assert_ok(train_probe(pools->pool[1], 0.0, &probe, &err), &err);
    assert_true(probe.gemm_gflops > 0.0);
    assert_true(probe.memory_bytes_per_second > 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_is_done_once_in_every_round),
        cmocka_unit_test(the_callers_sleep_for_its_workers_is_timed),
        cmocka_unit_test(workers_flush_denormals_and_the_caller_gets_its_mode_back),
        cmocka_unit_test(a_pool_without_threads_or_with_too_many_is_rejected),
        cmocka_unit_test(a_pool_without_room_for_the_buffers_of_products_is_rejected_at_once),
        cmocka_unit_test(products_on_several_threads_at_once_do_not_disturb_each_other),
        cmocka_unit_test(products_match_plain_loops_in_all_four_forms),
        cmocka_unit_test(the_numeric_class_names_all_that_decides_bits),
        cmocka_unit_test(the_probe_measures_speeds_above_zero),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
