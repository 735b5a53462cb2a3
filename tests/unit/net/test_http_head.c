#include <string.h>

#include "net/http_head.h"
#include "tests/support/test.h"

/* Scan the text in pieces of every size. */
static struct http_head scan(const char *text, size_t size)
{
    struct http_head whole = {0};
    http_head_scan(&whole, text, size);
    for (size_t piece = 1; piece < size && piece < 200; piece++) {
        struct http_head head = {0};
        for (size_t at = 0; at < size; at += piece) {
            http_head_scan(&head, text + at, size - at < piece ? size - at : piece);
        }
        assert_int_equal(head.part, whole.part);
        assert_int_equal(head.size, whole.size);
        assert_ptr_equal(head.fault, whole.fault);
    }
    return whole;
}

static void proper_headers_are_complete_at_their_empty_line(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\n\n",
        "\r\n\r\nPOST /v1/jobs?a=b HTTP/1.1\r\nHost: x\r\nEmpty:\r\nX-Tab:\ta \t b\r\nLatin: "
        "\xe9\r\n\r\n",
        "M-SEARCH * HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 0012\r\nContent-Lengths: x\r\nContent-Lengtx: "
        "y\r\nContent: z\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_head head = scan(cases[i], strlen(cases[i]));
        assert_null(head.fault);
        assert_int_equal(head.part, HEAD_OVER);
        assert_int_equal(head.size, strlen(cases[i]));
        head = scan(cases[i], strlen(cases[i]) - 1);
        assert_null(head.fault);
        assert_int_not_equal(head.part, HEAD_OVER);
    }
}

static void bytes_after_the_header_are_not_parsed(void **state)
{
    (void)state;
    static const char text[] = "PUT /x HTTP/1.1\r\nHost: x\r\n\r\n\0\x01\x02\xff";
    struct http_head head = scan(text, sizeof(text) - 1);
    assert_null(head.fault);
    assert_int_equal(head.size, sizeof(text) - 1 - 4);
}

static void everything_else_has_a_fault_that_names_it(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fault;
    } cases[] = {
        {"HELLO\r\n\r\n", "METHOD TARGET"},
        {"\x16\x03\x01\x02", "method"},
        {" GET / HTTP/1.1\r\n", "method"},
        {"GET /\r\n\r\n", "METHOD TARGET"},
        {"GET  HTTP/1.1\r\n\r\n", "empty"},
        {"GET /a b HTTP/1.1\r\n", "space"},
        {"GET / HTTP/2.0\r\n", "version"},
        {"GET / HTTP/1.2\r\n", "version"},
        {"GET / HTTP/1.11\r\n", "version"},
        {"GET / HTTP/1.\r\n", "does not end"},
        {"GET /\x01 HTTP/1.1\r\n", "control"},
        {"GET / HTTP/1.1\r\n: nameless\r\n", "name"},
        {"GET / HTTP/1.1\r\nSpaced : x\r\n", "name"},
        {"GET / HTTP/1.1\r\nHost\r\n", "colon"},
        {"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n", "folded"},
        {"GET / HTTP/1.1\r\n folded: x\r\n", "folded"},
        {"GET / HTTP/1.1\r\nHost: a\rb\r\n", "carriage"},
        {"POST / HTTP/1.1\r\nContent-Length: -1\r\n", "not a number"},
        {"POST / HTTP/1.1\r\ncontent-length:1 2\r\n", "not a number"},
        {"POST / HTTP/1.1\r\nCONTENT-LENGTH:\r\n", "not a number"},
        {"POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n", "too large"},
        {"GET / HTTP/1.1\r\nHost: \x7f\r\n", "control"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_head head = scan(cases[i].text, strlen(cases[i].text));
        assert_non_null(head.fault);
        assert_holds(head.fault, cases[i].fault);
    }
    static const char nul[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
    assert_holds(scan(nul, sizeof(nul) - 1).fault, "control");
    static const char nul_in_name[] = "GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n";
    assert_holds(scan(nul_in_name, sizeof(nul_in_name) - 1).fault, "name");
}

static void a_header_has_a_bound_in_bytes_and_in_lines(void **state)
{
    (void)state;
    struct http_head head = {0};
    http_head_scan(&head, "GET / HTTP/1.1\r\nX-Long:", 23);
    while (head.size + HTTP_HEAD_LINE_EXTRA < HTTP_HEAD_MAX) {
        http_head_scan(&head, "x", 1);
        assert_null(head.fault);
    }
    http_head_scan(&head, "x", 1);
    assert_holds(head.fault, "28672");
    head = (struct http_head){0};
    http_head_scan(&head, "GET / HTTP/1.1\r\n", 16);
    for (int line = 0; line < 400; line++) {
        assert_null(head.fault);
        http_head_scan(&head, "x:y\n", 4);
    }
    for (int line = 0; line < 100; line++) {
        http_head_scan(&head, "x:y\n", 4);
    }
    assert_holds(head.fault, "28672");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proper_headers_are_complete_at_their_empty_line),
        cmocka_unit_test(bytes_after_the_header_are_not_parsed),
        cmocka_unit_test(everything_else_has_a_fault_that_names_it),
        cmocka_unit_test(a_header_has_a_bound_in_bytes_and_in_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
