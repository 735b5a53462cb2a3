#include "tests/unit/libtrain_ops/kernel_support.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "libtrain/train.h"

int kernel_pools_setup(void **state)
{
    struct kernel_pools *pools = calloc(1, sizeof(*pools));
    struct err err = {0};
    *state = pools;
    for (size_t i = 0; pools && i < KERNEL_POOLS; i++) {
        if (train_pool_new(i + 1, &pools->pool[i], &err) != 0) {
            return -1;
        }
    }
    return pools ? 0 : -1;
}

int kernel_pools_teardown(void **state)
{
    struct kernel_pools *pools = *state;
    for (size_t i = 0; i < KERNEL_POOLS; i++) {
        train_pool_free(&pools->pool[i]);
    }
    free(pools);
    return 0;
}

static void *allocate(size_t bytes)
{
    void *memory =
        aligned_alloc(WORKSPACE_ALIGNMENT, size_align(bytes ? bytes : 1, WORKSPACE_ALIGNMENT));
    assert_non_null(memory);
    memset(memory, 0x5a, bytes);
    return memory;
}

struct compute compute_init(struct train_pool *pool, struct workspace_bytes bytes)
{
    return (struct compute){.pool = pool,
                            .shared = allocate((size_t)bytes.shared),
                            .worker = allocate((size_t)bytes.worker * pool_threads(pool)),
                            .worker_bytes = (size_t)bytes.worker};
}

void compute_done(struct compute *compute)
{
    free(compute->shared);
    free(compute->worker);
}

struct draws draws_new(uint64_t seed)
{
    return (struct draws){.stream = rng_stream(seed, RNG_SIMULATION, 0, 0)};
}

size_t draw_size(struct draws *draws, size_t low, size_t high)
{
    return low + (size_t)rng_below(&draws->stream, draws->next++, high - low + 1);
}

float *draw_floats(struct draws *draws, size_t count)
{
    float *floats = allocate(count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        floats[i] = 2.0f * rng_uniform(&draws->stream, draws->next++) - 1.0f;
    }
    return floats;
}

float *copy_floats(const float *from, size_t count)
{
    float *floats = allocate(count * sizeof(float));
    memcpy(floats, from, count * sizeof(float));
    return floats;
}

double *widen(const float *from, size_t count)
{
    double *doubles = zeros(count);
    for (size_t i = 0; i < count; i++) {
        doubles[i] = (double)from[i];
    }
    return doubles;
}

double *zeros(size_t count)
{
    double *doubles = calloc(count ? count : 1, sizeof(double));
    assert_non_null(doubles);
    return doubles;
}

void assert_close_to_oracle(const float *actual, const float *start, const double *oracle,
                            size_t count, double tolerance)
{
    double *got = widen(actual, count);
    double *expected = zeros(count);
    for (size_t i = 0; i < count; i++) {
        expected[i] = oracle[i] + (start ? (double)start[i] : 0.0);
    }
    assert_close(got, expected, count, tolerance);
    free(got);
    free(expected);
}
