#include "base/grow.h"

#include <stdlib.h>

void *grow(void *item, size_t element_size, size_t count, size_t *capacity)
{
    if (count < *capacity) {
        return item;
    }
    const size_t larger = *capacity ? *capacity * 2 : 16;
    void *moved = realloc(item, larger * element_size);
    *capacity = moved ? larger : *capacity;
    return moved;
}
