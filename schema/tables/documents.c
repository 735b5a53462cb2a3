#include "schema/tables/documents.h"

#include <stdio.h>

#include "schema/job.h"
#include "schema/limits.h"
#include "schema/records.h"

#define NAME_BYTES 64 /* "stages[].measured_backward_seconds" */

static void add_range(struct page *page, const struct field *field)
{
    char number[PAGE_NUMBER_SIZE];
    page_number(field->min, number);
    page_add(page, "%s to ", number);
    if (field->max >= INTEGER_MAX) {
        page_add(page, "2^53 - 1");
    } else {
        page_number(field->max, number);
        page_add(page, "%s", number);
    }
    page_add(page, "%s", field->flags & FIELD_NULLABLE ? ", or null" : "");
}

static void add_words(struct page *page, const struct field *field)
{
    for (size_t i = 0; field->names[i]; i++) {
        page_add(page, "%s`%s`", i > 0 ? ", " : "", field->names[i]);
    }
}

/* The text that follows from the table; the field's rule is appended. Recursion ends with the field
 * that takes a list's place. */
static bool add_bounds(struct page *page, const struct field *field)
{
    if (field->type == FIELD_CONSTANT) {
        page_add(page, "only the default");
    } else if (field->type == FIELD_ENUM) {
        add_words(page, field);
    } else if (field->type == FIELD_LIST && field->instead) {
        (void)add_bounds(page, field->instead);
        page_add(page, ", or a list of at most %zu", field->size);
    } else if (field->type == FIELD_LIST || field->type == FIELD_MAP) {
        page_add(page, "at most %zu", field->size);
    } else if ((field->type == FIELD_INT || field->type == FIELD_DOUBLE) &&
               page_is_bounded(field)) {
        add_range(page, field);
    } else {
        return false;
    }
    return true;
}

static void add_row(struct page *page, const char *name, const struct field *field,
                    const json_t *value)
{
    page_add(page, "| `%s` | ", name);
    if (field->flags & FIELD_REQUIRED) {
        page_add(page, "required");
    } else if (value) {
        page_add(page, "`");
        page_add_default(page, value);
        page_add(page, "`");
    } else {
        page_add(page, "none");
    }
    page_add(page, " | %s | ", field->about ? field->about : "");
    const bool bounded = add_bounds(page, field);
    if (field->rule) {
        page_add(page, "%s%s", bounded ? "; " : "", field->rule);
    }
    page_add(page, bounded || field->rule ? " |\n" : "|\n");
}

/* Recursion is bounded by the nesting of the tables. */
static void add_rows(struct page *page, const char *prefix, const struct record *record,
                     const json_t *defaults)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        const json_t *value = json_object_get(defaults, field->name);
        char name[NAME_BYTES];
        (void)snprintf(name, sizeof(name), "%s%s", prefix, field->name);
        if (field->type == FIELD_RECORD) {
            if ((field->flags & FIELD_NULLABLE) || field->record->first_alone) {
                add_row(page, name, field, json_null());
            }
            (void)snprintf(name, sizeof(name), "%s%s.", prefix, field->name);
            add_rows(page, name, field->record, value);
        } else {
            add_row(page, name, field, value);
        }
    }
}

void documents_add_job_fields(struct page *page)
{
    json_auto_t *defaults = page_job_defaults();
    page_add(page, "\n| field | default | meaning | bounds |\n|---|---|---|---|\n");
    add_rows(page, "", &job_spec_record, defaults);
    page_add(page, "\n");
}

static void add_kind(struct page *page, const struct field *field)
{
    switch (field->type) {
    case FIELD_BOOL: page_add(page, "boolean"); break;
    case FIELD_INT: page_add(page, "integer"); break;
    case FIELD_DOUBLE: page_add(page, "number"); break;
    case FIELD_TEXT: page_add(page, "text"); break;
    case FIELD_ENUM: add_words(page, field); break;
    case FIELD_TIME: page_add(page, "time"); break;
    case FIELD_LIST:
        if (field->instead) {
            add_kind(page, field->instead);
            page_add(page, ", or a ");
        }
        page_add(page, "list");
        break;
    case FIELD_RECORD:
    case FIELD_MAP:
    case FIELD_JSON: page_add(page, "object"); break;
    case FIELD_CONSTANT: page_add(page, "`%s`", field->constant); break;
    }
    page_add(page, "%s", field->flags & FIELD_NULLABLE ? ", or null" : "");
}

/* Recursion is bounded by the nesting of the tables. */
static void add_answer_rows(struct page *page, const char *prefix, const struct record *record)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        const struct record *inner = field->type == FIELD_MAP ? NULL : field->record;
        const char *about = field->about ? field->about : inner && inner->about ? inner->about : "";
        page_add(page, "| `%s%s` | ", prefix, field->name);
        add_kind(page, field);
        page_add(page, *about ? " | %s |\n" : " | |\n", about);
        if (inner && !records_find(inner->name)) {
            char name[NAME_BYTES];
            (void)snprintf(name, sizeof(name), "%s%s%s.", prefix, field->name,
                           field->type == FIELD_LIST ? "[]" : "");
            add_answer_rows(page, name, inner);
        }
    }
}

void documents_add_answer_fields(struct page *page, const struct record *record)
{
    page_add(page, "\n| field | value | meaning |\n|---|---|---|\n");
    add_answer_rows(page, "", record);
    page_add(page, "\n");
}
