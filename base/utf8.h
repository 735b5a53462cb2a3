/* utf8.h: text from outside made safe to show. Any room, any thread. Error lines and JSON strings
 * must be UTF-8; paths, arguments and cut texts need not be. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* Bytes of the valid UTF-8 sequence at the start of text[size], 1 to 4; 0 when there is none (or
 * size is 0). */
size_t utf8_sequence(const char *text, size_t size);

/* Replace every byte that is not part of valid UTF-8 by '?', in place. */
void utf8_repair(char *text);

/* The same, and every control character too: what remains is one line. */
void utf8_repair_line(char *text);

/* Mark text[capacity], which a longer text filled to the last byte, as truncated: end it with
 * "..." after a whole character. */
void utf8_mark_cut(char *text, size_t capacity);

#endif
