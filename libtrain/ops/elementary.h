/* elementary.h: exp and log of libtrain's own, so that no version of libm decides bits. Relative error below 1e-15.
 * Any thread. */
#ifndef LIBTRAIN_OPS_ELEMENTARY_H
#define LIBTRAIN_OPS_ELEMENTARY_H

/* e^x; 0 below -708, infinity above 709; NaN for NaN. */
double elementary_exp(double x);
/* Natural logarithm of a normal x > 0; NaN for NaN and below zero, -infinity for 0 and denormals, infinity for
 * infinity. */
double elementary_log(double x);

#endif
