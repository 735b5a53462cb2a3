/* page.h: text that grows, wrapped at 100 columns, and the numbers and defaults in it. For
 * field-tables. The first error stays; page_done tells it. */
#ifndef SCHEMA_TABLES_PAGE_H
#define SCHEMA_TABLES_PAGE_H

#include "base/buf.h"
#include "base/record.h"

#define PAGE_COLUMNS 100
#define PAGE_NUMBER_SIZE 48

struct page {
    struct buf text;
    struct err err;
    int rc; /* of the first fault */
};

void page_init(struct page *page);
void page_free(struct page *page);
#define PAGE_AUTO AUTO(page_free)

void page_add(struct page *page, const char *format, ...) PRINTF_LIKE(2, 3);
/* Add lines of at most PAGE_COLUMNS that hold `text`, broken at its spaces. The first is indented
 * by `indent` spaces, the others by four more. */
void page_add_wrapped(struct page *page, size_t indent, const char *text);

/* A number as both YAML and Markdown show it: "65536", "0.9", "1.0e-30". */
void page_number(double value, char out[PAGE_NUMBER_SIZE]);
/* Add a default as JSON; a real number keeps its point: "0.0". */
void page_add_default(struct page *page, const json_t *value);
/* The defaults of a job's fields, also of the options of each strategy. The caller owns them. */
json_t *page_job_defaults(void);
/* Whether the field has bounds, and whether it has an upper one that a document shows. */
bool page_is_bounded(const struct field *field);
bool page_has_maximum(const struct field *field);

#endif
