#include "libtrain/formats/scanner.h"

#include <string.h>

#include "base/utf8.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_space(struct scanner *scanner)
{
    while (scanner->at < scanner->size && is_space(scanner->text[scanner->at])) {
        scanner->at++;
    }
}

bool scanner_take(struct scanner *scanner, char c)
{
    skip_space(scanner);
    if (scanner->at == scanner->size || scanner->text[scanner->at] != c) {
        return false;
    }
    scanner->at++;
    return true;
}

int scanner_expect(struct scanner *scanner, char c, struct err *err)
{
    if (scanner_take(scanner, c)) {
        return 0;
    }
    return err_set(err, ERR_FORMAT, "header byte %zu: expected '%c'", scanner->at, c);
}

bool scanner_at_end(struct scanner *scanner)
{
    skip_space(scanner);
    return scanner->at == scanner->size;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int scanner_integer(struct scanner *scanner, uint64_t *out, struct err *err)
{
    skip_space(scanner);
    size_t start = scanner->at;
    uint64_t value = 0;
    while (scanner->at < scanner->size && is_digit(scanner->text[scanner->at])) {
        uint64_t digit = (uint64_t)(scanner->text[scanner->at] - '0');
        if (value > (INT64_MAX - digit) / 10) {
            return err_set(err, ERR_FORMAT, "header byte %zu: the number is too large", start);
        }
        value = value * 10 + digit;
        scanner->at++;
    }
    size_t digits = scanner->at - start;
    if (digits == 0) {
        return err_set(err, ERR_FORMAT, "header byte %zu: expected an integer from 0", start);
    }
    if (digits > 1 && scanner->text[start] == '0') {
        return err_set(err, ERR_FORMAT, "header byte %zu: the number starts with a zero", start);
    }
    *out = value;
    return 0;
}

/* The value of a hexadecimal digit, or -1. */
static int32_t hex_digit(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Four hexadecimal digits, or -1. */
static int32_t hex4(struct scanner *scanner)
{
    int32_t value = 0;
    for (size_t i = 0; i < 4; i++, scanner->at++) {
        int32_t digit = scanner->at < scanner->size ? hex_digit(scanner->text[scanner->at]) : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* Read the digits after "\u", and the second half of a surrogate pair. Return the code point, or -1
 * if it is 0 or invalid. */
static int32_t code_point(struct scanner *scanner)
{
    int32_t high = hex4(scanner);
    if (high < 0xD800 || high > 0xDFFF) {
        return high == 0 ? -1 : high;
    }
    if (high > 0xDBFF || scanner->size - scanner->at < 2 ||
        memcmp(scanner->text + scanner->at, "\\u", 2) != 0) {
        return -1;
    }
    scanner->at += 2;
    int32_t low = hex4(scanner);
    return low < 0xDC00 || low > 0xDFFF ? -1 : 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

static size_t encode_utf8(int32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(lead[size] | code);
    return size;
}

/* Decode an escape after its backslash to UTF-8. Return its size, or 0 if it is invalid. */
static size_t decode_escape(struct scanner *scanner, char out[4])
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (scanner->at == scanner->size) {
        return 0;
    }
    char c = scanner->text[scanner->at++];
    if (c == 'u') {
        int32_t code = code_point(scanner);
        return code < 0 ? 0 : encode_utf8(code, out);
    }
    const char *found = memchr(names, c, sizeof(names) - 1);
    if (!found) {
        return 0;
    }
    out[0] = values[found - names];
    return 1;
}

/* Decode the next character of a text. Return its size, or 0 if it is invalid. */
static size_t next_character(struct scanner *scanner, char out[4])
{
    const char *here = scanner->text + scanner->at;
    if (*here == '\\') {
        scanner->at++;
        return decode_escape(scanner, out);
    }
    size_t size = (uint8_t)*here < 0x20 ? 0 : utf8_sequence(here, scanner->size - scanner->at);
    memcpy(out, here, size);
    scanner->at += size;
    return size;
}

/* Read a text. out NULL: discard a text of any size. *length: the size of the decoded text. */
static int take_text(struct scanner *scanner, char *out, size_t capacity, size_t *length,
                     struct err *err)
{
    int rc = scanner_expect(scanner, '"', err);
    if (rc) {
        return rc;
    }
    size_t used = 0;
    size_t start = scanner->at;
    while (scanner->at < scanner->size && scanner->text[scanner->at] != '"') {
        char character[4];
        size_t at = scanner->at;
        size_t size = next_character(scanner, character);
        if (size == 0) {
            return err_set(err, ERR_FORMAT, "header byte %zu: not a valid character of a text", at);
        }
        if (out && used + size >= capacity) {
            return err_set(err, ERR_LIMIT, "header byte %zu: the text is longer than %zu bytes",
                           start, capacity - 1);
        }
        if (out) {
            memcpy(out + used, character, size);
        }
        used += size;
    }
    if (scanner->at == scanner->size) {
        return err_set(err, ERR_FORMAT, "header byte %zu: the text does not end", start);
    }
    scanner->at++;
    *length = used;
    return 0;
}

int scanner_text(struct scanner *scanner, char *out, size_t capacity, struct err *err)
{
    size_t length = 0;
    int rc = take_text(scanner, out, capacity, &length, err);
    if (rc == 0) {
        out[length] = '\0';
    }
    return rc;
}

int scanner_skip_text(struct scanner *scanner, size_t *size, struct err *err)
{
    return take_text(scanner, NULL, 0, size, err);
}
