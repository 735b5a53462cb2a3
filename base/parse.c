#include "base/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int parse_i64(const char *text, int64_t min, int64_t max, int64_t *out, struct err *err)
{
    const char *digits = text + (text[0] == '-');
    char *end = NULL;
    errno = 0;
    /* strtoll alone would take leading space and '+'. */
    long long value = is_digit(digits[0]) ? strtoll(text, &end, 10) : 0;
    if (!end || *end != '\0') {
        return err_set(err, ERR_INVALID, "'%s' is not a whole number", text);
    }
    if (errno == ERANGE || value < min || value > max) {
        return err_set(err, ERR_INVALID, "'%s' is out of range; expected %" PRId64 " to %" PRId64,
                       text, min, max);
    }
    *out = value;
    return 0;
}

int parse_double(const char *text, double min, double max, double *out, struct err *err)
{
    /* strtod alone would take leading space, hexadecimal, "inf" and "nan". */
    bool plain = text[0] != '\0' && text[strspn(text, "0123456789.eE+-")] == '\0' && text[0] != '+';
    char *end = NULL;
    double value = plain ? strtod(text, &end) : 0;
    if (!end || *end != '\0' || end == text) {
        return err_set(err, ERR_INVALID, "'%s' is not a number", text);
    }
    if (!isfinite(value) || value < min || value > max) {
        return err_set(err, ERR_INVALID, "'%s' is out of range; expected %.17g to %.17g", text, min,
                       max);
    }
    *out = value;
    return 0;
}

int parse_size(const char *text, uint64_t *out_bytes, struct err *err)
{
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    errno = 0;
    unsigned long long value = is_digit(text[0]) ? strtoull(text, &end, 10) : 0;
    unsigned shift = 0;
    if (end && *end != '\0') {
        const char *suffix = strchr(suffixes, *end);
        shift = suffix ? (unsigned)(suffix - suffixes + 1) * 10 : 0;
        end += suffix != NULL;
    }
    if (!end || *end != '\0') {
        return err_set(err, ERR_INVALID,
                       "'%s' is not a size; expected bytes such as 512, 64K, 8M, 2G or 1T", text);
    }
    if (errno == ERANGE || value > UINT64_MAX >> shift) {
        return err_set(err, ERR_INVALID, "'%s' is out of range; expected less than 2^64 bytes",
                       text);
    }
    *out_bytes = value << shift;
    return 0;
}

int parse_bool(const char *text, bool *out, struct err *err)
{
    bool yes = strcmp(text, "true") == 0;
    if (!yes && strcmp(text, "false") != 0) {
        return err_set(err, ERR_INVALID, "'%s' is not a boolean; expected true or false", text);
    }
    *out = yes;
    return 0;
}

/* c is one of 0-9 and a-f. */
static unsigned hex_value(char c)
{
    return (unsigned)(is_digit(c) ? c - '0' : c - 'a' + 10);
}

int parse_hex(const char *text, uint8_t *out, size_t size, struct err *err)
{
    if (strlen(text) / 2 != size || strlen(text) % 2 != 0 ||
        strspn(text, "0123456789abcdef") != size * 2) {
        return err_set(err, ERR_INVALID, "'%s' is not %zu bytes in lower-case hexadecimal", text,
                       size);
    }
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)(hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
    }
    return 0;
}

void parse_to_hex(const uint8_t *data, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
    out[2 * size] = '\0';
}

#define NEAREST_TEXT_MAX 64
#define NEAREST_PREFIX_MIN 3 /* letters that a word has to begin with another one */

/* Levenshtein distance of two texts of at most NEAREST_TEXT_MAX bytes. A swap of adjacent letters
 * counts as one mistake (optimal string alignment). Three rows of the table suffice. */
static size_t edit_distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t rows[3][NEAREST_TEXT_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_size; j++) {
        row[j] = j;
    }
    for (size_t i = 0; i < a_size; i++) {
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
        row[0] = i + 1;
        for (size_t j = 0; j < b_size; j++) {
            size_t best = above[j] + (a[i] != b[j]);
            best = above[j + 1] + 1 < best ? above[j + 1] + 1 : best;
            best = row[j] + 1 < best ? row[j] + 1 : best;
            bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
            row[j + 1] = swapped && before[j - 1] + 1 < best ? before[j - 1] + 1 : best;
        }
    }
    return row[b_size];
}

/* "batch" and "batch_size", "conv" and "conv2d": the one begins the other. */
static bool begins(const char *text, size_t size, const char *candidate, size_t candidate_size)
{
    size_t shorter = size < candidate_size ? size : candidate_size;
    return shorter >= NEAREST_PREFIX_MIN && memcmp(text, candidate, shorter) == 0;
}

/* "lr" and "learning_rate". */
static bool has_initials(const char *text, const char *candidate)
{
    size_t count = 0;
    for (const char *word = candidate; word; word = strpbrk(word, "_-")) {
        word += count > 0;
        if (text[count] == '\0' || text[count] != word[0]) {
            return false;
        }
        count++;
    }
    return count > 1 && text[count] == '\0';
}

const char *parse_nearest(const char *text, const char *const *candidates, size_t count)
{
    size_t size = strnlen(text, NEAREST_TEXT_MAX + 1);
    if (size > NEAREST_TEXT_MAX) {
        return NULL;
    }
    const char *nearest = NULL;
    const char *related = NULL;
    size_t least = size / 3;
    for (size_t i = 0; i < count; i++) {
        size_t candidate_size = strnlen(candidates[i], NEAREST_TEXT_MAX + 1);
        if (candidate_size > NEAREST_TEXT_MAX) {
            continue;
        }
        size_t distance = edit_distance(text, size, candidates[i], candidate_size);
        if (distance < least || (distance == least && !nearest)) {
            least = distance;
            nearest = candidates[i];
        }
        if (!related && (begins(text, size, candidates[i], candidate_size) ||
                         has_initials(text, candidates[i]))) {
            related = candidates[i];
        }
    }
    return nearest ? nearest : related;
}
