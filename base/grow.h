/* grow.h: makes room for one more element of a growing array. */
#ifndef BASE_GROW_H
#define BASE_GROW_H

#include <stddef.h>

/* Make room for element number `count` of the array `item` (NULL: none yet), which has room for
 * *capacity elements. Returns the array, which may have moved; NULL when out of memory, and the
 * array is unchanged. */
void *grow(void *item, size_t element_size, size_t count, size_t *capacity);

#endif
