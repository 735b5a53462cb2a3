/* The header of a body that arrives in pieces. */
#include <string.h>

#include "agent/peer/header.h"
#include "tests/support/test.h"

#define TEXT "{\"data\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
#define SIZE (8 + sizeof(TEXT) - 1)
#define BODY (SIZE + 4)

static void fill(char body[BODY])
{
    memset(body, 0, BODY);
    body[0] = (char)(sizeof(TEXT) - 1);
    memcpy(body + 8, TEXT, sizeof(TEXT) - 1);
}

static void pieces_of_any_size_give_the_same_header(void **state)
{
    (void)state;
    char body[BODY];
    fill(body);
    for (size_t piece = 1; piece <= BODY; piece++) {
        struct header header = {.size = 0};
        struct err err = {0};
        size_t at = 0;
        while (!header_is_whole(&header)) {
            size_t taken;
            const size_t size = piece < BODY - at ? piece : BODY - at;
            assert_ok(header_take(&header, HEADER_MAX, body + at, size, &taken, &err), &err);
            assert_true(taken == size || header_is_whole(&header));
            at += taken;
        }
        assert_int_equal(at, SIZE);
        assert_int_equal(header.size, SIZE);
        assert_memory_equal(header.text, body, SIZE);
    }
}

static void nothing_of_an_empty_piece_is_taken(void **state)
{
    (void)state;
    struct header header = {.size = 0};
    struct err err = {0};
    size_t taken = 1;
    assert_ok(header_take(&header, HEADER_MAX, "", 0, &taken, &err), &err);
    assert_int_equal(taken, 0);
    assert_false(header_is_whole(&header));
}

static void a_header_above_the_limit_is_refused(void **state)
{
    (void)state;
    char body[BODY];
    fill(body);
    for (size_t most = SIZE - 1; most <= SIZE; most++) {
        struct header header = {.size = 0};
        struct err err = {0};
        size_t taken;
        assert_int_equal(header_take(&header, most, body, BODY, &taken, &err),
                         most < SIZE ? ERR_LIMIT : 0);
        assert_int_equal(header_is_whole(&header), most == SIZE);
    }
    struct header header = {.size = 0};
    struct err err = {0};
    size_t taken;
    body[7] = 1; /* 2^56 bytes */
    assert_int_equal(header_take(&header, HEADER_MAX, body, BODY, &taken, &err), ERR_FORMAT);
    assert_false(header_is_whole(&header));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_size_give_the_same_header),
        cmocka_unit_test(nothing_of_an_empty_piece_is_taken),
        cmocka_unit_test(a_header_above_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
