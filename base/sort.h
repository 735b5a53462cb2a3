/* sort.h: sort in place without allocating, for cores; libc's qsort may allocate. Pure; any
 * thread. */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stddef.h>

/* As qsort: negative, 0 or positive. */
typedef int (*sort_compare_fn)(const void *a, const void *b);

/* Sort item[count] of `size` bytes each. Not stable. Heapsort: O(count log count) for any order,
 * allocates nothing; sorted input costs one pass. */
void sort_in_place(void *items, size_t count, size_t size, sort_compare_fn compare);
/* Return the median of value[count], at least one and no NaN: of an even number the mean of both in
 * the middle. Sorts them. */
double sort_median(double *value, size_t count);

#endif
