#include "libtrain/formats/log_mel.h"

#include <stdlib.h>

#include "base/elementary.h"
#include "libtrain/formats/fft.h"

#define MEL_FACTOR 2595.0
#define MEL_CORNER_HZ 700.0

/* The frequencies of a band and their weights. */
struct band {
    size_t first, count; /* frequencies with a weight */
    const double *weight;
};

struct log_mel {
    struct log_mel_form form;
    size_t frames, bins;
    struct fft *fft;
    double *window;  /* [form.window] */
    double *padded;  /* [the spectrum's size]: zero after the window */
    double *power;   /* [bins] */
    double *weights; /* [2 bins]: a frequency lies in at most two bands */
    struct band *band;
};

void log_mel_free(struct log_mel **plan)
{
    if (*plan) {
        fft_free(&(*plan)->fft);
        free((*plan)->window);
        free((*plan)->padded);
        free((*plan)->power);
        free((*plan)->weights);
        free((*plan)->band);
        free(*plan);
        *plan = NULL;
    }
}

static double mel_of(double hertz)
{
    return MEL_FACTOR / ELEMENTARY_LN10 * elementary_log(1.0 + hertz / MEL_CORNER_HZ);
}

static double hertz_of(double mel)
{
    return MEL_CORNER_HZ * (elementary_exp(mel * (ELEMENTARY_LN10 / MEL_FACTOR)) - 1.0);
}

/* The frequency in Hz of corner `i` of the mels + 2 corners of all bands. */
static double corner(const struct log_mel_form *form, size_t i)
{
    return hertz_of(mel_of((double)form->rate / 2.0) * (double)i / (double)(form->mels + 1));
}

static int make_bands(struct log_mel *plan, struct err *err)
{
    const struct log_mel_form *form = &plan->form;
    double *weight = plan->weights;
    for (size_t m = 0; m < form->mels; m++) {
        const double low = corner(form, m);
        const double middle = corner(form, m + 1);
        const double high = corner(form, m + 2);
        struct band *band = &plan->band[m];
        band->weight = weight;
        for (size_t k = 0; k < plan->bins; k++) {
            const double hertz = (double)k * (double)form->rate / (double)(2 * (plan->bins - 1));
            const double up = (hertz - low) / (middle - low);
            const double down = (high - hertz) / (high - middle);
            const double value = up < down ? up : down;
            if (value > 0.0) {
                band->first = band->count == 0 ? k : band->first;
                band->count++;
                *weight++ = value;
            }
        }
        if (band->count == 0) {
            return err_set(err, ERR_INVALID,
                           "band %zu of %zu, %.0f to %.0f Hz, lies between two frequencies of the "
                           "spectrum: take fewer "
                           "bands or a longer window",
                           m + 1, form->mels, low, high);
        }
    }
    return 0;
}

/* The smallest power of two that holds a window. */
static size_t spectrum_size(size_t window)
{
    size_t size = FFT_SIZE_MIN;
    while (size < window) {
        size *= 2;
    }
    return size;
}

int log_mel_new(const struct log_mel_form *form, struct log_mel **out, struct err *err)
{
    if (form->window < 2 || form->hop < 1 || form->samples < form->window) {
        return err_set(
            err, ERR_INVALID,
            "clips of %zu samples cannot be cut into windows of %zu samples, one every %zu samples",
            form->samples, form->window, form->hop);
    }
    struct log_mel *plan AUTO(log_mel_free) = calloc(1, sizeof(*plan));
    if (!plan) {
        return err_set(err, ERR_MEMORY, "no memory for spectra");
    }
    const size_t size = spectrum_size(form->window);
    plan->form = *form;
    plan->bins = size / 2 + 1;
    plan->frames = 1 + (form->samples - form->window) / form->hop;
    plan->window = malloc(form->window * sizeof(double));
    plan->padded = calloc(size, sizeof(double));
    plan->power = malloc(plan->bins * sizeof(double));
    plan->weights = malloc(2 * plan->bins * sizeof(double));
    plan->band = calloc(form->mels, sizeof(*plan->band));
    if (!plan->window || !plan->padded || !plan->power || !plan->weights || !plan->band) {
        return err_set(err, ERR_MEMORY, "no memory for spectra of %zu", size);
    }
    for (size_t i = 0; i < form->window; i++) {
        plan->window[i] = 0.5 - 0.5 * elementary_cos_turns((double)i / (double)form->window);
    }
    int rc = fft_new(size, &plan->fft, err);
    rc = rc ? rc : make_bands(plan, err);
    if (rc == 0) {
        *out = plan;
        plan = NULL;
    }
    return rc;
}

size_t log_mel_frames(const struct log_mel *plan)
{
    return plan->frames;
}

void log_mel_run(struct log_mel *plan, const double *wave, float *out)
{
    const struct log_mel_form *form = &plan->form;
    for (size_t frame = 0; frame < plan->frames; frame++) {
        for (size_t i = 0; i < form->window; i++) {
            plan->padded[i] = wave[frame * form->hop + i] * plan->window[i];
        }
        fft_power(plan->fft, plan->padded, plan->power);
        for (size_t m = 0; m < form->mels; m++) {
            const struct band *band = &plan->band[m];
            double energy = 0.0;
            for (size_t k = 0; k < band->count; k++) {
                energy += band->weight[k] * plan->power[band->first + k];
            }
            *out++ = (float)elementary_log(energy > form->floor ? energy : form->floor);
        }
    }
}
