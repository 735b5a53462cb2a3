/* utf8.h: makes text from outside safe to show. Any room, any thread. Error lines and JSON strings
 * must be UTF-8; paths, arguments and truncated texts need not be. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* Return the length in bytes of the valid UTF-8 sequence at the start of text[size], 1 to 4; 0:
 * none (or size is 0). */
size_t utf8_sequence(const char *text, size_t size);

/* Replace every byte that is not part of valid UTF-8 by '?', in place. */
void utf8_repair(char *text);

/* The same, and replace every control character too, so that the text is one line. */
void utf8_repair_line(char *text);

/* Mark text[capacity] as truncated, after a longer text filled it to the last byte: end it with
 * "..." after a complete character. */
void utf8_mark_cut(char *text, size_t capacity);

#endif
