/* An archive of WAV files as a data set of spectrograms: frames x bands x 1, float32. */
#include <stdlib.h>

#include "base/elementary.h"
#include "libtrain/formats/labelled_tar.h"
#include "libtrain/formats/log_mel.h"
#include "libtrain/formats/part.h"
#include "libtrain/formats/wav.h"

struct sound {
    uint32_t rate;
    size_t samples; /* of a clip */
    double *wave;   /* [samples] */
    struct log_mel *plan;
};

static void sound_done(struct sound *sound)
{
    free(sound->wave);
    log_mel_free(&sound->plan);
}

static int sound_open(struct sound *sound, const struct reading *reading, struct err *err)
{
    const size_t rate = (size_t)reading->sound;
    const struct log_mel_form form = {
        .rate = rate,
        .samples = rate * (size_t)reading->clip_ms / 1000,
        .window = rate * (size_t)reading->window_ms / 1000,
        .hop = rate * (size_t)reading->hop_ms / 1000,
        .mels = (size_t)reading->mels,
        .floor = elementary_exp((double)-reading->floor_db / 10.0 * ELEMENTARY_LN10),
    };
    int rc = log_mel_new(&form, &sound->plan, err);
    if (rc) {
        return rc;
    }
    sound->rate = (uint32_t)rate;
    sound->samples = form.samples;
    sound->wave = malloc(form.samples * sizeof(*sound->wave));
    return sound->wave
               ? 0
               : err_set(err, ERR_MEMORY, "no memory for clips of %zu samples", form.samples);
}

static int read_sample(void *arg, struct stream *stream, void *sample, struct err *err)
{
    struct sound *sound = arg;
    int rc = wav_read(stream, sound->rate, sound->wave, sound->samples, err);
    if (rc == 0) {
        log_mel_run(sound->plan, sound->wave, sample);
    }
    return rc;
}

int sound_convert(const struct files *files, const struct reading *reading,
                  const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                  struct dataset_info *out, struct err *err)
{
    struct sound sound AUTO(sound_done) = {0};
    int rc = sound_open(&sound, reading, err);
    if (rc) {
        return rc;
    }
    struct labelled_samples samples = {.h = (uint32_t)log_mel_frames(sound.plan),
                                       .w = (uint32_t)reading->mels,
                                       .c = 1,
                                       .dtype = DTYPE_F32,
                                       .read = read_sample,
                                       .arg = &sound};
    reading_write(reading, samples.reading);
    return labelled_tar_convert(files, (enum dataset_label)reading->label, &samples, limits, sink,
                                arg, out, err);
}
