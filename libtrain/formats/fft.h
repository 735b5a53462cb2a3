/* fft.h: the power spectrum of real numbers, by Cooley and Tukey's algorithm of radix 2, in double
 * and in a fixed order of sums: the same bits on every machine. Private to libtrain/formats. One
 * thread for each plan. */
#ifndef LIBTRAIN_FORMATS_FFT_H
#define LIBTRAIN_FORMATS_FFT_H

#include <stddef.h>

#include "base/err.h"

#define FFT_SIZE_MIN 4

struct fft;

/* size: a power of two from FFT_SIZE_MIN. ERR_MEMORY. */
NODISCARD int fft_new(size_t size, struct fft **out, struct err *err);
void fft_free(struct fft **fft);
/* power[k] = |sum over n of x[n] e^(-2 pi i k n / size)|^2, k from 0 to size / 2. x[size],
 * power[size / 2 + 1]; no overlap. */
void fft_power(struct fft *fft, const double *x, double *power);

#endif
