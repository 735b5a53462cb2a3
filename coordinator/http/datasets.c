#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "coordinator/content/disk.h"
#include "coordinator/content/publication.h"
#include "coordinator/content/spool.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/audit.h"
#include "coordinator/http/content.h"
#include "coordinator/http/describe.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/wait.h"
#include "libtrain/formats/class_names.h"
#include "libtrain/formats/dataset.h"

#define UPLOADS_MAX 64    /* data sets on their way at once: each holds two buffers and a file */
#define CONVERSIONS_MAX 2 /* at once; the other workers are for short jobs */

_Static_assert(READING_SIZE == READING_TEXT_MAX, "a row holds what a data set says");
_Static_assert(COUNTED_CLASSES_MAX == DATASET_COUNTED_CLASSES_MAX, "a row holds every count");

/* One PUT: received into a spool, converted by a worker into the center, then reported to the
 * core. */
struct dataset_upload {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct http_exchange *exchange; /* NULL: the client has disconnected */
    struct spool *spool;
    uint8_t head[DATASET_HEAD_BYTES]; /* the first bytes, which show a wrong kind */
    size_t head_size;
    struct blob_upload *blob;
    struct publication publication;
    struct dataset_info info;
    struct dataset_counts counts;
    struct buf class_names; /* as JSON; empty: not known */
    struct dataset dataset;
    struct reading reading;
    bool refused; /* the data are to blame, not the coordinator */
    int code;
    struct err err;
    struct audit_entry origin;
    struct dataset_upload *next; /* waits for its conversion */
};

static void upload_free(struct dataset_upload *upload)
{
    upload->coordinator->edge->uploads.datasets--;
    awaited_let_go(upload->coordinator, &upload->publication.awaited);
    spool_free(&upload->spool);
    buf_done(&upload->class_names);
    free(upload);
}

static void upload_fail(struct dataset_upload *upload)
{
    struct http_exchange *exchange = upload->exchange;
    if (exchange) {
        http_on_end(exchange, NULL, NULL);
        if (upload->refused) {
            answer_problem(exchange, PROBLEM_INVALID_DATASET, "%s", upload->err.text);
        } else {
            answer_upload_err(exchange, &upload->err);
        }
    }
    upload_free(upload);
}

/* ---- conversion, on a worker ---- */

static int convert_go_on(void *arg, struct err *err)
{
    const struct dataset_upload *upload = arg;
    return work_stopping(upload->coordinator->work)
               ? err_set(err, ERR_CANCELLED, "the coordinator is stopping")
               : 0;
}

static int convert_sink(void *arg, const void *data, size_t size, struct err *err)
{
    struct dataset_upload *upload = arg;
    int rc = convert_go_on(upload, err);
    return rc ? rc : blob_upload_write_all(upload->blob, data, size, err);
}

/* A list that is too long is not kept. */
static int keep_class_names(struct dataset_upload *upload, const struct name_list *names)
{
    buf_init(&upload->class_names, CLASS_NAMES_TEXT_MAX);
    int rc = names->count > 0 ? class_names_write(names, &upload->class_names, &upload->err) : 0;
    return rc == ERR_LIMIT ? 0 : rc;
}

static void convert_run(struct work_job *job)
{
    struct dataset_upload *upload = (struct dataset_upload *)job;
    struct coordinator *coordinator = upload->coordinator;
    struct dataset_names names = {.classes_only = true};
    struct dataset_limits limits = {.total_bytes = coordinator->config->dataset_max_bytes,
                                    .entries = DATASET_ENTRIES_MAX,
                                    .names = &names,
                                    .counts = &upload->counts,
                                    .go_on = convert_go_on,
                                    .go_on_arg = upload};
    int fd = spool_fd(upload->spool);
    upload->code =
        blob_upload_open(coordinator->blobs, NULL, limits.total_bytes, &upload->blob, &upload->err);
    if (upload->code) {
        return;
    }
    upload->code = blob_upload_keep_free(upload->blob, 0, &upload->err);
    if (!upload->code) {
        upload->code = dataset_convert(&fd, 1, &upload->reading, &limits, convert_sink, upload,
                                       &upload->info, &upload->err);
    }
    upload->code = upload->code ? upload->code : keep_class_names(upload, &names.class);
    dataset_names_done(&names);
    if (upload->code) {
        /* An archive with too large a content is a fault of the data too. */
        upload->refused = upload->code == ERR_FORMAT || upload->code == ERR_INVALID ||
                          upload->code == ERR_UNSUPPORTED || upload->code == ERR_LIMIT;
        blob_upload_abort(upload->blob);
    }
}

/* ---- the answer, on the loop's thread ---- */

static void describe_dataset(struct dataset_upload *upload)
{
    const struct dataset_info *info = &upload->info;
    const struct publication *publication = &upload->publication;
    struct dataset *dataset = &upload->dataset;
    memcpy(dataset->sha256, publication->sha256, SHA256_SIZE);
    snprintf(dataset->dtype, sizeof(dataset->dtype), "%s", dtype_name(info->dtype));
    dataset->bytes = (int64_t)publication->bytes;
    dataset->samples = (int64_t)info->count;
    dataset->height = info->h;
    dataset->width = info->w;
    dataset->channels = info->c;
    dataset->classes = info->classes;
    dataset->positions = info->positions > 1 ? info->positions : 0;
    dataset->class_count_count = upload->counts.classes;
    for (size_t i = 0; i < upload->counts.classes; i++) {
        dataset->class_count[i] = upload->counts.samples[i];
    }
    memcpy(dataset->reading, info->reading, sizeof(dataset->reading));
    if (upload->class_names.size > 0) {
        sha256_text(upload->class_names.data, upload->class_names.size,
                    dataset->class_names_sha256);
    }
}

/* The blob is durable or was rejected. */
static void on_published(void *arg)
{
    struct dataset_upload *upload = arg;
    struct coordinator *coordinator = upload->coordinator;
    if (upload->publication.code) {
        upload->err = upload->publication.err;
        upload_fail(upload);
        return;
    }
    describe_dataset(upload);
    if (upload->exchange) {
        http_on_end(upload->exchange, NULL, NULL);
    }
    struct event event = {.type = EVENT_DATASET_STORED,
                          .dataset_stored = {.dataset = &upload->dataset}};
    struct turn_extra extra = {.description_size = upload->class_names.size,
                               .origin = &upload->origin};
    if (extra.description_size > 0) {
        extra.description = upload->class_names.data;
        memcpy(extra.description_sha256, upload->dataset.class_names_sha256, SHA256_SIZE);
    }
    turn_event(coordinator->turn, &event, upload->exchange, &extra);
    awaited_end(&upload->publication.awaited);
    awaited_discard(coordinator, upload->dataset.sha256);
    upload_free(upload);
}

static void convert_done(struct work_job *job);

/* Give waiting conversions to workers, in the order of their arrival. */
static void convert_next(struct coordinator *coordinator)
{
    struct edge_uploads *uploads = &coordinator->edge->uploads;
    while (uploads->waiting_first && uploads->converting < CONVERSIONS_MAX) {
        struct dataset_upload *upload = uploads->waiting_first;
        uploads->waiting_first = upload->next;
        uploads->converting++;
        upload->job = (struct work_job){.run = convert_run, .done = convert_done};
        work_submit(coordinator->work, &upload->job);
    }
}

static void convert_done(struct work_job *job)
{
    struct dataset_upload *upload = (struct dataset_upload *)job;
    upload->coordinator->edge->uploads.converting--;
    convert_next(upload->coordinator);
    if (job->cancelled) {
        upload->code = err_set(&upload->err, ERR_CANCELLED, "the coordinator is stopping");
    }
    if (upload->code) {
        upload_fail(upload);
    } else {
        publication_begin(&upload->publication, upload->coordinator, upload->blob, on_published,
                          upload);
    }
}

static void on_spooled(void *arg, int code, const struct err *err)
{
    struct dataset_upload *upload = arg;
    if (code) {
        upload->code = code;
        upload->err = *err;
        upload_fail(upload);
        return;
    }
    struct edge_uploads *uploads = &upload->coordinator->edge->uploads;
    if (uploads->waiting_first) {
        uploads->waiting_last->next = upload;
    } else {
        uploads->waiting_first = upload;
    }
    uploads->waiting_last = upload;
    convert_next(upload->coordinator);
}

/* ---- receiving ---- */

static void on_room(void *arg)
{
    struct dataset_upload *upload = arg;
    http_exchange_continue(upload->exchange);
}

static void on_client_gone(void *arg)
{
    struct dataset_upload *upload = arg;
    upload->exchange = NULL;
}

struct query {
    struct reading reading;
    bool failed;
    struct err err; /* of the first fault */
};

static void take_parameter(void *arg, const char *name, const char *value)
{
    struct query *query = arg;
    query->failed = query->failed || reading_set(&query->reading, name, value, &query->err) != 0;
}

/* How the body is to be read: false when answered. */
static bool read_query(struct http_exchange *exchange, struct reading *out)
{
    struct query query = {.reading = reading_default};
    http_each_query(exchange, take_parameter, &query);
    if (query.failed || reading_check(&query.reading, &query.err)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "query parameter %s", query.err.text);
        return false;
    }
    *out = query.reading;
    return true;
}

/* The checks that need only the headers. */
static bool admit(struct coordinator *coordinator, struct http_exchange *exchange,
                  struct reading *reading)
{
    const struct coordinator_config *config = coordinator->config;
    const char *name = http_param(exchange, "name");
    uint64_t free_bytes = 0;
    struct err err = {0};
    if (!read_query(exchange, reading) || !answer_check_upload_type(exchange)) {
        return false;
    }
    if (!name_valid(name)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "data set name '%.60s': expected %s",
                       name, name_form.expected);
        return false;
    }
    int64_t length = http_content_length(exchange);
    if (length > 0 && (uint64_t)length > config->dataset_max_bytes) {
        answer_problem(exchange, PROBLEM_BODY_TOO_LARGE,
                       "a data set has at most %" PRIu64 " bytes (--max-dataset)",
                       config->dataset_max_bytes);
        return false;
    }
    if (file_free_bytes(config->state_dir, &free_bytes, &err)) {
        answer_err(exchange, &err);
        return false;
    }
    if (free_bytes < config->min_free_bytes + (uint64_t)(length > 0 ? length : 0)) {
        answer_problem(exchange, PROBLEM_DISK_FULL,
                       "%" PRIu64 " bytes are free; %" PRIu64 " must stay free (--min-free)",
                       free_bytes, config->min_free_bytes);
        return false;
    }
    return true;
}

static bool sink_open(void *context, struct http_exchange *exchange, void **state)
{
    struct coordinator *coordinator = context;
    struct dataset_upload *upload = NULL;
    struct err err = {0};
    struct reading reading;
    if (!admit(coordinator, exchange, &reading)) {
        return false;
    }
    if (coordinator->edge->uploads.datasets == UPLOADS_MAX) {
        answer_problem(exchange, PROBLEM_TOO_MANY,
                       "%d data sets are being uploaded already; try again later", UPLOADS_MAX);
        return false;
    }
    disk_look(coordinator);
    if (!edge_takes_rows(coordinator, exchange) || !access_check_bytes(coordinator, exchange) ||
        !access_take(coordinator, exchange, SHARE_DATASETS)) {
        return false;
    }
    upload = calloc(1, sizeof(*upload));
    struct spool_config config = {.work = coordinator->work,
                                  .directory = coordinator->config->state_dir,
                                  .limit_bytes = coordinator->config->dataset_max_bytes,
                                  .min_free_bytes = coordinator->config->min_free_bytes,
                                  .on_room = on_room,
                                  .arg = upload};
    int rc = upload ? spool_new(&config, &upload->spool, &err)
                    : err_set(&err, ERR_MEMORY, "upload: out of memory");
    if (rc) {
        free(upload);
        answer_err(exchange, &err);
        return false;
    }
    upload->coordinator = coordinator;
    upload->exchange = exchange;
    upload->reading = reading;
    audit_origin(coordinator, exchange, &upload->origin);
    snprintf(upload->dataset.name, sizeof(upload->dataset.name), "%s",
             http_param(exchange, "name"));
    coordinator->edge->uploads.datasets++;
    *state = upload;
    return true;
}

/* Collect the first bytes, and check them as soon as they are complete. */
static int look_at_head(struct dataset_upload *upload, const uint8_t *data, size_t size,
                        struct err *err)
{
    const size_t missing = sizeof(upload->head) - upload->head_size;
    const size_t part = size < missing ? size : missing;
    if (missing == 0) {
        return 0;
    }
    memcpy(upload->head + upload->head_size, data, part);
    upload->head_size += part;
    return part == missing ? dataset_check_head(upload->head, &upload->reading, err) : 0;
}

/* Rejections are answered at once; the server discards the rest of the body, then aborts. */
static size_t sink_write(void *state, const void *data, size_t size)
{
    struct dataset_upload *upload = state;
    struct err err = {0};
    int64_t taken = spool_write(upload->spool, data, size, &err);
    if (taken < 0) {
        answer_err(upload->exchange, &err);
        return size;
    }
    if (look_at_head(upload, data, (size_t)taken, &err)) {
        answer_problem(upload->exchange, PROBLEM_INVALID_DATASET, "%s", err.text);
        return size;
    }
    return access_spend_bytes(upload->coordinator, upload->exchange, (size_t)taken) ? (size_t)taken
                                                                                    : size;
}

static void sink_finish(void *state)
{
    struct dataset_upload *upload = state;
    if (spool_size(upload->spool) == 0) {
        upload->refused = true;
        upload->code = err_set(
            &upload->err, ERR_FORMAT,
            "the body is empty; send a tar, IDX, NPY, CIFAR or safetensors file (curl -T FILE)");
        upload_fail(upload);
        return;
    }
    http_on_end(upload->exchange, on_client_gone, upload);
    spool_finish(upload->spool, on_spooled);
}

static void sink_abort(void *state)
{
    upload_free(state);
}

const struct http_sink dataset_sink = {
    .open = sink_open, .write = sink_write, .finish = sink_finish, .abort = sink_abort};

/* The data set of the path, or NULL when the problem was answered. */
static const struct dataset *named_dataset(struct coordinator *coordinator,
                                           struct http_exchange *exchange)
{
    const char *name = http_param(exchange, "name");
    const struct dataset *dataset = core_dataset(coordinator->core, name);
    if (!dataset) {
        answer_problem(exchange, PROBLEM_UNKNOWN_DATASET, "no data set '%.60s'", name);
    }
    return dataset;
}

void serve_dataset(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    const struct dataset *dataset =
        answer_check_query(exchange, allowed) ? named_dataset(context, exchange) : NULL;
    if (dataset) {
        answer_kind(exchange, OBJECT_DATASET, dataset);
    }
}

void serve_dataset_class_names(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    const struct dataset *dataset =
        answer_check_query(exchange, allowed) ? named_dataset(context, exchange) : NULL;
    struct name_list names AUTO(name_list_done) = {0};
    struct err err = {0};
    if (!dataset) {
        return;
    }
    BUF_AUTO struct buf body;
    buf_init(&body, 2 * CLASS_NAMES_TEXT_MAX);
    const bool known = dataset->class_names_sha256[0] != '\0';
    int rc = describe_class_names(context, dataset, &names, &err);
    rc = rc ? rc : buf_printf(&body, &err, "{\"class_names\":%s", known ? "" : "null");
    rc = rc || !known ? rc : class_names_write(&names, &body, &err);
    rc = rc ? rc : buf_printf(&body, &err, "}");
    if (rc) {
        answer_err(exchange, &err);
    } else {
        answer_object(exchange, 200, dataset->revision, &body);
    }
}

void serve_dataset_content(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    const struct dataset *dataset =
        answer_check_query(exchange, allowed) ? named_dataset(context, exchange) : NULL;
    if (dataset) {
        char file_name[NAME_SIZE + 16];
        snprintf(file_name, sizeof(file_name), "%s.safetensors", dataset->name);
        content_serve(context, exchange, dataset->sha256, file_name);
    }
}
