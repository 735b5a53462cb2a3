/* Copies stored samples into a batch. Crop and flip only move stored numbers. The border of a crop
 * is stored zeros, as in torchvision's RandomCrop on images of bytes. */
#include <string.h>

#include "base/rng.h"
#include "libtrain/train.h"

struct train_loader train_loader_of(const struct model *model, const struct augment *augment,
                                    size_t augment_count, uint64_t seed,
                                    const unsigned char *inputs)
{
    const struct augment *crop = augment_find(augment, augment_count, AUGMENT_CROP);
    return (struct train_loader){
        .inputs = inputs,
        .shape = model->input,
        .element_bytes = dtype_size(model->input_dtype),
        .padding = crop ? (size_t)crop->padding : 0,
        .flip = augment_find(augment, augment_count, AUGMENT_FLIP) != NULL,
        .seed = seed,
    };
}

/* The position of the window in the padded sample, and whether it is mirrored. */
struct window {
    size_t row, column; /* each from 0 to 2 * padding */
    bool flipped;
};

/* Draw the window of the sample at `position` of the batch. Each draw uses one block, so that an
 * augmentation draws the same values with and without the others. An offset is a word times the
 * number of offsets, shifted by 32 bits: its bias is below 2^-20. */
static struct window draw(const struct train_loader *loader, const struct rng_stream *stream,
                          size_t position)
{
    const struct rng_block block = rng_block(stream, position);
    const uint64_t offsets = 2 * (uint64_t)loader->padding + 1;
    return (struct window){
        .row = (size_t)(block.word[0] * offsets >> 32),
        .column = (size_t)(block.word[1] * offsets >> 32),
        .flipped = loader->flip && block.word[2] >> 31,
    };
}

/* A line of `length` lies between two paddings. A window of the same length starts at `at`. Its
 * part [*first, *end) is not padding. */
static void overlap(size_t length, size_t padding, size_t at, size_t *first, size_t *end)
{
    const size_t before = padding > at ? padding - at : 0;
    const size_t skipped = at > padding ? at - padding : 0;
    *first = before < length ? before : length;
    *end = skipped < length ? length - skipped : 0;
}

static void reverse(size_t count, size_t size, const unsigned char *from, unsigned char *to)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * size, from + (count - 1 - i) * size, size);
    }
}

/* Copy the window of one sample. A flipped window is written in reverse order of its columns. */
static void load_window(const struct train_loader *loader, struct window window,
                        const unsigned char *from, unsigned char *to)
{
    const struct shape shape = loader->shape;
    const size_t pixel = shape.c * loader->element_bytes;
    const size_t line = shape.w * pixel;
    size_t top, bottom, left, right;
    overlap(shape.h, loader->padding, window.row, &top, &bottom);
    overlap(shape.w, loader->padding, window.column, &left, &right);
    for (size_t h = 0; h < shape.h; h++) {
        unsigned char *out = to + h * line;
        if (h < top || h >= bottom || left >= right) {
            memset(out, 0, line);
            continue;
        }
        const unsigned char *in = from + (h + window.row - loader->padding) * line;
        const size_t first = window.flipped ? shape.w - right : left;
        const size_t count = right - left;
        in += (left + window.column - loader->padding) * pixel;
        memset(out, 0, first * pixel);
        if (window.flipped) {
            reverse(count, pixel, in, out + first * pixel);
        } else {
            memcpy(out + first * pixel, in, count * pixel);
        }
        memset(out + (first + count) * pixel, 0, (shape.w - first - count) * pixel);
    }
}

void train_load(const struct train_loader *loader, int64_t step, size_t first, size_t count,
                const uint32_t *sample, void *out)
{
    const size_t bytes = shape_elements(loader->shape) * loader->element_bytes;
    const struct rng_stream stream = rng_stream(loader->seed, RNG_AUGMENT, (uint64_t)step, 0);
    unsigned char *to = out;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *from = loader->inputs + sample[i] * bytes;
        if (loader->padding > 0 || loader->flip) {
            load_window(loader, draw(loader, &stream, first + i), from, to + i * bytes);
        } else {
            memcpy(to + i * bytes, from, bytes);
        }
    }
}
