/* pages.h: zeroed memory for large and mostly unused structs of tests. AddressSanitizer writes
 * shadow memory for every byte of a block of calloc, which takes longer than most tests. Any
 * thread. */
#ifndef TESTS_SUPPORT_PAGES_H
#define TESTS_SUPPORT_PAGES_H

#include <stddef.h>

/* NULL: out of memory. */
void *pages_new(size_t size);
/* NULL is allowed. */
void pages_free(void *pages, size_t size);

#endif
