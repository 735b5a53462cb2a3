#include "tests/sim/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static size_t row_size(enum object_kind kind)
{
    switch ((int)kind) {
    case OBJECT_DEVICE: return sizeof(struct device);
    case OBJECT_JOB: return sizeof(struct job);
    case OBJECT_PARENT: return sizeof(struct parent);
    case OBJECT_PLAN: return sizeof(struct plan);
    case OBJECT_DATASET: return sizeof(struct dataset);
    case OBJECT_CHECKPOINT: return sizeof(struct checkpoint);
    case OBJECT_CENTER_UNIT: return sizeof(struct center_unit);
    case OBJECT_INCIDENT: return sizeof(struct incident);
    case OBJECT_MIX: return sizeof(struct mix_row);
    default: return 0;
    }
}

bool rows_keep(enum object_kind kind)
{
    return row_size(kind) > 0;
}

/* ---- the transaction ---- */

void transaction_add(struct transaction *transaction, const struct action *action)
{
    ASSERT(transaction->count < CHANGES_MAX);
    struct change *change = &transaction->item[transaction->count++];
    *change = (struct change){
        .forget = action->type == ACTION_FORGET, .kind = action->kind, .version = action->version};
    memcpy(change->id, action->id, ID_SIZE);
    if (!change->forget) {
        const size_t size = row_size(action->kind);
        change->row = malloc(size);
        ASSERT(change->row);
        memcpy(change->row, action->object, size);
    }
}

void transaction_clear(struct transaction *transaction)
{
    for (size_t i = 0; i < transaction->count; i++) {
        free(transaction->item[i].row);
    }
    transaction->count = 0;
}

/* ---- rows ---- */

/* Replace the row with the same key, or append; revisions of a row only rise. */
#define PUT(rows, list, value, key)                                                                \
    do {                                                                                           \
        size_t at = 0;                                                                             \
        while (at < (rows)->list##_count && strcmp((rows)->list[at].key, (value)->key) != 0) {     \
            at++;                                                                                  \
        }                                                                                          \
        ASSERT(at < sizeof((rows)->list) / sizeof((rows)->list[0]));                               \
        ASSERT(at == (rows)->list##_count || (rows)->list[at].revision < (value)->revision);       \
        (rows)->list[at] = *(value);                                                               \
        (rows)->list##_count += at == (rows)->list##_count;                                        \
    } while (0)

static void put_plan(struct rows *rows, const struct plan *plan)
{
    size_t at = 0;
    while (at < rows->plan_count && !id_equal(rows->plan[at].job.text, plan->job.text)) {
        at++;
    }
    ASSERT(at < ROWS_JOBS_MAX);
    if (at == rows->plan_count || rows->plan[at].generation <= plan->generation) {
        rows->plan[at] = *plan;
        rows->plan_count += at == rows->plan_count;
    }
}

static void put_unit(struct rows *rows, const struct center_unit *unit)
{
    size_t at = 0;
    while (at < rows->unit_count &&
           !(id_equal(rows->unit[at].job.text, unit->job.text) &&
             rows->unit[at].version == unit->version && rows->unit[at].unit == unit->unit)) {
        at++;
    }
    ASSERT(at < ROWS_UNITS_MAX);
    rows->unit[at] = *unit;
    rows->unit_count += at == rows->unit_count;
}

/* Those that are over are for people only. */
static void put_incident(struct rows *rows, const struct incident *incident)
{
    size_t at = 0;
    while (at < rows->incident_count && !id_equal(rows->incident[at].id.text, incident->id.text)) {
        at++;
    }
    if (incident->state == INCIDENT_OPEN) {
        ASSERT(at < ROWS_INCIDENTS_MAX);
        rows->incident[at] = *incident;
        rows->incident_count += at == rows->incident_count;
    } else if (at < rows->incident_count) {
        rows->incident[at] = rows->incident[--rows->incident_count];
    }
}

/* A record that is reported again has the same id. */
static void put_mix(struct rows *rows, const struct mix_row *mix)
{
    size_t at = rows->mix_count;
    while (at > 0 && strcmp(rows->mix[at - 1].id, mix->id) != 0) {
        at--;
    }
    ASSERT(at > 0 || rows->mix_count < ROWS_MIXES_MAX);
    rows->mix[at > 0 ? at - 1 : rows->mix_count++] = *mix;
}

static void put(struct rows *rows, const struct change *change)
{
    switch ((int)change->kind) {
    case OBJECT_DEVICE: PUT(rows, device, (const struct device *)change->row, id.text); break;
    case OBJECT_JOB: PUT(rows, job, (const struct job *)change->row, id.text); break;
    case OBJECT_PARENT: PUT(rows, parent, (const struct parent *)change->row, job.text); break;
    case OBJECT_PLAN: put_plan(rows, change->row); break;
    case OBJECT_DATASET: PUT(rows, dataset, (const struct dataset *)change->row, name); break;
    case OBJECT_CHECKPOINT:
        PUT(rows, checkpoint, (const struct checkpoint *)change->row, id.text);
        break;
    case OBJECT_CENTER_UNIT: put_unit(rows, change->row); break;
    case OBJECT_INCIDENT: put_incident(rows, change->row); break;
    case OBJECT_MIX: put_mix(rows, change->row); break;
    default: ASSERT(false);
    }
}

static void forget(struct rows *rows, const struct change *change)
{
    if (change->kind == OBJECT_DEVICE) {
        for (size_t i = 0; i < rows->device_count; i++) {
            if (id_equal(rows->device[i].id.text, change->id)) {
                rows->device[i] = rows->device[--rows->device_count];
            }
        }
        return;
    }
    if (change->kind == OBJECT_CHECKPOINT) {
        for (size_t i = 0; i < rows->checkpoint_count; i++) {
            if (id_equal(rows->checkpoint[i].id.text, change->id)) {
                rows->checkpoint[i] = rows->checkpoint[--rows->checkpoint_count];
            }
        }
        return;
    }
    ASSERT(change->kind == OBJECT_CENTER_UNIT);
    size_t kept = 0;
    for (size_t i = 0; i < rows->unit_count; i++) {
        const struct center_unit *unit = &rows->unit[i];
        if (!id_equal(unit->job.text, change->id) || unit->version >= change->version) {
            rows->unit[kept++] = *unit;
        }
    }
    rows->unit_count = kept;
}

void rows_commit(struct rows *rows, struct transaction *transaction)
{
    for (size_t i = 0; i < transaction->count; i++) {
        const struct change *change = &transaction->item[i];
        if (change->forget) {
            forget(rows, change);
        } else {
            put(rows, change);
        }
    }
    transaction_clear(transaction);
}

/* ---- capacities ---- */

static void take_device(struct rows *rows, const struct capacity_row *row)
{
    size_t at = 0;
    while (at < rows->capacity_count &&
           !id_equal(rows->capacity[at].device.text, row->device.text)) {
        at++;
    }
    if (at < ROWS_DEVICES_MAX + 1) {
        rows->capacity[at] = *row;
        rows->capacity_count = at < rows->capacity_count ? rows->capacity_count : at + 1;
    }
}

static void take_unit(struct rows *rows, const struct unit_row *row)
{
    size_t at = 0;
    while (at < rows->unit_time_count &&
           (!id_equal(rows->unit_time[at].device.text, row->device.text) ||
            rows->unit_time[at].shape != row->shape)) {
        at++;
    }
    if (at < ROWS_UNIT_TIMES_MAX) {
        rows->unit_time[at] = *row;
        rows->unit_time_count = at < rows->unit_time_count ? rows->unit_time_count : at + 1;
    }
}

static void take_link(struct rows *rows, const struct link_row *row)
{
    size_t at = 0;
    while (at < rows->link_time_count &&
           (!id_equal(rows->link_time[at].from.text, row->from.text) ||
            !id_equal(rows->link_time[at].to.text, row->to.text) ||
            rows->link_time[at].kind != row->kind ||
            strcmp(rows->link_time[at].codec, row->codec) != 0)) {
        at++;
    }
    if (at < ROWS_LINK_TIMES_MAX) {
        rows->link_time[at] = *row;
        rows->link_time_count = at < rows->link_time_count ? rows->link_time_count : at + 1;
    }
}

void rows_take_capacity(struct rows *rows, const struct capacity_change *change)
{
    take_device(rows, &change->device);
    take_device(rows, &change->fleet);
    for (size_t i = 0; i < change->unit_count; i++) {
        take_unit(rows, &change->unit[i]);
    }
    for (size_t i = 0; i < change->link_count; i++) {
        take_link(rows, &change->link[i]);
    }
}

const struct job *rows_job(const struct rows *rows, const char *id)
{
    for (size_t i = 0; i < rows->job_count; i++) {
        if (id_equal(rows->job[i].id.text, id)) {
            return &rows->job[i];
        }
    }
    return NULL;
}

const struct job *rows_job_named(const struct rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->job_count; i++) {
        if (strcmp(rows->job[i].spec.name, name) == 0) {
            return &rows->job[i];
        }
    }
    return NULL;
}

const struct parent *rows_parent(const struct rows *rows, const char *job_id)
{
    for (size_t i = 0; i < rows->parent_count; i++) {
        if (id_equal(rows->parent[i].job.text, job_id)) {
            return &rows->parent[i];
        }
    }
    return NULL;
}

const struct plan *rows_plan(const struct rows *rows, const char *job_id)
{
    for (size_t i = 0; i < rows->plan_count; i++) {
        if (id_equal(rows->plan[i].job.text, job_id)) {
            return &rows->plan[i];
        }
    }
    return NULL;
}

/* ---- blobs ---- */

static size_t find_blob(const struct blobs *blobs, const char *sha256)
{
    size_t at = 0;
    while (at < blobs->count && strcmp(blobs->sha256[at], sha256) != 0) {
        at++;
    }
    return at;
}

bool blobs_have(const struct blobs *blobs, const char *sha256)
{
    return find_blob(blobs, sha256) < blobs->count;
}

void blobs_add(struct blobs *blobs, const char *sha256)
{
    if (!blobs_have(blobs, sha256)) {
        ASSERT(blobs->count < BLOBS_MAX);
        memcpy(blobs->sha256[blobs->count++], sha256, SHA256_SIZE);
    }
}

void blobs_delete(struct blobs *blobs, const char *sha256)
{
    const size_t at = find_blob(blobs, sha256);
    if (at < blobs->count) {
        blobs->count--;
        memmove(blobs->sha256[at], blobs->sha256[blobs->count], SHA256_SIZE);
    }
}

bool rows_refer(const struct rows *rows, const char *sha256)
{
    for (size_t i = 0; i < rows->unit_count; i++) {
        if (strcmp(rows->unit[i].sha256, sha256) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        if (strcmp(rows->checkpoint[i].sha256, sha256) == 0) {
            return true;
        }
    }
    return false;
}

void blobs_sweep(struct blobs *blobs, const struct rows *rows)
{
    for (size_t i = blobs->count; i-- > 0;) {
        if (!rows_refer(rows, blobs->sha256[i])) {
            blobs->count--;
            memmove(blobs->sha256[i], blobs->sha256[blobs->count], SHA256_SIZE);
        }
    }
}
