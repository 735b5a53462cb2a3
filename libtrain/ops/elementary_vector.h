/* elementary_vector.h: exp and the normal distribution without branches and tables, for loops that
 * a compiler vectorises. Every step is elementwise, so all ISAs give the same bits. Libtrain's own,
 * as base/elementary.h; the relative error is below 1e-10, enough for results that become floats.
 * Any thread. */
#ifndef LIBTRAIN_OPS_ELEMENTARY_VECTOR_H
#define LIBTRAIN_OPS_ELEMENTARY_VECTOR_H

#include <stdint.h>
#include <string.h>

/* Must be inlined: only then the caller's loop is vectorised. */
#define ELEMENTARY_INLINE static inline __attribute__((always_inline))

/* e^x for x <= 0: 0 below -708; NaN for NaN. */
ELEMENTARY_INLINE double elementary_exp_below_0(double x)
{
    double bounded = x < -708.0 ? -708.0 : x;
    /* x = k ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^52 rounds to an integer, which is then in the
     * lowest bits. */
    double rounded = bounded * 0x1.71547652b82fep0 + 0x1.8p52;
    double k = rounded - 0x1.8p52;
    double r = (bounded - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    /* Taylor's polynomial of degree 10: the remainder is below 4e-13. */
    double sum = 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    uint64_t bits;
    memcpy(&bits, &rounded, sizeof(bits));
    bits = (bits << 52) + (UINT64_C(1023) << 52); /* k >= -1022: a normal number */
    double power;
    memcpy(&power, &bits, sizeof(power));
    return x < -708.0 ? 0.0 : sum * power;
}

/* 1 / (1 + e^-x). */
ELEMENTARY_INLINE double elementary_sigmoid(double x)
{
    double e = elementary_exp_below_0(x < 0.0 ? x : -x);
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* The standard normal distribution function at x. *bell: exp(-x^2 / 2), the density times sqrt(2
 * pi). */
ELEMENTARY_INLINE double elementary_normal_share(double x, double *bell)
{
    double z = x < 0.0 ? -x : x;
    double exponential = elementary_exp_below_0(-0.5 * z * z);
    /* The share beyond z is exp(-z^2 / 2) t P(u), t = 1 / (1 + z / 5), u = 2 t - 1: the quotient is
     * smooth, and P is its interpolation at the zeros of Chebyshev's polynomial of degree 15
     * (relative error 2e-11 for all z). */
    double t = 1.0 / (1.0 + 0.2 * z);
    double u = 2.0 * t - 1.0;
    double sum = -3.1844258774695955e-07;
    sum = sum * u + -5.9510620190404078e-07;
    sum = sum * u + 3.0219753429122911e-06;
    sum = sum * u + 9.672405328664426e-06;
    sum = sum * u + -1.1648350246920706e-05;
    sum = sum * u + -0.00010877303237869652;
    sum = sum * u + -0.00015966375598652519;
    sum = sum * u + 0.00059859233714531417;
    sum = sum * u + 0.0041590318851543592;
    sum = sum * u + 0.013823744985752708;
    sum = sum * u + 0.033004071536576619;
    sum = sum * u + 0.062706629747193529;
    sum = sum * u + 0.099061123239271229;
    sum = sum * u + 0.13307650062041756;
    sum = sum * u + 0.15383860995001258;
    double beyond = exponential * (t * sum);
    *bell = exponential;
    return x < 0.0 ? beyond : 1.0 - beyond;
}

#endif
