/* pages.h: zeroed memory for large tables and structs of which little is used. A page takes memory
 * when it is first written. calloc promises less: it clears blocks that the process freed before,
 * and AddressSanitizer writes shadow memory for every byte of a block. LeakSanitizer neither counts
 * these blocks nor looks for pointers in them. Any thread, any room. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

#define PAGES_ALIGNMENT 64

/* Return room for `count` elements of `size` bytes, which pages_free gives back. NULL: out of
 * memory, or more than the address space. An access past the end faults, if it is PAGES_ALIGNMENT
 * bytes or more past it; AddressSanitizer sees those on either side of the block. */
void *pages_new(size_t count, size_t size);
/* NULL is allowed. */
void pages_free(void *pages);

#endif
