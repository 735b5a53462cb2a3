/* fixture.h: a golden fixture (a safetensors file made by make_fixtures.py) opened for reading.
 * Tests only. */
#ifndef TESTS_GOLDEN_FIXTURE_H
#define TESTS_GOLDEN_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "libtrain/formats/safetensors.h"

struct fixture {
    struct buf file;
    struct safetensors_header header;
};

/* Open "tests/golden/<name>.safetensors". Fails the test when it cannot. */
void fixture_open(struct fixture *fixture, const char *name);
void fixture_close(struct fixture *fixture);

/* The tensor "<op>.<case>.<name>"; fails when it is missing or of another type. Borrowed. */
const float *fixture_floats(const struct fixture *fixture, const char *op, size_t number,
                            const char *name, size_t *out_count);
const int64_t *fixture_shape(const struct fixture *fixture, const char *op, size_t number);
/* Whether the op has a case of that number. */
bool fixture_has(const struct fixture *fixture, const char *op, size_t number);

/* A tensor's data by its whole name; NULL: no such tensor. */
const void *fixture_data(const struct fixture *fixture, const char *name, enum dtype dtype,
                         size_t *out_count);

#endif
