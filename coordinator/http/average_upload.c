#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "coordinator/http/agent.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/upload.h"

/* The upload of an average of groups, a file as of a trained model: received, stored, then reported
 * to the core. Without a body the blob must exist already. */
struct average_upload {
    struct upload frame; /* first */
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
    if (!core_may_store_average(coordinator->core, device->id.text, &out->average)) {
        answer_problem(exchange, PROBLEM_STALE_GENERATION,
                       "the average %" PRId64 ".%" PRId64 " is not expected from '%s'",
                       out->average.xid.life, out->average.xid.counter, device->id.text);
        return false;
    }
    return true;
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

static const struct upload_kind average_kind = {
    .size = sizeof(struct average_upload), .event = stored_event, .refuse = upload_refuse_known};

static bool open_upload(void *context, struct http_exchange *exchange, void **state)
{
    struct coordinator *coordinator = context;
    struct average_upload read = {.sha256 = ""};
    if (!admit(coordinator, exchange, &read)) {
        return false;
    }
    struct average_upload *upload = upload_new(&average_kind, coordinator, exchange, read.sha256);
    if (upload) {
        upload->device = read.device;
        upload->average = read.average;
        memcpy(upload->sha256, read.sha256, SHA256_SIZE);
    }
    *state = upload;
    return upload != NULL;
}

const struct http_sink average_sink = {
    .open = open_upload, .write = upload_write, .finish = upload_finish, .abort = upload_abort};
