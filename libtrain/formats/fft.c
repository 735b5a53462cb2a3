#include "libtrain/formats/fft.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/elementary.h"

struct complex_number {
    double re, im;
};

/* `size` real numbers are transformed as size / 2 complex numbers. The result is then split. */
struct fft {
    size_t size;
    struct complex_number *root; /* [size / 2]: e^(-2 pi i k / size) */
    size_t *place;               /* [size / 2]: the position of number i: its bits reversed */
    struct complex_number *work; /* [size / 2] */
};

void fft_free(struct fft **fft)
{
    if (*fft) {
        free((*fft)->root);
        free((*fft)->place);
        free((*fft)->work);
        free(*fft);
        *fft = NULL;
    }
}

int fft_new(size_t size, struct fft **out, struct err *err)
{
    ASSERT(size >= FFT_SIZE_MIN && (size & (size - 1)) == 0);
    struct fft *fft AUTO(fft_free) = calloc(1, sizeof(*fft));
    const size_t half = size / 2;
    if (!fft || !(fft->root = malloc(half * sizeof(*fft->root))) ||
        !(fft->place = malloc(half * sizeof(*fft->place))) ||
        !(fft->work = malloc(half * sizeof(*fft->work)))) {
        return err_set(err, ERR_MEMORY, "no memory for a spectrum of %zu", size);
    }
    fft->size = size;
    fft->place[0] = 0;
    for (size_t i = 0; i < half; i++) {
        const double turns = (double)i / (double)size; /* exact, and so is a quarter more */
        fft->root[i] = (struct complex_number){elementary_cos_turns(turns),
                                               elementary_cos_turns(turns + 0.25)};
        if (i > 0) {
            fft->place[i] = fft->place[i / 2] / 2 + (i % 2 ? half / 2 : 0);
        }
    }
    *out = fft;
    fft = NULL;
    return 0;
}

/* Transform `count` numbers in place. They are in the order of `place`. */
static void transform(const struct fft *fft, struct complex_number *z, size_t count)
{
    for (size_t span = 1; span < count; span *= 2) {
        const size_t stride = fft->size / (2 * span);
        for (size_t first = 0; first < count; first += 2 * span) {
            for (size_t k = 0; k < span; k++) {
                const struct complex_number w = fft->root[k * stride];
                struct complex_number *low = &z[first + k];
                struct complex_number *high = low + span;
                const struct complex_number t = {w.re * high->re - w.im * high->im,
                                                 w.re * high->im + w.im * high->re};
                *high = (struct complex_number){low->re - t.re, low->im - t.im};
                *low = (struct complex_number){low->re + t.re, low->im + t.im};
            }
        }
    }
}

void fft_power(struct fft *fft, const double *x, double *power)
{
    const size_t half = fft->size / 2;
    struct complex_number *z = fft->work;
    for (size_t i = 0; i < half; i++) {
        z[fft->place[i]] = (struct complex_number){x[2 * i], x[2 * i + 1]};
    }
    transform(fft, z, half);
    /* Even: (Z[k] + conj Z[-k]) / 2; odd: (Z[k] - conj Z[-k]) / 2i. */
    for (size_t k = 0; k <= half; k++) {
        const struct complex_number a = z[k % half];
        const struct complex_number b = z[(half - k) % half];
        const struct complex_number even = {0.5 * (a.re + b.re), 0.5 * (a.im - b.im)};
        const struct complex_number odd = {0.5 * (a.im + b.im), 0.5 * (b.re - a.re)};
        const struct complex_number w =
            k < half ? fft->root[k] : (struct complex_number){-1.0, 0.0};
        const double re = even.re + (w.re * odd.re - w.im * odd.im);
        const double im = even.im + (w.re * odd.im + w.im * odd.re);
        power[k] = re * re + im * im;
    }
}
