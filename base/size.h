/* size.h: checked arithmetic on sizes that come from outside (shapes, headers). Any room. */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>

/* Set *out to a * b or a + b; false, with *out unchanged, if the result does not fit. */
static inline bool size_multiply(size_t a, size_t b, size_t *out)
{
    size_t result;
    if (__builtin_mul_overflow(a, b, &result)) {
        return false;
    }
    *out = result;
    return true;
}

static inline bool size_add(size_t a, size_t b, size_t *out)
{
    size_t result;
    if (__builtin_add_overflow(a, b, &result)) {
        return false;
    }
    *out = result;
    return true;
}

/* Round up to a multiple of `alignment` (a power of two). */
static inline size_t size_align(size_t size, size_t alignment)
{
    return (size + alignment - 1) & ~(alignment - 1);
}

static inline size_t size_divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* Return `value`, but at least `low` and at most `high`. */
static inline size_t size_clamp(size_t value, size_t low, size_t high)
{
    return value < low ? low : value > high ? high : value;
}

#endif
