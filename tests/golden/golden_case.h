/* golden_case.h: the successive cases of one op in a fixture, with inputs and expected outputs.
 * Tests only. */
#ifndef TESTS_GOLDEN_GOLDEN_CASE_H
#define TESTS_GOLDEN_GOLDEN_CASE_H

#include "tests/golden/fixture.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

/* max|a - b| / max|b| of a tensor. */
#define GOLDEN_TOLERANCE 1e-4

struct golden {
    const struct fixture *fixture;
    struct train_pool *pool;
    const char *op;
    size_t number;
};
typedef void (*golden_fn)(const struct golden *golden);

/* Check every case of the op, at least one. state: the test's, with the pools. */
void golden_each(void **state, const struct fixture *fixture, const char *op, golden_fn check);

/* A tensor of the case; borrowed. */
const float *golden_input(const struct golden *golden, const char *name);
/* Number `index` of the case's shape. */
size_t golden_size(const struct golden *golden, size_t index);
/* Zeros of a tensor's size; heap. */
float *golden_output(const struct golden *golden, const char *name);
/* Compare with the fixture, and free. */
void golden_expect(const struct golden *golden, const char *name, float *actual);

#endif
