#include "libtrain/formats/element.h"

#include <string.h>

#define HALF_EXPONENT_BIAS 15
#define DOUBLE_EXPONENT_BIAS 1023

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are taken as they lie in memory");

static uint64_t bits_of(struct element element, const uint8_t *bytes)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < element.size; i++) {
        bits = bits << 8 | bytes[element.big_endian ? i : element.size - 1u - i];
    }
    return bits;
}

int64_t element_integer(struct element element, const uint8_t *bytes)
{
    const uint64_t bits = bits_of(element, bytes);
    if (element.kind == ELEMENT_SIGNED) {
        const unsigned shift = 64 - 8u * element.size;
        return (int64_t)(bits << shift) >> shift;
    }
    return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
}

/* 1 sign bit, 5 exponent bits, 10 fraction bits (IEEE 754, binary16). A double represents each of
 * these numbers exactly. */
static double half(uint64_t bits)
{
    const uint64_t fraction = bits & 0x3ff;
    const uint64_t exponent = bits >> 10 & 0x1f;
    double value = (double)fraction * 0x1p-24;
    if (exponent > 0) {
        const uint64_t wide =
            exponent == 0x1f ? 0x7ff : exponent - HALF_EXPONENT_BIAS + DOUBLE_EXPONENT_BIAS;
        const uint64_t wide_bits = wide << 52 | fraction << 42;
        memcpy(&value, &wide_bits, sizeof(value));
    }
    return bits >> 15 ? -value : value;
}

double element_number(struct element element, const uint8_t *bytes)
{
    if (element.kind != ELEMENT_FLOAT) {
        return (double)element_integer(element, bytes);
    }
    const uint64_t bits = bits_of(element, bytes);
    if (element.size == 2) {
        return half(bits);
    }
    if (element.size == 4) {
        const uint32_t narrow_bits = (uint32_t)bits;
        float narrow;
        memcpy(&narrow, &narrow_bits, sizeof(narrow));
        return (double)narrow;
    }
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

size_t element_floats(struct element element, const uint8_t *bytes, size_t count, float *out)
{
    if (element.size == sizeof(float) && !element.big_endian) {
        memcpy(out, bytes, count * sizeof(float));
    } else {
        for (size_t i = 0; i < count; i++) {
            out[i] = (float)element_number(element, bytes + i * element.size);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!__builtin_isfinite(out[i])) {
            return i;
        }
    }
    return count;
}
