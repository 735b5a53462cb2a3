/* no_alloc.h: for code that promises not to allocate: between no_alloc_begin and no_alloc_end an
 * allocation of the calling thread ends the program with a message. A sanitizer owns the allocator:
 * nothing is watched there. */
#ifndef TESTS_SUPPORT_NO_ALLOC_H
#define TESTS_SUPPORT_NO_ALLOC_H

void no_alloc_begin(void);
void no_alloc_end(void);

#endif
