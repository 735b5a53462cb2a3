/* Bodies between workers and servers: every form reads back, and headers that are not of the body
 * expected are refused. */
#include <stdio.h>
#include <string.h>

#include "agent/parameter_server/body.h"
#include "libtrain/formats/safetensors.h"
#include "tests/support/test.h"

static void every_form_reads_back(void **state)
{
    (void)state;
    char header[BODY_HEADER_MAX];
    struct err err = {0};
    for (unsigned form = 0; form < 1U << BODY_PARTS; form++) {
        struct body body = {{0}};
        for (size_t p = 0; p < BODY_PARTS; p++) {
            body.count[p] = form >> p & 1 ? SIZE_MAX >> (8 + p) : 0;
        }
        const struct body_note note = {.version = (int64_t)form - 1,
                                       .parked_seconds = form,
                                       .mark = {.kinds = form & 3, .keep = {1, 2, form}}};
        struct body_note read = {.last = true};
        const size_t size = body_write_header(&body, &note, header);
        assert_in_range(size, 10, BODY_HEADER_MAX);
        assert_ok(body_read_header(header, size, &body, &read, &err), &err);
        assert_false(read.last);
        assert_int_equal(read.version, note.version);
        assert_int_equal((int)read.parked_seconds, (int)form);
        assert_int_equal(read.mark.kinds, note.mark.kinds);
        assert_true(note.mark.kinds == 0 || read.mark.keep[2] == form);
    }
    assert_int_equal(body_bytes(&(struct body){{1, 2, 3}}), 8 + 4 * 2 + 4 * 3);
}

static void the_last_answer_has_no_tensors(void **state)
{
    (void)state;
    char header[BODY_HEADER_MAX];
    struct err err = {0};
    const struct body body = {{0, 7, 0}}, nothing = {{0}};
    const struct body_note last = {.last = true, .version = 12};
    struct body_note read = {0};
    size_t size = body_write_header(&nothing, &last, header);
    assert_ok(body_read_header(header, size, &body, &read, &err), &err);
    assert_true(read.last);
    assert_int_equal(read.version, 12);
    size = body_write_header(&body, &last, header);
    assert_int_equal(body_read_header(header, size, &body, &read, &err), ERR_FORMAT);
}

static int read_text(const char *text, const struct body *expected, struct body_note *note)
{
    char header[BODY_HEADER_MAX] = {0};
    struct err err = {0};
    const size_t length = strlen(text);
    assert_true(length + 8 <= sizeof(header));
    header[0] = (char)(length & 0xff);
    header[1] = (char)(length >> 8);
    memcpy(header + 8, text, length);
    return body_read_header(header, length + 8, expected, note, &err);
}

#define DATA(rest) "\"data\":{\"dtype\":\"F32\",\"shape\":[7],\"data_offsets\":[0,28]}" rest

static void other_headers_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "{" DATA(""),
        "[]",
        "{\"data\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}",
        "{\"data\":{\"dtype\":\"I32\",\"shape\":[7],\"data_offsets\":[0,28]}}",
        "{\"data\":{\"dtype\":\"F32\",\"shape\":[7,1],\"data_offsets\":[0,28]}}",
        "{\"data\":{\"dtype\":\"F32\",\"shape\":[7],\"data_offsets\":[0,27]}}",
        "{\"date\":{\"dtype\":\"F32\",\"shape\":[7],\"data_offsets\":[0,28]}}",
        "{" DATA(",\"statistics\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[28,32]}}"),
        "{\"__metadata__\":{\"last\":\"1\"}," DATA("}"),
        "{\"__metadata__\":{\"version\":\"-1\"}," DATA("}"),
        "{\"__metadata__\":{\"version\":\"new\"}," DATA("}"),
        "{\"__metadata__\":{\"last\":\"1\"}}",
        "{\"__metadata__\":{\"last\":\"1\",\"version\":\"-3\"}}",
        "{\"__metadata__\":{\"last\":\"1\",\"version\":\"9223372036854775808\"}}",
        "{\"__metadata__\":{\"last\":\"2\",\"version\":\"3\"}}",
        "{\"__metadata__\":{\"parked_seconds\":\"nan\"}," DATA("}"),
        "{\"__metadata__\":{\"parked_seconds\":\"-1\"}," DATA("}"),
        "{\"__metadata__\":{\"parked_seconds\":\"1e9\"}," DATA("}"),
        "{\"__metadata__\":{\"snapshot\":\"moon\",\"keep\":\"1,2,3\"}," DATA("}"),
        "{\"__metadata__\":{\"snapshot\":\"center\"}," DATA("}"),
        "{\"__metadata__\":{\"snapshot\":\"center\",\"keep\":\"1,2\"}," DATA("}"),
    };
    const struct body body = {{0, 7, 0}};
    struct body_note note;
    assert_int_equal(read_text("{" DATA("}"), &body, &note), 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        print_message("%s\n", texts[i]);
        assert_int_not_equal(read_text(texts[i], &body, &note), 0);
    }
}

/* One byte changed at every place: it is refused, or reads as the same tensors. */
static void a_changed_byte_never_passes_for_another_body(void **state)
{
    (void)state;
    const struct body body = {{3, 70, 5}};
    const struct body_note note = {.parked_seconds = 0.25, .mark = {.kinds = 1, .keep = {1, 2, 3}}};
    char header[BODY_HEADER_MAX];
    struct body_note read;
    struct err err = {0};
    const size_t size = body_write_header(&body, &note, header);
    size_t refused = 0;
    for (size_t at = 0; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            header[at] = (char)(header[at] ^ 1 << bit);
            const int rc = body_read_header(header, size, &body, &read, &err);
            refused += rc != 0;
            assert_true(rc != 0 || (read.parked_seconds >= 0 && !read.last));
            header[at] = (char)(header[at] ^ 1 << bit);
        }
    }
    assert_true(refused > size);
    for (size_t shorter = 8; shorter < size; shorter++) {
        assert_int_not_equal(body_read_header(header, shorter, &body, &read, &err), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_reads_back),
        cmocka_unit_test(the_last_answer_has_no_tensors),
        cmocka_unit_test(other_headers_are_refused),
        cmocka_unit_test(a_changed_byte_never_passes_for_another_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
