#include "schema/tables/shared.h"

#include <inttypes.h>

#include "libtrain/model/kernel_names.h"
#include "schema/audit.h"
#include "schema/brief.h"
#include "schema/dataset.h"
#include "schema/device.h"
#include "schema/event.h"
#include "schema/id.h"
#include "schema/incident.h"
#include "schema/mix_row.h"
#include "schema/offer.h"
#include "schema/job.h"
#include "schema/job_metric.h"
#include "schema/limits.h"
#include "schema/plan.h"
#include "schema/problem.h"
#include "schema/token.h"

static const struct text_form *const forms[] = {
    &name_form,          &device_id_form, &job_id_form,   &plan_id_form, &incident_id_form,
    &checkpoint_id_form, &token_id_form,  &audit_id_form, &sha256_form};

enum list_revision { NO_REVISION, WHOLE_REVISION, EVERY_REVISION };

static const struct list {
    const char *name;
    const struct record *item;
    int items_max;
    enum list_revision revision; /* WHOLE: only of the list that is not of one job */
    const struct record *other;  /* items of ?view=short, or of ?local=true; NULL: none */
} lists[] = {
    {"device_list", &device_record, LIST_LIMIT_MAX, EVERY_REVISION, &device_brief_record},
    {"model_list", &model_row_record, LIST_LIMIT_MAX, EVERY_REVISION, NULL},
    {"dataset_list", &dataset_record, LIST_LIMIT_MAX, EVERY_REVISION, &local_dataset_record},
    {"job_list", &job_record, LIST_LIMIT_MAX, EVERY_REVISION, &job_brief_record},
    {"plan_list", &plan_record, LIST_LIMIT_MAX, NO_REVISION, NULL},
    {"checkpoint_list", &checkpoint_record, LIST_LIMIT_MAX, WHOLE_REVISION, NULL},
    {"incident_list", &incident_record, LIST_LIMIT_MAX, WHOLE_REVISION, NULL},
    {"mix_list", &mix_row_record, LIST_LIMIT_MAX, NO_REVISION, NULL},
    {"token_list", &token_record, LIST_LIMIT_MAX, NO_REVISION, NULL},
    {"audit_list", &audit_entry_record, LIST_LIMIT_MAX, NO_REVISION, NULL},
    {"metric_list", &job_metric_record, METRICS_LIMIT_MAX, NO_REVISION, NULL},
};

static void add_form(struct page *page, const struct text_form *form)
{
    page_add(page, "%*s%s: {type: string, pattern: \"%s\"}\n", SCHEMA_INDENT, "", form->shared,
             form->pattern);
}

static void add_items(struct page *page, const struct list *list)
{
    page_add(page, "        items: {type: array, maxItems: %d, items: ", list->items_max);
    if (list->other) {
        page_add(page,
                 "{oneOf: [\n            {$ref: \"#/components/schemas/%s\"},\n"
                 "            {$ref: \"#/components/schemas/%s\"}]}}\n",
                 list->item->name, list->other->name);
    } else {
        page_add(page, "{$ref: \"#/components/schemas/%s\"}}\n", list->item->name);
    }
}

static void add_list(struct page *page, const struct list *list)
{
    page_add(page,
             "    %s:\n"
             "      type: object\n"
             "      additionalProperties: false\n"
             "      required: [items, next_cursor%s]\n"
             "      properties:\n",
             list->name, list->revision == EVERY_REVISION ? ", revision" : "");
    add_items(page, list);
    page_add(page, "        next_cursor: {type: [string, \"null\"],\n"
                   "            description: \"Where the next page starts; null: this is the "
                   "last.\"}\n");
    if (list->revision != NO_REVISION) {
        page_add(page,
                 "        revision: {$ref: \"#/components/schemas/count\",\n"
                 "            description: \"Of the whole list, for `after`.%s\"}\n",
                 list->revision == WHOLE_REVISION ? " Left out in the list of one job." : "");
    }
}

/* Adds the enum of a text: `line` holds its words. */
static void add_words(struct page *page, const char *name, struct page *line)
{
    page_add(page, "%*s%s:\n%*stype: string\n", SCHEMA_INDENT, "", name, SCHEMA_INDENT + 2, "");
    page_add(line, "]");
    page_add_wrapped(page, SCHEMA_INDENT + 2, line->text.data ? line->text.data : "");
    page->rc = page->rc ? page->rc : line->rc;
}

/* names: NULL ends. */
static void add_names(struct page *page, const char *name, const char *const *names)
{
    PAGE_AUTO struct page line;
    page_init(&line);
    for (size_t i = 0; names[i]; i++) {
        page_add(&line, "%s%s", i > 0 ? ", " : "enum: [", names[i]);
    }
    add_words(page, name, &line);
}

static void add_problem_codes(struct page *page)
{
    PAGE_AUTO struct page line;
    page_init(&line);
    for (size_t i = PROBLEM_NONE + 1; i < PROBLEM_COUNT; i++) {
        page_add(&line, "%s%s", i > PROBLEM_NONE + 1 ? ", " : "enum: [", problem_kinds[i].code);
    }
    add_words(page, "problem_code", &line);
}

void shared_add_schemas(struct page *page)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        add_form(page, forms[i]);
    }
    page_add(page, "%*scount: {type: integer, minimum: 0, maximum: %" PRId64 "}\n", SCHEMA_INDENT,
             "", (int64_t)INTEGER_MAX);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        add_list(page, &lists[i]);
    }
    add_names(page, "kernel", conv2d_kernel_names);
    add_names(page, "event_type", public_event_types);
    add_problem_codes(page);
}
