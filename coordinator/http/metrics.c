/* GET /v1/jobs/{id}/metrics. A page may have 10,000 items. The loop's thread reads the rows, a
 * portion a turn, as state.db is its own; a worker writes them as text, which takes longer. */
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
#include "coordinator/http/routes.h"
#include "schema/heartbeat.h"

#define METRICS_LIMIT_DEFAULT 1000
#define METRICS_OF_STEP_MAX 8 /* names there may be of one step */
#define PORTION_METRICS 1000
#define PAGES_MAX 64 /* that are being written: each may have 700 KB */

struct point {
    int64_t step;
    double value;
    char name[24];
};

/* A page holds whole steps: the next one starts after its last step, which is the cursor. */
struct metric_page {
    struct work_job job; /* first: the worker gets it as struct metric_page */
    struct coordinator *coordinator;
    struct http_exchange *exchange; /* NULL: the client has disconnected */
    char id[ID_SIZE];
    char name[24]; /* "": all metrics */
    size_t limit;
    int64_t since; /* the next portion starts after this step */
    bool ended;    /* the portion is the last one */

    /* While a worker has the page, these are its own. */
    struct point point[PORTION_METRICS + METRICS_OF_STEP_MAX]; /* whole steps */
    size_t point_count;
    struct buf body;
    size_t count;
    int64_t last_step;
    size_t whole_size;  /* of the body up to the last step that the limit has room for; 0: not even
                           one */
    int64_t whole_step; /* that step */
    bool more;          /* the limit is reached and there are further steps */
    int code;
    struct err err;
};

static void page_free(struct metric_page *page)
{
    page->coordinator->edge->metric_pages--;
    buf_done(&page->body);
    free(page);
}

/* ---- on a worker ---- */

static void write_point(struct metric_page *page, const struct point *point)
{
    if (page->count > 0 && point->step != page->last_step) {
        if (page->count <= page->limit) {
            page->whole_size = page->body.size;
            page->whole_step = page->last_step;
        }
        page->more = page->count >= page->limit;
    }
    if (page->more) {
        return;
    }
    char number[JSON_NUMBER_SIZE];
    json_number(point->value, number);
    page->code =
        buf_printf(&page->body, &page->err, "%s{\"step\":%" PRId64 ",\"name\":\"%s\",\"value\":%s}",
                   page->count ? "," : "", point->step, point->name, number);
    page->count++;
    page->last_step = point->step;
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

/* More than the limit: the last step goes to the next page, unless it is the only one. */
static void cut_page(struct metric_page *page)
{
    if (page->count > page->limit && page->whole_size > 0) {
        page->body.size = page->whole_size;
        page->last_step = page->whole_step;
        page->more = true;
    }
}

static int end_page(struct metric_page *page, struct err *err)
{
    cut_page(page);
    return page->more
               ? buf_printf(&page->body, err, "],\"next_cursor\":\"%" PRId64 "\"}", page->last_step)
               : buf_printf(&page->body, err, "],\"next_cursor\":null}");
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

/* How many further metrics say all: where the limit is reached, whether there is another step. */
static size_t wanted(const struct metric_page *page)
{
    size_t left = page->count < page->limit ? page->limit - page->count : 1;
    return left < PORTION_METRICS ? left : PORTION_METRICS;
}

static bool take_point(void *arg, int64_t step, const char *name, double value)
{
    struct metric_page *page = arg;
    if (page->point_count >= wanted(page) && step != page->since) {
        page->ended = false;
        return false;
    }
    struct point *point = &page->point[page->point_count++];
    *point = (struct point){.step = step, .value = value};
    snprintf(point->name, sizeof(point->name), "%s", name);
    page->since = step;
    return true;
}

static int read_portion(struct metric_page *page, struct err *err)
{
    page->point_count = 0;
    page->ended = true;
    return state_metrics(page->coordinator->state, page->id, page->name[0] ? page->name : NULL,
                         page->since, wanted(page) + METRICS_OF_STEP_MAX, take_point, page, err);
}

static void portion_done(struct work_job *job)
{
    struct metric_page *page = (struct metric_page *)job;
    bool over = page->ended || page->more || page->code;
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

/* The page starts after the step of ?cursor=, or else of ?since=. false when answered. */
static bool read_start(struct http_exchange *exchange, int64_t *out)
{
    const char *cursor = http_query(exchange, "cursor");
    struct err err = {0};
    if (!answer_query_int(exchange, "since", 0, INT64_MAX, -1, out)) {
        return false;
    }
    if (cursor && parse_i64(cursor, 0, INT64_MAX, out, &err)) {
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

void serve_metrics(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {"name", "since", "limit", "cursor", NULL};
    struct coordinator *coordinator = context;
    const char *id = http_param(exchange, "id");
    const char *name = http_query(exchange, "name");
    int64_t since, limit;
    if (!answer_check_query(exchange, allowed) || !job_exists(coordinator, exchange, id) ||
        !read_start(exchange, &since) ||
        !answer_query_int(exchange, "limit", 1, METRICS_LIMIT_MAX, METRICS_LIMIT_DEFAULT, &limit)) {
        return;
    }
    if (name && !known_metric(name)) {
        answer_problem(
            exchange, PROBLEM_INVALID_PARAMETER,
            "no metric '%.40s'; there are loss, step_seconds, test_loss, test_accuracy and recall",
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
    struct metric_page *page = calloc(1, sizeof(*page));
    struct err err = {0};
    int rc = page ? 0 : err_set(&err, ERR_MEMORY, "metrics: out of memory");
    if (!rc) {
        coordinator->edge->metric_pages++;
        page->coordinator = coordinator;
        page->exchange = exchange;
        page->since = since;
        page->limit = (size_t)limit;
        snprintf(page->id, sizeof(page->id), "%s", id);
        snprintf(page->name, sizeof(page->name), "%s", name ? name : "");
        rc = begin_page(page, &err);
    }
    if (rc) {
        answer_err(exchange, &err);
        if (page) {
            page_free(page);
        }
    }
}
