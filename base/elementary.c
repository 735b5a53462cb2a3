#include "base/elementary.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LN2_HIGH 0x1.62e42fee00000p-1 /* 33 bits: k * LN2_HIGH is exact */
#define LN2_LOW 0x1.a39ef35793c76p-33
#define INVERSE_LN2 0x1.71547652b82fep0
#define TWO_PI 0x1.921fb54442d18p+2
#define ROUND 0x1.8p52 /* adding and subtracting it rounds to an integer */

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* x = k ln 2 + r, |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 13 (remainder below
 * 4e-18). */
double elementary_exp(double x)
{
    static const double factor[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                                    1.0 / 3628800.0,    1.0 / 362880.0,    1.0 / 40320.0,
                                    1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,
                                    1.0 / 24.0,         1.0 / 6.0,         0.5};
    if (x != x) {
        return x;
    }
    if (x < -708.0) {
        return 0.0;
    }
    if (x > 709.0) {
        return __builtin_inf();
    }
    double k = x * INVERSE_LN2 + ROUND - ROUND;
    double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double sum = factor[0];
    for (size_t i = 1; i < sizeof(factor) / sizeof(factor[0]); i++) {
        sum = sum * r + factor[i];
    }
    double value = 1.0 + (r + r * r * sum);
    /* 2^k in two factors: k may be 1023 and the value just below 2, or k -1021 and the value
     * below 1. */
    int64_t half = (int64_t)k / 2;
    int64_t rest = (int64_t)k - half;
    return value * from_bits((uint64_t)(1023 + half) << 52) *
           from_bits((uint64_t)(1023 + rest) << 52);
}

/* x = m 2^k with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), by its
 * series up to s^21. */
double elementary_log(double x)
{
    if (x != x || x < 0.0) {
        return __builtin_nan("");
    }
    if (x < 0x1p-1022) {
        return -__builtin_inf();
    }
    if (x > 0x1.fffffffffffffp1023) {
        return x;
    }
    uint64_t bits = to_bits(x);
    int64_t exponent = (int64_t)(bits >> 52) - 1023;
    double m = from_bits((bits & 0xfffffffffffffu) | UINT64_C(1023) << 52);
    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        exponent++;
    }
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double square = s * s;
    double sum = 0.0;
    for (int n = 21; n >= 3; n -= 2) {
        sum = (sum + 1.0 / (double)n) * square;
    }
    /* log m = 2 s + 2 s sum, and 2 s = f - f s: f carries the leading bits exactly. */
    double k = (double)exponent;
    return k * LN2_HIGH + (f - (f * s - (2.0 * s * sum + k * LN2_LOW)));
}

/* The sum of factor[i] x^i, by Horner's rule from the last. */
static double polynomial(const double *factor, size_t count, double x)
{
    double sum = factor[count - 1];
    for (size_t i = count - 1; i > 0; i--) {
        sum = sum * x + factor[i - 1];
    }
    return sum;
}

/* Every reduction, to the nearest whole turn, half and quarter, is exact. The remainder is at most
 * an eighth of a turn, where the Taylor polynomials of degree 17 and 16 have remainders below
 * 3e-18. */
double elementary_cos_turns(double turns)
{
    static const double sine[] = {1.0,
                                  -1.0 / 6.0,
                                  1.0 / 120.0,
                                  -1.0 / 5040.0,
                                  1.0 / 362880.0,
                                  -1.0 / 39916800.0,
                                  1.0 / 6227020800.0,
                                  -1.0 / 1307674368000.0,
                                  1.0 / 355687428096000.0};
    static const double cosine[] = {1.0,
                                    -0.5,
                                    1.0 / 24.0,
                                    -1.0 / 720.0,
                                    1.0 / 40320.0,
                                    -1.0 / 3628800.0,
                                    1.0 / 479001600.0,
                                    -1.0 / 87178291200.0,
                                    1.0 / 20922789888000.0};
    double left = turns - (turns + ROUND - ROUND);
    left = left < 0.0 ? -left : left;
    const double sign = left > 0.25 ? -1.0 : 1.0;
    left = left > 0.25 ? 0.5 - left : left;
    if (left > 0.125) {
        const double t = (0.25 - left) * TWO_PI;
        return sign * (t * polynomial(sine, sizeof(sine) / sizeof(sine[0]), t * t));
    }
    const double t = left * TWO_PI;
    return sign * polynomial(cosine, sizeof(cosine) / sizeof(cosine[0]), t * t);
}
