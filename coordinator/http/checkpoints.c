/* Checkpoints of jobs, and uploads of checkpoints, which are received directly into the center
 * while their header is read. */
#include "coordinator/http/checkpoints.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/content.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/upload.h"
#include "coordinator/http/wait.h"
#include "libtrain/formats/safetensors_head.h"
#include "libtrain/state/checkpoint.h"
#include "schema/wire.h"

#define UPLOADS_MAX 16 /* on their way at once: each holds a header */

/* ---- the stored checkpoints ---- */

struct checkpoint_row {
    struct checkpoint checkpoint;
    int code;
    struct err err;
};

static bool read_checkpoint(void *arg, const struct state_row *row)
{
    struct checkpoint_row *out = arg;
    struct record_faults faults = {0};
    out->code = wire_read(&checkpoint_record, row->document, row->document_size, &out->checkpoint,
                          &faults, &out->err);
    return false;
}

int checkpoint_find(struct coordinator *coordinator, const char *id, struct checkpoint *out,
                    struct err *err)
{
    struct checkpoint_row row = {0};
    int rc = state_get(coordinator->state, STATE_CHECKPOINTS, id, read_checkpoint, &row, err);
    if (!rc && row.code) {
        *err = row.err;
        rc = row.code;
    }
    if (!rc) {
        *out = row.checkpoint;
    }
    return rc;
}

static bool find_checkpoint(struct coordinator *coordinator, struct http_exchange *exchange,
                            struct checkpoint *out)
{
    static const char *const allowed[] = {NULL};
    const char *id = http_param(exchange, "id");
    struct err err = {0};
    if (!answer_check_query(exchange, allowed)) {
        return false;
    }
    int rc = checkpoint_find(coordinator, id, out, &err);
    if (rc == ERR_NOT_FOUND) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_CHECKPOINT, id);
    } else if (rc) {
        answer_err(exchange, &err);
    }
    return !rc;
}

void serve_checkpoint(void *context, struct http_exchange *exchange)
{
    struct checkpoint checkpoint;
    const struct coordinator *coordinator = context;
    if (find_checkpoint(context, exchange, &checkpoint)) {
        checkpoint.damaged = blob_is_damaged(coordinator->blobs, checkpoint.sha256);
        answer_kind(exchange, OBJECT_CHECKPOINT, &checkpoint);
    }
}

void serve_checkpoint_content(void *context, struct http_exchange *exchange)
{
    struct checkpoint checkpoint;
    if (find_checkpoint(context, exchange, &checkpoint)) {
        char file_name[ID_SIZE + 16];
        snprintf(file_name, sizeof(file_name), "%s.safetensors", checkpoint.id.text);
        content_serve(context, exchange, checkpoint.sha256, file_name);
    }
}

static bool list_checkpoint(void *arg, const struct state_row *row)
{
    return list_text(arg, row->id, row->document, row->document_size);
}

static const struct list_form checkpoint_list_form = {.key = &checkpoint_id_form, .waits = true};

static bool look_at_checkpoints(void *context, struct http_exchange *exchange, const char *id,
                                int64_t after, bool last)
{
    (void)id;
    struct coordinator *coordinator = context;
    struct list list;
    if (!wait_list_is_new(coordinator, OBJECT_CHECKPOINT, after, last)) {
        return false;
    }
    if (list_begin(exchange, &checkpoint_list_form, &list)) {
        list.revision = edge_list_revision(coordinator->edge, OBJECT_CHECKPOINT);
        list_rows(exchange, &list, coordinator->state, STATE_CHECKPOINTS, NULL, list_checkpoint,
                  &list);
    }
    return true;
}

void serve_all_checkpoints(void *context, struct http_exchange *exchange)
{
    wait_for_list(context, exchange, OBJECT_CHECKPOINT, &checkpoint_list_form, look_at_checkpoints);
}

/* ---- an upload ---- */

struct checkpoint_upload {
    struct upload frame;          /* first */
    struct safetensors_head head; /* until it was read */
    bool known;                   /* it was: */
    uint64_t expected_bytes;
};

static int read_head(void *arg, uint64_t offset, void *out, size_t size, struct err *err)
{
    const struct buf *head = arg;
    if (offset > head->size || size > head->size - offset) {
        return err_set(err, ERR_FORMAT, "the file ends within its header");
    }
    memcpy(out, head->data + offset, size);
    return 0;
}

static int judge_header(struct checkpoint_upload *upload, struct err *err)
{
    struct checkpoint_file *file AUTO(checkpoint_file_close) = NULL;
    const int64_t announced = http_content_length(upload->frame.exchange);
    int rc = checkpoint_file_open(read_head, &upload->head.bytes, &file, err);
    if (rc) {
        return rc;
    }
    upload->known = true;
    upload->expected_bytes = checkpoint_file_bytes(file);
    safetensors_head_done(&upload->head);
    if (checkpoint_file_tensors(file) == 0) {
        return err_set(err, ERR_FORMAT, "the file has no tensors");
    }
    if (announced > 0 && (uint64_t)announced != upload->expected_bytes) {
        return err_set(err, ERR_FORMAT,
                       "the file has %" PRId64 " bytes; its header describes %" PRIu64, announced,
                       upload->expected_bytes);
    }
    return 0;
}

static bool look_at_header(struct upload *frame, const char *data, size_t size)
{
    struct err err = {0};
    struct checkpoint_upload *upload = (struct checkpoint_upload *)frame;
    size_t taken = 0;
    int rc = upload->known ? 0 : safetensors_head_take(&upload->head, data, size, &taken, &err);
    rc = rc || upload->known || !upload->head.complete ? rc : judge_header(upload, &err);
    if (rc == ERR_FORMAT || rc == ERR_INVALID || rc == ERR_LIMIT) {
        answer_problem(frame->exchange, PROBLEM_INVALID_CHECKPOINT, "%s", err.text);
    } else if (rc) {
        answer_err(frame->exchange, &err);
    }
    return !rc;
}

static void end_upload(struct upload *frame)
{
    frame->coordinator->edge->uploads.checkpoints--;
    safetensors_head_done(&((struct checkpoint_upload *)frame)->head);
}

static struct event stored_event(const struct upload *frame)
{
    struct event event = {.type = EVENT_CHECKPOINT_STORED,
                          .checkpoint_stored = {.bytes = (int64_t)frame->bytes}};
    memcpy(event.checkpoint_stored.sha256, frame->publication.sha256, SHA256_SIZE);
    return event;
}

static const struct upload_kind checkpoint_kind = {.size = sizeof(struct checkpoint_upload),
                                                   .look = look_at_header,
                                                   .end = end_upload,
                                                   .event = stored_event,
                                                   .refuse = answer_err};

static bool open_upload(void *context, struct http_exchange *exchange, void **state)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    if (!answer_check_query(exchange, allowed) || !answer_check_upload_type(exchange)) {
        return false;
    }
    if (http_content_length(exchange) > (int64_t)BLOB_BYTES_MAX) {
        answer_problem(exchange, PROBLEM_BODY_TOO_LARGE, "a checkpoint has at most %llu bytes",
                       BLOB_BYTES_MAX);
        return false;
    }
    if (coordinator->edge->uploads.checkpoints == UPLOADS_MAX) {
        answer_problem(exchange, PROBLEM_TOO_MANY,
                       "%d checkpoints are being uploaded already; try again later", UPLOADS_MAX);
        return false;
    }
    if (core_uploads_full(coordinator->core)) {
        answer_problem(exchange, PROBLEM_TOO_MANY,
                       "the coordinator stores %d uploaded checkpoints, its limit",
                       CHECKPOINTS_MAX);
        return false;
    }
    if (!access_check_bytes(coordinator, exchange) ||
        !access_take(coordinator, exchange, SHARE_CHECKPOINTS)) {
        return false;
    }
    struct checkpoint_upload *upload = upload_new(&checkpoint_kind, coordinator, exchange, NULL);
    if (upload) {
        safetensors_head_init(&upload->head);
        coordinator->edge->uploads.checkpoints++;
    }
    *state = upload;
    return upload != NULL;
}

static void finish_upload(void *state)
{
    struct checkpoint_upload *upload = state;
    const struct upload *frame = &upload->frame;
    if (upload->known && frame->bytes == upload->expected_bytes) {
        upload_finish(state);
        return;
    }
    if (upload->known) {
        answer_problem(frame->exchange, PROBLEM_INVALID_CHECKPOINT,
                       "the file has %" PRIu64 " bytes; its header describes %" PRIu64,
                       frame->bytes, upload->expected_bytes);
    } else {
        answer_problem(
            frame->exchange, PROBLEM_INVALID_CHECKPOINT,
            "the file ends before its header does; send a safetensors file (curl -X POST -T FILE)");
    }
    upload_abort(state);
}

const struct http_sink checkpoint_sink = {
    .open = open_upload, .write = upload_write, .finish = finish_upload, .abort = upload_abort};
