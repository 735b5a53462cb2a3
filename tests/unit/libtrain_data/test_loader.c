/* Samples in a batch against a loader that works pixel by pixel; random draws; unchanged
 * samples. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "libtrain/train.h"
#include "tests/support/test.h"

#define SAMPLES 7
#define BATCH 64
#define SEED 5

/* Seven samples whose bytes all differ from zero, after one byte so that nothing is aligned. */
struct samples {
    struct train_loader loader;
    size_t bytes; /* of one */
    unsigned char *memory, *out;
    uint32_t index[BATCH];
};

static struct samples samples_of(struct shape shape, enum dtype dtype,
                                 const struct augment *augment, size_t count)
{
    const struct model model = {.input = shape, .input_dtype = dtype};
    struct samples samples = {.bytes = shape_elements(shape) * dtype_size(dtype)};
    samples.memory = malloc(SAMPLES * samples.bytes + 1);
    samples.out = malloc(BATCH * samples.bytes);
    assert_true(samples.memory && samples.out);
    for (size_t i = 0; i < SAMPLES * samples.bytes; i++) {
        samples.memory[i + 1] = (unsigned char)(1 + i * 37 % 255);
    }
    for (size_t i = 0; i < BATCH; i++) {
        samples.index[i] = (uint32_t)(i * 3 % SAMPLES);
    }
    samples.loader = train_loader_of(&model, augment, count, SEED, samples.memory + 1);
    return samples;
}

static void samples_done(struct samples *samples)
{
    free(samples->memory);
    free(samples->out);
}

/* Byte k of pixel (h, w) of the padded sample. */
static unsigned char padded(const struct samples *samples, const unsigned char *sample, size_t h,
                            size_t w, size_t k)
{
    const struct shape shape = samples->loader.shape;
    const size_t padding = samples->loader.padding;
    const size_t pixel = shape.c * samples->loader.element_bytes;
    if (h < padding || w < padding || h - padding >= shape.h || w - padding >= shape.w) {
        return 0;
    }
    return sample[((h - padding) * shape.w + w - padding) * pixel + k];
}

static bool is_view(const struct samples *samples, const unsigned char *sample,
                    const unsigned char *view, size_t row, size_t column, bool flipped)
{
    const struct shape shape = samples->loader.shape;
    const size_t pixel = shape.c * samples->loader.element_bytes;
    for (size_t i = 0; i < samples->bytes; i++) {
        const size_t w = i / pixel % shape.w;
        const size_t from = flipped ? shape.w - 1 - w : w;
        if (view[i] !=
            padded(samples, sample, row + i / pixel / shape.w, column + from, i % pixel)) {
            return false;
        }
    }
    return true;
}

/* Each loaded sample is the view that the draws of its position say. */
static void check_views(struct shape shape, enum dtype dtype, int64_t padding, bool flip)
{
    struct augment augment[2] = {{.type = AUGMENT_CROP, .padding = padding},
                                 {.type = AUGMENT_FLIP}};
    struct samples samples = samples_of(shape, dtype, padding > 0 ? augment : augment + 1,
                                        (size_t)(padding > 0) + (size_t)flip);
    const uint64_t offsets = 2 * (uint64_t)padding + 1;
    for (int64_t step = 1; step < 5; step++) {
        const struct rng_stream stream = rng_stream(SEED, RNG_AUGMENT, (uint64_t)step, 0);
        train_load(&samples.loader, step, 0, BATCH, samples.index, samples.out);
        for (size_t i = 0; i < BATCH; i++) {
            const size_t row = (size_t)(rng_word(&stream, 4 * i) * offsets >> 32);
            const size_t column = (size_t)(rng_word(&stream, 4 * i + 1) * offsets >> 32);
            const bool flipped = flip && rng_word(&stream, 4 * i + 2) >= 0x80000000u;
            assert_true(is_view(&samples, samples.memory + 1 + samples.index[i] * samples.bytes,
                                samples.out + i * samples.bytes, row, column, flipped));
        }
    }
    samples_done(&samples);
}

static void crops_and_flips_equal_a_loop_over_pixels(void **state)
{
    (void)state;
    static const struct shape shapes[] = {{6, 5, 3}, {5, 6, 1}, {2, 9, 4}, {1, 1, 2}, {3, 1, 1}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int64_t padding = 0; padding < 12; padding += padding < 4 ? 1 : 5) {
            check_views(shapes[i], DTYPE_U8, padding, true);
            check_views(shapes[i], DTYPE_F32, padding, true);
            check_views(shapes[i], DTYPE_U8, padding, false);
        }
    }
}

static void a_draw_is_a_function_of_seed_step_and_position_in_the_batch(void **state)
{
    (void)state;
    static const struct augment augment[] = {{.type = AUGMENT_CROP, .padding = 4},
                                             {.type = AUGMENT_FLIP}};
    struct samples samples = samples_of((struct shape){8, 8, 3}, DTYPE_U8, augment, 2);
    const size_t bytes = BATCH * samples.bytes;
    unsigned char *parts = malloc(bytes);
    assert_non_null(parts);
    train_load(&samples.loader, 9, 0, BATCH, samples.index, samples.out);
    for (size_t micro_batch = 1; micro_batch <= BATCH; micro_batch *= 4) {
        for (size_t first = BATCH; first > 0; first -= micro_batch) {
            const size_t at = first - micro_batch;
            train_load(&samples.loader, 9, at, micro_batch, samples.index + at,
                       parts + at * samples.bytes);
        }
        assert_memory_equal(parts, samples.out, bytes);
    }
    train_load(&samples.loader, 10, 0, BATCH, samples.index, parts);
    assert_memory_not_equal(parts, samples.out, bytes);
    samples.loader.seed++;
    train_load(&samples.loader, 9, 0, BATCH, samples.index, parts);
    assert_memory_not_equal(parts, samples.out, bytes);
    /* A crop without a flip beside it lies where it lay with one. */
    struct train_loader plain = samples.loader;
    plain.flip = false;
    samples.loader.padding = 4;
    train_load(&plain, 9, 0, BATCH, samples.index, samples.out);
    size_t same = 0;
    for (size_t i = 0; i < BATCH; i++) {
        same +=
            memcmp(parts + i * samples.bytes, samples.out + i * samples.bytes, samples.bytes) == 0;
    }
    assert_in_range(same, BATCH / 4, 3 * BATCH / 4);
    free(parts);
    samples_done(&samples);
}

static void each_place_of_a_crop_and_each_side_are_about_equally_likely(void **state)
{
    (void)state;
    static const struct augment augment[] = {{.type = AUGMENT_CROP, .padding = 1},
                                             {.type = AUGMENT_FLIP}};
    struct samples samples = samples_of((struct shape){4, 4, 1}, DTYPE_U8, augment, 2);
    const unsigned char *first = samples.memory + 1;
    size_t count[3][3][2] = {{{0}}};
    memset(samples.index, 0, sizeof(samples.index));
    for (int64_t step = 1; step <= 200; step++) {
        train_load(&samples.loader, step, 0, BATCH, samples.index, samples.out);
        for (size_t i = 0; i < BATCH; i++) {
            for (size_t view = 0; view < 18; view++) {
                count[view / 6][view / 2 % 3][view % 2] +=
                    is_view(&samples, first, samples.out + i * samples.bytes, view / 6,
                            view / 2 % 3, view % 2 != 0);
            }
        }
    }
    for (size_t view = 0; view < 18; view++) { /* 711 each, with a deviation of 26 */
        assert_in_range(count[view / 6][view / 2 % 3][view % 2], 580, 840);
    }
    samples_done(&samples);
}

static void without_crop_and_flip_samples_are_loaded_unchanged(void **state)
{
    (void)state;
    static const struct augment normalise = {.type = AUGMENT_NORMALISE};
    for (size_t count = 0; count < 2; count++) {
        struct samples samples = samples_of((struct shape){3, 5, 2}, DTYPE_F32, &normalise, count);
        train_load(&samples.loader, 1, 0, BATCH, samples.index, samples.out);
        for (size_t i = 0; i < BATCH; i++) {
            assert_memory_equal(samples.out + i * samples.bytes,
                                samples.memory + 1 + samples.index[i] * samples.bytes,
                                samples.bytes);
        }
        samples_done(&samples);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crops_and_flips_equal_a_loop_over_pixels),
        cmocka_unit_test(a_draw_is_a_function_of_seed_step_and_position_in_the_batch),
        cmocka_unit_test(each_place_of_a_crop_and_each_side_are_about_equally_likely),
        cmocka_unit_test(without_crop_and_flip_samples_are_loaded_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
