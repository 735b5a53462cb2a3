/* The parts of a job that consists of groups, and the spec of each group. */
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "coordinator/content/catalog.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/routes.h"
#include "schema/groups_view.h"
#include "schema/job.h"
#include "schema/wire.h"

/* The struct into which a row is read. */
struct row_target {
    const struct record *record;
    void *out;
    int code;
    struct err err;
};

static bool read_row(void *arg, const struct state_row *row)
{
    struct row_target *target = arg;
    struct record_faults faults = {0};
    target->code = wire_read(target->record, row->document, row->document_size, target->out,
                             &faults, &target->err);
    return false;
}

/* Read a row into *out, which is zeroed. */
static int read_object(struct coordinator *coordinator, enum state_table table, const char *id,
                       const struct record *record, void *out, struct err *err)
{
    struct row_target target = {.record = record, .out = out};
    int rc = state_get(coordinator->state, table, id, read_row, &target, err);
    if (!rc && target.code) {
        *err = target.err;
    }
    return rc ? rc : target.code;
}

struct parent *job_parent_load(struct coordinator *coordinator, struct http_exchange *exchange,
                               const char *id)
{
    const struct parent *live = core_parent(coordinator->core, id);
    struct err err = {0};
    if (!job_exists(coordinator, exchange, id)) {
        return NULL;
    }
    struct parent *parent = calloc(1, sizeof(*parent));
    if (!parent) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return NULL;
    }
    int rc = 0;
    if (live) {
        *parent = *live;
    } else {
        rc = read_object(coordinator, STATE_PARENTS, id, &parent_record, parent, &err);
    }
    if (rc == ERR_NOT_FOUND) {
        answer_problem(exchange, PROBLEM_WRONG_STATE, "job '%s' does not consist of groups", id);
    } else if (rc) {
        answer_err(exchange, &err);
    }
    if (rc) {
        free(parent);
        parent = NULL;
    }
    return parent;
}

void serve_job_groups(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    if (!answer_check_query(exchange, allowed)) {
        return;
    }
    const struct coordinator *coordinator = context;
    struct parent *parent = job_parent_load(context, exchange, http_param(exchange, "id"));
    if (!parent) {
        return;
    }
    struct groups_view *view = calloc(1, sizeof(*view));
    if (view) {
        groups_view_fill(parent, view);
        core_fill_groups(coordinator->core, http_param(exchange, "id"), view);
        answer_record(exchange, 200, &groups_view_record, view);
    } else {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
    }
    free(view);
    free(parent);
}

/* ---- the spec of a group ---- */

/* Answer the spec in a form that can be submitted: with the description in place of its hash. */
static void answer_spec(struct coordinator *coordinator, struct http_exchange *exchange,
                        struct job *job)
{
    struct err err = {0};
    json_auto_t *description = NULL;
    int rc = catalog_read(coordinator->catalog, job->spec.model.sha256, &description, &err);
    if (rc) {
        answer_err(exchange, &err);
        return;
    }
    job->spec.model.name[0] = job->spec.model.sha256[0] = '\0';
    job->spec.model.description = description;
    answer_record(exchange, 200, &job_spec_record, &job->spec);
    job->spec.model.description = NULL;
}

void serve_job_group_spec(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    struct err err = {0};
    int64_t index = 0;
    if (!answer_check_query(exchange, allowed)) {
        return;
    }
    struct parent *parent = job_parent_load(coordinator, exchange, http_param(exchange, "id"));
    if (!parent) {
        return;
    }
    const char *text = http_param(exchange, "group");
    int rc = parse_i64(text, 0, GROUPS_MAX - 1, &index, &err);
    const bool known = !rc && index < (int64_t)parent->groups.count;
    const struct job_id id = known ? parent->part[index].job : (struct job_id){0};
    free(parent);
    if (id.text[0] == '\0') {
        answer_problem(exchange, PROBLEM_UNKNOWN_JOB,
                       "group '%s' of job '%s' is unknown, or has not begun", text,
                       http_param(exchange, "id"));
        return;
    }
    struct job *job = job_load(coordinator, exchange, id.text);
    if (!job) {
        return;
    }
    answer_spec(coordinator, exchange, job);
    record_done(&job_record, job);
    free(job);
}
