#include "libtrain/model/zoo.h"

#include <string.h>

#include "libtrain/model/model.h"

const char *model_zoo_name(size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (!zoo_entries[i].name) {
            return NULL;
        }
    }
    return zoo_entries[index].name;
}

const char *model_zoo_text(const char *name)
{
    for (const struct zoo_entry *entry = zoo_entries; entry->name; entry++) {
        if (strcmp(entry->name, name) == 0) {
            return entry->text;
        }
    }
    return NULL;
}
