/* wav.h: the samples of a WAV file. Private to libtrain/formats. One thread. Source: Microsoft,
 * "Multimedia Programming Interface and Data Specifications 1.0" (RIFF WAVE), and
 * WAVEFORMATEXTENSIBLE. */
#ifndef LIBTRAIN_FORMATS_WAV_H
#define LIBTRAIN_FORMATS_WAV_H

#include "libtrain/formats/stream.h"

#define WAV_CHANNELS_MAX 8

/* Read a file to its end: its first `count` samples to wave[count], in -1 to 1, channels averaged;
 * zeros where it is shorter. PCM of 8, 16, 24 or 32 bits, floats of 32 or 64, `rate` samples a
 * second. Errors name stream->name: ERR_FORMAT for a file that is not WAV, or has wrong sizes;
 * ERR_UNSUPPORTED for other kinds and rates; ERR_INVALID for no samples, and for floats that are
 * not finite or far outside -1 to 1. */
NODISCARD int wav_read(struct stream *stream, uint32_t rate, double *wave, size_t count,
                       struct err *err);

#endif
