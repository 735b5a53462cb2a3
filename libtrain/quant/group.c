#include "libtrain/quant/group.h"

#include <string.h>

#include "base/assert.h"
#include "libtrain/backend/simd.h"

#define INLINE static inline __attribute__((always_inline))
#define WORDS (CODEC_GROUP / 8) /* eight codes make a word */
/* Magnitudes between these are scaled without an overflow or a denormal number. */
#define MAGNITUDE_MIN 0x1p-80
#define MAGNITUDE_MAX 0x1p126
/* The unit of lo and scale: GRID times the greatest magnitude's power of two. lo + c * scale is at
 * most 2^24 units. */
#define GRID 0x1p-21

typedef int32_t float_bits __attribute__((may_alias));

/* ---- the range ---- */

/* Map the bits of a float to an integer in the order of floats: -0 below 0, NaN beyond Inf. Every
 * compiler vectorises the minimum of integers, and it does not depend on the order of the
 * values. */
INLINE int32_t in_order(int32_t bits)
{
    return bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
}

INLINE float from_order(int32_t order)
{
    const int32_t bits = in_order(order);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

SIMD_CLONES static void find_ends(const float *x, size_t count, int32_t *least, int32_t *greatest)
{
    const float_bits *bits = (const float_bits *)x;
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (size_t i = 0; i < count; i++) {
        const int32_t order = in_order(bits[i]);
        low = order < low ? order : low;
        high = order > high ? order : high;
    }
    *least = low;
    *greatest = high;
}

SIMD_CLONES static int32_t count_zeros(const float *x, size_t count)
{
    const float_bits *bits = (const float_bits *)x;
    int32_t zeros = 0;
    for (size_t i = 0; i < count; i++) {
        zeros += (bits[i] & INT32_MAX) == 0;
    }
    return zeros;
}

/* The power of two at or below a magnitude within the bounds, and its inverse. */
static double power_below(float magnitude, double *inverse)
{
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof(bits));
    const uint32_t exponent = bits & 0x7f800000u;
    const uint32_t opposite = 0x7f000000u - exponent;
    float power, other;
    memcpy(&power, &exponent, sizeof(power));
    memcpy(&other, &opposite, sizeof(other));
    *inverse = (double)other;
    return (double)power;
}

static double round_down(double value)
{
    const double whole = (double)(int32_t)value;
    return whole > value ? whole - 1 : whole;
}

static double round_up(double value)
{
    return -round_down(-value);
}

bool group_choose(const float *x, size_t count, unsigned bits, bool symmetric,
                  struct group_range *out)
{
    int32_t least, greatest;
    find_ends(x, count, &least, &greatest);
    const float low = from_order(least);
    const float high = from_order(greatest);
    if (least >= -1 && greatest <= 0) { /* only -0 and 0 */
        *out = (struct group_range){0};
        return true;
    }
    const float magnitude = -low > high ? -low : high;
    if (in_order(0x7f800000) <= greatest || in_order((int32_t)0xff800000) >= least ||
        (double)magnitude < MAGNITUDE_MIN || (double)magnitude >= MAGNITUDE_MAX) {
        return false;
    }
    if (least == greatest) {
        *out = (struct group_range){.lo = low};
        return true;
    }
    double inverse;
    const double grid = power_below(magnitude, &inverse) * GRID;
    inverse /= GRID;
    if (symmetric || (least < -1 && (size_t)count_zeros(x, count) * 8 > count)) {
        const double codes = (double)((1u << (bits - 1)) - 1);
        const double scale = round_up((double)magnitude * inverse / codes) * grid;
        *out = (struct group_range){.lo = (float)(-codes * scale), .scale = (float)scale};
        return true;
    }
    const double lo = round_down((double)low * inverse) * grid;
    const double codes = (double)((1u << bits) - 1);
    const double scale = round_up(((double)high - lo) * inverse / codes) * grid;
    *out = (struct group_range){.lo = (float)lo, .scale = (float)scale};
    return true;
}

bool group_is_valid(const struct group_range *range, unsigned bits)
{
    const float last = range->lo + (float)((1u << bits) - 1) * range->scale;
    /* False for NaN too. */
    return range->scale >= 0 && range->lo >= -0x1p127f && range->lo <= 0x1p127f && last <= 0x1p127f;
}

/* ---- codes ---- */

INLINE void quantise(const float *x, const struct group_range *range, unsigned char *code)
{
    const float lo = range->lo;
    const float scale = range->scale;
    const float half = scale > 0 ? scale * 0.5f : 1.0f;
    const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (size_t i = 0; i < CODEC_GROUP; i++) {
        /* Adding 1.5 * 2^23 rounds to an integer. The product is rounded before that, but the
         * distance to the value of the code is exact. A value midway between two codes gets the
         * upper one. */
        const float rounded = ((x[i] - lo) * inverse + 0x1.8p23f) - 0x1.8p23f;
        const float off = x[i] - (lo + rounded * scale);
        const float up = off >= half ? 1.0f : 0.0f;
        const float down = off < -half ? 1.0f : 0.0f;
        code[i] = (unsigned char)(int32_t)(rounded + up - down);
    }
}

INLINE void restore(const unsigned char *code, const struct group_range *range, float *x)
{
    const float lo = range->lo;
    const float scale = range->scale;
    for (size_t i = 0; i < CODEC_GROUP; i++) {
        x[i] = lo + (float)code[i] * scale;
    }
}

/* Pack eight codes of one byte each into the lowest 8 * bits bits. */
INLINE uint64_t close_up(uint64_t codes, unsigned bits)
{
    const uint64_t bytes = UINT64_C(0x00ff00ff00ff00ff);
    const uint64_t halves = UINT64_C(0x0000ffff0000ffff);
    const uint64_t pairs = (codes & bytes) | (codes >> 8 & bytes) << bits;
    const uint64_t fours = (pairs & halves) | (pairs >> 16 & halves) << 2 * bits;
    return (fours & UINT32_MAX) | (fours >> 32) << 4 * bits;
}

/* The reverse of close_up. */
INLINE uint64_t spread_out(uint64_t packed, unsigned bits)
{
    const uint64_t four = (UINT64_C(1) << 4 * bits) - 1;
    const uint64_t two = ((UINT64_C(1) << 2 * bits) - 1) * UINT64_C(0x0000000100000001);
    const uint64_t one = ((UINT64_C(1) << bits) - 1) * UINT64_C(0x0001000100010001);
    const uint64_t fours = (packed & four) | (packed >> 4 * bits & four) << 32;
    const uint64_t pairs = (fours & two) | (fours >> 2 * bits & two) << 16;
    return (pairs & one) | (pairs >> bits & one) << 8;
}

/* The bytes of a word are in little-endian order: libtrain supports no other machines. */
INLINE void pack(const unsigned char *code, unsigned bits, unsigned char *out)
{
    uint64_t word[WORDS];
    memcpy(word, code, sizeof(word));
    for (size_t i = 0; i < WORDS; i++) {
        word[i] = close_up(word[i], bits);
    }
    /* Write all eight bytes of a word: the next word overwrites the surplus bytes. */
    for (size_t i = 0; i + 4 < WORDS; i++) {
        memcpy(out + i * bits, &word[i], sizeof(word[i]));
    }
    for (size_t i = WORDS - 4; i < WORDS; i++) {
        memcpy(out + i * bits, &word[i], bits);
    }
}

INLINE void unpack(const unsigned char *in, unsigned bits, unsigned char *code)
{
    uint64_t word[WORDS];
    for (size_t i = 0; i + 4 < WORDS; i++) {
        memcpy(&word[i], in + i * bits, sizeof(word[i]));
    }
    for (size_t i = WORDS - 4; i < WORDS; i++) {
        word[i] = 0;
        memcpy(&word[i], in + i * bits, bits);
    }
    for (size_t i = 0; i < WORDS; i++) {
        word[i] = spread_out(word[i], bits);
    }
    memcpy(code, word, sizeof(word));
}

SIMD_CLONES static void encode_8(const float *x, const struct group_range *range,
                                 unsigned char *out)
{
    quantise(x, range, out);
}

SIMD_CLONES static void decode_8(const unsigned char *in, const struct group_range *range, float *x)
{
    restore(in, range, x);
}

#define DEFINE_PACKED(bits)                                                                        \
    SIMD_CLONES static void encode_##bits(const float *x, const struct group_range *range,         \
                                          unsigned char *out)                                      \
    {                                                                                              \
        unsigned char code[CODEC_GROUP];                                                           \
        quantise(x, range, code);                                                                  \
        pack(code, bits, out);                                                                     \
    }                                                                                              \
                                                                                                   \
    SIMD_CLONES static void decode_##bits(const unsigned char *in,                                 \
                                          const struct group_range *range, float *x)               \
    {                                                                                              \
        unsigned char code[CODEC_GROUP];                                                           \
        unpack(in, bits, code);                                                                    \
        restore(code, range, x);                                                                   \
    }

DEFINE_PACKED(6)
DEFINE_PACKED(4)
DEFINE_PACKED(3)
DEFINE_PACKED(2)

void group_encode(const float *x, const struct group_range *range, unsigned bits,
                  unsigned char *out)
{
    switch (bits) {
    case 8: encode_8(x, range, out); break;
    case 6: encode_6(x, range, out); break;
    case 4: encode_4(x, range, out); break;
    case 3: encode_3(x, range, out); break;
    default: ASSERT(bits == 2); encode_2(x, range, out);
    }
}

void group_decode(const unsigned char *in, const struct group_range *range, unsigned bits, float *x)
{
    switch (bits) {
    case 8: decode_8(in, range, x); break;
    case 6: decode_6(in, range, x); break;
    case 4: decode_4(in, range, x); break;
    case 3: decode_3(in, range, x); break;
    default: ASSERT(bits == 2); decode_2(in, range, x);
    }
}
