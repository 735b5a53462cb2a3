/* group.h: one group of values as codes of n bits and back. A code c stands for lo + c * scale.
 * lo and scale are small multiples of one power of two, so that this sum is exact in float32 and 0
 * stays 0: the bits depend neither on the ISA nor on the compiler, nor on whether denormal numbers
 * are flushed. Private to libtrain/quant. Any thread. */
#ifndef LIBTRAIN_QUANT_GROUP_H
#define LIBTRAIN_QUANT_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/quant/codec.h"

struct group_range {
    float lo, scale; /* scale 0: all values are lo */
};

/* Choose lo and scale for x[count], 1 <= count <= CODEC_GROUP, so that every value is at most half
 * a scale from the nearest code; what is in the middle of two becomes the upper one.
 *   symmetric: lo = -(2^(bits-1) - 1) scale. Otherwise it is chosen for groups with values below 0
 *   of which more than an eighth are 0; the others get the range from their least to their
 *   greatest.
 * False: the group travels raw. It has NaN, Inf, or magnitudes that float32 cannot scale exactly
 * (all below 2^-80, or one of 2^126 and more). */
bool group_choose(const float *x, size_t count, unsigned bits, bool symmetric,
                  struct group_range *out);
/* A range that group_choose could have made, as far as decoding needs it: finite everywhere. */
bool group_is_valid(const struct group_range *range, unsigned bits);

/* x[CODEC_GROUP] to 32 * bits bytes: codes one after the other from the lowest bit of the first
 * byte on. bits: 8, 6, 4, 3 or 2. The values must be those of which the range was chosen. */
void group_encode(const float *x, const struct group_range *range, unsigned bits,
                  unsigned char *out);
/* The reverse: 32 * bits bytes to x[CODEC_GROUP]. */
void group_decode(const unsigned char *in, const struct group_range *range, unsigned bits,
                  float *x);

#endif
