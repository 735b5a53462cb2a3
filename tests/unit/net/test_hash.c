#include "net/hash.h"

#include <string.h>

#include "base/parse.h"
#include "tests/support/test.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* FIPS 180-2, appendix B. */
static void the_known_answers_of_sha256_come_out(void **state)
{
    (void)state;
    char text[HASH_TEXT_SIZE];
    sha256_text("abc", 3, text);
    assert_string_equal(text, ABC);
    sha256_text(NULL, 0, text);
    assert_string_equal(text, EMPTY);
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    sha256_text(two_blocks, strlen(two_blocks), text);
    assert_string_equal(text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void a_running_hash_takes_pieces_and_can_restart(void **state)
{
    (void)state;
    struct err err = {0};
    struct sha256 *hash = NULL;
    assert_ok(sha256_new(&hash, &err), &err);
    char text[HASH_TEXT_SIZE];
    for (int round = 0; round < 2; round++) {
        sha256_update(hash, "a", 1);
        sha256_update(hash, "", 0);
        sha256_update(hash, "bc", 2);
        sha256_finish_text(hash, text);
        assert_string_equal(text, ABC);
    }
    sha256_finish_text(hash, text);
    assert_string_equal(text, EMPTY);
    sha256_free(&hash);
    assert_null(hash);
    sha256_free(&hash);
}

/* Computed by Python's hmac module; RFC 4231 has no key of 32 bytes. */
static void hmac_agrees_with_another_implementation(void **state)
{
    (void)state;
    uint8_t key[HASH_SIZE];
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] = (uint8_t)i;
    }
    char text[HASH_TEXT_SIZE];
    hmac_text(key, "job_1/7/0", text);
    assert_string_equal(text, "60e86f587a0c71233c473390837d0288eafc7490ab953e3546d54068b2aa1bc3");
}

static void random_bytes_differ_from_draw_to_draw(void **state)
{
    (void)state;
    struct err err = {0};
    uint8_t a[32] = {0};
    uint8_t b[32] = {0};
    assert_ok(random_bytes(a, sizeof(a), &err), &err);
    assert_ok(random_bytes(b, sizeof(b), &err), &err);
    assert_memory_not_equal(a, b, sizeof(a));
    assert_ok(random_bytes(NULL, 0, &err), &err);
}

/* RFC 8032, section 7.1, test 1. */
static void the_public_key_follows_from_the_private_one(void **state)
{
    (void)state;
    struct err err = {0};
    uint8_t private_key[HASH_SIZE];
    uint8_t public_key[HASH_SIZE];
    char text[HASH_TEXT_SIZE];
    assert_ok(parse_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                        private_key, sizeof(private_key), &err),
              &err);
    assert_ok(key_public(private_key, public_key, &err), &err);
    parse_to_hex(public_key, sizeof(public_key), text);
    assert_string_equal(text, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
}

static void new_keys_are_pairs_and_differ(void **state)
{
    (void)state;
    struct err err = {0};
    uint8_t private_key[2][HASH_SIZE];
    uint8_t public_key[2][HASH_SIZE];
    for (int i = 0; i < 2; i++) {
        assert_ok(key_make(private_key[i], public_key[i], &err), &err);
        uint8_t again[HASH_SIZE];
        assert_ok(key_public(private_key[i], again, &err), &err);
        assert_memory_equal(again, public_key[i], HASH_SIZE);
    }
    assert_memory_not_equal(private_key[0], private_key[1], HASH_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_answers_of_sha256_come_out),
        cmocka_unit_test(a_running_hash_takes_pieces_and_can_restart),
        cmocka_unit_test(hmac_agrees_with_another_implementation),
        cmocka_unit_test(random_bytes_differ_from_draw_to_draw),
        cmocka_unit_test(the_public_key_follows_from_the_private_one),
        cmocka_unit_test(new_keys_are_pairs_and_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
