#include "agent/offline/replay_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "schema/job_check.h"
#include "schema/limits.h"
#include "schema/mix_row.h"

#define BYTES_MAX ((size_t)1 << 30)
#define POINTER_SIZE 64

static int read_json(const char *path, json_t **out, struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, BYTES_MAX);
    int rc = file_read(path, &text, err);
    return rc ? rc : json_parse(text.data ? text.data : "", text.size, out, err);
}

/* ---- mixes ---- */

struct log {
    struct mix_record *record;
    size_t count, capacity;
    struct job_id job; /* of all records */
};

static int add_row(struct log *log, const json_t *item, const char *pointer, struct err *err)
{
    struct mix_row row = {0}, named;
    int rc = record_read(&mix_row_record, item, pointer, &row, NULL, err);
    if (rc != 0) {
        return rc;
    }
    named = row;
    mix_row_name(&named);
    if (strcmp(named.id, row.id) != 0) {
        return err_set(err, ERR_INVALID, "%s/id: '%s' does not name its record: expected '%s'",
                       pointer, row.id, named.id);
    }
    if (log->count == 0) {
        log->job = row.job;
    } else if (strcmp(log->job.text, row.job.text) != 0) {
        return err_set(err, ERR_INVALID, "%s/job: '%s', but the first record is of '%s'", pointer,
                       row.job.text, log->job.text);
    }
    if (log->count == log->capacity) {
        const size_t capacity = log->capacity > 0 ? 2 * log->capacity : 256;
        struct mix_record *more = realloc(log->record, capacity * sizeof(*more));
        if (!more) {
            return err_set(err, ERR_MEMORY, "%zu records of mixes", capacity);
        }
        log->record = more;
        log->capacity = capacity;
    }
    log->record[log->count++] = row.record;
    return 0;
}

static int add_rows(struct log *log, const json_t *items, const char *at, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < json_array_size(items); i++) {
        char pointer[POINTER_SIZE];
        (void)snprintf(pointer, sizeof(pointer), "%s/%zu", at, i);
        rc = add_row(log, json_array_get(items, i), pointer, err);
    }
    return rc;
}

/* Add the records of a page. last: no page follows. */
static int add_page(struct log *log, const json_t *page, const char *at, bool last, struct err *err)
{
    char pointer[POINTER_SIZE];
    const json_t *items = json_object_get(page, "items");
    const json_t *next = json_object_get(page, "next_cursor");
    if (!json_is_array(items)) {
        return err_set(err, ERR_INVALID, "%s: expected the answer of GET /v1/jobs/{id}/mixes", at);
    }
    if (last && next && !json_is_null(next)) {
        return err_set(err, ERR_INVALID,
                       "%s/next_cursor: a page is missing: ask for the next one with ?cursor=, and "
                       "give an array of all pages",
                       at);
    }
    (void)snprintf(pointer, sizeof(pointer), "%s/items", at);
    return add_rows(log, items, pointer, err);
}

static int add_all(struct log *log, const json_t *document, struct err *err)
{
    const size_t size = json_array_size(document);
    if (!json_is_array(document)) {
        return add_page(log, document, "", true, err);
    }
    if (!json_object_get(json_array_get(document, 0), "items")) {
        return add_rows(log, document, "", err);
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < size; i++) {
        char pointer[POINTER_SIZE];
        (void)snprintf(pointer, sizeof(pointer), "/%zu", i);
        rc = add_page(log, json_array_get(document, i), pointer, i + 1 == size, err);
    }
    return rc;
}

int replay_file_mixes(const char *path, struct mix_record **out, size_t *count, struct err *err)
{
    struct log log = {0};
    json_auto_t *document = NULL;
    int rc = read_json(path, &document, err);
    rc = rc ? rc : add_all(&log, document, err);
    if (rc == 0 && log.count == 0) {
        rc = err_set(err, ERR_INVALID, "the job has no records of mixes");
    }
    if (rc != 0) {
        free(log.record);
        return err_wrap(err, "--mixes '%s'", path);
    }
    *out = log.record;
    *count = log.count;
    return 0;
}

/* ---- groups ---- */

/* Check a group with data of its own device. Its name must end with its number. */
static int check_own(const struct job_spec *group, size_t index, const char *pointer,
                     struct err *err)
{
    char end[24];
    (void)snprintf(end, sizeof(end), ".group%zu", index);
    const size_t length = strlen(group->name), tail = strlen(end);
    if (group->strategy != STRATEGY_PIPELINE || group->train_local.device.text[0] == '\0') {
        return err_set(err, ERR_INVALID,
                       "%s: expected the answer of GET /v1/jobs/{id}/groups/%zu/spec, which has "
                       "dataset.train.device",
                       pointer, index);
    }
    return length >= tail && strcmp(group->name + length - tail, end) == 0
               ? 0
               : err_set(err, ERR_INVALID, "%s/name: '%s': expected the groups in order", pointer,
                         group->name);
}

/* Check a group that trains on a shard. */
static int check_shard(const struct job_spec *group, size_t index, const char *pointer,
                       struct err *err)
{
    if (group->strategy != STRATEGY_PIPELINE || !group->has_view || !group->view.is_shard) {
        return err_set(err, ERR_INVALID,
                       "%s: expected the answer of GET /v1/jobs/{id}/groups/%zu/spec, which has "
                       "view.shard",
                       pointer, index);
    }
    return group->view.shard == (int64_t)index
               ? 0
               : err_set(err, ERR_INVALID,
                         "%s/view/shard/index: %" PRId64 ": expected the groups in order", pointer,
                         group->view.shard);
}

/* Check that the settings on which the arithmetic depends are those of the job. */
static int check_group(const struct job_spec *group, size_t index, const struct job_spec *job,
                       const char *pointer, struct err *err)
{
    const bool own = job_is_local(job);
    int rc = (own ? check_own : check_shard)(group, index, pointer, err);
    if (rc != 0) {
        return rc;
    }
    const bool agrees = group->batch == job->batch && group->micro_batches == job->micro_batches &&
                        group->seed == job->seed &&
                        strcmp(job_train_name(group), job_train_name(job)) == 0;
    return agrees ? 0
                  : err_set(err, ERR_INVALID,
                            "%s: batch, micro_batches, seed or data set are not those of the job",
                            pointer);
}

static int read_group(const json_t *document, size_t index, const struct job_spec *job,
                      struct job_spec *out, struct err *err)
{
    char pointer[POINTER_SIZE];
    struct record_faults faults = {0};
    (void)snprintf(pointer, sizeof(pointer), "/%zu", index);
    *out = job_spec_default;
    int rc =
        record_read(&job_spec_record, json_array_get(document, index), pointer, out, NULL, err);
    if (rc == 0) {
        job_spec_complete(out);
        rc = job_spec_check(out, &faults, err);
        rc = rc == 0 ? 0 : err_wrap(err, "%s", pointer);
    }
    return rc ? rc : check_group(out, index, job, pointer, err);
}

int replay_file_groups(const char *path, const struct job_spec *job, struct job_spec **out,
                       size_t *count, struct err *err)
{
    json_auto_t *document = NULL;
    struct job_spec *group = NULL;
    int rc = read_json(path, &document, err);
    const size_t groups = json_array_size(document);
    if (rc == 0 && (groups == 0 || groups > GROUPS_MAX)) {
        rc = err_set(err, ERR_INVALID, "expected an array of the specs of 1 to %d groups",
                     GROUPS_MAX);
    }
    if (rc == 0) {
        group = calloc(groups, sizeof(*group));
        rc = group ? 0 : err_set(err, ERR_MEMORY, "the specs of %zu groups", groups);
    }
    for (size_t i = 0; rc == 0 && i < groups; i++) {
        rc = read_group(document, i, job, &group[i], err);
    }
    if (rc != 0) {
        replay_file_groups_done(&group, group ? groups : 0);
        return err_wrap(err, "--groups '%s'", path);
    }
    *out = group;
    *count = groups;
    return 0;
}

void replay_file_groups_done(struct job_spec **group, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        record_done(&job_spec_record, &(*group)[i]);
    }
    free(*group);
    *group = NULL;
}
