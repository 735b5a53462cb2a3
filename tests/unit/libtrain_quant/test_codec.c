#include "libtrain/quant/codec.h"
#include "tests/support/test.h"

static void every_codec_is_found_by_its_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < CODECS; i++) {
        enum codec found = CODECS;
        assert_true(codec_find(codec_info((enum codec)i)->name, &found));
        assert_int_equal(found, i);
    }
    enum codec found = CODECS;
    assert_false(codec_find("q5", &found));
    assert_false(codec_find("", &found));
    assert_int_equal(found, CODECS);
}

static void a_codec_with_zstd_has_the_plain_one_s_form(void **state)
{
    (void)state;
    for (unsigned i = 0; i < CODECS; i++) {
        const struct codec_info *info = codec_info((enum codec)i);
        const struct codec_info *plain = codec_info(info->plain);
        assert_false(plain->zstd);
        assert_int_equal(plain->bits, info->bits);
        assert_int_equal(plain->grouped, info->grouped);
        assert_true(codec_available(info->plain));
    }
}

static void sizes_are_those_of_whole_and_short_groups(void **state)
{
    (void)state;
    assert_int_equal(codec_bytes(CODEC_NONE, 1000), 4000);
    assert_int_equal(codec_bytes(CODEC_BFLOAT16, 1000), 2000);
    assert_int_equal(codec_bytes(CODEC_Q8, 0), 0);
    assert_int_equal(codec_bytes(CODEC_Q8, 256), 8 + 256);
    assert_int_equal(codec_bytes(CODEC_Q4, 257), 16 + 128 + 1);
    assert_int_equal(codec_bytes(CODEC_Q3, 256 + 3), 16 + 96 + 2);
    assert_int_equal(codec_bytes_max(CODEC_Q2, 257), 16 + 4 * 257);
    assert_int_equal(codec_memory(CODEC_NONE, 1000), 0);
    assert_int_equal(codec_memory(CODEC_Q8, 256), 8 + 1024);
    assert_int_equal(codec_memory(CODEC_Q8_ZSTD, 256), 8 + 1024 + 256 + CODEC_ZSTD_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_is_found_by_its_name),
        cmocka_unit_test(a_codec_with_zstd_has_the_plain_one_s_form),
        cmocka_unit_test(sizes_are_those_of_whole_and_short_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
