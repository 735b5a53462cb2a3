#include "coordinator/core/placement/codecs.h"
#include "tests/support/test.h"

static enum codec link_codec(int compression, int64_t protocol_a, bool zstd_a, int64_t protocol_b,
                             bool zstd_b)
{
    const struct job_spec spec = {.compression = compression};
    const struct device a = {.protocol = protocol_a, .inventory = {.zstd = zstd_a}};
    const struct device b = {.protocol = protocol_b, .inventory = {.zstd = zstd_b}};
    return codecs_of_link(codecs_wanted(&spec), codecs_of_device(&a), codecs_of_device(&b));
}

static void a_link_to_an_agent_of_protocol_1_has_no_codec(void **state)
{
    (void)state;
    assert_int_equal(link_codec(CODEC_Q8, 2, true, 2, true), CODEC_Q8);
    assert_int_equal(link_codec(CODEC_Q8, 1, false, 2, true), CODEC_NONE);
    assert_int_equal(link_codec(CODEC_Q4_ZSTD, 2, true, 1, false), CODEC_NONE);
}

static void a_link_without_zstd_at_one_end_has_the_plain_codec(void **state)
{
    (void)state;
    assert_int_equal(link_codec(CODEC_Q4_ZSTD, 2, true, 2, true), CODEC_Q4_ZSTD);
    assert_int_equal(link_codec(CODEC_Q4_ZSTD, 2, false, 2, true), CODEC_Q4);
    assert_int_equal(link_codec(CODEC_BFLOAT16_ZSTD, 2, true, 2, false), CODEC_BFLOAT16);
}

static void auto_and_none_mean_no_codec(void **state)
{
    (void)state;
    assert_int_equal(link_codec(COMPRESSION_AUTO, 2, true, 2, true), CODEC_NONE);
    assert_int_equal(link_codec(CODEC_NONE, 2, true, 2, true), CODEC_NONE);
}

static void a_plan_with_one_coded_link_is_coded(void **state)
{
    (void)state;
    struct plan plan = {.stage_count = 3};
    assert_false(codecs_in_plan(&plan));
    plan.stage[1].codec = CODEC_Q8;
    assert_true(codecs_in_plan(&plan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_to_an_agent_of_protocol_1_has_no_codec),
        cmocka_unit_test(a_link_without_zstd_at_one_end_has_the_plain_codec),
        cmocka_unit_test(auto_and_none_mean_no_codec),
        cmocka_unit_test(a_plan_with_one_coded_link_is_coded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
