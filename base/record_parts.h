/* record_parts.h: helpers for record.c (reading) and record_write.c (writing, freeing). For these
 * two only. */
#ifndef BASE_RECORD_PARTS_H
#define BASE_RECORD_PARTS_H

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/record.h"

/* Return the field that describes one element of a list. A list of records has no `element`. */
static inline struct field record_element(const struct field *list)
{
    return list->element ? *list->element
                         : (struct field){.type = FIELD_RECORD, .record = list->record};
}

/* Return whether the messages of `version` have the field. */
static inline bool record_has(const struct field *field, int version)
{
    return field->since <= version;
}

/* Return whether a separate bool, not the value itself, marks the value as present. */
static inline bool record_has_presence(const struct field *field)
{
    return (field->flags & FIELD_NULLABLE) &&
           ((field->type == FIELD_RECORD && !field->record->first_alone) ||
            (field->flags & FIELD_PRESENCE));
}

/* Return the presence bool of the RECORD that excludes the field; NULL: none does. */
static inline const bool *record_unless(const struct record *record, const struct field *field,
                                        const char *base)
{
    size_t i = 0;
    if (!field->unless) {
        return NULL;
    }
    while (i < record->field_count && strcmp(record->fields[i].name, field->unless) != 0) {
        i++;
    }
    ASSERT(i < record->field_count && record_has_presence(&record->fields[i]) &&
           !record->fields[i].unless);
    return (const bool *)(const void *)(base + record->fields[i].presence_offset);
}

/* Read an INT of either size. */
static inline int64_t record_int(const struct field *field, const void *at)
{
    return field->size == sizeof(uint32_t) ? (int64_t) * (const uint32_t *)at
                                           : *(const int64_t *)at;
}

static inline void record_set_int(const struct field *field, int64_t value, void *at)
{
    if (field->size != sizeof(uint32_t)) {
        *(int64_t *)at = value;
        return;
    }
    ASSERT(value >= 0 && value <= UINT32_MAX);
    *(uint32_t *)at = (uint32_t)value;
}

/* Return the place of a list's element count, and of a nullable value's presence bool, in the
 * struct at base. */
static inline size_t *record_count(const struct field *list, char *base)
{
    return (size_t *)(void *)(base + list->count_offset);
}

static inline bool *record_presence(const struct field *field, char *base)
{
    return (bool *)(void *)(base + field->presence_offset);
}

/* Free the values that a field of the struct at base owns, and set the field to its zero value (a
 * record keeps its plain members, unless it has a text that stands for it). */
void record_clear_field(const struct field *field, char *base);
/* Return whether all members of the struct at base have their zero value. */
bool record_all_zero(const struct record *record, const char *base);

#endif
