#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/replay.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/wait.h"
#include "schema/brief.h"
#include "schema/job_check.h"
#include "schema/job_patch.h"
#include "schema/wire.h"

/* A list is read from the rows. Jobs that have not ended are shown as the core sees them, with
 * their progress. */
struct job_list {
    struct coordinator *coordinator;
    struct list list;
};

static const struct list_form job_list_form = {.key = &job_id_form,
                                               .states = job_state_names,
                                               .names = true,
                                               .brief = &job_brief_record,
                                               .whole = true,
                                               .waits = true};

/* List the short form of a row. */
static bool list_brief_row(struct list *list, const struct state_row *row)
{
    struct job *job = calloc(1, sizeof(*job));
    if (!job) {
        list->failed = err_set(&list->err, ERR_MEMORY, "list of jobs: out of memory") != 0;
        return false;
    }
    job->spec = job_spec_default;
    list->failed =
        wire_read(&job_record, row->document, row->document_size, job, NULL, &list->err) != 0;
    const bool more = !list->failed && list_brief(list, row->id, job);
    record_done(&job_record, job);
    free(job);
    return more;
}

static bool list_job(void *arg, const struct state_row *row)
{
    struct job_list *jobs = arg;
    struct list *list = &jobs->list;
    const struct job *live = core_job(jobs->coordinator->core, row->id);
    if (list->brief) {
        return live ? list_brief(list, row->id, live) : list_brief_row(list, row);
    }
    return live ? list_object(list, row->id, OBJECT_JOB, live)
                : list_text(list, row->id, row->document, row->document_size);
}

static bool look_at_jobs(void *context, struct http_exchange *exchange, const char *id,
                         int64_t after, bool last)
{
    (void)id;
    struct coordinator *coordinator = context;
    struct job_list jobs = {.coordinator = coordinator};
    if (!wait_list_is_new(coordinator, OBJECT_JOB, after, last)) {
        return false;
    }
    if (list_begin(exchange, &job_list_form, &jobs.list)) {
        jobs.list.revision = edge_list_revision(coordinator->edge, OBJECT_JOB);
        list_rows(exchange, &jobs.list, coordinator->state, STATE_JOBS, NULL, list_job, &jobs);
    }
    return true;
}

void serve_jobs(void *context, struct http_exchange *exchange)
{
    wait_for_list(context, exchange, OBJECT_JOB, &job_list_form, look_at_jobs);
}

struct row_copy {
    struct buf text;
    int64_t revision;
    int code;
    struct err err;
};

static bool copy_row(void *arg, const struct state_row *row)
{
    struct row_copy *copy = arg;
    copy->revision = row->revision;
    copy->code = buf_append(&copy->text, row->document, row->document_size, &copy->err);
    return false;
}

void row_answer(struct coordinator *coordinator, struct http_exchange *exchange,
                enum state_table table, const char *id, enum problem_code unknown)
{
    struct row_copy copy = {0};
    buf_init(&copy.text, JSON_BODY_MAX);
    int rc = state_get(coordinator->state, table, id, copy_row, &copy, &copy.err);
    rc = rc ? rc : copy.code;
    if (rc == ERR_NOT_FOUND) {
        answer_unknown(exchange, unknown, id);
    } else if (rc) {
        answer_err(exchange, &copy.err);
    } else {
        answer_object(exchange, 200, copy.revision, &copy.text);
    }
    buf_done(&copy.text);
}

static bool look_at_job(void *context, struct http_exchange *exchange, const char *id,
                        int64_t after, bool last)
{
    struct coordinator *coordinator = context;
    const struct job *job = core_job(coordinator->core, id);
    if (job) {
        if (job->revision <= after && !last) {
            return false;
        }
        answer_kind(exchange, OBJECT_JOB, job);
        return true;
    }
    /* The job has ended. Its row no longer changes, so do not wait. */
    row_answer(coordinator, exchange, STATE_JOBS, id, PROBLEM_UNKNOWN_JOB);
    return true;
}

void serve_job(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    wait_for_object(coordinator->edge->parked, exchange, OBJECT_JOB, http_param(exchange, "id"),
                    look_at_job);
}

static bool skip_row(void *arg, const struct state_row *row)
{
    (void)arg;
    (void)row;
    return false;
}

bool job_exists(struct coordinator *coordinator, struct http_exchange *exchange, const char *id)
{
    struct err err = {0};
    int rc = core_job(coordinator->core, id)
                 ? 0
                 : state_get(coordinator->state, STATE_JOBS, id, skip_row, NULL, &err);
    if (rc == ERR_NOT_FOUND) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_JOB, id);
    } else if (rc) {
        answer_err(exchange, &err);
    }
    return !rc;
}

/* The job into which a row is read. */
struct job_row {
    struct job *job;
    int code;
    struct err err;
};

static bool read_job(void *arg, const struct state_row *row)
{
    struct job_row *out = arg;
    struct record_faults faults = {0};
    out->code =
        wire_read(&job_record, row->document, row->document_size, out->job, &faults, &out->err);
    return false;
}

struct job *job_load(struct coordinator *coordinator, struct http_exchange *exchange,
                     const char *id)
{
    const struct job *live = core_job(coordinator->core, id);
    struct job_row row = {.job = calloc(1, sizeof(*row.job))};
    if (!row.job) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return NULL;
    }
    if (live) {
        *row.job = *live;
        return row.job;
    }
    row.job->spec = job_spec_default;
    int rc = state_get(coordinator->state, STATE_JOBS, id, read_job, &row, &row.err);
    rc = rc ? rc : row.code;
    if (rc == ERR_NOT_FOUND) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_JOB, id);
    } else if (rc) {
        answer_err(exchange, &row.err);
    }
    if (rc) {
        record_done(&job_record, row.job);
        free(row.job);
        return NULL;
    }
    return row.job;
}

/* A search for one generation among the rows of a job's plans. */
struct plan_search {
    int64_t generation;
    struct plan plan;
    bool found;
    int code;
    struct err err;
};

static bool match_plan(void *arg, const struct state_row *row)
{
    struct plan_search *search = arg;
    struct record_faults faults = {0};
    search->plan = (struct plan){0};
    search->code = wire_read(&plan_record, row->document, row->document_size, &search->plan,
                             &faults, &search->err);
    search->found = !search->code && search->plan.generation == search->generation;
    return !search->code && !search->found;
}

static void answer_no_plan(struct coordinator *coordinator, struct http_exchange *exchange,
                           const char *id, int64_t generation)
{
    struct err err = {0};
    if (state_get(coordinator->state, STATE_PARENTS, id, skip_row, NULL, &err) == 0) {
        answer_problem(
            exchange, PROBLEM_UNKNOWN_PLAN,
            "job '%.40s' consists of parts, which have generations of their own; ask for "
            "that of a part, or for GET /v1/jobs/%.40s/plans",
            id, id);
    } else {
        answer_problem(exchange, PROBLEM_UNKNOWN_PLAN, "job '%.40s' has no generation %" PRId64, id,
                       generation);
    }
}

bool job_read_plan(struct coordinator *coordinator, struct http_exchange *exchange, const char *id,
                   int64_t generation, struct plan *out)
{
    struct plan_search search = {.generation = generation};
    const struct plan *live = core_job_plan(coordinator->core, id);
    if (live && live->generation == generation) {
        *out = *live;
        return true;
    }
    int rc = state_list(coordinator->state, STATE_PLANS, id, "", SIZE_MAX, false, match_plan,
                        &search, &search.err);
    if (rc || search.code) {
        answer_err(exchange, &search.err);
    } else if (!search.found) {
        answer_no_plan(coordinator, exchange, id, generation);
    } else {
        *out = search.plan;
        return true;
    }
    return false;
}

/* Read how the job of a row ended. */
static bool read_ending(void *arg, const struct state_row *row)
{
    static const struct {
        const char *state, *ending;
    } table[] = {
        {"succeeded", "has succeeded"}, {"failed", "has failed"}, {"cancelled", "was cancelled"}};
    const char **ending = arg;
    struct err err = {0};
    json_auto_t *document = NULL;
    if (json_parse(row->document, row->document_size, &document, &err)) {
        return false;
    }
    const char *state = json_string_value(json_object_get(document, "state"));
    for (size_t i = 0; state && i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(state, table[i].state) == 0) {
            *ending = table[i].ending;
        }
    }
    return false;
}

bool job_answer_ended(struct coordinator *coordinator, struct http_exchange *exchange,
                      const char *id)
{
    if (core_job(coordinator->core, id)) {
        return false;
    }
    const char *ending = "has ended"; /* if the row cannot be read */
    struct err err = {0};
    int rc = state_get(coordinator->state, STATE_JOBS, id, read_ending, &ending, &err);
    if (rc == ERR_NOT_FOUND) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_JOB, id);
    } else if (rc) {
        answer_err(exchange, &err);
    } else {
        answer_problem(exchange, PROBLEM_WRONG_STATE, "job '%.40s' %s", id, ending);
    }
    return true;
}

/* Return whether the verb leads to a new plan or a checkpoint. A full disk allows other verbs. */
static bool makes_rows(enum job_verb verb)
{
    return verb == JOB_RESUME || verb == JOB_REPLAN || verb == JOB_EXPORT;
}

/* Serve any verb, after its query and body have been read. */
static void job_verb(struct coordinator *coordinator, struct http_exchange *exchange,
                     enum job_verb verb, const struct replan_request *replan)
{
    const char *id = http_param(exchange, "id");
    struct plan plan;
    struct turn_extra extra = {0};
    struct event event = {.type = EVENT_JOB_VERB, .job_verb = {.verb = verb, .replan = replan}};
    if (!answer_if_match(exchange, &event.job_verb.if_revision) ||
        !replay_check(coordinator, exchange, &extra) ||
        (makes_rows(verb) && !edge_takes_rows(coordinator, exchange))) {
        return;
    }
    if (!id_valid(id, "job_")) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_JOB, id);
        return;
    }
    memcpy(event.job_verb.job.text, id, strlen(id) + 1);
    if (job_answer_ended(coordinator, exchange, id)) {
        return;
    }
    if (replan && replan->generation > 0) {
        if (!job_read_plan(coordinator, exchange, id, replan->generation, &plan)) {
            return;
        }
        event.job_verb.plan = &plan;
    }
    turn_event(coordinator->turn, &event, exchange, &extra);
}

static void plain_verb(struct coordinator *coordinator, struct http_exchange *exchange,
                       enum job_verb verb)
{
    static const char *const allowed[] = {NULL};
    if (answer_check_query(exchange, allowed) && answer_no_body(exchange)) {
        job_verb(coordinator, exchange, verb, NULL);
    }
}

void serve_job_pause(void *context, struct http_exchange *exchange)
{
    plain_verb(context, exchange, JOB_PAUSE);
}

void serve_job_resume(void *context, struct http_exchange *exchange)
{
    plain_verb(context, exchange, JOB_RESUME);
}

void serve_job_cancel(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {"keep", NULL};
    bool keep;
    if (answer_check_query(exchange, allowed) && answer_query_bool(exchange, "keep", &keep) &&
        answer_no_body(exchange)) {
        job_verb(context, exchange, keep ? JOB_CANCEL_KEEP : JOB_CANCEL, NULL);
    }
}

void serve_job_export(void *context, struct http_exchange *exchange)
{
    plain_verb(context, exchange, JOB_EXPORT);
}

void serve_job_replan(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct replan_request replan = {0};
    struct record_faults faults = {0};
    struct err err = {0};
    if (!answer_check_query(exchange, allowed) ||
        !answer_read_body(exchange, &replan_request_record, true, &replan)) {
        return;
    }
    if (replan_request_check(&replan, &faults, &err)) {
        answer_faults(exchange, &faults);
        return;
    }
    job_verb(context, exchange, JOB_REPLAN, &replan);
}

void serve_job_patch(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    const char *id = http_param(exchange, "id");
    struct event event = {.type = EVENT_JOB_PATCH};
    struct turn_extra extra = {0};
    struct record_faults faults = {0};
    struct err err = {0};
    json_auto_t *body = NULL;
    if (!answer_check_query(exchange, allowed) || !answer_read_json(exchange, &body) ||
        !answer_if_match(exchange, &event.job_patch.if_revision) ||
        !replay_check(coordinator, exchange, &extra)) {
        return;
    }
    if (!id_valid(id, "job_")) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_JOB, id);
        return;
    }
    if (job_answer_ended(coordinator, exchange, id)) {
        return;
    }
    const struct job *job = core_job(coordinator->core, id);
    struct job_spec spec = job->spec;
    if (job->has_next_replication) {
        spec.neighbor_every = job->next_replication.neighbor_every;
        spec.center_every = job->next_replication.center_every;
    }
    if (job_patch_read(body, &spec, &faults, &err)) {
        answer_faults(exchange, &faults);
        return;
    }
    memcpy(event.job_patch.job.text, id, strlen(id) + 1);
    event.job_patch.replication = (struct replication_periods){
        .neighbor_every = spec.neighbor_every, .center_every = spec.center_every};
    event.job_patch.replan_first = spec.replan_first;
    event.job_patch.replan_every = spec.replan_every;
    turn_event(coordinator->turn, &event, exchange, &extra);
}
