#include "schema/tables/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/job.h"

#define PAGE_BYTES_MAX (4u << 20)
#define INTEGERS_EXACT 1e16 /* whole numbers below are shown in full */
#define DECIMALS_MIN 1e-6   /* fractions below are shown with an exponent */

void page_init(struct page *page)
{
    *page = (struct page){.rc = 0};
    buf_init(&page->text, PAGE_BYTES_MAX);
}

void page_free(struct page *page)
{
    buf_done(&page->text);
}

void page_add(struct page *page, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        page->rc = err_set(&page->err, ERR_MEMORY, "no memory for the text of a page");
        return;
    }
    if (!page->rc) {
        page->rc = buf_append(&page->text, text, (size_t)length, &page->err);
    }
    free(text);
}

void page_add_wrapped(struct page *page, size_t indent, const char *text)
{
    size_t column = 0;
    while (*text) {
        const size_t size = strcspn(text, " ");
        if (column == 0) {
            page_add(page, "%*s%.*s", (int)indent, "", (int)size, text);
            column = indent + size;
        } else if (column + 1 + size > PAGE_COLUMNS) {
            page_add(page, "\n%*s%.*s", (int)indent + 4, "", (int)size, text);
            column = indent + 4 + size;
        } else {
            page_add(page, " %.*s", (int)size, text);
            column += 1 + size;
        }
        text += size + (text[size] == ' ');
    }
    page_add(page, "\n");
}

void page_number(double value, char out[PAGE_NUMBER_SIZE])
{
    char shortest[JSON_NUMBER_SIZE];
    json_number(value, shortest);
    const char *exponent = strchr(shortest, 'e');
    if (fabs(value) < INTEGERS_EXACT && fabs(value - nearbyint(value)) <= 0) {
        (void)snprintf(out, PAGE_NUMBER_SIZE, "%.0f", value);
    } else if (exponent && fabs(value) < 1 && fabs(value) >= DECIMALS_MIN) {
        (void)snprintf(out, PAGE_NUMBER_SIZE, "%.6f", value);
    } else if (exponent && !strchr(shortest, '.')) {
        /* "1e-30" is a text in YAML 1.1, "1.0e-30" is a number. */
        (void)snprintf(out, PAGE_NUMBER_SIZE, "%.*s.0%s", (int)(exponent - shortest), shortest,
                       exponent);
    } else {
        (void)snprintf(out, PAGE_NUMBER_SIZE, "%s", shortest);
    }
}

void page_add_default(struct page *page, const json_t *value)
{
    if (json_is_real(value)) {
        char number[PAGE_NUMBER_SIZE];
        page_number(json_real_value(value), number);
        page_add(page, "%s%s", number, strpbrk(number, ".e") ? "" : ".0");
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    page_add(page, "%s", text ? text : "");
    free(text);
}

json_t *page_job_defaults(void)
{
    struct job_spec spec = job_spec_default;
    spec.has_view = spec.has_parameter_server = spec.has_submodel = spec.has_gossip = true;
    return record_write(&job_spec_record, &spec);
}

bool page_is_bounded(const struct field *field)
{
    return field->min < 0 || field->min > 0 || field->max < 0 || field->max > 0;
}

bool page_has_maximum(const struct field *field)
{
    /* No number of an integer member exceeds it: a bound that says nothing. */
    return page_is_bounded(field) && field->max < 0x1p63;
}
