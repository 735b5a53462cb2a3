#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/parse.h"
#include "coordinator/content/export.h"
#include "coordinator/http/agent.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/upload.h"
#include "libtrain/state/trained_stream.h"

/* The upload of an average of groups, a file like that of a trained model: checked as it arrives,
 * stored, then reported to the core. */
struct average_upload {
    struct upload frame;          /* first */
    struct trained_stream stream; /* what it is judged by */
    struct device_id device;
    struct stored_average average;
    char sha256[SHA256_SIZE];
};

static bool read_real(struct http_exchange *exchange, const char *name, double max, double *out)
{
    const char *text = http_query(exchange, name);
    struct err err = {0};
    if (text && parse_double(text, 0, max, out, &err)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "query parameter '%s': %s", name,
                       err.text);
        return false;
    }
    return true;
}

static bool read_average(struct http_exchange *exchange, struct average_upload *out)
{
    static const int64_t count_max = (int64_t)INTEGER_MAX;
    const char *job = http_query(exchange, "job"), *sha256 = http_param(exchange, "sha256");
    struct stored_average *average = &out->average;
    if (!job || !id_valid(job, "job_")) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER,
                       "query parameter 'job': the id of a job");
        return false;
    }
    if (!sha256_form.valid(sha256)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "average '%.70s': expected %s", sha256,
                       sha256_form.expected);
        return false;
    }
    memcpy(average->job.text, job, strlen(job) + 1);
    memcpy(out->sha256, sha256, SHA256_SIZE);
    average->has_accuracy = http_query(exchange, "test_accuracy") != NULL;
    return answer_query_needed(exchange, "generation", 1, count_max, &average->generation) &&
           answer_query_needed(exchange, "life", 0, count_max, &average->xid.life) &&
           answer_query_needed(exchange, "counter", 0, count_max, &average->xid.counter) &&
           read_real(exchange, "test_loss", 0x1p1000, &average->loss) &&
           read_real(exchange, "test_accuracy", 1, &average->accuracy);
}

/* Return the job of the average, and its model in *model; NULL: the average is not expected, and a
 * problem was sent. */
static const struct job_spec *find_job(const struct core *core, struct http_exchange *exchange,
                                       const struct average_upload *upload,
                                       const struct model **model)
{
    const struct job_spec *spec =
        core_average_job(core, upload->device.text, &upload->average, model);
    if (!spec) {
        answer_problem(exchange, PROBLEM_STALE_GENERATION,
                       "the average %" PRId64 ".%" PRId64 " is not expected from '%s'",
                       upload->average.xid.life, upload->average.xid.counter, upload->device.text);
    }
    return spec;
}

static struct event stored_event(const struct upload *frame)
{
    const struct average_upload *upload = (const struct average_upload *)frame;
    struct event event = {.type = EVENT_AVERAGE_STORED,
                          .average_stored = {.device = upload->device,
                                             .average = upload->average,
                                             .bytes = (int64_t)frame->bytes}};
    memcpy(event.average_stored.sha256, upload->sha256, SHA256_SIZE);
    return event;
}

/* Another group may compute it. */
static void report_refused(struct coordinator *coordinator, const struct average_upload *upload)
{
    struct event event = stored_event(&upload->frame);
    event.average_stored.refused = true;
    turn_event(coordinator->turn, &event, NULL, NULL);
}

static bool check_accuracy(struct coordinator *coordinator, struct http_exchange *exchange,
                           const struct average_upload *upload)
{
    const struct stored_average *average = &upload->average;
    if (core_average_possible(coordinator->core, upload->device.text, average)) {
        return true;
    }
    answer_problem(exchange, PROBLEM_INVALID_PARAMETER,
                   "query parameter 'test_accuracy': no number of correct labels of the job's "
                   "test data gives it");
    log_warn("average_invalid", "device=%s job=%s error=\"impossible accuracy\"",
             upload->device.text, average->job.text);
    report_refused(coordinator, upload);
    return false;
}

static bool admit(struct coordinator *coordinator, struct http_exchange *exchange,
                  struct average_upload *out)
{
    static const char *const allowed[] = {"device",     "boot",          "job",
                                          "generation", "life",          "counter",
                                          "test_loss",  "test_accuracy", NULL};
    if (!answer_check_query(exchange, allowed) || !answer_check_upload_type(exchange)) {
        return false;
    }
    const struct device *device = agent_caller(coordinator, exchange);
    if (!device || !read_average(exchange, out)) {
        return false;
    }
    if (http_content_length(exchange) > (int64_t)BLOB_BYTES_MAX) {
        answer_problem(exchange, PROBLEM_BODY_TOO_LARGE, "an average has at most %llu bytes",
                       BLOB_BYTES_MAX);
        return false;
    }
    out->device = device->id;
    const struct model *model;
    return find_job(coordinator->core, exchange, out, &model) != NULL &&
           check_accuracy(coordinator, exchange, out);
}

/* ---- the file ---- */

static bool accepted(const struct average_upload *upload, int rc, const struct err *err)
{
    if (rc == ERR_FORMAT || rc == ERR_INVALID || rc == ERR_LIMIT) {
        answer_problem(upload->frame.exchange, PROBLEM_INVALID_CHECKPOINT, "%s", err->text);
        log_warn("average_invalid", "device=%s job=%s error=%s", upload->device.text,
                 upload->average.job.text, log_quote(err->text).text);
        report_refused(upload->frame.coordinator, upload);
    } else if (rc) {
        answer_err(upload->frame.exchange, err);
    }
    return rc == 0;
}

/* The job may have ended since the last piece. */
static bool look(struct upload *frame, const char *data, size_t size)
{
    struct average_upload *upload = (struct average_upload *)frame;
    const struct model *model;
    const struct job_spec *spec =
        find_job(frame->coordinator->core, frame->exchange, upload, &model);
    struct err err = {0};
    if (!spec) {
        return false;
    }
    const struct evaluation evaluation = export_evaluation(spec);
    int rc = trained_stream_take(&upload->stream, model, &evaluation, data, size, &err);
    return accepted(upload, rc, &err);
}

static void end_upload(struct upload *frame)
{
    trained_stream_done(&((struct average_upload *)frame)->stream);
}

static void finish_upload(void *state)
{
    const struct average_upload *upload = state;
    struct err err = {0};
    if (accepted(upload, trained_stream_end(&upload->stream, &err), &err)) {
        upload_finish(state);
    } else {
        upload_abort(state);
    }
}

static const struct upload_kind average_kind = {.size = sizeof(struct average_upload),
                                                .look = look,
                                                .end = end_upload,
                                                .event = stored_event,
                                                .refuse = upload_refuse_known};

static bool open_upload(void *context, struct http_exchange *exchange, void **state)
{
    struct coordinator *coordinator = context;
    struct average_upload read = {.sha256 = ""};
    if (!admit(coordinator, exchange, &read)) {
        return false;
    }
    struct average_upload *upload = upload_new(&average_kind, coordinator, exchange, read.sha256);
    if (upload) {
        trained_stream_init(&upload->stream);
        upload->device = read.device;
        upload->average = read.average;
        memcpy(upload->sha256, read.sha256, SHA256_SIZE);
    }
    *state = upload;
    return upload != NULL;
}

const struct http_sink average_sink = {
    .open = open_upload, .write = upload_write, .finish = finish_upload, .abort = upload_abort};
