#include "libtrain/formats/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define FIRST_CAPACITY 64

int name_list_append(struct name_list *list, const char *text, size_t size, struct err *err)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : FIRST_CAPACITY;
        char **grown = realloc(list->item, capacity * sizeof(*grown));
        if (!grown) {
            return err_set(err, ERR_MEMORY, "no memory for %zu names", capacity);
        }
        list->item = grown;
        list->capacity = capacity;
    }
    char *name = strndup(text, size);
    if (!name) {
        return err_set(err, ERR_MEMORY, "no memory for a name");
    }
    utf8_repair_line(name);
    list->item[list->count++] = name;
    return 0;
}

void name_list_done(struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->item[i]);
    }
    free(list->item);
    *list = (struct name_list){0};
}

void dataset_names_done(struct dataset_names *names)
{
    name_list_done(&names->sample);
    name_list_done(&names->class);
}
