/* grow.h: room for one more element of a growing array. */
#ifndef BASE_GROW_H
#define BASE_GROW_H

#include <stddef.h>

/* Make room for element number `count` of the array `item` (NULL: none yet), which has room for
 * *capacity. Returns the array, moved perhaps; NULL when out of memory: it stays as it was. */
void *grow(void *item, size_t element_size, size_t count, size_t *capacity);

#endif
