#include "tests/support/test.h"

#include <string.h>

#include "schema/id.h"

static void an_id_is_its_prefix_time_and_randomness(void **state)
{
    (void)state;
    char id[ID_SIZE];
    id_make(id, "job_", 0, (struct rng_block){{0, 0, 0, 0}});
    assert_string_equal(id, "job_00000000000000000000000000");
    /* The ULID specification's largest time is 2^48 - 1: 7ZZZZZZZZZ. */
    id_make(id, "plan_", (INT64_C(1) << 48) - 1,
            (struct rng_block){{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}});
    assert_string_equal(id, "plan_7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    assert_true(id_valid(id, "plan_"));
}

static void ids_sort_by_their_time(void **state)
{
    (void)state;
    char before[ID_SIZE], after[ID_SIZE];
    id_make(before, "dev_", 1769860800123,
            (struct rng_block){{UINT32_MAX, UINT32_MAX, UINT32_MAX, 0}});
    id_make(after, "dev_", 1769860800124, (struct rng_block){{0, 0, 0, 0}});
    assert_true(strcmp(before, after) < 0);
    assert_true(id_wall_ms(before) == 1769860800123);
    assert_true(id_wall_ms(after) == 1769860800124);
}

static void every_bit_of_the_randomness_counts(void **state)
{
    (void)state;
    char plain[ID_SIZE], other[ID_SIZE];
    id_make(plain, "job_", 1, (struct rng_block){{0, 0, 0, 0}});
    for (int bit = 0; bit < 80; bit++) {
        struct rng_block words = {{0, 0, 0, 0}};
        words.word[bit / 32] = UINT32_C(1) << bit % 32;
        id_make(other, "job_", 1, words);
        assert_string_not_equal(plain, other);
    }
}

static void an_id_of_another_kind_length_or_alphabet_is_not_valid(void **state)
{
    (void)state;
    assert_true(id_valid("job_01J9ZQ4X7C8E2N5R3T6V9W0Y1A", "job_"));
    assert_false(id_valid("job_01J9ZQ4X7C8E2N5R3T6V9W0Y1A", "dev_"));
    assert_false(id_valid("job_01J9ZQ4X7C8E2N5R3T6V9W0Y1", "job_"));
    assert_false(id_valid("job_01J9ZQ4X7C8E2N5R3T6V9W0Y1AA", "job_"));
    assert_false(id_valid("job_01J9ZQ4X7C8E2N5R3T6V9W0YUA", "job_"));
    assert_false(id_valid("job_", "job_"));
    assert_false(id_valid("", "job_"));
}

static void names_are_short_lower_case_and_safe_in_a_path(void **state)
{
    (void)state;
    char long_name[NAME_SIZE + 1];
    memset(long_name, 'a', sizeof(long_name));
    long_name[NAME_SIZE] = '\0';
    assert_false(name_valid(long_name));
    long_name[NAME_SIZE - 1] = '\0';
    assert_true(name_valid(long_name));
    static const char *const good[] = {"a", "0", "fashion-train", "vgg11.bn_2"};
    static const char *const bad[] = {"",    "-a", ".",   "..",  "_a",
                                      "a/b", "A",  "a b", "a\n", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(name_valid(good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(name_valid(bad[i]));
    }
}

static void forms_reject_unsafe_text_in_paths_urls_and_headers(void **state)
{
    (void)state;
    char hash[SHA256_SIZE + 1];
    memset(hash, 'a', sizeof(hash));
    hash[SHA256_SIZE] = '\0';
    assert_false(sha256_form.valid(hash));
    hash[SHA256_SIZE - 1] = '\0';
    assert_true(sha256_form.valid(hash));
    hash[3] = 'A';
    assert_false(sha256_form.valid(hash));
    assert_false(sha256_form.valid(""));

    assert_true(url_form.valid("http://127.0.0.1:7411"));
    assert_true(url_form.valid("https://[fe80::1]:7411"));
    assert_false(url_form.valid("http://"));
    assert_false(url_form.valid("ftp://a"));
    assert_false(url_form.valid("http://a b"));
    assert_false(url_form.valid("http://user@host"));
    assert_false(url_form.valid("http://a\r\nHost: b"));

    assert_true(origin_form.valid("http://127.0.0.1:7411"));
    assert_true(origin_form.valid("https://[fe80::1]:1"));
    assert_true(origin_form.valid("http://Kitchen-2.local:65535"));
    static const char *const more[] = {
        "http://127.0.0.1:80/admin?x=",
        "http://127.0.0.1:80/",
        "http://127.0.0.1:80?x",
        "http://127.0.0.1:80#x",
        "http://127.0.0.1",
        "http://127.0.0.1:",
        "http://127.0.0.1:0",
        "http://127.0.0.1:65536",
        "http://a@b:80",
        "http://:80",
        "http://[::1:80",
        "http://[]:80",
        "http://a:80:80",
        "http://a%2fb:80",
        "ftp://a:21",
        "",
    };
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        assert_false(origin_form.valid(more[i]));
    }

    assert_true(word_form.valid("a~!"));
    assert_false(word_form.valid(""));
    assert_false(word_form.valid("a\r\nb"));
    assert_false(word_form.valid("\x7f"));

    assert_true(device_id_form.valid("dev_b"));
    assert_false(device_id_form.valid("dev_"));
    assert_false(device_id_form.valid("dev_a/b"));
    assert_false(job_id_form.valid("dev_b"));
    assert_true(plan_id_form.valid("plan_1"));
    assert_true(checkpoint_id_form.valid("ckpt_1"));
}

static void secrets_are_equal_only_if_all_bytes_are(void **state)
{
    (void)state;
    assert_true(id_secret_equal("", ""));
    assert_true(id_secret_equal("abc", "abc"));
    assert_false(id_secret_equal("abc", "ab"));
    assert_false(id_secret_equal("ab", "abc"));
    assert_false(id_secret_equal("", "a"));
    assert_false(id_secret_equal("a", ""));
    assert_false(id_secret_equal("xbc", "abc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_its_prefix_time_and_randomness),
        cmocka_unit_test(ids_sort_by_their_time),
        cmocka_unit_test(every_bit_of_the_randomness_counts),
        cmocka_unit_test(an_id_of_another_kind_length_or_alphabet_is_not_valid),
        cmocka_unit_test(names_are_short_lower_case_and_safe_in_a_path),
        cmocka_unit_test(forms_reject_unsafe_text_in_paths_urls_and_headers),
        cmocka_unit_test(secrets_are_equal_only_if_all_bytes_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
