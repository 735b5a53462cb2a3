#include "cli/content.h"

#include <string.h>

#include "base/file.h"
#include "cli/answer.h"
#include "cli/upload.h"

/* ---- uploads ---- */

int content_send(struct session *session, const char *method, const char *target,
                 struct upload *upload, struct err *err)
{
    const struct api_call call = {
        .method = method,
        .path = target,
        .content_type = "application/octet-stream",
        .read = upload_read,
        .read_arg = upload,
        .size = (size_t)upload->size,
        .unlimited = true,
    };
    int rc = api_make(&session->api, &call, err);
    if (rc && upload->archive && archive_error(upload->archive)->code) {
        *err = *archive_error(upload->archive);
    }
    return rc;
}

int content_put(struct session *session, struct err *err)
{
    AUTO(upload_done) struct upload upload = {.fd = -1};
    json_auto_t *answer = NULL;
    int rc = upload_open(session->request.file, ARCHIVE_ALL, &upload, err);
    rc = rc ? rc
            : content_send(session, session->request.method, session->request.target, &upload, err);
    rc = rc ? rc : api_json(&session->api, &answer, err);
    return rc ? rc : answer_show(session, answer, err);
}

/* ---- downloads ---- */

struct receiver {
    struct file_draft draft;
    FILE *out; /* receives the data; NULL: the draft receives them */
    struct err err;
};

static int receive(void *arg, const void *data, size_t size)
{
    struct receiver *receiver = arg;
    if (receiver->out) {
        return fwrite(data, 1, size, receiver->out) == size ? 0 : ERR_IO;
    }
    return file_draft_append(&receiver->draft, data, size, &receiver->err);
}

static void receiver_done(struct receiver *receiver)
{
    file_draft_drop(&receiver->draft);
}

int content_fetch(struct session *session, const char *target, const char *path, struct err *err)
{
    AUTO(receiver_done) struct receiver receiver = {.draft = {.fd = -1}};
    int rc = 0;
    if (strcmp(path, "-") == 0) {
        receiver.out = session->out;
    } else {
        rc = file_draft_open(&receiver.draft, path, 0644, err);
    }
    const struct api_call call = {.method = "GET",
                                  .path = target,
                                  .write = receive,
                                  .write_arg = &receiver,
                                  .unlimited = true};
    rc = rc ? rc : api_make(&session->api, &call, err);
    if (rc && receiver.err.code) {
        *err = receiver.err;
    }
    if (rc || receiver.out) {
        return rc;
    }
    return file_draft_keep(&receiver.draft, err);
}

int content_get(struct session *session, struct err *err)
{
    const char *path = session->call.options.text[OPTION_OUTPUT];
    return path[0] == '\0' ? answer_request(session, err)
                           : content_fetch(session, session->request.target, path, err);
}
