#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

size_t utf8_sequence(const char *text, size_t size)
{
    const uint8_t *byte = (const uint8_t *)text;
    if (size == 0) {
        return 0;
    }
    if (byte[0] < 0x80) {
        return 1;
    }
    size_t length = byte[0] >= 0xF0 ? 4 : byte[0] >= 0xE0 ? 3 : 2;
    if (byte[0] < 0xC2 || byte[0] > 0xF4 || size < length) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(byte[i])) {
            return 0;
        }
    }
    /* Overlong forms, surrogates and code points above U+10FFFF (RFC 3629, table in section 4). */
    if ((byte[0] == 0xE0 && byte[1] < 0xA0) || (byte[0] == 0xED && byte[1] > 0x9F) ||
        (byte[0] == 0xF0 && byte[1] < 0x90) || (byte[0] == 0xF4 && byte[1] > 0x8F)) {
        return 0;
    }
    return length;
}

/* Whether a valid sequence is a control character: those of ASCII, and U+0080 to U+009F, of which
 * U+009B steers a terminal as "ESC [" does. */
static bool is_control(const uint8_t *byte)
{
    return byte[0] < 0x20 || byte[0] == 0x7F || (byte[0] == 0xC2 && byte[1] < 0xA0);
}

static void repair(char *text, bool one_line)
{
    size_t size = strlen(text);
    size_t i = 0;
    while (i < size) {
        size_t length = utf8_sequence(text + i, size - i);
        bool control = one_line && is_control((const uint8_t *)text + i);
        if (length == 0 || control) {
            length = length ? length : 1;
            memset(text + i, '?', length);
        }
        i += length;
    }
}

void utf8_repair(char *text)
{
    repair(text, false);
}

void utf8_repair_line(char *text)
{
    repair(text, true);
}

void utf8_mark_cut(char *text, size_t capacity)
{
    ASSERT(capacity >= 4);
    size_t end = capacity - 4;
    while (end > 0 && is_continuation((uint8_t)text[end])) {
        end--;
    }
    memcpy(text + end, "...", 4);
}
