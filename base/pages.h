/* pages.h: zeroed memory for large tables and structs of which little is used. A page takes memory
 * when it is first written. calloc promises less: it clears blocks that the process freed before,
 * and AddressSanitizer writes shadow memory for every byte of a block. LeakSanitizer reports no
 * such block and finds no pointer in one. Any thread, any room. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

#define PAGES_ALIGNMENT 64

/* Return zeroed memory for `count` elements of `size` bytes; the caller frees it with pages_free.
 * NULL: out of memory, or larger than the address space. An access PAGES_ALIGNMENT bytes past the
 * end faults. AddressSanitizer reports every access outside of the block. */
void *pages_new(size_t count, size_t size);
/* NULL is allowed. */
void pages_free(void *pages);

#endif
