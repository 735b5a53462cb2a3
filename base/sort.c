#include "base/sort.h"

#include <string.h>

#include "base/assert.h"

#define SWAP_BYTES 64

static void swap(char *a, char *b, size_t size)
{
    char kept[SWAP_BYTES];
    for (size_t at = 0; at < size; at += SWAP_BYTES) {
        const size_t part = size - at < SWAP_BYTES ? size - at : SWAP_BYTES;
        memcpy(kept, a + at, part);
        memcpy(a + at, b + at, part);
        memcpy(b + at, kept, part);
    }
}

static void sift_down(char *items, size_t root, size_t count, size_t size, sort_compare_fn compare)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && compare(items + child * size, items + (child + 1) * size) < 0) {
            child++;
        }
        if (compare(items + root * size, items + child * size) >= 0) {
            return;
        }
        swap(items + root * size, items + child * size, size);
        root = child;
    }
}

void sort_in_place(void *items, size_t count, size_t size, sort_compare_fn compare)
{
    char *item = items;
    size_t sorted = 1;
    while (sorted < count && compare(item + (sorted - 1) * size, item + sorted * size) <= 0) {
        sorted++;
    }
    if (sorted >= count) {
        return;
    }
    for (size_t i = count / 2; i > 0; i--) {
        sift_down(item, i - 1, count, size, compare);
    }
    for (size_t i = count - 1; i > 0; i--) {
        swap(item, item + i * size, size);
        sift_down(item, 0, i, size, compare);
    }
}

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

double sort_median(double *value, size_t count)
{
    ASSERT(count >= 1);
    sort_in_place(value, count, sizeof(value[0]), by_value);
    return (value[(count - 1) / 2] + value[count / 2]) / 2;
}

void sort_insert(size_t *order, double *key, size_t count, double own)
{
    size_t at = count;
    while (at > 0 && key[at - 1] < own) {
        key[at] = key[at - 1];
        order[at] = order[at - 1];
        at--;
    }
    key[at] = own;
    order[at] = count;
}
