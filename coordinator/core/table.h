/* table.h: a fixed-capacity table of objects found by their text key: bsearch in an index kept in
 * the order of keys. Memory is reserved once and touched only as far as it is used. For the
 * coordinator's core only; one thread. */
#ifndef COORDINATOR_CORE_TABLE_H
#define COORDINATOR_CORE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct table {
    char *items;
    size_t item_size, key_offset; /* the key is a text within the item */
    uint32_t *order;              /* items in use, by key */
    size_t count;
    uint32_t *spare; /* items that were in use before: taken again first */
    size_t spare_count;
    size_t fresh; /* items from here on were never used */
    size_t max;
};

NODISCARD int table_init(struct table *table, size_t item_size, size_t key_offset, size_t max,
                         struct err *err);
void table_done(struct table *table);

/* NULL: not there. */
void *table_find(const struct table *table, const char *key);
/* The item at `index` in the order of keys. */
void *table_at(const struct table *table, size_t index);
/* A zeroed item with a place in the order; the caller writes the key into it at once. NULL: the
 * table is full. */
void *table_add(struct table *table, const char *key);
/* The item leaves the table; its content stays readable until the next table_add. */
void table_remove(struct table *table, void *item);
/* Which item it is: a number below max. */
size_t table_slot(const struct table *table, const void *item);

#endif
