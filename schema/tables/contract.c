#include "schema/tables/contract.h"

#include <string.h>

#include "base/assert.h"
#include "schema/job.h"
#include "schema/limits.h"
#include "schema/records.h"
#include "schema/tables/shared.h"

#define SCHEMAS_MAX 160
#define OWN_PAGE "jobs.md" /* that of links such as #kernels */

/* The records in the order of their schemas: those of records_all, then those inside them. */
struct schemas {
    const struct record *record[SCHEMAS_MAX];
    const json_t *defaults[SCHEMAS_MAX]; /* borrowed; NULL: the record states none */
    size_t count;
};

/* A row of the store that no route shows. */
static bool is_private(const struct record *record)
{
    return strcmp(record->name, "center_unit") == 0;
}

static void note_record(struct schemas *schemas, const struct record *record,
                        const json_t *defaults)
{
    size_t i = 0;
    while (i < schemas->count && strcmp(schemas->record[i]->name, record->name) != 0) {
        i++;
    }
    if (i == schemas->count && !is_private(record)) {
        ASSERT(schemas->count < SCHEMAS_MAX);
        schemas->record[schemas->count] = record;
        schemas->defaults[schemas->count++] = defaults;
    }
}

static void note_inner(struct schemas *schemas, size_t index)
{
    const struct record *record = schemas->record[index];
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        if ((field->type == FIELD_RECORD || field->type == FIELD_LIST) && field->record) {
            note_record(schemas, field->record,
                        field->type == FIELD_RECORD
                            ? json_object_get(schemas->defaults[index], field->name)
                            : NULL);
        }
    }
}

/* Adds a text for double quotes. A link becomes the path of its page, without the place in
 * it. */
static void add_escaped(struct page *page, const char *text)
{
    for (const char *at = text; *at; at++) {
        const char *target = *at == '[' ? strstr(at, "](") : NULL;
        const char *end = target ? strchr(target, ')') : NULL;
        if (end && target < strchr(at, ']') + 1) {
            const int size = (int)strcspn(target + 2, "#)");
            page_add(page, "docs/%.*s", size > 0 ? size : (int)strlen(OWN_PAGE),
                     size > 0 ? target + 2 : OWN_PAGE);
            at = end;
        } else if (*at == '"' || *at == '\\') {
            page_add(page, "\\%c", *at);
        } else {
            page_add(page, "%c", *at);
        }
    }
}

static void add_quoted(struct page *page, const char *text)
{
    page_add(page, "\"");
    add_escaped(page, text);
    page_add(page, "\"");
}

static void add_type(struct page *page, const struct field *field, const char *type)
{
    page_add(page, field->flags & FIELD_NULLABLE ? "type: [%s, \"null\"]" : "type: %s", type);
}

static void add_bounds(struct page *page, const struct field *field)
{
    char number[PAGE_NUMBER_SIZE];
    if (page_is_bounded(field)) {
        page_number(field->min, number);
        page_add(page, ", minimum: %s", number);
    }
    if (page_has_maximum(field)) {
        page_number(field->max, number);
        page_add(page, ", maximum: %s", number);
    }
}

static void add_text(struct page *page, const struct field *field)
{
    add_type(page, field, "string");
    if (field->form) {
        page_add(page, ", pattern: ");
        add_quoted(page, field->form->pattern);
    }
    if (!field->form || !field->form->shared) {
        page_add(page, ", maxLength: %zu", field->size - 1);
    }
}

static void add_enum(struct page *page, const struct field *field)
{
    add_type(page, field, "string");
    page_add(page, ", enum: [");
    for (size_t i = 0; field->names[i]; i++) {
        page_add(page, "%s%s", i > 0 ? ", " : "", field->names[i]);
    }
    page_add(page, field->flags & FIELD_NULLABLE ? ", null]" : "]");
}

/* The schema that the field shares with others, or NULL. */
static const char *shared_schema(const struct field *field)
{
    const bool nullable = (field->flags & FIELD_NULLABLE) != 0;
    if (field->shared) {
        return field->shared;
    }
    if (field->type == FIELD_RECORD) {
        return field->record->name;
    }
    if (field->type == FIELD_INT && !nullable && field->min <= 0 && field->min >= 0 &&
        field->max >= INTEGER_MAX && field->max <= INTEGER_MAX) {
        return "count";
    }
    return field->type == FIELD_TEXT && !nullable && field->form ? field->form->shared : NULL;
}

static void add_shared(struct page *page, const struct field *field, const char *schema)
{
    page_add(page,
             field->flags & FIELD_NULLABLE
                 ? "oneOf: [{$ref: \"#/components/schemas/%s\"}, {type: \"null\"}]"
                 : "$ref: \"#/components/schemas/%s\"",
             schema);
}

static void add_value(struct page *page, const struct field *field);

static void add_array(struct page *page, const struct field *field)
{
    const struct field element =
        field->element ? *field->element
                       : (struct field){.type = FIELD_RECORD, .record = field->record};
    add_type(page, field, "array");
    page_add(page, ", maxItems: %.0f", field->max > 0 ? field->max : (double)field->size);
    if (field->min > 0) {
        page_add(page, ", minItems: %.0f", field->min);
    }
    page_add(page, ", items: {");
    add_value(page, &element);
    page_add(page, "}");
}

static void add_list(struct page *page, const struct field *field)
{
    if (!field->instead) {
        add_array(page, field);
        return;
    }
    page_add(page, "oneOf: [{");
    add_value(page, field->instead);
    page_add(page, "}, {");
    add_array(page, field);
    page_add(page, "}]");
}

/* The members of the schema of a value, without braces. Lists do not hold lists. */
static void add_value(struct page *page, const struct field *field)
{
    const char *shared = shared_schema(field);
    if (field->type == FIELD_RECORD && field->record->first_alone) {
        page_add(page, "oneOf: [{");
        add_value(page, &field->record->fields[0]);
        page_add(page, "}, {$ref: \"#/components/schemas/%s\"}%s]", shared,
                 field->flags & FIELD_NULLABLE ? ", {type: \"null\"}" : "");
        return;
    }
    if (shared) {
        add_shared(page, field, shared);
        return;
    }
    switch (field->type) {
    case FIELD_BOOL: add_type(page, field, "boolean"); break;
    case FIELD_INT:
    case FIELD_DOUBLE:
        add_type(page, field, field->type == FIELD_INT ? "integer" : "number");
        add_bounds(page, field);
        break;
    case FIELD_TEXT: add_text(page, field); break;
    case FIELD_ENUM: add_enum(page, field); break;
    case FIELD_TIME:
        add_type(page, field, "string");
        page_add(page, ", format: date-time");
        break;
    case FIELD_LIST: add_list(page, field); break;
    case FIELD_MAP:
    case FIELD_JSON: add_type(page, field, "object"); break;
    case FIELD_CONSTANT: page_add(page, "const: %s", field->constant); break;
    case FIELD_RECORD: break; /* shared */
    }
}

static void add_description(struct page *page, const struct field *field)
{
    if (!field->about && !field->rule) {
        return;
    }
    page_add(page, ", description: \"");
    add_escaped(page, field->about ? field->about : "");
    if (field->rule) {
        page_add(page, "%sBounds: ", field->about ? " " : "");
        add_escaped(page, field->rule);
        page_add(page, ".");
    }
    page_add(page, "\"");
}

static void add_property(struct page *page, const struct field *field, const json_t *defaults)
{
    PAGE_AUTO struct page line;
    page_init(&line);
    page_add(&line, "%s: {", field->name);
    add_value(&line, field);
    const json_t *value = json_object_get(defaults, field->name);
    const bool optional = field->type == FIELD_RECORD && (field->flags & FIELD_NULLABLE);
    const bool required = (field->flags & FIELD_REQUIRED) != 0;
    if (value && !required && (optional || field->type != FIELD_RECORD)) {
        page_add(&line, ", default: ");
        page_add_default(&line, optional ? json_null() : value);
    }
    add_description(&line, field);
    page_add(&line, "}");
    page_add_wrapped(page, SCHEMA_INDENT + 4, line.text.data ? line.text.data : "");
    page->rc = page->rc ? page->rc : line.rc;
}

static bool is_required(const struct record *record, const struct field *field)
{
    const bool written =
        record->answer && !(field->flags & (FIELD_ADDED | FIELD_SKIP_EMPTY | FIELD_INPUT));
    return (written || (field->flags & FIELD_REQUIRED) != 0) && !field->unless;
}

static void add_required(struct page *page, const struct record *record)
{
    PAGE_AUTO struct page line;
    page_init(&line);
    size_t count = 0;
    for (size_t i = 0; i < record->field_count; i++) {
        if (is_required(record, &record->fields[i])) {
            page_add(&line, "%s%s", count++ > 0 ? ", " : "required: [", record->fields[i].name);
        }
    }
    if (count > 0) {
        page_add(&line, "]");
        page_add_wrapped(page, SCHEMA_INDENT + 2, line.text.data ? line.text.data : "");
    }
    page->rc = page->rc ? page->rc : line.rc;
}

static void add_schema(struct page *page, const struct record *record, const json_t *defaults)
{
    page_add(page, "%*s%s:\n%*stype: object\n", SCHEMA_INDENT, "", record->name, SCHEMA_INDENT + 2,
             "");
    if (record->about) {
        PAGE_AUTO struct page line;
        page_init(&line);
        page_add(&line, "description: ");
        add_quoted(&line, record->about);
        page_add_wrapped(page, SCHEMA_INDENT + 2, line.text.data ? line.text.data : "");
        page->rc = page->rc ? page->rc : line.rc;
    }
    page_add(page, "%*sadditionalProperties: false\n", SCHEMA_INDENT + 2, "");
    add_required(page, record);
    page_add(page, "%*sproperties:\n", SCHEMA_INDENT + 2, "");
    for (size_t i = 0; i < record->field_count; i++) {
        add_property(page, &record->fields[i], defaults);
    }
}

void contract_add_schemas(struct page *page)
{
    shared_add_schemas(page);
    json_auto_t *defaults = page_job_defaults();
    struct schemas schemas = {.count = 0};
    for (size_t i = 0; i < records_count; i++) {
        const struct record *record = records_all[i].record;
        note_record(&schemas, record, record == &job_spec_record ? defaults : NULL);
    }
    for (size_t i = 0; i < schemas.count; i++) {
        note_inner(&schemas, i);
    }
    for (size_t i = 0; i < schemas.count; i++) {
        add_schema(page, schemas.record[i], schemas.defaults[i]);
    }
}
