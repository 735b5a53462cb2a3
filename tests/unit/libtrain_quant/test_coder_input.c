#include <math.h>
#include <string.h>

#include "libtrain/quant/coder.h"
#include "tests/support/no_alloc.h"
#include "tests/support/test.h"

#define VALUES 1000
#define GROUPS 4

static float values[VALUES], back[VALUES];

static struct coder *make(enum codec codec)
{
    struct coder *coder = NULL;
    struct err err = {0};
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = i % 3 ? (float)(i % 17) : 0;
    }
    assert_ok(coder_new(codec, VALUES, &coder, &err), &err);
    return coder;
}

static void assert_refused(struct coder *coder, size_t size, const char *part)
{
    struct err err = {0};
    no_alloc_begin();
    const int rc = coder_decode(coder, size, back, VALUES, &err);
    no_alloc_end();
    assert_int_equal(rc, ERR_FORMAT);
    assert_holds(err.text, part);
}

static void other_lengths_are_refused(void **state)
{
    (void)state;
    for (enum codec codec = CODEC_BFLOAT16; codec <= CODEC_Q2; codec++) {
        struct coder *coder = make(codec);
        const size_t size = coder_encode(coder, CODER_ACTIVATION, values, VALUES);
        for (size_t other = 0; other <= codec_bytes_max(codec, VALUES); other++) {
            if (other != size) {
                assert_refused(coder, other, "bytes");
            }
        }
        coder_free(&coder);
    }
}

static void another_codec_s_bytes_are_refused(void **state)
{
    (void)state;
    for (enum codec from = CODEC_BFLOAT16; from <= CODEC_Q2; from++) {
        for (enum codec to = CODEC_BFLOAT16; to <= CODEC_Q2; to++) {
            struct coder *sender = make(from), *receiver = make(to);
            const size_t size = coder_encode(sender, CODER_ACTIVATION, values, VALUES);
            if (to != from && size <= codec_bytes_max(to, VALUES)) {
                memcpy(coder_buffer(receiver), coder_buffer(sender), size);
                assert_refused(receiver, size, "");
            }
            coder_free(&sender);
            coder_free(&receiver);
        }
    }
}

static void impossible_ranges_are_refused(void **state)
{
    static const struct {
        float lo, scale;
    } ranges[] = {
        {0, NAN}, {NAN, 1},   {0, INFINITY}, {-INFINITY, 1}, {0, -2},
        {1, -1},  {0, -0.5f}, {0, 0x1p126f}, {3e38f, 1},     {-3e38f, 1},
    };
    (void)state;
    struct coder *coder = make(CODEC_Q8);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        const size_t size = coder_encode(coder, CODER_ACTIVATION, values, VALUES);
        memcpy(coder_buffer(coder) + 2 * CODEC_ENTRY_BYTES, &ranges[i], CODEC_ENTRY_BYTES);
        assert_refused(coder, size, "group 2 has an impossible range");
    }
    coder_free(&coder);
}

static void a_raw_group_without_its_values_is_refused(void **state)
{
    static const struct {
        float lo, scale;
    } raw = {0, -1};
    (void)state;
    struct coder *coder = make(CODEC_Q2);
    const size_t size = coder_encode(coder, CODER_ACTIVATION, values, VALUES);
    memcpy(coder_buffer(coder), &raw, CODEC_ENTRY_BYTES);
    assert_refused(coder, size, "its table asks for");
    coder_free(&coder);
}

static void only_one_zstd_frame_of_the_right_size_is_decompressed(void **state)
{
    (void)state;
    if (!codec_available(CODEC_Q8_ZSTD)) {
        test_skip("this build has no zstd");
    }
    struct coder *coder = make(CODEC_Q8_ZSTD);
    struct err err = {0};
    memset(values, 0, sizeof(values));
    const size_t table = GROUPS * CODEC_ENTRY_BYTES;
    const size_t size = coder_encode(coder, CODER_ACTIVATION, values, VALUES);
    assert_true(size < table + 100);
    assert_ok(coder_decode(coder, size, back, VALUES, &err), &err);
    assert_refused(coder, size - 1, "not one zstd frame of 1000 bytes");
    assert_refused(coder, size + 1, "not one zstd frame");
    assert_refused(coder, table, "not one zstd frame");
    /* The frame of a thousand bytes where 500 are expected: a bomb of the smallest kind. */
    no_alloc_begin();
    unsigned char *buffer = coder_buffer(coder);
    memmove(buffer + table / 2, buffer + table, size - table);
    const int rc = coder_decode(coder, size - table / 2, back, VALUES / 2, &err);
    no_alloc_end();
    assert_int_equal(rc, ERR_FORMAT);
    assert_holds(err.text, "not one zstd frame of 500 bytes");
    coder_free(&coder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(another_codec_s_bytes_are_refused),
        cmocka_unit_test(impossible_ranges_are_refused),
        cmocka_unit_test(a_raw_group_without_its_values_is_refused),
        cmocka_unit_test(only_one_zstd_frame_of_the_right_size_is_decompressed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
