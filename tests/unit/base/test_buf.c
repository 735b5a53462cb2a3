#include "base/buf.h"

#include <string.h>

#include "tests/support/test.h"

static void a_new_buffer_is_empty_and_owns_nothing(void **state)
{
    (void)state;
    BUF_AUTO struct buf buf;
    buf_init(&buf, 100);
    assert_null(buf.data);
    assert_int_equal(buf.size, 0);
    assert_ok(buf_append(&buf, NULL, 0, NULL), NULL);
    assert_string_equal(buf.data, "");
}

static void pieces_follow_each_other_and_end_with_a_nul(void **state)
{
    (void)state;
    struct err err = {0};
    BUF_AUTO struct buf buf;
    buf_init(&buf, 100000);
    for (int i = 0; i < 1000; i++) {
        assert_ok(buf_printf(&buf, &err, "%03d,", i), &err);
        assert_int_equal(buf.data[buf.size], '\0');
    }
    assert_int_equal(buf.size, 4000);
    assert_memory_equal(buf.data + 4 * 500, "500,", 4);
}

static void a_buffer_takes_exactly_its_limit(void **state)
{
    (void)state;
    struct err err = {0};
    BUF_AUTO struct buf buf;
    buf_init(&buf, 5);
    assert_ok(buf_append(&buf, "abcde", 5, &err), &err);
    assert_int_equal(buf_append(&buf, "f", 1, &err), ERR_LIMIT);
    assert_int_equal(buf_printf(&buf, &err, "%d", 1), ERR_LIMIT);
    assert_null(buf_reserve(&buf, 1, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.text, "more than 5 bytes");
    assert_string_equal(buf.data, "abcde");
    assert_true(buf.capacity <= 6);
}

static void a_size_that_would_overflow_is_refused(void **state)
{
    (void)state;
    BUF_AUTO struct buf buf;
    buf_init(&buf, SIZE_MAX);
    assert_ok(buf_append(&buf, "ab", 2, NULL), NULL);
    assert_null(buf_reserve(&buf, SIZE_MAX - 1, NULL));
    assert_null(buf_reserve(&buf, SIZE_MAX - 2, NULL));
    assert_string_equal(buf.data, "ab");
}

static void bytes_in_reserved_room_survive_growth(void **state)
{
    (void)state;
    struct err err = {0};
    BUF_AUTO struct buf buf;
    buf_init(&buf, 4096);
    char *room = buf_reserve(&buf, 10, &err);
    assert_non_null(room);
    memcpy(room, "0123456789", 10);
    buf.size += 10;
    assert_ok(buf_printf(&buf, &err, "%*s", 1000, "end"), &err);
    assert_int_equal(buf.size, 1010);
    assert_memory_equal(buf.data, "0123456789 ", 11);
}

static void clearing_keeps_the_memory(void **state)
{
    (void)state;
    BUF_AUTO struct buf buf;
    buf_init(&buf, 100);
    buf_clear(&buf);
    assert_ok(buf_append(&buf, "abc", 3, NULL), NULL);
    size_t capacity = buf.capacity;
    buf_clear(&buf);
    assert_string_equal(buf.data, "");
    assert_int_equal(buf.size, 0);
    assert_int_equal(buf.capacity, capacity);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_buffer_is_empty_and_owns_nothing),
        cmocka_unit_test(pieces_follow_each_other_and_end_with_a_nul),
        cmocka_unit_test(a_buffer_takes_exactly_its_limit),
        cmocka_unit_test(a_size_that_would_overflow_is_refused),
        cmocka_unit_test(bytes_in_reserved_room_survive_growth),
        cmocka_unit_test(clearing_keeps_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
