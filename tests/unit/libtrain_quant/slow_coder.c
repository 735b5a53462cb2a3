#include "tests/unit/libtrain_quant/slow_coder.h"

#include <math.h>
#include <string.h>

static void choose(const float *x, size_t count, unsigned bits, bool symmetric,
                   struct slow_group *out)
{
    double low = INFINITY, high = -INFINITY, magnitude = 0;
    size_t zeros = 0;
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        finite = finite && isfinite(x[i]);
        low = fmin(low, (double)x[i]);
        high = fmax(high, (double)x[i]);
        magnitude = fmax(magnitude, fabs((double)x[i]));
        zeros += fpclassify(x[i]) == FP_ZERO;
    }
    if (finite && zeros == count) {
        return;
    }
    if (!finite || magnitude < ldexp(1, -80) || magnitude >= ldexp(1, 126)) {
        out->raw = true;
        out->scale = -1;
        return;
    }
    int exponent;
    (void)frexp(magnitude, &exponent);
    const double grid = ldexp(1, exponent - 1 - 21);
    out->lo = (float)low;
    if (low >= high) {
        return;
    }
    if (symmetric || (low < 0 && 8 * zeros > count)) {
        const double codes = (1 << (bits - 1)) - 1;
        out->scale = (float)(ceil(magnitude / codes / grid) * grid);
        out->lo = (float)(-codes * (double)out->scale);
    } else {
        const double codes = (1 << bits) - 1;
        out->lo = (float)(floor(low / grid) * grid);
        out->scale = (float)(ceil((high - (double)out->lo) / codes / grid) * grid);
    }
}

void slow_group(const float *x, size_t count, unsigned bits, bool symmetric, struct slow_group *out)
{
    memset(out, 0, sizeof(*out));
    choose(x, count, bits, symmetric, out);
    for (size_t i = 0; i < count; i++) {
        if (out->raw) {
            out->value[i] = x[i];
            continue;
        }
        if (out->scale > 0) {
            out->code[i] =
                (unsigned char)floor(((double)x[i] - (double)out->lo) / (double)out->scale + 0.5);
        }
        out->value[i] = (float)((double)out->lo + out->code[i] * (double)out->scale);
    }
}

size_t slow_tensor(const float *x, size_t n, unsigned bits, bool symmetric, unsigned char *coded,
                   float *decoded)
{
    unsigned char *table = coded;
    unsigned char *codes = coded + (n + 255) / 256 * 8;
    for (size_t first = 0; first < n; first += 256) {
        const size_t count = n - first < 256 ? n - first : 256;
        struct slow_group group;
        slow_group(x + first, count, bits, symmetric, &group);
        memcpy(table, &group.lo, 4);
        memcpy(table + 4, &group.scale, 4);
        table += 8;
        memcpy(decoded + first, group.value, count * sizeof(float));
        if (group.raw) {
            memcpy(codes, x + first, count * sizeof(float));
            codes += count * sizeof(float);
            continue;
        }
        memset(codes, 0, (count * bits + 7) / 8);
        for (size_t bit = 0; bit < count * bits; bit++) {
            const unsigned one = group.code[bit / bits] >> bit % bits & 1u;
            codes[bit / 8] = (unsigned char)(codes[bit / 8] | one << bit % 8);
        }
        codes += (count * bits + 7) / 8;
    }
    return (size_t)(codes - coded);
}
