/* GET /v1/jobs/{id}/metrics. A page may have 10,000 items. The loop's thread, which owns state.db,
 * reads the rows, one portion per turn; a worker writes them as text, which takes longer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/parts.h"
#include "coordinator/http/routes.h"
#include "schema/heartbeat.h"

#define METRICS_LIMIT_DEFAULT 1000
#define METRICS_OF_STEP_MAX 8 /* most metrics of one step */
#define PORTION_METRICS 1000
#define PAGES_MAX 64 /* written at once: each may have 2 MB */
#define CURSOR_SIZE (ID_SIZE + 48)

struct point {
    int64_t step;
    double value;
    char name[24];
};

/* A step of one of the parts. */
struct metric_place {
    size_t part;
    int64_t step;
};

/* A page holds complete steps. Its last step is the cursor, after which the next page starts. For a
 * job with parts the metrics of one part follow those of another. */
struct metric_page {
    struct work_job job; /* first: the worker gets it as struct metric_page */
    struct coordinator *coordinator;
    struct http_exchange *exchange; /* NULL: the client has disconnected */
    struct parts parts;
    char name[24]; /* "": all metrics */
    size_t limit;
    int64_t since;            /* steps of any part up to this one are left out */
    struct metric_place next; /* the next portion starts after it */
    bool ended;               /* the portion is the last one of its part */

    /* While a worker has the page, these are its own. */
    struct point point[PORTION_METRICS + METRICS_OF_STEP_MAX]; /* whole steps */
    size_t point_count;
    struct buf body;
    size_t count;
    struct metric_place last;
    size_t whole_size; /* of the body up to the last step within the limit; 0: no step fits */
    struct metric_place whole; /* that step */
    bool more;                 /* the limit is reached and there are further steps */
    int code;
    struct err err;
};

static void page_free(struct metric_page *page)
{
    page->coordinator->edge->metric_pages--;
    parts_done(&page->parts);
    buf_done(&page->body);
    free(page);
}

/* ---- on a worker ---- */

static int write_part(struct buf *body, const struct part_row *part, struct err *err)
{
    return part->of.part == JOB_WHOLE
               ? 0
               : buf_printf(body, err, ",\"job\":\"%s\",\"part\":\"%s\",\"group\":%" PRId64,
                            part->job.text, job_part_names[part->of.part], part->of.group);
}

static void write_point(struct metric_page *page, const struct point *point)
{
    const struct metric_place place = {.part = page->next.part, .step = point->step};
    if (page->count > 0 && (place.step != page->last.step || place.part != page->last.part)) {
        if (page->count <= page->limit) {
            page->whole_size = page->body.size;
            page->whole = page->last;
        }
        page->more = page->count >= page->limit;
    }
    if (page->more) {
        return;
    }
    char number[JSON_NUMBER_SIZE];
    json_number(point->value, number);
    int rc =
        buf_printf(&page->body, &page->err, "%s{\"step\":%" PRId64 ",\"name\":\"%s\",\"value\":%s",
                   page->count ? "," : "", point->step, point->name, number);
    rc = rc ? rc : write_part(&page->body, &page->parts.row[place.part], &page->err);
    page->code = rc ? rc : buf_append(&page->body, "}", 1, &page->err);
    page->count++;
    page->last = place;
}

static void write_portion(struct work_job *job)
{
    struct metric_page *page = (struct metric_page *)job;
    for (size_t i = 0; i < page->point_count && !page->code && !page->more; i++) {
        write_point(page, &page->point[i]);
    }
}

/* ---- on the loop's thread ---- */

static void client_gone(void *arg)
{
    struct metric_page *page = arg;
    page->exchange = NULL;
}

/* If the page exceeds the limit, move its last step to the next page, unless it is the only one. */
static void cut_page(struct metric_page *page)
{
    if (page->count > page->limit && page->whole_size > 0) {
        page->body.size = page->whole_size;
        page->last = page->whole;
        page->more = true;
    }
}

static int end_page(struct metric_page *page, struct err *err)
{
    cut_page(page);
    if (!page->more) {
        return buf_printf(&page->body, err, "],\"next_cursor\":null}");
    }
    const struct part_row *part = &page->parts.row[page->last.part];
    int rc = buf_printf(&page->body, err, "],\"next_cursor\":\"%" PRId64, page->last.step);
    if (!rc && page->parts.count > 1) {
        rc = buf_printf(&page->body, err, ".%" PRId64 ".%s", page->since, part->job.text);
    }
    return rc ? rc : buf_append(&page->body, "\"}", 2, err);
}

static void answer_page(struct metric_page *page)
{
    struct http_exchange *exchange = page->exchange;
    http_on_end(exchange, NULL, NULL);
    page->code = page->code ? page->code : end_page(page, &page->err);
    if (page->code) {
        answer_err(exchange, &page->err);
    } else {
        answer_object(exchange, 200, 0, &page->body);
    }
}

/* Return the count of further metrics to read: up to the limit, and enough to see whether another
 * step follows. */
static size_t wanted(const struct metric_page *page)
{
    size_t left = page->count < page->limit ? page->limit - page->count : 1;
    return left < PORTION_METRICS ? left : PORTION_METRICS;
}

static bool take_point(void *arg, int64_t step, const char *name, double value)
{
    struct metric_page *page = arg;
    if (page->point_count >= wanted(page) && step != page->next.step) {
        page->ended = false;
        return false;
    }
    struct point *point = &page->point[page->point_count++];
    *point = (struct point){.step = step, .value = value};
    snprintf(point->name, sizeof(point->name), "%s", name);
    page->next.step = step;
    return true;
}

static bool is_last(const struct metric_page *page)
{
    return page->ended && page->next.part + 1 == page->parts.count;
}

/* Read a portion of one part: the part of the preceding portion, or the next one with metrics. */
static int read_portion(struct metric_page *page, struct err *err)
{
    int rc;
    do {
        if (page->ended) {
            page->next = (struct metric_place){.part = page->next.part + 1, .step = page->since};
        }
        page->point_count = 0;
        page->ended = true;
        rc = state_metrics(page->coordinator->state, page->parts.row[page->next.part].job.text,
                           page->name[0] ? page->name : NULL, page->next.step,
                           wanted(page) + METRICS_OF_STEP_MAX, take_point, page, err);
    } while (!rc && page->point_count == 0 && !is_last(page));
    return rc;
}

static void portion_done(struct work_job *job)
{
    struct metric_page *page = (struct metric_page *)job;
    bool over = is_last(page) || page->more || page->code;
    if (page->exchange && !job->cancelled && !over) {
        page->code = read_portion(page, &page->err);
        if (!page->code) {
            work_submit(page->coordinator->work, job);
            return;
        }
    }
    if (page->exchange && !job->cancelled) {
        answer_page(page);
    }
    page_free(page);
}

static bool known_metric(const char *name)
{
    for (size_t i = 0; metric_name_names[i]; i++) {
        if (strcmp(metric_name_names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Read a cursor: "STEP" for a job without parts, else "STEP.SINCE.JOB". */
static bool read_cursor(const char *cursor, struct metric_page *page)
{
    char text[CURSOR_SIZE];
    char *rest = text, *word[3] = {NULL};
    struct err err = {0};
    if (snprintf(text, sizeof(text), "%s", cursor) >= (int)sizeof(text)) {
        return false;
    }
    for (size_t i = 0; i < 3; i++) {
        word[i] = strsep(&rest, ".");
    }
    if (rest || parse_i64(word[0], 0, INT64_MAX, &page->next.step, &err)) {
        return false;
    }
    if (page->parts.row[0].of.part == JOB_WHOLE) {
        return !word[1];
    }
    if (!word[2] || parse_i64(word[1], -1, INT64_MAX, &page->since, &err)) {
        return false;
    }
    size_t *part = &page->next.part;
    while (*part < page->parts.count && !id_equal(page->parts.row[*part].job.text, word[2])) {
        (*part)++;
    }
    return *part < page->parts.count;
}

/* Read the start of the page: after the place of ?cursor=, or else after step ?since=. false: a
 * problem was sent. */
static bool read_start(struct http_exchange *exchange, struct metric_page *page)
{
    const char *cursor = http_query(exchange, "cursor");
    if (!answer_query_int(exchange, "since", 0, INT64_MAX, -1, &page->since)) {
        return false;
    }
    page->next.step = page->since;
    if (cursor && !read_cursor(cursor, page)) {
        answer_bad_cursor(exchange, cursor);
        return false;
    }
    return true;
}

/* Takes the page, unless it fails. */
static int begin_page(struct metric_page *page, struct err *err)
{
    buf_init(&page->body, 4u << 20);
    /* All metrics reported so far are visible, unless the disk is full. */
    int rc = turn_held(page->coordinator->turn) ? 0 : state_flush(page->coordinator->state, err);
    rc = rc ? rc : buf_printf(&page->body, err, "{\"items\":[");
    rc = rc ? rc : read_portion(page, err);
    if (!rc) {
        page->job = (struct work_job){.run = write_portion, .done = portion_done};
        http_on_end(page->exchange, client_gone, page);
        work_submit(page->coordinator->work, &page->job);
    }
    return rc;
}

/* Return a new page of the job. NULL: a problem was sent. */
static struct metric_page *page_new(struct coordinator *coordinator, struct http_exchange *exchange)
{
    struct err err = {0};
    struct metric_page *page = calloc(1, sizeof(*page));
    if (!page) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return NULL;
    }
    coordinator->edge->metric_pages++;
    page->coordinator = coordinator;
    page->exchange = exchange;
    if (parts_list(coordinator, http_param(exchange, "id"), &page->parts, &err)) {
        answer_err(exchange, &err);
    } else if (read_start(exchange, page)) {
        return page;
    }
    page_free(page);
    return NULL;
}

void serve_metrics(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {"name", "since", "limit", "cursor", NULL};
    struct coordinator *coordinator = context;
    const char *name = http_query(exchange, "name");
    int64_t limit;
    if (!answer_check_query(exchange, allowed) ||
        !job_exists(coordinator, exchange, http_param(exchange, "id")) ||
        !answer_query_int(exchange, "limit", 1, METRICS_LIMIT_MAX, METRICS_LIMIT_DEFAULT, &limit)) {
        return;
    }
    if (name && !known_metric(name)) {
        answer_problem(
            exchange, PROBLEM_INVALID_PARAMETER,
            "no metric '%.40s'; there are loss, step_seconds, test_loss, test_accuracy, recall and "
            "least_recall",
            name);
        return;
    }
    if (!answer_settled(exchange, coordinator->turn)) {
        return;
    }
    if (coordinator->edge->metric_pages == PAGES_MAX) {
        answer_problem(exchange, PROBLEM_BUSY, "%d pages of metrics are being written already",
                       PAGES_MAX);
        return;
    }
    struct metric_page *page = page_new(coordinator, exchange);
    struct err err = {0};
    if (!page) {
        return;
    }
    page->limit = (size_t)limit;
    snprintf(page->name, sizeof(page->name), "%s", name ? name : "");
    if (begin_page(page, &err)) {
        answer_err(exchange, &err);
        page_free(page);
    }
}
