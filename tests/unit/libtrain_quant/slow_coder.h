/* slow_coder.h: the group quantiser written down a second time, as slowly as its definition reads:
 * one value after the other in double, one code a byte. The oracle of test_coder.c. */
#ifndef TESTS_UNIT_LIBTRAIN_QUANT_SLOW_CODER_H
#define TESTS_UNIT_LIBTRAIN_QUANT_SLOW_CODER_H

#include <stdbool.h>
#include <stddef.h>

/* One group of at most 256 values. */
struct slow_group {
    bool raw;
    float lo, scale;
    unsigned char code[256];
    float value[256]; /* decoded */
};
void slow_group(const float *x, size_t count, unsigned bits, bool symmetric,
                struct slow_group *out);
/* A whole tensor as coder.h describes it. Returns the bytes. */
size_t slow_tensor(const float *x, size_t n, unsigned bits, bool symmetric, unsigned char *coded,
                   float *decoded);

#endif
