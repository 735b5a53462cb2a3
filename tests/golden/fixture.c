#include "tests/golden/fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "tests/support/test.h"

#define FIXTURE_BYTES_MAX (16u << 20)
#define FIXTURE_TENSORS_MAX 2048

void fixture_open(struct fixture *fixture, const char *name)
{
    char relative[128];
    uint64_t header_bytes = 0;
    struct err err = {0};
    (void)snprintf(relative, sizeof(relative), "tests/golden/%s.safetensors", name);
    *fixture = (struct fixture){.header.tensor_capacity = FIXTURE_TENSORS_MAX};
    buf_init(&fixture->file, FIXTURE_BYTES_MAX);
    assert_ok(file_read(test_data_path(relative).text, &fixture->file, &err), &err);
    fixture->header.tensor = calloc(FIXTURE_TENSORS_MAX, sizeof(fixture->header.tensor[0]));
    assert_non_null(fixture->header.tensor);
    assert_true(fixture->file.size > 8);
    assert_ok(safetensors_header_bytes((const uint8_t *)fixture->file.data, &header_bytes, &err),
              &err);
    assert_true(header_bytes <= fixture->file.size);
    assert_ok(safetensors_parse(fixture->file.data, (size_t)header_bytes, &fixture->header, &err),
              &err);
    assert_int_equal(fixture->header.data_offset + fixture->header.data_bytes, fixture->file.size);
}

void fixture_close(struct fixture *fixture)
{
    free(fixture->header.tensor);
    buf_done(&fixture->file);
}

const void *fixture_data(const struct fixture *fixture, const char *name, enum dtype dtype,
                         size_t *out_count)
{
    const struct safetensors_tensor *tensor = safetensors_find(&fixture->header, name);
    if (!tensor) {
        return NULL;
    }
    assert_int_equal(tensor->dtype, dtype);
    *out_count = (size_t)(tensor->end - tensor->begin) / dtype_size(dtype);
    return fixture->file.data + fixture->header.data_offset + tensor->begin;
}

static const void *case_data(const struct fixture *fixture, const char *op, size_t number,
                             const char *name, enum dtype dtype, size_t *out_count)
{
    char whole[SAFETENSORS_NAME_MAX];
    (void)snprintf(whole, sizeof(whole), "%s.%zu.%s", op, number, name);
    return fixture_data(fixture, whole, dtype, out_count);
}

const float *fixture_floats(const struct fixture *fixture, const char *op, size_t number,
                            const char *name, size_t *out_count)
{
    const float *data = case_data(fixture, op, number, name, DTYPE_F32, out_count);
    if (!data) {
        fail_msg("the fixture has no %s.%zu.%s", op, number, name);
    }
    return data;
}

const int64_t *fixture_shape(const struct fixture *fixture, const char *op, size_t number)
{
    size_t count;
    const int64_t *shape = case_data(fixture, op, number, "shape", DTYPE_I64, &count);
    assert_non_null(shape);
    return shape;
}

bool fixture_has(const struct fixture *fixture, const char *op, size_t number)
{
    size_t count;
    return case_data(fixture, op, number, "shape", DTYPE_I64, &count) != NULL;
}
