/* table.h: a table of fixed capacity whose items are found by a text key: binary search in an index
 * sorted by key. Memory is reserved once and touched only as far as it is used. For the
 * coordinator's core; one thread. */
#ifndef COORDINATOR_CORE_STATE_TABLE_H
#define COORDINATOR_CORE_STATE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct table {
    char *items;
    size_t item_size, key_offset; /* the key is a text within the item */
    uint32_t *order;              /* slots in use, sorted by key */
    size_t count;
    uint32_t *spare; /* slots of removed items, reused first */
    size_t spare_count;
    size_t fresh; /* slots from here on were never used */
    size_t max;
};

/* Reserve room for `max` items; ERR_MEMORY. */
NODISCARD int table_init(struct table *table, size_t item_size, size_t key_offset, size_t max,
                         struct err *err);
void table_done(struct table *table);

/* Return the item with the key, or NULL. */
void *table_find(const struct table *table, const char *key);
/* Return the item at `index` in the order of keys. */
void *table_at(const struct table *table, size_t index);
/* Add a zeroed item at the key's place; the caller writes the key into it at once. NULL: full. */
void *table_add(struct table *table, const char *key);
/* Remove the item; its content stays readable until the next table_add. */
void table_remove(struct table *table, void *item);
/* Return the slot of the item, a number below max. */
size_t table_slot(const struct table *table, const void *item);

#endif
