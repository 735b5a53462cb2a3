/* Images of every supported kind equal Pillow's pixels, to the last bit: make_image_fixtures.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "libtrain/images/image.h"
#include "tests/golden/fixture.h"
#include "tests/support/test.h"

#define HEIGHT 17
#define WIDTH 22

static struct fixture images;

static int setup(void **state)
{
    (void)state;
    fixture_open(&images, "images");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_close(&images);
    return 0;
}

static void load(const char *name, struct buf *out)
{
    char path[256];
    struct err err = {0};
    (void)snprintf(path, sizeof(path), TEST_SOURCE_DIR "/tests/golden/images/%s", name);
    buf_init(out, 1 << 16);
    assert_ok(file_read(path, out, &err), &err);
}

/* Read the image twice with one reader: the second time nothing is left of the first. */
static void check(const char *name, uint32_t channels, struct image_size size, const char *key)
{
    BUF_AUTO struct buf file;
    struct image_reader *reader = NULL;
    struct err err = {0};
    size_t count = 0;
    load(name, &file);
    const uint8_t *expected = fixture_data(&images, key, DTYPE_U8, &count);
    assert_non_null(expected);
    assert_int_equal(count, size.h * size.w * channels);
    uint8_t *out = malloc(count);
    assert_non_null(out);
    assert_ok(image_reader_new(size, channels, &reader, &err), &err);
    for (int i = 0; i < 2; i++) {
        memset(out, 0xAA, count);
        assert_ok(image_read(reader, (const uint8_t *)file.data, file.size, out, &err), &err);
        if (memcmp(out, expected, count) != 0) {
            fail_msg("%s differs", key);
        }
    }
    image_reader_free(&reader);
    free(out);
}

static const char *const names[] = {
    "alpha.png",   "bits.png",       "colour.jpg",     "colour.png", "deep.png",
    "fine.jpg",    "grey-alpha.png", "grey.jpg",       "grey.png",   "interlaced-grey.png",
    "palette.png", "interlaced.png", "progressive.jpg"};
#define NAMES (sizeof(names) / sizeof(names[0]))

static void images_of_every_kind_are_decoded_to_the_pixels_of_pillow(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        for (uint32_t channels = 1; channels <= 3; channels += 2) {
            char key[64];
            (void)snprintf(key, sizeof(key), "%s.%u", names[i], channels);
            check(names[i], channels, (struct image_size){HEIGHT, WIDTH}, key);
        }
    }
}

static void images_are_resized_to_the_pixels_of_pillow(void **state)
{
    (void)state;
    static const struct image_size sizes[] = {{8, 8}, {13, 40}, {23, 5}, {1, 1}};
    for (size_t i = 0; i < NAMES; i++) {
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            char key[64];
            (void)snprintf(key, sizeof(key), "%s.3.%ux%u", names[i], sizes[k].h, sizes[k].w);
            check(names[i], 3, sizes[k], key);
        }
    }
}

static void images_are_measured_without_being_decoded(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        BUF_AUTO struct buf file;
        struct image_size size = {0};
        struct err err = {0};
        load(names[i], &file);
        assert_true(image_recognise((const uint8_t *)file.data, 8));
        assert_ok(image_measure((const uint8_t *)file.data, file.size, &size, &err), &err);
        assert_int_equal(size.h, HEIGHT);
        assert_int_equal(size.w, WIDTH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_every_kind_are_decoded_to_the_pixels_of_pillow),
        cmocka_unit_test(images_are_resized_to_the_pixels_of_pillow),
        cmocka_unit_test(images_are_measured_without_being_decoded),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
