/* elementary.h: our own exp, log and cosine, so that the bits of a loss or a spectrum do not depend
 * on the version of libm. Any room, any thread. */
#ifndef BASE_ELEMENTARY_H
#define BASE_ELEMENTARY_H

#define ELEMENTARY_LN10 0x1.26bb1bbb55516p+1 /* log(10), rounded */

/* Return e^x; 0 below -708, infinity above 709; NaN for NaN. Relative error below 1e-15. */
double elementary_exp(double x);
/* Return the natural logarithm of a normal x > 0; NaN for NaN and below zero, -infinity for 0 and
 * denormals, infinity for infinity. Relative error below 1e-15. */
double elementary_log(double x);
/* Return cos(2 pi turns) for |turns| < 2^51; exact at every quarter of a turn, else with an error
 * below 4e-16. A sine is the cosine a quarter of a turn before. */
double elementary_cos_turns(double turns);

#endif
