#include <stdio.h>
#include <string.h>

#include "libtrain/formats/safetensors.h"
#include "tests/support/test.h"

#define CAPACITY 4

struct parsed {
    struct safetensors_tensor tensor[CAPACITY];
    struct safetensors_header header;
    struct err err;
    int rc;
};

/* Parse a JSON header given as text. */
static struct parsed *parse(const char *json)
{
    static struct parsed parsed;
    char bytes[2048] = {0};
    size_t length = strlen(json);
    assert_true(length + 8 <= sizeof(bytes));
    bytes[0] = (char)(length & 0xFF);
    bytes[1] = (char)(length >> 8);
    memcpy(bytes + 8, json, length);
    parsed = (struct parsed){.header = {.tensor = parsed.tensor, .tensor_capacity = CAPACITY}};
    parsed.rc = safetensors_parse(bytes, length + 8, &parsed.header, &parsed.err);
    return &parsed;
}

static void assert_refused(const char *json, int code, const char *part)
{
    struct parsed *parsed = parse(json);
    assert_holds(parsed->err.text, part);
    assert_int_equal(parsed->rc, code);
}

#define TENSOR(name, begin, end)                                                                   \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" begin "," end "]}"

static void written_tensors_read_back(void **state)
{
    (void)state;
    struct safetensors_tensor tensor[3] = {
        {.name = "b.weight", .dtype = DTYPE_F32, .rank = 4, .dim = {2, 3, 1, 1}},
        {.name = "a \"quoted\" \\ \n \xC3\xA9", .dtype = DTYPE_I64, .rank = 0},
        {.name = "c", .dtype = DTYPE_U8, .rank = 1, .dim = {5}},
    };
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = 3, .tensor_count = 3};
    (void)snprintf(header.metadata[0].key, sizeof(header.metadata[0].key), "codec");
    (void)snprintf(header.metadata[0].value, sizeof(header.metadata[0].value), "none \"\t\"");
    header.metadata_count = 1;
    char bytes[1024];
    size_t size = 0;
    struct err err = {0};
    assert_ok(safetensors_write(&header, bytes, sizeof(bytes), &size, &err), &err);
    assert_int_equal(size % 64, 0);
    assert_int_equal(header.data_offset, size);
    assert_int_equal(header.data_bytes, 24 + 8 + 5);

    uint64_t header_bytes = 0;
    assert_ok(safetensors_header_bytes((const uint8_t *)bytes, &header_bytes, &err), &err);
    assert_int_equal(header_bytes, size);
    struct safetensors_tensor read[3];
    struct safetensors_header again = {.tensor = read, .tensor_capacity = 3};
    assert_ok(safetensors_parse(bytes, size, &again, &err), &err);
    assert_int_equal(again.tensor_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(read[i].name, tensor[i].name);
        assert_int_equal(read[i].dtype, tensor[i].dtype);
        assert_int_equal(read[i].rank, tensor[i].rank);
        assert_int_equal(read[i].begin, tensor[i].begin);
        assert_int_equal(read[i].end, tensor[i].end);
    }
    assert_int_equal(read[0].dim[1], 3);
    assert_string_equal(safetensors_metadata(&again, "codec"), "none \"\t\"");
    assert_null(safetensors_metadata(&again, "code"));
    assert_ptr_equal(safetensors_find(&again, "c"), &read[2]);
    assert_null(safetensors_find(&again, "d"));

    char second[1024];
    size_t second_size = 0;
    assert_ok(safetensors_write(&again, second, sizeof(second), &second_size, &err), &err);
    assert_int_equal(second_size, size);
    assert_memory_equal(second, bytes, size);
}

static void a_header_that_does_not_fit_is_a_limit(void **state)
{
    (void)state;
    struct safetensors_tensor tensor = {.name = "a", .dtype = DTYPE_F32, .rank = 1, .dim = {5}};
    struct safetensors_header header = {.tensor = &tensor, .tensor_capacity = 1, .tensor_count = 1};
    char bytes[256];
    size_t size = 0;
    struct err err = {0};
    for (size_t capacity = 0; capacity < 64; capacity++) {
        assert_int_equal(safetensors_write(&header, bytes, capacity, &size, &err), ERR_LIMIT);
    }
    assert_ok(safetensors_write(&header, bytes, 64, &size, &err), &err);
    tensor.dim[0] = UINT64_MAX / 2;
    assert_int_equal(safetensors_write(&header, bytes, sizeof(bytes), &size, &err), ERR_LIMIT);
    assert_holds(err.text, "tensor 'a' is too large");
}

static void tensors_are_listed_in_the_order_of_their_offsets(void **state)
{
    (void)state;
    struct parsed *parsed = parse("{" TENSOR("z", "8", "12") "," TENSOR("y", "0", "4") "," TENSOR(
        "x", "12", "16") "," TENSOR("w", "4", "8") "}");
    assert_ok(parsed->rc, &parsed->err);
    static const char *const names[] = {"y", "w", "z", "x"};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(parsed->tensor[i].name, names[i]);
    }
    assert_int_equal(parsed->header.data_bytes, 16);
}

static void empty_tensors_and_empty_headers_are_fine(void **state)
{
    (void)state;
    struct parsed *parsed = parse("{}   ");
    assert_ok(parsed->rc, &parsed->err);
    assert_int_equal(parsed->header.tensor_count, 0);
    parsed = parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[4,4]}," TENSOR(
        "b", "0", "4") "}");
    assert_ok(parsed->rc, &parsed->err);
    assert_string_equal(parsed->tensor[1].name, "a");
}

static void escapes_are_decoded(void **state)
{
    (void)state;
    struct parsed *parsed = parse("{\"__metadata__\":{\"k\":\"\\u00e9\\ud83d\\ude00\\/\\t\"}}");
    assert_ok(parsed->rc, &parsed->err);
    assert_string_equal(safetensors_metadata(&parsed->header, "k"), "\xC3\xA9\xF0\x9F\x98\x80/\t");
}

static void long_values_need_room_of_the_caller(void **state)
{
    (void)state;
    char json[512], value[201] = {0}, room[256];
    memset(value, 'v', 200);
    (void)snprintf(json, sizeof(json),
                   "{\"__metadata__\":{\"a\":\"1\",\"long\":\"%s\\\"\",\"z\":\"2\"}}", value);
    struct parsed *parsed = parse(json);
    assert_ok(parsed->rc, &parsed->err);
    assert_string_equal(safetensors_metadata(&parsed->header, "long"), "");
    assert_string_equal(safetensors_metadata(&parsed->header, "z"), "2");

    char bytes[1024], again[1024];
    size_t size = 0, again_size = 0;
    struct err err = {0};
    value[199] = '"';
    struct safetensors_header header = {
        .metadata = {{.key = "long", .long_value = value}, {.key = "short", .value = "s"}},
        .metadata_count = 2};
    assert_ok(safetensors_write(&header, bytes, sizeof(bytes), &size, &err), &err);
    struct safetensors_header read = {.text = room, .text_capacity = 201};
    assert_ok(safetensors_parse(bytes, size, &read, &err), &err);
    assert_string_equal(safetensors_metadata(&read, "long"), value);
    assert_string_equal(safetensors_metadata(&read, "short"), "s");
    assert_ok(safetensors_write(&read, again, sizeof(again), &again_size, &err), &err);
    assert_int_equal(size, again_size);
    assert_memory_equal(bytes, again, size);
    read.text_capacity = 200;
    assert_ok(safetensors_parse(bytes, size, &read, &err), &err);
    assert_string_equal(safetensors_metadata(&read, "long"), "");
}

static void invalid_texts_are_rejected(void **state)
{
    (void)state;
    static const char *const values[] = {
        "\\u0000", "\\ud83d", "\\ud83dx", "\\ud83d\\u0041", "\\ude00", "\\u12",
        "\\u12g4", "\\x",     "\xFF",     "\xC3",           "\n",      "\xED\xA0\x80",
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char json[64];
        (void)snprintf(json, sizeof(json), "{\"__metadata__\":{\"k\":\"%s\"}}", values[i]);
        assert_refused(json, ERR_FORMAT, "not a valid character");
    }
    assert_refused("{\"abc", ERR_FORMAT, "the text does not end");
    assert_refused("{\"abc\\", ERR_FORMAT, "not a valid character");
}

static void holes_overlaps_and_wrong_sizes_are_rejected(void **state)
{
    (void)state;
    assert_refused("{" TENSOR("a", "0", "4") "," TENSOR("b", "5", "9") "}", ERR_FORMAT,
                   "'b' starts at byte 5");
    assert_refused("{" TENSOR("a", "0", "4") "," TENSOR("b", "3", "7") "}", ERR_FORMAT, "before 4");
    assert_refused("{" TENSOR("a", "1", "5") "}", ERR_FORMAT, "'a' starts at byte 1");
    assert_refused("{" TENSOR("a", "0", "5") "}", ERR_FORMAT, "tensor 'a': its offsets [0, 5]");
    assert_refused("{" TENSOR("a", "4", "0") "}", ERR_FORMAT, "its offsets [4, 0]");
}

static void overflowing_sizes_are_rejected(void **state)
{
    (void)state;
    assert_refused(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}",
        ERR_FORMAT, "not dtype x shape apart");
    assert_refused(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
        ERR_FORMAT, "not dtype x shape apart");
    assert_refused("{" TENSOR("a", "0", "9223372036854775808") "}", ERR_FORMAT,
                   "the number is too large");
    assert_refused("{" TENSOR("a", "9223372036854775804", "9223372036854775807") "}", ERR_FORMAT,
                   "apart");
}

static void claimed_lengths_are_bounded(void **state)
{
    (void)state;
    struct err err = {0};
    uint64_t bytes = 0;
    static const uint8_t largest[8] = {255, 255, 255, 255, 255, 255, 255, 255}, smallest[8] = {1};
    static const uint8_t above[8] = {0xF9, 0xFF, 0x7F};
    static const uint8_t most[8] = {0xF8, 0xFF, 0x7F};
    assert_int_equal(safetensors_header_bytes(largest, &bytes, &err), ERR_FORMAT);
    assert_int_equal(safetensors_header_bytes(smallest, &bytes, &err), ERR_FORMAT);
    assert_int_equal(safetensors_header_bytes(above, &bytes, &err), ERR_FORMAT);
    assert_ok(safetensors_header_bytes(most, &bytes, &err), &err);
    static const uint8_t *const torch[] = {(const uint8_t *)"PK\3\4\0\0\10\10",
                                           (const uint8_t *)"\x80\2\x8a\nl\xfc\x9c\x46"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(safetensors_header_bytes(torch[i], &bytes, &err), ERR_FORMAT);
        assert_non_null(strstr(err.text, "a PyTorch file; tools/from_torch.py"));
    }
    assert_int_equal(bytes, SAFETENSORS_HEADER_MAX);

    struct safetensors_header header = {0};
    assert_int_equal(safetensors_parse("\x02\0\0\0\0\0\0\0{}", 9, &header, &err), ERR_FORMAT);
    assert_int_equal(safetensors_parse("\x02\0\0\0\0\0\0\0{} ", 11, &header, &err), ERR_FORMAT);
    assert_int_equal(safetensors_parse("\x02\0\0", 3, &header, &err), ERR_FORMAT);
    assert_ok(safetensors_parse("\x02\0\0\0\0\0\0\0{}", 10, &header, &err), &err);
}

static void names_and_members_are_there_once(void **state)
{
    (void)state;
    assert_refused(
        "{" TENSOR("a", "0", "4") "," TENSOR("b", "4", "8") "," TENSOR("a", "8", "12") "}",
        ERR_FORMAT, "'a' occurs twice");
    assert_refused("{\"__metadata__\":{},\"__metadata__\":{}}", ERR_FORMAT,
                   "__metadata__ occurs twice");
    assert_refused("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", ERR_FORMAT,
                   "metadata 'a' occurs twice");
    assert_refused(
        "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
        ERR_FORMAT, "tensor 'a': 'dtype' occurs twice");
    assert_refused("{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", ERR_FORMAT, "are needed");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4]}}", ERR_FORMAT,
                   "are needed");
    assert_refused("{\"a\":{\"type\":\"U8\"}}", ERR_FORMAT, "'type' is not a known member");
    assert_refused("{\"a\":{}}", ERR_FORMAT, "expected '\"'");
}

static void other_dtypes_are_named(void **state)
{
    (void)state;
    assert_refused(
        "{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]}}", ERR_FORMAT,
        "dtype 'BF16' is not one of U8, I32, I64, F32, F64; tools/from_torch.py makes F32 of it");
}

static void more_tensors_than_the_capacity_are_a_limit_error(void **state)
{
    (void)state;
    assert_refused("{" TENSOR("a", "0", "4") "," TENSOR("b", "4", "8") "," TENSOR(
                       "c", "8", "12") "," TENSOR("d", "12", "16") "," TENSOR("e", "16", "20") "}",
                   ERR_LIMIT, "more than 4 tensors");
    assert_refused(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
        ERR_FORMAT, "more than 8 numbers");
    char json[512];
    (void)snprintf(json, sizeof(json), "{\"%0200d\":{}}", 0);
    assert_refused(json, ERR_LIMIT, "longer than 127 bytes");
}

static void json_outside_the_subset_is_rejected(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[]",
        " {}",
        "{",
        "{}x",
        "{,}",
        "{\"a\"}",
        "{\"a\":1}",
        "{\"a\":null}",
        "{} {}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4,],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4e0],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[04],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":[]}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_refused(texts[i], ERR_FORMAT, "safetensors: ");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_tensors_read_back),
        cmocka_unit_test(a_header_that_does_not_fit_is_a_limit),
        cmocka_unit_test(tensors_are_listed_in_the_order_of_their_offsets),
        cmocka_unit_test(empty_tensors_and_empty_headers_are_fine),
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(long_values_need_room_of_the_caller),
        cmocka_unit_test(invalid_texts_are_rejected),
        cmocka_unit_test(holes_overlaps_and_wrong_sizes_are_rejected),
        cmocka_unit_test(overflowing_sizes_are_rejected),
        cmocka_unit_test(claimed_lengths_are_bounded),
        cmocka_unit_test(names_and_members_are_there_once),
        cmocka_unit_test(other_dtypes_are_named),
        cmocka_unit_test(more_tensors_than_the_capacity_are_a_limit_error),
        cmocka_unit_test(json_outside_the_subset_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
