#include "coordinator/core/state/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/pages.h"

int table_init(struct table *table, size_t item_size, size_t key_offset, size_t max,
               struct err *err)
{
    *table = (struct table){.item_size = item_size, .key_offset = key_offset, .max = max};
    table->items = pages_new(max, item_size);
    table->order = calloc(max, sizeof(table->order[0]));
    table->spare = calloc(max, sizeof(table->spare[0]));
    if (!table->items || !table->order || !table->spare) {
        return err_set(err, ERR_MEMORY, "out of memory for a table of %zu x %zu bytes", max,
                       item_size);
    }
    return 0;
}

void table_done(struct table *table)
{
    pages_free(table->items);
    free(table->order);
    free(table->spare);
    *table = (struct table){0};
}

void *table_at(const struct table *table, size_t index)
{
    ASSERT(index < table->count);
    return table->items + (size_t)table->order[index] * table->item_size;
}

/* The index of the key, or the index at which to insert it. */
static size_t position(const struct table *table, const char *key, bool *found)
{
    size_t low = 0, high = table->count;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp((const char *)table_at(table, middle) + table->key_offset, key);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void *table_find(const struct table *table, const char *key)
{
    bool found;
    size_t index = position(table, key, &found);
    return found ? table_at(table, index) : NULL;
}

void *table_add(struct table *table, const char *key)
{
    bool found;
    size_t index = position(table, key, &found);
    ASSERT(!found);
    if (table->count == table->max) {
        return NULL;
    }
    size_t slot = table->spare_count > 0 ? table->spare[--table->spare_count] : table->fresh++;
    memmove(&table->order[index + 1], &table->order[index],
            (table->count - index) * sizeof(table->order[0]));
    table->order[index] = (uint32_t)slot;
    table->count++;
    char *item = table->items + slot * table->item_size;
    memset(item, 0, table->item_size);
    return item;
}

void table_remove(struct table *table, void *item)
{
    bool found;
    size_t index = position(table, (const char *)item + table->key_offset, &found);
    ASSERT(found && table_at(table, index) == item);
    table->count--;
    memmove(&table->order[index], &table->order[index + 1],
            (table->count - index) * sizeof(table->order[0]));
    table->spare[table->spare_count++] = (uint32_t)table_slot(table, item);
}

size_t table_slot(const struct table *table, const void *item)
{
    return (size_t)((const char *)item - table->items) / table->item_size;
}
