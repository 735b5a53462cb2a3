/* Archives of images: their samples, and the rejection of hostile ones with the place. The pixels
 * themselves: tests/golden/test_golden_images.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "libtrain/images/image.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/images_support.h"

static void images_of_one_size_are_a_data_set_whose_classes_are_directories(void **state)
{
    (void)state;
    struct converted converted;
    put_tar_entry(&archive, "./", '5', "", 0);
    put_tar_entry(&archive, "./zebra/", '5', "", 0);
    put_tar_entry(&archive, "./zebra/.DS_Store", '0', "junk", 4);
    put_image("./zebra/1", "colour.png", 0);
    put_image("./ant/x.jpeg", "grey.jpg", 0);
    put_image("./zebra/2", "grey.png", 0);
    runs(NULL, &converted);
    assert_int_equal(converted.info.count, 3);
    assert_int_equal(converted.info.h, 17);
    assert_int_equal(converted.info.w, 22);
    assert_int_equal(converted.info.c, 3);
    assert_int_equal(converted.info.dtype, DTYPE_U8);
    assert_int_equal(converted.info.classes, 2);
    assert_int_equal(label_of(&converted, 0), 1);
    assert_int_equal(label_of(&converted, 1), 0);
    assert_int_equal(label_of(&converted, 2), 1);
    /* A grey image has three times the same number. */
    const uint8_t *grey = inputs_of(&converted) + 2 * PIXELS * 3;
    for (size_t i = 0; i < PIXELS; i++) {
        assert_true(grey[3 * i] == grey[3 * i + 1] && grey[3 * i] == grey[3 * i + 2]);
    }
    converted_done(&converted);
}

static void size_and_channels_follow_the_parameters(void **state)
{
    (void)state;
    struct converted converted;
    static const char *const said[] = {"size=8x12,channels=1", "channels=1", "size=20x30"};
    static const uint32_t shape[][3] = {{8, 12, 1}, {17, 22, 1}, {20, 30, 3}};
    for (size_t i = 0; i < 3; i++) {
        put_image("set/cat/1.png", "alpha.png", 0);
        put_image("set/dog/1.jpg", "progressive.jpg", 0);
        runs(said[i], &converted);
        assert_int_equal(converted.info.count, 2);
        assert_int_equal(converted.info.h, shape[i][0]);
        assert_int_equal(converted.info.w, shape[i][1]);
        assert_int_equal(converted.info.c, shape[i][2]);
        converted_done(&converted);
    }
}

static void an_archive_may_be_compressed(void **state)
{
    (void)state;
    struct converted plain, packed;
    struct err err = {0};
    put_image("cat/1.png", "colour.png", 0);
    runs(NULL, &plain);
    put_image("cat/1.png", "colour.png", 0);
    put_tar_end(&archive);
    compress_gzip(&archive);
    assert_ok(convert_archive(NULL, &packed, &err), &err);
    archive.size = 0;
    assert_int_equal(packed.file.size, plain.file.size);
    assert_memory_equal(packed.file.data, plain.file.data, plain.file.size);
    converted_done(&plain);
    converted_done(&packed);
}

/* A PNG of one colour and any size, all of it but the data that no reader reaches. */
static void put_large_png(const char *entry, uint32_t h, uint32_t w)
{
    BUF_AUTO struct buf file;
    load_image("grey.png", &file);
    uint8_t *bytes = (uint8_t *)file.data;
    const uint32_t size[] = {w, h};
    for (size_t i = 0; i < 8; i++) {
        bytes[16 + i] = (uint8_t)(size[i / 4] >> (24 - 8 * (i % 4)));
    }
    uint32_t crc = UINT32_MAX; /* of the header chunk, from its name on */
    for (size_t i = 12; i < 29; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        }
    }
    for (size_t i = 0; i < 4; i++) {
        bytes[29 + i] = (uint8_t)(~crc >> (24 - 8 * i));
    }
    put_tar_entry(&archive, entry, '0', file.data, file.size);
}

static void images_of_several_sizes_need_a_stated_one(void **state)
{
    (void)state;
    put_image("cat/1.png", "colour.png", 0);
    put_large_png("cat/2.png", 18, 22);
    fails(NULL, ERR_FORMAT,
          "cat/2.png: has 18 x 22 pixels, cat/1.png 17 x 22; set one size with size=HxW");
}

static void bombs_are_rejected_by_their_headers(void **state)
{
    (void)state;
    put_large_png("cat/1.png", 16385, 2);
    fails(NULL, ERR_LIMIT,
          "cat/1.png: has 16385 x 2 pixels; at most 33554432 in all, and 16384 on a side");
    put_large_png("cat/1.png", 2, 500000000); /* beyond, libpng itself rejects it in 32 bits */
    fails("size=8x8", ERR_LIMIT, "cat/1.png: has 2 x 500000000 pixels");
    put_large_png("cat/1.png", 16384, 2049);
    fails("size=8x8", ERR_LIMIT, "cat/1.png: has 16384 x 2049 pixels");
    /* Each alone is allowed: a gigabyte, and 256 times the archive. */
    for (int i = 0; i < 12; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "cat/%02d.png", i);
        put_large_png(name, 16384, 2048);
    }
    fails("size=8x8", ERR_LIMIT, "cat/10.png: up to here the images have more than 10");
}

static void classes_lie_in_one_directory(void **state)
{
    (void)state;
    put_image("set/train/cat/1.png", "grey.png", 0);
    put_image("set/test/cat/1.png", "grey.png", 0);
    fails(NULL, ERR_FORMAT,
          "set/test/cat/1.png: does not lie beside the directory of set/train/cat/1.png");
    put_image("train/cat/1.png", "grey.png", 0);
    put_image("cat/1.png", "grey.png", 0);
    fails(NULL, ERR_FORMAT, "cat/1.png: does not lie beside the directory of train/cat/1.png");
    put_image("1.png", "grey.png", 0);
    fails(NULL, ERR_FORMAT, "1.png: lies in no directory, which would be its class");
}

static void a_class_may_be_the_start_of_a_name(void **state)
{
    (void)state;
    struct converted converted;
    put_image("train/dog_1.png", "grey.png", 0);
    put_image("cat_1.png", "grey.png", 0);
    runs("label=prefix,channels=1", &converted);
    assert_int_equal(converted.info.classes, 2);
    assert_int_equal(label_of(&converted, 0), 1);
    assert_int_equal(label_of(&converted, 1), 0);
    converted_done(&converted);
}

static void files_other_than_images_are_reported(void **state)
{
    (void)state;
    put_image("cat/1.png", "grey.png", 0);
    put_tar_entry(&archive, "cat/notes.txt", '0', "hello", 5);
    fails(NULL, ERR_FORMAT, "cat/notes.txt: is neither JPEG nor PNG");
    put_image("cat/1.png", "grey.png", 0);
    put_tar_entry(&archive, "cat/empty.png", '0', "", 0);
    fails(NULL, ERR_FORMAT, "cat/empty.png: is neither JPEG nor PNG");
    put_image("cat/1.jpg", "cmyk.jpg", 0);
    fails(NULL, ERR_UNSUPPORTED, "cat/1.jpg: JPEG: its colours are neither grey, RGB nor YCbCr");
    put_image("cat/1.png", "grey.png", 0);
    put_tar_entry(&archive, "cat/2.png", '2', "", 0);
    fails(NULL, ERR_INVALID, "entry 'cat/2.png' is not a regular file");
    put_image("cat/1.png", "grey.png", 0);
    put_image("../cat/1.png", "grey.png", 0);
    fails(NULL, ERR_INVALID, "leads out of the archive");
}

/* An image of any kind, truncated anywhere, is rejected by its name. */
static void truncated_images_are_rejected(void **state)
{
    (void)state;
    static const char *const names[] = {"colour.jpg", "progressive.jpg", "palette.png",
                                        "interlaced-grey.png"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        BUF_AUTO struct buf file;
        load_image(names[i], &file);
        for (size_t size = 1; size < file.size; size += size < 40 ? 1 : 7) {
            struct err err = {0};
            struct converted converted;
            archive.size = 0;
            put_image("cat/whole", names[i], 0);
            put_image("cat/cut", names[i], size);
            put_tar_end(&archive);
            assert_int_equal(convert_archive(NULL, &converted, &err), ERR_FORMAT);
            assert_holds(err.text, "cat/cut: ");
            converted_done(&converted);
        }
    }
    archive.size = 0;
}

/* Properly ended, but before a scan: a decoder would give a coarser picture. */
static void images_without_all_their_scans_are_rejected(void **state)
{
    (void)state;
    BUF_AUTO struct buf file;
    int scans = 0;
    load_image("progressive.jpg", &file);
    for (size_t at = 0; at + 1 < file.size; at++) {
        if (memcmp(file.data + at, "\xff\xda", 2) != 0 || scans++ == 0) {
            continue;
        }
        char *part = malloc(at + 2);
        assert_non_null(part);
        memcpy(part, file.data, at);
        memcpy(part + at, "\xff\xd9", 2);
        put_image("cat/whole", "progressive.jpg", 0);
        put_tar_entry(&archive, "cat/part", '0', part, at + 2);
        fails(NULL, ERR_FORMAT, "cat/part: JPEG: scans are missing");
        free(part);
    }
    assert_true(scans > 5);
}

/* An image with a flipped bit is rejected or becomes a whole sample. */
static void damaged_images_are_rejected_or_read(void **state)
{
    (void)state;
    static const char *const names[] = {"colour.jpg", "progressive.jpg", "palette.png",
                                        "interlaced.png", "deep.png"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        BUF_AUTO struct buf file;
        size_t refused = 0;
        load_image(names[i], &file);
        for (size_t bit = 24; bit < 8 * file.size; bit += 11) {
            struct err err = {0};
            struct converted converted;
            char *byte = &((char *)file.data)[bit / 8];
            *byte = (char)(*byte ^ 1 << bit % 8);
            archive.size = 0;
            put_tar_entry(&archive, "cat/damaged", '0', file.data, file.size);
            put_tar_end(&archive);
            int rc = convert_archive("size=8x8", &converted, &err);
            *byte = (char)(*byte ^ 1 << bit % 8);
            assert_true(rc == 0 || rc == ERR_FORMAT || rc == ERR_LIMIT || rc == ERR_UNSUPPORTED);
            assert_true(rc == 0 ? converted.info.h == 8 : strlen(err.text) > 0);
            refused += rc != 0;
            converted_done(&converted);
        }
        assert_true(refused > 0);
    }
    archive.size = 0;
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    struct image_reader *reader = NULL;
    struct image_size size;
    struct err err = {0};
    assert_int_equal(image_measure((const uint8_t *)"", 0, &size, &err), ERR_FORMAT);
    assert_int_equal(image_reader_new((struct image_size){0, 5}, 3, &reader, &err), ERR_FORMAT);
    assert_int_equal(image_reader_new((struct image_size){1025, 5}, 3, &reader, &err), 0);
    BUF_AUTO struct buf file;
    static uint8_t out[1025 * 5 * 3];
    load_image("grey.png", &file);
    assert_int_equal(image_read(reader, (const uint8_t *)file.data, file.size, out, &err),
                     ERR_LIMIT);
    assert_holds(err.text, "at most 1024 on a side");
    image_reader_free(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_one_size_are_a_data_set_whose_classes_are_directories),
        cmocka_unit_test(size_and_channels_follow_the_parameters),
        cmocka_unit_test(an_archive_may_be_compressed),
        cmocka_unit_test(images_of_several_sizes_need_a_stated_one),
        cmocka_unit_test(bombs_are_rejected_by_their_headers),
        cmocka_unit_test(classes_lie_in_one_directory),
        cmocka_unit_test(a_class_may_be_the_start_of_a_name),
        cmocka_unit_test(files_other_than_images_are_reported),
        cmocka_unit_test(truncated_images_are_rejected),
        cmocka_unit_test(images_without_all_their_scans_are_rejected),
        cmocka_unit_test(damaged_images_are_rejected_or_read),
        cmocka_unit_test(sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
