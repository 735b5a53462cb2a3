#include "coordinator/content/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "coordinator/content/awaited.h"
#include "coordinator/content/catalog.h"
#include "coordinator/content/damage.h"
#include "coordinator/content/publication.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "libtrain/state/state.h"
#include "libtrain/state/trained.h"
#include "schema/job_check.h"
#include "schema/wire.h"

#define EXPORT_PIECE_BYTES (1u << 20)
#define CENTER_ROWS_MAX ((size_t)UNITS_MAX * 4) /* of a job: the newest versions come first */

/* An open export. The worker reads the model, so its catalog entry is pinned: the job may be
 * cancelled meanwhile. */
struct export
{
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct event_exported result;
    const struct model *model;
    char model_sha256[SHA256_SIZE]; /* of the pinned entry; "": none */
    struct optimizer optimizer;
    struct evaluation evaluation;
    struct awaited
        unit[UNITS_MAX]; /* the blob of each: a newer version may replace it while it is read */
    struct blob_upload *upload;
    struct publication publication;
    char *piece;
    int code;
    struct err err;
};

static void export_free(struct export *export)
{
    if (export->model_sha256[0]) {
        catalog_unpin(export->coordinator->catalog, export->model_sha256);
    }
    for (size_t unit = 0; unit < UNITS_MAX; unit++) {
        awaited_let_go(export->coordinator, &export->unit[unit]);
    }
    publication_end(&export->publication);
    free(export->piece);
    free(export);
}

static bool goes_on(void *arg)
{
    const struct export *export = arg;
    return !work_stopping(export->coordinator->work);
}

/* Copy the exported part of a unit's blob. */
static int copy_unit(struct export *export, size_t unit, struct err *err)
{
    struct state_layout *layout = NULL;
    struct blob_reader *reader = NULL;
    uint64_t size = 0;
    /* Only a part of the blob is copied, but all of it is compared with its hash: the trained model
     * must not contain damage. */
    int rc = state_layout_new(export->model, unit, &export->optimizer, &layout, err);
    rc = rc ? rc
            : blob_check(export->coordinator->blobs, export->unit[unit].sha256, goes_on, export,
                         err);
    if (!rc) {
        rc = blob_reader_open(export->coordinator->blobs, export->unit[unit].sha256, &reader, &size,
                              err);
    }
    if (!rc && size != layout->blob_bytes) {
        rc = err_set(err, ERR_FORMAT, "the stored state has %" PRIu64 " bytes, expected %" PRIu64,
                     size, layout->blob_bytes);
    }
    uint64_t offset = rc ? 0 : layout->header.data_offset;
    uint64_t end = rc ? 0 : offset + layout->export_bytes;
    while (!rc && offset < end) {
        size_t wanted =
            end - offset < EXPORT_PIECE_BYTES ? (size_t)(end - offset) : EXPORT_PIECE_BYTES;
        size_t got = 0;
        rc = blob_read(reader, offset, export->piece, wanted, &got, err);
        if (!rc && got == 0) {
            rc = err_set(err, ERR_FORMAT, "the stored state ends at byte %" PRIu64, offset);
        }
        if (!rc && work_stopping(export->coordinator->work)) {
            rc = err_set(err, ERR_CANCELLED, "the coordinator is stopping");
        }
        if (!rc) {
            rc = blob_upload_write_all(export->upload, export->piece, got, err);
        }
        offset += got;
    }
    blob_reader_close(&reader);
    state_layout_free(&layout);
    return rc ? err_wrap(err, "unit '%s'", export->model->unit[unit].name) : 0;
}

static void export_run(struct work_job *job)
{
    struct export *export = (struct export *)job;
    BUF_AUTO struct buf header;
    buf_init(&header, SAFETENSORS_HEADER_MAX);
    struct err *err = &export->err;
    int rc = trained_header(export->model, &export->evaluation, &header, err);
    if (!rc) {
        rc = blob_upload_open(export->coordinator->blobs, NULL, BLOB_BYTES_MAX, &export->upload,
                              err);
    }
    if (!rc) {
        rc = blob_upload_write_all(export->upload, header.data, header.size, err);
    }
    for (size_t unit = 0; !rc && unit < export->model->unit_count; unit++) {
        rc = copy_unit(export, unit, err);
    }
    if (rc && export->upload) {
        blob_upload_abort(export->upload);
    }
    export->code = rc;
}

/* Report to the core, on the loop's thread. */
static void export_report(struct export *export)
{
    struct event event = {.type = EVENT_EXPORTED, .exported = export->result};
    event.exported.failed = export->code != 0;
    if (export->code) {
        snprintf(event.exported.message, sizeof(event.exported.message), "%.200s",
                 export->err.text);
        log_error("export_failed", "job=%s error=%s", export->result.job.text,
                  log_quote(export->err.text).text);
        for (size_t unit = 0; export->model && unit < export->model->unit_count; unit++) {
            damage_report(export->coordinator, export->unit[unit].sha256);
        }
    }
    turn_event(export->coordinator->turn, &event, NULL, NULL);
    export_free(export);
}

static void export_end(struct export *export)
{
    if (export->code == ERR_CANCELLED) {
        export_free(export); /* the next start begins it again */
    } else {
        export_report(export);
    }
}

static void on_published(void *arg)
{
    struct export *export = arg;
    const struct publication *publication = &export->publication;
    export->code = publication->code;
    if (export->code) {
        export->err = publication->err;
    } else {
        memcpy(export->result.sha256, publication->sha256, SHA256_SIZE);
        export->result.bytes = (int64_t)publication->bytes;
    }
    export_end(export);
}

static void export_done(struct work_job *job)
{
    struct export *export = (struct export *)job;
    if (job->cancelled) {
        export->code = ERR_CANCELLED;
    }
    if (export->code) {
        export_end(export);
    } else {
        publication_begin(&export->publication, export->coordinator, export->upload, on_published,
                          export);
    }
}

static bool take_unit(void *arg, const struct state_row *row)
{
    struct export *export = arg;
    struct center_unit unit = {0};
    struct record_faults faults = {0};
    struct err err = {0};
    int rc =
        wire_read(&center_unit_record, row->document, row->document_size, &unit, &faults, &err);
    if (rc) {
        log_error("center_unit_damaged", "id=%s error=%s", row->id, log_quote(err.text).text);
    } else if (unit.version == export->result.version && unit.unit >= 0 && unit.unit < UNITS_MAX) {
        awaited_end(&export->unit[unit.unit]);
        awaited_begin(export->coordinator, &export->unit[unit.unit], unit.sha256);
    }
    return true;
}

struct evaluation export_evaluation(const struct job_spec *spec)
{
    struct evaluation evaluation = {.micro_batch = spec->batch / spec->micro_batches};
    if (job_view(spec)) {
        evaluation.view = spec->view;
    }
    return evaluation;
}

/* Read the worker's input on the loop's thread. */
static int gather(struct export *export, const struct job *job, struct err *err)
{
    struct coordinator *coordinator = export->coordinator;
    const struct catalog_entry *entry = NULL;
    int rc = catalog_find(coordinator->catalog, job->spec.model.sha256, &entry, err);
    if (rc) {
        return rc;
    }
    catalog_pin(coordinator->catalog, entry->sha256);
    snprintf(export->model_sha256, sizeof(export->model_sha256), "%s", entry->sha256);
    export->model = entry->model;
    export->optimizer = job->spec.optimizer;
    export->evaluation = export_evaluation(&job->spec);
    return state_list(coordinator->state, STATE_CENTER_UNITS, job->id.text, "", CENTER_ROWS_MAX,
                      true, take_unit, export, err);
}

int export_start(struct coordinator *coordinator, const char *job_id, int64_t version,
                 struct err *err)
{
    const struct job *job = core_job(coordinator->core, job_id);
    if (!job) {
        return 0;
    }
    struct export *export = calloc(1, sizeof(*export));
    char *piece = malloc(EXPORT_PIECE_BYTES);
    if (!export || !piece) {
        free(export);
        free(piece);
        return err_set(err, ERR_MEMORY, "export of '%s': out of memory", job_id);
    }
    export->coordinator = coordinator;
    export->piece = piece;
    export->result.job = job->id;
    export->result.version = version;
    export->code = gather(export, job, &export->err);
    if (export->code) {
        export->job.done = export_done;
        work_post(coordinator->work, &export->job);
    } else {
        export->job = (struct work_job){.run = export_run, .done = export_done};
        work_submit(coordinator->work, &export->job);
    }
    return 0;
}
