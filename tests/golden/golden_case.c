#include "tests/golden/golden_case.h"

#include <stdlib.h>

void golden_each(void **state, const struct fixture *fixture, const char *op, golden_fn check)
{
    const struct kernel_pools *pools = *state;
    size_t number = 0;
    for (; fixture_has(fixture, op, number); number++) {
        check(&(struct golden){
            .fixture = fixture, .pool = pools->pool[1], .op = op, .number = number});
    }
    assert_true(number > 0);
}

const float *golden_input(const struct golden *golden, const char *name)
{
    size_t count;
    return fixture_floats(golden->fixture, golden->op, golden->number, name, &count);
}

size_t golden_size(const struct golden *golden, size_t index)
{
    return (size_t)fixture_shape(golden->fixture, golden->op, golden->number)[index];
}

float *golden_output(const struct golden *golden, const char *name)
{
    size_t count;
    (void)fixture_floats(golden->fixture, golden->op, golden->number, name, &count);
    float *floats = calloc(count, sizeof(float));
    assert_non_null(floats);
    return floats;
}

void golden_expect(const struct golden *golden, const char *name, float *actual)
{
    size_t count;
    const float *expected =
        fixture_floats(golden->fixture, golden->op, golden->number, name, &count);
    assert_close(actual, expected, count, GOLDEN_TOLERANCE);
    free(actual);
}
