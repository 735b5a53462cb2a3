/* record_parts.h: helpers for record.c (reading) and record_write.c (writing, freeing). For these
 * two only. */
#ifndef BASE_RECORD_PARTS_H
#define BASE_RECORD_PARTS_H

#include "base/record.h"

/* One element of a list as a field of its own: those of a list of records have no table. */
static inline struct field record_element(const struct field *list)
{
    return list->element ? *list->element
                         : (struct field){.type = FIELD_RECORD, .record = list->record};
}

/* Whether the field belongs to the messages of `version`. */
static inline bool record_has(const struct field *field, int version)
{
    return field->since <= version;
}

/* Whether a bool beside the value, not the value itself, marks it as present. */
static inline bool record_has_presence(const struct field *field)
{
    return (field->flags & FIELD_NULLABLE) &&
           (field->type == FIELD_RECORD || (field->flags & FIELD_PRESENCE));
}

/* Where the struct at base keeps the number of a list's elements, and whether a nullable value is
 * there. */
static inline size_t *record_count(const struct field *list, char *base)
{
    return (size_t *)(void *)(base + list->count_offset);
}

static inline bool *record_presence(const struct field *field, char *base)
{
    return (bool *)(void *)(base + field->presence_offset);
}

/* Free what the field of the struct at base owns and give it its zero value (a record keeps its
 * plain members). */
void record_clear_field(const struct field *field, char *base);

#endif
