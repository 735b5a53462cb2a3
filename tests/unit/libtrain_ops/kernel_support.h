/* kernel_support.h: helpers for tests of kernels: random shapes and tensors, pools of one, two and
 * three threads, and scratch of exactly the promised size, so that a sanitizer detects a kernel
 * that uses more. Tests only. */
#ifndef TESTS_UNIT_LIBTRAIN_OPS_KERNEL_SUPPORT_H
#define TESTS_UNIT_LIBTRAIN_OPS_KERNEL_SUPPORT_H

#include "base/rng.h"
#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"
#include "tests/support/test.h"

#define KERNEL_POOLS 3

/* Pools of 1, 2 and 3 threads; a group fixture: setup and teardown. */
struct kernel_pools {
    struct train_pool *pool[KERNEL_POOLS];
};
int kernel_pools_setup(void **state);
int kernel_pools_teardown(void **state);

/* Scratch for a kernel; free with compute_done. */
struct compute compute_init(struct train_pool *pool, struct workspace_bytes bytes);
void compute_done(struct compute *compute);

/* A source of test numbers; each draw moves it on. */
struct draws {
    struct rng_stream stream;
    uint64_t next;
};
struct draws draws_new(uint64_t seed);
/* low to high, both included. */
size_t draw_size(struct draws *draws, size_t low, size_t high);
/* Uniform in [-1, 1); heap. */
float *draw_floats(struct draws *draws, size_t count);

/* Copies; heap. */
float *copy_floats(const float *from, size_t count);
double *widen(const float *from, size_t count);
double *zeros(size_t count);

/* Fail unless actual equals start + oracle within `tolerance` of the oracle's largest value. */
void assert_close_to_oracle(const float *actual, const float *start, const double *oracle,
                            size_t count, double tolerance);

#endif
