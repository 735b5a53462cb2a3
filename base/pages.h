/* pages.h: zeroed memory for large tables and structs of which little is used. A page takes memory
 * when it is first written. calloc promises less: it clears blocks that the process freed before,
 * and AddressSanitizer writes shadow memory for every byte of a block. An access behind the end
 * faults. Any thread. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

/* Room for `count` elements of `size` bytes, at least 1 byte in all. NULL: out of memory. The end
 * is at most PAGES_ALIGNMENT - 1 bytes in front of the page that faults. */
enum { PAGES_ALIGNMENT = 64 };
void *pages_new(size_t count, size_t size);
/* NULL is allowed. */
void pages_free(void *pages);

#endif
