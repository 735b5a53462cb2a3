/* GET /v1/devices/{id}/measurements, GET /v1/devices/{id}/links and GET /v1/links. The history
 * comes from the rows, links from the core. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/routes.h"
#include "coordinator/store/measurements.h"
#include "schema/measured.h"

static bool device_known(struct coordinator *coordinator, struct http_exchange *exchange)
{
    const char *id = http_param(exchange, "id");
    if (!core_device(coordinator->core, id)) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_DEVICE, id);
        return false;
    }
    return true;
}

/* Takes the list. NULL: out of memory. */
static void answer_list(struct http_exchange *exchange, const struct record *record, void *list)
{
    if (list) {
        answer_record(exchange, 200, record, list);
        free(list);
    } else {
        const struct err err = {.text = "out of memory"};
        answer_err(exchange, &err);
    }
}

/* An item has few numbers, so a page has the maximal length unless the query asks for less. */
static bool read_limit(struct http_exchange *exchange, int64_t *out)
{
    return answer_query_int(exchange, "limit", 1, LIST_LIMIT_MAX, LIST_LIMIT_MAX, out);
}

/* ---- units ---- */

struct unit_page {
    struct measured_unit_list list; /* first: the answer */
    size_t limit;
    bool more;
};

static bool add_unit(void *arg, const struct state_measurement *row)
{
    struct unit_page *page = arg;
    struct measured_unit_list *list = &page->list;
    page->more = list->item_count == page->limit;
    if (page->more) {
        return false;
    }
    struct measured_unit *unit = &list->item[list->item_count++];
    *unit = (struct measured_unit){.wall_ms = row->wall_ms,
                                   .unit = row->unit,
                                   .forward_seconds = row->forward_seconds,
                                   .backward_seconds = row->backward_seconds};
    memcpy(unit->job.text, row->job, strnlen(row->job, sizeof(unit->job.text) - 1));
    return true;
}

/* A cursor names a row: TIME.JOB.UNIT. */
static bool parse_cursor(const char *cursor, struct job_id *job, struct state_measurement *out)
{
    char text[MEASURED_CURSOR_SIZE];
    struct err err = {0};
    if (strlen(cursor) >= sizeof(text)) {
        return false;
    }
    memcpy(text, cursor, strlen(cursor) + 1);
    char *name = strchr(text, '.');
    char *unit = name ? strchr(name + 1, '.') : NULL;
    if (!unit) {
        return false;
    }
    *name++ = *unit++ = '\0';
    if (!id_valid(name, "job_") || parse_i64(text, 0, INT64_MAX, &out->wall_ms, &err) ||
        parse_i64(unit, 0, UNITS_MAX - 1, &out->unit, &err)) {
        return false;
    }
    memcpy(job->text, name, strlen(name) + 1);
    out->job = job->text;
    return true;
}

/* Read the start of the page: after the row of ?cursor=, or else after the time of ?since=. false:
 * a problem was sent. */
static bool read_start(struct http_exchange *exchange, struct job_id *job,
                       struct state_measurement *out)
{
    const char *cursor = http_query(exchange, "cursor");
    int64_t since_ms;
    if (!answer_query_int(exchange, "since", 0, INT64_MAX - 1, -1, &since_ms)) {
        return false;
    }
    *out = (struct state_measurement){.wall_ms = since_ms + 1, .job = "", .unit = -1};
    if (cursor && !parse_cursor(cursor, job, out)) {
        answer_bad_cursor(exchange, cursor);
        return false;
    }
    return true;
}

static void fill_cursor(struct measured_unit_list *list)
{
    const struct measured_unit *last = &list->item[list->item_count - 1];
    (void)snprintf(list->next_cursor, sizeof(list->next_cursor), "%" PRId64 ".%s.%" PRId64,
                   last->wall_ms, last->job.text, last->unit);
}

void serve_measurements(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {"job", "unit", "since", "limit", "cursor", NULL};
    struct coordinator *coordinator = context;
    const char *job = http_query(exchange, "job");
    struct state_measurement after;
    struct job_id after_job;
    int64_t unit, limit;
    struct err err = {0};
    if (!answer_check_query(exchange, allowed) || !device_known(coordinator, exchange) ||
        !answer_query_int(exchange, "unit", 0, UNITS_MAX - 1, -1, &unit) ||
        !read_limit(exchange, &limit) || !read_start(exchange, &after_job, &after)) {
        return;
    }
    struct unit_page *page = calloc(1, sizeof(*page));
    if (page) {
        page->limit = (size_t)limit;
    }
    if (page && state_measurements(coordinator->state, http_param(exchange, "id"), job, unit,
                                   &after, (size_t)limit + 1, add_unit, page, &err)) {
        free(page);
        answer_err(exchange, &err);
        return;
    }
    if (page && page->more) {
        fill_cursor(&page->list);
    }
    answer_list(exchange, &measured_unit_list_record, page);
}

/* ---- links ---- */

static void show_link(const struct link_row *row, struct measured_link *out)
{
    const struct link_speed link = link_estimate(&row->sums);
    const double count = fmax(row->sums.count, 1);
    *out = (struct measured_link){.from = row->from,
                                  .to = row->to,
                                  .kind = row->kind,
                                  .transfers = row->sums.count,
                                  .mean_seconds = row->sums.seconds / count,
                                  .mean_bytes = row->sums.bytes / count,
                                  .latency_seconds = link.latency_seconds,
                                  .bytes_per_second = link.bytes_per_second,
                                  .wall_ms = row->wall_ms};
    memcpy(out->codec, row->codec, sizeof(out->codec));
}

/* Answer the links of a device, or of all devices if id is NULL. A cursor is the place after the
 * last link in the core's table. A link keeps its place until another one replaces it. */
static void list_links(struct coordinator *coordinator, struct http_exchange *exchange,
                       const char *id)
{
    static const char *const allowed[] = {"limit", "cursor", NULL};
    const char *cursor = http_query(exchange, "cursor");
    int64_t limit, start = 0;
    struct err err = {0};
    if (!answer_check_query(exchange, allowed) || !read_limit(exchange, &limit)) {
        return;
    }
    if (cursor && parse_i64(cursor, 0, INT32_MAX, &start, &err)) {
        answer_bad_cursor(exchange, cursor);
        return;
    }
    struct measured_link_list *list = calloc(1, sizeof(*list));
    const struct link_row *row;
    size_t at = (size_t)start, next = at;
    while (list && list->next_cursor[0] == '\0' &&
           (row = core_next_link(coordinator->core, &at)) != NULL) {
        if (id && !id_equal(row->from.text, id) && !id_equal(row->to.text, id)) {
            continue;
        }
        if (list->item_count == (size_t)limit) {
            (void)snprintf(list->next_cursor, sizeof(list->next_cursor), "%zu", next);
        } else {
            show_link(row, &list->item[list->item_count++]);
            next = at;
        }
    }
    answer_list(exchange, &measured_link_list_record, list);
}

void serve_links(void *context, struct http_exchange *exchange)
{
    list_links(context, exchange, NULL);
}

void serve_device_links(void *context, struct http_exchange *exchange)
{
    if (device_known(context, exchange)) {
        list_links(context, exchange, http_param(exchange, "id"));
    }
}
