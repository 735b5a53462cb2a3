/* sort.h: sort without allocating, for cores; libc's qsort may allocate. Pure; any thread. */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stddef.h>

/* As qsort: negative, 0 or positive. */
typedef int (*sort_compare_fn)(const void *a, const void *b);

/* Sort item[count] of `size` bytes each. Not stable. Heapsort: O(count log count) for any order,
 * allocates nothing; sorted input costs one pass. */
void sort_in_place(void *items, size_t count, size_t size, sort_compare_fn compare);
/* Return the median of value[count]; for an even count the mean of the two middle values. count >=
 * 1, no NaN. Sorts the values. */
double sort_median(double *value, size_t count);
/* Insert number `count` with its key: order[count] are numbers by falling keys, key[count] these
 * keys. A number comes after those of equal keys. Both arrays have room for one more. */
void sort_insert(size_t *order, double *key, size_t count, double own);

#endif
