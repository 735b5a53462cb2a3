#include "coordinator/restore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/log.h"
#include "coordinator/content/catalog.h"
#include "coordinator/coordinator.h"
#include "coordinator/restore_capacities.h"
#include "coordinator/turn/objects.h"
#include "schema/id.h"
#include "schema/wire.h"

/* Rows of one kind read into an array. */
struct table {
    enum object_kind kind;
    const char *parent; /* rows of this one only; NULL: all */
    size_t element_size;
    void *item;
    size_t count, capacity;
    int code;
    struct err *err;
};

/* Ended jobs and incidents stay in the rows. */
static bool is_over(enum object_kind kind, const void *item)
{
    const struct job *job = item;
    const struct incident *incident = item;
    const struct parent *parent = item;
    return (kind == OBJECT_PARENT && parent->phase == PARENT_ENDED) ||
           (kind == OBJECT_JOB && job_state_ended(job->state)) ||
           (kind == OBJECT_INCIDENT && incident->state != INCIDENT_OPEN);
}

static bool read_row(void *arg, const struct state_row *row)
{
    struct table *table = arg;
    void *grown = grow(table->item, table->element_size, table->count, &table->capacity);
    if (!grown) {
        table->code = err_set(table->err, ERR_MEMORY, "out of memory");
        return false;
    }
    table->item = grown;
    void *item = (char *)table->item + table->count * table->element_size;
    memset(item, 0, table->element_size);
    if (table->kind == OBJECT_JOB) { /* fields that its row is too old for have their defaults */
        struct job *job = item;
        job->spec = job_spec_default;
    }
    struct record_faults faults = {0};
    const struct record *record = object_facts(table->kind)->row;
    table->code = wire_read(record, row->document, row->document_size, item, &faults, table->err);
    if (table->code && table->kind == OBJECT_CHECKPOINT) { /* nothing else depends on it */
        log_error("checkpoint_row_damaged", "id=%s error=%s", row->id,
                  log_quote(table->err->text).text);
        *table->err = (struct err){0};
        table->code = 0;
        return true;
    }
    if (table->code) {
        table->code = err_wrap(table->err, "state.db: %s '%s'", record->name, row->id);
        return false;
    }
    table->count += is_over(table->kind, item) ? 0 : 1;
    return true;
}

static int read_table(struct coordinator *coordinator, struct table *table, struct err *err)
{
    table->err = err;
    int rc = state_list(coordinator->state, object_facts(table->kind)->table, table->parent, "",
                        SIZE_MAX, false, read_row, table, err);
    return rc ? rc : table->code;
}

static bool newest_row(void *arg, const struct state_row *row)
{
    read_row(arg, row);
    return false;
}

/* Of plans and incidents only the newest of each live job goes to the core: of incidents no other
 * can be open. */
static int read_newest(struct coordinator *coordinator, const struct table *jobs, struct table *out,
                       struct err *err)
{
    enum state_table rows = object_facts(out->kind)->table;
    out->err = err;
    int rc = 0;
    for (size_t i = 0; !rc && i < jobs->count; i++) {
        const struct job *job = (const struct job *)jobs->item + i;
        rc = state_list(coordinator->state, rows, job->id.text, "", 1, true, newest_row, out, err);
        rc = rc ? rc : out->code;
    }
    return rc;
}

static int attach_models(struct coordinator *coordinator, const struct table *jobs,
                         struct restored_job *out, struct err *err)
{
    for (size_t i = 0; i < jobs->count; i++) {
        const struct job *job = (const struct job *)jobs->item + i;
        const struct catalog_entry *entry;
        int rc = catalog_find(coordinator->catalog, job->spec.model.sha256, &entry, err);
        if (rc) {
            return err_wrap(err, "job '%s'", job->id.text);
        }
        out[i].job = *job;
        out[i].model = entry->model;
    }
    return 0;
}

/* Every hash that a row names, for the blob sweep. */
struct references {
    char (*sha256)[SHA256_SIZE];
    bool *seen;
    size_t count, capacity;
    bool failed;
};

static void refer(struct references *references, const char *sha256)
{
    void *grown = grow(references->sha256, sizeof(*references->sha256), references->count,
                       &references->capacity);
    if (!grown) {
        references->failed = true;
        return;
    }
    references->sha256 = grown;
    snprintf(references->sha256[references->count++], SHA256_SIZE, "%s", sha256);
}

/* Better keep every blob than lose one that a damaged row names. */
static bool take_reference(void *arg, const char *table, const char *id, const char *sha256)
{
    struct references *references = arg;
    if (sha256 && sha256_form.valid(sha256)) {
        refer(references, sha256);
    } else {
        references->failed = true;
        log_error("row_damaged", "table=%s id=%s", table, id);
    }
    return !references->failed;
}

static int compare_hashes(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Sort them and keep one of each: jobs share data sets. */
static void sort_references(struct references *references)
{
    if (references->count < 2) {
        return;
    }
    qsort(references->sha256, references->count, sizeof(*references->sha256), compare_hashes);
    size_t kept = 1;
    for (size_t index = 1; index < references->count; index++) {
        if (strcmp(references->sha256[index], references->sha256[kept - 1]) != 0) {
            memmove(references->sha256[kept++], references->sha256[index], SHA256_SIZE);
        }
    }
    references->count = kept;
}

static bool keep_blob(void *arg, const char *sha256, uint64_t size)
{
    const struct references *references = arg;
    const char(*found)[SHA256_SIZE] = NULL;
    if (references->count > 0) {
        found = bsearch(sha256, references->sha256, references->count, sizeof(*references->sha256),
                        compare_hashes);
    }
    if (!found) {
        log_warn("orphan_blob_removed", "sha256=%s size_bytes=%llu", sha256,
                 (unsigned long long)size);
        return false;
    }
    references->seen[found - (const char(*)[SHA256_SIZE])references->sha256] = true;
    return true;
}

static int reconcile(struct coordinator *coordinator, struct references *references,
                     struct err *err)
{
    int rc = state_references(coordinator->state, take_reference, references, err);
    if (rc || references->failed) {
        return rc;
    }
    sort_references(references);
    references->seen = calloc(references->count + 1, sizeof(*references->seen));
    if (!references->seen) {
        return err_set(err, ERR_MEMORY, "out of memory");
    }
    rc = blob_sweep(coordinator->blobs, keep_blob, references, err);
    for (size_t i = 0; !rc && i < references->count; i++) {
        if (!references->seen[i]) {
            log_error("blob_missing", "sha256=%s", references->sha256[i]);
        }
    }
    return rc;
}

int restore_all(struct coordinator *coordinator, uint64_t seed, struct err *err)
{
    struct table devices = {.kind = OBJECT_DEVICE, .element_size = sizeof(struct device)};
    struct table jobs = {.kind = OBJECT_JOB, .element_size = sizeof(struct job)};
    struct table parents = {.kind = OBJECT_PARENT, .element_size = sizeof(struct parent)};
    struct table plans = {.kind = OBJECT_PLAN, .element_size = sizeof(struct plan)};
    struct table datasets = {.kind = OBJECT_DATASET, .element_size = sizeof(struct dataset)};
    struct table models = {.kind = OBJECT_MODEL, .element_size = sizeof(struct model_row)};
    struct table incidents = {.kind = OBJECT_INCIDENT, .element_size = sizeof(struct incident)};
    struct table units = {.kind = OBJECT_CENTER_UNIT, .element_size = sizeof(struct center_unit)};
    /* Those of jobs stay in the rows. */
    struct table uploads = {
        .kind = OBJECT_CHECKPOINT, .parent = "", .element_size = sizeof(struct checkpoint)};
    struct capacity_lists capacities = {0};
    struct references references = {0};
    struct restored_job *restored = NULL;
    struct table *all[] = {&devices, &jobs, &parents, &datasets, &models, &units, &uploads};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof(all) / sizeof(all[0]); i++) {
        rc = read_table(coordinator, all[i], err);
    }
    if (!rc) {
        rc = read_newest(coordinator, &jobs, &plans, err);
    }
    if (!rc) {
        rc = read_newest(coordinator, &jobs, &incidents, err);
    }
    if (!rc) {
        restored = calloc(jobs.count + 1, sizeof(*restored));
        rc = restored ? attach_models(coordinator, &jobs, restored, err)
                      : err_set(err, ERR_MEMORY, "out of memory");
    }
    if (!rc) {
        rc = restore_capacities_read(coordinator->state, &capacities, err);
    }
    if (!rc) {
        rc = reconcile(coordinator, &references, err);
    }
    if (!rc) {
        struct event event = {.type = EVENT_RESTORED,
                              .restored = {.seed = seed,
                                           .device = (const struct device *)devices.item,
                                           .device_count = devices.count,
                                           .job = restored,
                                           .job_count = jobs.count,
                                           .parent = (const struct parent *)parents.item,
                                           .parent_count = parents.count,
                                           .plan = (const struct plan *)plans.item,
                                           .plan_count = plans.count,
                                           .dataset = (const struct dataset *)datasets.item,
                                           .dataset_count = datasets.count,
                                           .model = (const struct model_row *)models.item,
                                           .model_count = models.count,
                                           .checkpoint = (const struct checkpoint *)uploads.item,
                                           .checkpoint_count = uploads.count,
                                           .center_unit = (const struct center_unit *)units.item,
                                           .center_unit_count = units.count,
                                           .incident = (const struct incident *)incidents.item,
                                           .incident_count = incidents.count,
                                           .capacities = capacities.rows}};
        turn_event(coordinator->turn, &event, NULL, NULL);
        rc = turn_commit(coordinator->turn, err);
    }
    if (!rc) {
        log_info("restored", "devices=%zu unfinished_jobs=%zu datasets=%zu", devices.count,
                 jobs.count, datasets.count);
    }
    free(restored);
    free(references.sha256);
    free(references.seen);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]->item);
    }
    free(plans.item);
    free(incidents.item);
    restore_capacities_free(&capacities);
    return rc;
}
