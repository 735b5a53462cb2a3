#include <inttypes.h>
#include <stdio.h>

#include "base/parse.h"
#include "coordinator/content/catalog.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/content.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/list.h"
#include "coordinator/http/routes.h"
#include "libtrain/kernels/kernel_table.h"
#include "schema/mix_row.h"
#include "schema/wire.h"

/* ---- children of a job, read from the rows ---- */

struct child_list {
    struct list list;
    const struct core *core;
};

static bool list_stored(void *arg, const struct state_row *row)
{
    struct child_list *children = arg;
    return list_text(&children->list, row->id, row->document, row->document_size);
}

/* The newest plan of a job is shown as the core sees it. */
static bool list_plan(void *arg, const struct state_row *row)
{
    struct child_list *children = arg;
    const struct plan *live = core_job_plan(children->core, row->parent);
    return live && id_equal(live->id.text, row->id)
               ? list_object(&children->list, row->id, OBJECT_PLAN, live)
               : list_text(&children->list, row->id, row->document, row->document_size);
}

static void list_children(struct coordinator *coordinator, struct http_exchange *exchange,
                          enum state_table table, const struct list_form *form, list_visit_fn visit)
{
    struct child_list children = {.core = coordinator->core};
    const char *id = http_param(exchange, "id");
    if (job_exists(coordinator, exchange, id) && list_begin(exchange, form, &children.list)) {
        list_rows(exchange, &children.list, coordinator->state, table, id, visit, &children);
    }
}

void serve_plans(void *context, struct http_exchange *exchange)
{
    static const struct list_form form = {.key = &plan_id_form};
    list_children(context, exchange, STATE_PLANS, &form, list_plan);
}

void serve_checkpoints(void *context, struct http_exchange *exchange)
{
    static const struct list_form form = {.key = &checkpoint_id_form};
    list_children(context, exchange, STATE_CHECKPOINTS, &form, list_stored);
}

_Static_assert(MIX_ROW_ID_SIZE <= LIST_KEY_SIZE, "a record of a mix is a cursor");

void serve_job_mixes(void *context, struct http_exchange *exchange)
{
    static const struct list_form form = {.key = &mix_id_form};
    list_children(context, exchange, STATE_MIXES, &form, list_stored);
}

void serve_plan(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    const char *id = http_param(exchange, "id");
    struct err err = {0};
    struct plan plan;
    int64_t generation;
    if (!answer_check_query(exchange, allowed) || !job_exists(coordinator, exchange, id)) {
        return;
    }
    if (parse_i64(http_param(exchange, "generation"), 1, INT64_MAX, &generation, &err)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "generation: %s", err.text);
        return;
    }
    if (job_read_plan(coordinator, exchange, id, generation, &plan)) {
        answer_kind(exchange, OBJECT_PLAN, &plan);
    }
}

/* ---- kernels ---- */

/* The source of the kernels of an ended job. */
struct job_row {
    struct job job;
    int code;
    struct err err;
};

static bool read_job(void *arg, const struct state_row *row)
{
    struct job_row *out = arg;
    out->code =
        wire_read(&job_record, row->document, row->document_size, &out->job, NULL, &out->err);
    return false;
}

static void answer_kernels(struct coordinator *coordinator, struct http_exchange *exchange,
                           const struct job *job)
{
    const struct catalog_entry *entry;
    BUF_AUTO struct buf body;
    struct err err = {0};
    buf_init(&body, JSON_BODY_MAX);
    int rc = catalog_find(coordinator->catalog, job->spec.model.sha256, &entry, &err);
    if (!rc) {
        json_auto_t *table =
            kernel_table_describe(entry->model, conv2d_backend_of(job->numeric_class));
        rc = table ? json_write(table, &body, &err)
                   : err_set(&err, ERR_MEMORY, "kernels: out of memory");
    }
    if (rc) {
        answer_err(exchange, &err);
    } else {
        answer_object(exchange, 200, 0, &body);
    }
}

void serve_job_kernels(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    const char *id = http_param(exchange, "id");
    if (!answer_check_query(exchange, allowed) || !job_exists(coordinator, exchange, id)) {
        return;
    }
    const struct job *live = core_job(coordinator->core, id);
    if (live) {
        answer_kernels(coordinator, exchange, live);
        return;
    }
    struct job_row row = {.job = {.spec = job_spec_default}};
    int rc = state_get(coordinator->state, STATE_JOBS, id, read_job, &row, &row.err);
    if (rc || row.code) {
        answer_err(exchange, &row.err);
    } else {
        answer_kernels(coordinator, exchange, &row.job);
    }
    record_done(&job_record, &row.job);
}
