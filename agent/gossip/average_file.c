/* Sends an average to the coordinator as the file of a trained model (trained.h), produced from the
 * copy in memory, tensor by tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/gossip/mixer_parts.h"
#include "base/json.h"
#include "base/log.h"
#include "libtrain/state/trained.h"
#include "net/hash.h"
#include "net/http_client.h"
#include "schema/job_check.h"
#include "schema/problem.h"

#define URL_MAX 1024
#define STALL_MS 10000
#define HEADER_MAX ((size_t)16 << 20)

struct average_file {
    struct mixer *mixer;
    struct mix_xid xid;
    struct buf header;
    /* the next data to read */
    size_t at;           /* in the header */
    size_t unit, tensor; /* the next one */
    const unsigned char *data;
    size_t left; /* of the current tensor */
};

static void rewind_file(struct average_file *file)
{
    file->at = file->unit = file->tensor = file->left = 0;
}

/* Go to the next tensor; false: there is none. */
static bool next_tensor(struct average_file *file)
{
    struct mixer *mixer = file->mixer;
    const struct model *model = keeper_model(mixer->config.keeper);
    const struct train_state state = mixer_state_of(mixer, mixer->slab[MIXER_AVERAGE].data);
    for (; file->unit < model->unit_count; file->unit++, file->tensor = 0) {
        size_t count = 0;
        const float *data = train_state_tensor(mixer->train, &state, file->unit, file->tensor,
                                               mixer_scratch(mixer)->data, &count);
        if (data) {
            file->tensor++;
            file->data = (const unsigned char *)data;
            file->left = count * sizeof(float);
            return true;
        }
    }
    return false;
}

/* Read up to `size` bytes of the file; 0: it has ended. */
static size_t read_file(struct average_file *file, void *out, size_t size)
{
    if (file->at < file->header.size) {
        const size_t left = file->header.size - file->at;
        const size_t count = size < left ? size : left;
        memcpy(out, file->header.data + file->at, count);
        file->at += count;
        return count;
    }
    if (file->left == 0 && !next_tensor(file)) {
        return 0;
    }
    const size_t count = size < file->left ? size : file->left;
    memcpy(out, file->data, count);
    file->data += count;
    file->left -= count;
    return count;
}

static ssize_t read_body(void *arg, void *out, size_t size)
{
    struct average_file *file = arg;
    return mixer_sends(file->mixer, file->xid) ? (ssize_t)read_file(file, out, size) : -1;
}

/* Return the evaluation in the form in which the coordinator exports it (content/export.c). */
static struct evaluation evaluation_of(const struct job_spec *spec)
{
    struct evaluation evaluation = {.micro_batch = spec->batch / spec->micro_batches};
    if (job_view(spec)) {
        evaluation.view = spec->view;
    }
    return evaluation;
}

static int hash_file(struct average_file *file, char sha256[HASH_TEXT_SIZE], uint64_t *bytes,
                     struct err *err)
{
    unsigned char piece[4096];
    struct sha256 *hash = NULL;
    int rc = sha256_new(&hash, err);
    rewind_file(file);
    *bytes = 0;
    for (size_t size = 1; rc == 0 && size > 0; *bytes += size) {
        size = read_file(file, piece, sizeof(piece));
        sha256_update(hash, piece, size);
    }
    if (rc == 0) {
        sha256_finish_text(hash, sha256);
    }
    sha256_free(&hash);
    rewind_file(file);
    return rc;
}

/* Escape the plus sign, which would be read as a space. */
static void add_number(char *url, const char *name, double value)
{
    char text[JSON_NUMBER_SIZE];
    const size_t at = strlen(url);
    json_number(value, text);
    (void)snprintf(url + at, URL_MAX - at, "&%s=", name);
    char *to = url + strlen(url);
    for (const char *from = text; *from && to + 1 < url + URL_MAX; from++) {
        if (*from != '+') {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static void write_url(const struct mixer *mixer, const struct mixer_average *average,
                      const char *sha256, char out[URL_MAX])
{
    (void)snprintf(out, URL_MAX,
                   "%s/v1/agent/averages/%s?device=%s&boot=%s&job=%s&generation=%" PRId64
                   "&life=%" PRId64 "&counter=%" PRId64,
                   mixer->work.coordinator, sha256, mixer->work.device->text, mixer->work.boot,
                   mixer->job.text, mixer->generation, average->xid.life, average->xid.counter);
    if (average->tested) {
        add_number(out, "test_loss", average->test_loss);
        add_number(out, "test_accuracy", average->test_accuracy);
    }
}

static int judge(struct mixer_worker *worker, const struct http_result *result, struct err *err)
{
    const int status = result->status;
    if (status >= 200 && status < 300) {
        return 0;
    }
    char message[MESSAGE_SIZE];
    const struct buf *reply = &worker->caller.reply;
    (void)problem_read(reply->data ? reply->data : "", reply->size, message);
    if (status == 429 || status >= 500) {
        return err_set(err, ERR_STATE, "the coordinator answers %d %s", status, message);
    }
    if (status != 409) { /* 409: the coordinator has another average by now */
        log_warn("average_refused", "status=%d error=%s", status, log_quote(message).text);
    }
    return 0;
}

int average_file_send(struct mixer_worker *worker, const struct mixer_average *average,
                      struct err *err)
{
    struct mixer *mixer = worker->mixer;
    const struct evaluation evaluation = evaluation_of(mixer->spec);
    struct average_file file = {.mixer = mixer, .xid = average->xid};
    char sha256[HASH_TEXT_SIZE] = "", url[URL_MAX];
    uint64_t bytes = 0;
    if (!mixer->work.coordinator) {
        return 0;
    }
    buf_init(&file.header, HEADER_MAX);
    int rc = trained_header(keeper_model(mixer->config.keeper), &evaluation, &file.header, err);
    rc = rc ? rc : hash_file(&file, sha256, &bytes, err);
    if (rc != 0) {
        log_warn("average_refused", "error=%s", log_quote(err->text).text);
        buf_done(&file.header);
        return 0;
    }
    write_url(mixer, average, sha256, url);
    const struct http_call call = {
        .method = "PUT",
        .url = url,
        .tls = mixer->work.trust ? &mixer->work.trust->coordinator : NULL,
        .content_type = "application/octet-stream",
        .reply = &worker->caller.reply,
        .read = read_body,
        .read_arg = &file,
        .body_size = bytes,
        .stall_ms = STALL_MS,
        .cancel = &mixer->cancel->flag,
    };
    struct http_result result;
    rc = http_client_call(worker->caller.client, &call, &result, err);
    rc = rc ? rc == ERR_CANCELLED ? rc : ERR_STATE : judge(worker, &result, err);
    buf_done(&file.header);
    return rc;
}
