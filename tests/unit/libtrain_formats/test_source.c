/* The expanded size of all compressed files together is bounded, for any number of readings. A
 * waiting caller may end the reading early. */
#include "libtrain/formats/source.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

#define TOTAL_BYTES (1 << 20) /* a reading may expand to twice that, and a MiB */
#define ZEROS 60000
#define CIFAR_BYTES 3073

static struct bytes archive, entry, member; /* too large for a stack */

struct asked {
    size_t count, most;
    size_t sent; /* bytes that the sink got */
};

static int go_on(void *arg, struct err *err)
{
    struct asked *asked = arg;
    return ++asked->count > asked->most ? err_set(err, ERR_CANCELLED, "the program ends") : 0;
}

static int count_bytes(void *arg, const void *data, size_t size, struct err *err)
{
    struct asked *asked = arg;
    (void)data;
    (void)err;
    asked->sent += size;
    return 0;
}

static int run(const char *how, struct asked *asked, struct err *err)
{
    const struct dataset_limits limits = {
        .total_bytes = TOTAL_BYTES, .entries = 100, .go_on = go_on, .go_on_arg = asked};
    struct reading reading = reading_default;
    struct dataset_info info;
    if (how) {
        assert_ok(reading_parse(how, &reading, err), err);
    }
    int fd = memory_file(&archive);
    int rc = dataset_convert(&fd, 1, &reading, &limits, count_bytes, asked, &info, err);
    file_close(&fd);
    return rc;
}

/* The end of an entry: the given number of members of zeros. */
static void put_zero_members(struct bytes *bytes, size_t count)
{
    member.size = 0;
    put_zeros(&member, ZEROS);
    compress_gzip(&member);
    for (size_t i = 0; i < count; i++) {
        put(bytes, member.data, member.size);
    }
}

/* Entries of an image and 1.2 MB of zeros after it. */
static void put_images(size_t count)
{
    BUF_AUTO struct buf file;
    struct err err = {0};
    buf_init(&file, 1 << 16);
    assert_ok(file_read(TEST_SOURCE_DIR "/tests/golden/images/grey.png", &file, &err), &err);
    archive.size = 0;
    for (size_t i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "cat/%zu.png", i);
        entry.size = 0;
        put(&entry, file.data, file.size);
        compress_gzip(&entry);
        put_zero_members(&entry, 20);
        put_tar_entry(&archive, name, '0', entry.data, entry.size);
    }
    put_tar_end(&archive);
}

static void entries_share_the_bound_of_expanded_bytes(void **state)
{
    (void)state;
    struct asked asked = {.most = SIZE_MAX};
    struct err err = {0};
    put_images(2);
    assert_ok(run(NULL, &asked, &err), &err);
    put_images(3);
    asked.sent = 0;
    assert_int_equal(run(NULL, &asked, &err), ERR_LIMIT);
    assert_holds(err.text,
                 "cat/2.png: expands to more than 3145728 bytes, with what was read before it");
    assert_int_equal(asked.sent, 0);
    compress_gzip(&archive);
    assert_int_equal(run(NULL, &asked, &err), ERR_LIMIT);
}

/* A chunk that no reader uses after the samples. */
static void put_sounds(size_t count)
{
    static const int16_t samples[800];
    const uint32_t skipped = 20 * ZEROS;
    archive.size = 0;
    for (size_t i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "low/%zu.wav", i);
        entry.size = 0;
        put_wav(&entry, 1, 1, 8000, 16, samples, sizeof(samples));
        put(&entry, "junk", 4);
        put(&entry, &skipped, 4);
        const uint32_t riff = (uint32_t)entry.size - 8 + skipped;
        memcpy(entry.data + 4, &riff, 4);
        compress_gzip(&entry);
        put_zero_members(&entry, 20);
        put_tar_entry(&archive, name, '0', entry.data, entry.size);
    }
    put_tar_end(&archive);
}

static void sounds_do_so_too(void **state)
{
    (void)state;
    struct asked asked = {.most = SIZE_MAX};
    struct err err = {0};
    put_sounds(2);
    assert_ok(run("sound=8000", &asked, &err), &err);
    put_sounds(
        6); /* they are read once, and have the share of the reading before, for their names */
    assert_int_equal(run("sound=8000", &asked, &err), ERR_LIMIT);
    assert_holds(err.text, "low/5.wav: expands to more than 6291456 bytes");
}

/* An archive of CIFAR files, packed as a whole, whose names are in order or the other way round. */
static void put_cifar(bool in_order)
{
    static const size_t files = 50, records = 6;
    archive.size = 0;
    for (size_t i = 0; i < files; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%02zu.bin", in_order ? i : files - i);
        entry.size = 0;
        member.size = 0;
        put_zeros(&entry, records * CIFAR_BYTES);
        put_tar_entry(&member, name, '0', entry.data, entry.size);
        if (i + 1 == files) {
            put_tar_end(&member);
        }
        compress_gzip(&member);
        put(&archive, member.data, member.size);
    }
}

static void a_reader_that_restarts_for_each_part_ends(void **state)
{
    (void)state;
    struct asked asked = {.most = SIZE_MAX};
    struct err err = {0};
    put_cifar(true);
    assert_ok(run(NULL, &asked, &err), &err);
    put_cifar(false);
    assert_int_equal(run(NULL, &asked, &err), ERR_LIMIT);
    assert_holds(err.text, "file 1: expands to more than 12582912 bytes");
}

static void reading_ends_when_the_caller_cancels(void **state)
{
    (void)state;
    struct asked asked = {.most = 10};
    struct err err = {0};
    put_images(2);
    assert_int_equal(run(NULL, &asked, &err), ERR_CANCELLED);
    assert_string_equal(err.text, "the program ends");
    assert_int_equal(asked.count, 11);
    assert_int_equal(asked.sent, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_share_the_bound_of_expanded_bytes),
        cmocka_unit_test(sounds_do_so_too),
        cmocka_unit_test(a_reader_that_restarts_for_each_part_ends),
        cmocka_unit_test(reading_ends_when_the_caller_cancels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
