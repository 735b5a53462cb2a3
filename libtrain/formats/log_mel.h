/* log_mel.h: log-mel spectrograms: the logarithm of a sound's energy over time in bands of the mel
 * scale. In double and with elementary functions of our own: the same bits on every machine.
 * Private to libtrain/formats; one thread for each plan.
 *
 * A frame of `window` samples starts every `hop`. Each is multiplied by a periodic Hann window and
 * padded with zeros to the next power of two. Its power spectrum is summed under triangles of
 * height 1. Their corners are evenly spaced on the mel scale from 0 to rate / 2, mel(f) = 2595
 * log10(1 + f / 700) (HTK's; torchaudio's default). The result is ln(max(energy, floor)). */
#ifndef LIBTRAIN_FORMATS_LOG_MEL_H
#define LIBTRAIN_FORMATS_LOG_MEL_H

#include <stddef.h>

#include "base/err.h"

struct log_mel_form {
    size_t rate;        /* samples a second */
    size_t samples;     /* of a clip */
    size_t window, hop; /* samples */
    size_t mels;        /* bands */
    double floor;       /* energy, above 0 */
};

struct log_mel;

/* ERR_INVALID if a clip is shorter than a window, a window or hop has no samples, or a band is too
 * narrow for any frequency of the spectrum; ERR_MEMORY. */
NODISCARD int log_mel_new(const struct log_mel_form *form, struct log_mel **out, struct err *err);
void log_mel_free(struct log_mel **plan);
/* Number of frames of a clip. */
size_t log_mel_frames(const struct log_mel *plan);
/* Convert wave[samples] to out[frames][mels]. */
void log_mel_run(struct log_mel *plan, const double *wave, float *out);

#endif
