#include "agent/offline/plan_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "libtrain/schedule/schedule.h"
#include "schema/wire.h"

#define BYTES_MAX (64u << 20)

/* ---- checks ---- */

static int check_units(const struct plan *plan, size_t unit_count, struct err *err)
{
    int64_t unit = 0;
    for (size_t i = 0; i < plan->stage_count; i++) {
        const struct plan_stage *stage = &plan->stage[i];
        if (stage->end == stage->first && stage->share_end > stage->share_first) {
            continue; /* skip a worker that keeps no units */
        }
        if (stage->end <= stage->first) {
            return err_set(err, ERR_INVALID, "stage %zu has no unit: expected unit %" PRId64, i,
                           unit);
        }
        if (stage->first != unit) {
            return err_set(err, ERR_INVALID,
                           "stage %zu has the units %" PRId64 " to %" PRId64
                           ": expected to begin with %" PRId64,
                           i, stage->first, stage->end - 1, unit);
        }
        unit = stage->end;
    }
    return unit == (int64_t)unit_count
               ? 0
               : err_set(err, ERR_INVALID, "its stages have %" PRId64 " units, the model has %zu",
                         unit, unit_count);
}

/* Check the rules of the asynchronous schedule. */
static int check_limits(const struct plan *plan, bool vertical_sync, struct err *err)
{
    size_t limit[STAGES_MAX];
    for (size_t i = 0; i < plan->stage_count; i++) {
        limit[i] = (size_t)plan->stage[i].in_flight;
    }
    if (!schedule_limits_fit(limit, plan->stage_count)) {
        return err_set(
            err, ERR_INVALID,
            "its batches in flight (in_flight) must never rise along the pipeline and be "
            "1 at its end");
    }
    if (vertical_sync && limit[0] > plan->stage_count) {
        return err_set(err, ERR_INVALID,
                       "stage 0 has %zu batches in flight: with vertical_sync at most as many as "
                       "stages, %zu",
                       limit[0], plan->stage_count);
    }
    return 0;
}

static int check_plan(const struct plan *plan, const struct job_spec *spec,
                      const struct model *model, struct err *err)
{
    int rc = check_units(plan, model->unit_count, err);
    if (rc == 0 && spec->pipeline == JOB_ASYNC) {
        rc = check_limits(plan, spec->vertical_sync, err);
    }
    return rc == 0 ? 0 : err_wrap(err, "plan %" PRId64, plan->generation);
}

/* ---- the list ---- */

static int read_list(const json_t *document, const json_t **items, struct err *err)
{
    *items = json_object_get(document, "items");
    const json_t *next = json_object_get(document, "next_cursor");
    if (!json_is_array(*items)) {
        return err_set(err, ERR_INVALID, "expected the answer of GET /v1/jobs/{id}/plans");
    }
    if (next && !json_is_null(next)) {
        return err_set(err, ERR_INVALID,
                       "it is one page of several: ask for all plans with ?limit=500");
    }
    if (json_array_size(*items) == 0) {
        return err_set(err, ERR_INVALID, "the job has no plans");
    }
    return 0;
}

static int read_plans(const json_t *items, struct plan *plan, struct err *err)
{
    for (size_t i = 0; i < json_array_size(items); i++) {
        char pointer[32];
        (void)snprintf(pointer, sizeof(pointer), "/items/%zu", i);
        int rc = record_read(&plan_record, json_array_get(items, i), pointer, &plan[i], NULL, err);
        if (rc != 0) {
            return rc;
        }
        if (i > 0 && plan[i].generation <= plan[i - 1].generation) {
            return err_set(err, ERR_INVALID, "%s/generation: expected the oldest plan first",
                           pointer);
        }
    }
    return 0;
}

/* Append the plan. The version from which it resumed ends the earlier spans. */
static void add_span(struct plan_file *file, const struct plan *plan)
{
    while (file->count > 0 && file->span[file->count - 1].first >= plan->resume_version) {
        file->count--;
    }
    if (file->count > 0) {
        file->span[file->count - 1].last = plan->resume_version;
    }
    file->span[file->count++] = (struct plan_span){.plan = plan, .first = plan->resume_version};
}

/* Find the version with which the job ends. Asynchronous evaluations depend on all plans, even on
 * those whose steps were retrained, so only the plans show where `stop` has ended the job. */
static int find_end(const struct plan *last, const struct job_spec *spec, int64_t total_steps,
                    int64_t *out, struct err *err)
{
    *out = spec->has_stop ? last->last_version : total_steps;
    return *out > 0 ? 0
                    : err_set(err, ERR_INVALID,
                              "the job has not ended: its 'stop' may end it at any evaluation");
}

static int make_spans(struct plan_file *file, size_t plan_count, const struct job_spec *spec,
                      const struct model *model, int64_t total_steps, struct err *err)
{
    for (size_t i = 0; i < plan_count; i++) {
        if (file->plan[i].state != PLAN_DISCARDED) {
            add_span(file, &file->plan[i]);
        }
    }
    if (file->count == 0 || file->span[0].first != 0) {
        return err_set(err, ERR_INVALID, "no plan of the list began with version 0");
    }
    struct plan_span *end = &file->span[file->count - 1];
    int rc = find_end(end->plan, spec, total_steps, &end->last, err);
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < file->count; i++) {
        const struct plan_span *span = &file->span[i];
        rc = check_plan(span->plan, spec, model, err);
        if (rc != 0) {
            return rc;
        }
        if (span->first > span->last || span->last > total_steps) {
            return err_set(err, ERR_INVALID,
                           "plan %" PRId64 " resumed from version %" PRId64
                           ": the job ends with %" PRId64,
                           span->plan->generation, span->first, total_steps);
        }
    }
    return 0;
}

int plan_file_read(const char *path, const struct job_spec *spec, const struct model *model,
                   int64_t total_steps, struct plan_file *out, struct err *err)
{
    BUF_AUTO struct buf text;
    json_auto_t *document = NULL;
    const json_t *items = NULL;
    *out = (struct plan_file){0};
    buf_init(&text, BYTES_MAX);
    int rc = file_read(path, &text, err);
    if (rc != 0) {
        return rc;
    }
    rc = json_parse(text.data, text.size, &document, err);
    rc = rc ? rc : read_list(document, &items, err);
    const size_t count = rc == 0 ? json_array_size(items) : 0;
    if (rc == 0) {
        out->plan = calloc(count, sizeof(*out->plan));
        out->span = calloc(count, sizeof(*out->span));
        rc = out->plan && out->span ? 0 : err_set(err, ERR_MEMORY, "%zu plans", count);
    }
    rc = rc ? rc : read_plans(items, out->plan, err);
    rc = rc ? rc : make_spans(out, count, spec, model, total_steps, err);
    return rc == 0 ? 0 : err_wrap(err, "plans '%s'", path);
}

void plan_file_done(struct plan_file *file)
{
    free(file->plan);
    free(file->span);
    *file = (struct plan_file){0};
}
