#include "cli/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/content.h"
#include "cli/shell.h"

#define HASH_DIGITS 12
#define TEXT_BYTES_MAX ((size_t)1 << 20)

void data_name(const char *path, enum archive_part part, const char *sha256, char out[NAME_SIZE])
{
    static const char *const parts[] = {
        [ARCHIVE_ALL] = "", [ARCHIVE_TRAIN] = "-train", [ARCHIVE_TEST] = "-test"};
    const size_t tail = strlen(parts[part]) + 1 + HASH_DIGITS;
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    size_t used = 0;
    for (size_t i = begin; i < end && used + tail + 1 < NAME_SIZE; i++) {
        char c = path[i];
        c = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        bool first = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (used > 0 || first) {
            out[used++] = first || c == '.' || c == '_' ? c : '-';
        }
    }
    (void)snprintf(out + used, NAME_SIZE - used, "%s%s-%.*s", used > 0 ? "" : "data", parts[part],
                   HASH_DIGITS, sha256);
}

int data_names(const struct archive *archive, struct buf *out, struct err *err)
{
    char last[ARCHIVE_NAME_BYTES] = "";
    const char *entry;
    int rc = 0;
    for (size_t i = 0; !rc && (entry = archive_entry(archive, i)); i++) {
        char name[ARCHIVE_NAME_BYTES];
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry, "/"), entry);
        if (strcmp(name, last) != 0) {
            rc = shell_add_word(out, name, err);
            memcpy(last, name, sizeof(last));
        }
    }
    return rc;
}

int data_tar(const char *path, const struct archive *archive, struct buf *out, struct err *err)
{
    int rc = buf_printf(out, err, "tar -C");
    rc = rc ? rc : shell_add_word(out, path, err);
    rc = rc ? rc : buf_printf(out, err, " --sort=name -cf -");
    return rc ? rc : data_names(archive, out, err);
}

static int write_curl(struct session *session, const char *path, const struct upload *upload,
                      const char *target, struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    int rc = 0;
    if (upload->archive) {
        rc = data_tar(path, upload->archive, &text, err);
        rc = rc ? rc : buf_printf(&text, err, " | ");
    }
    const struct request_target server = session_target(session);
    rc = rc ? rc : request_curl_begin(&server, &text, err);
    rc = rc ? rc : buf_printf(&text, err, " -H 'Content-Type: application/octet-stream' -T");
    rc = rc ? rc : shell_add_word(&text, upload->archive ? "-" : path, err);
    rc = rc ? rc : buf_printf(&text, err, " %s%s\n", session->api.server, target);
    return rc ? rc : api_write(session->out, &text, err);
}

/* Whether the coordinator has the data set. */
static int look_up(struct session *session, const char *target, bool *there, struct err *err)
{
    int rc = api_call(&session->api, "GET", target, NULL, 0, 0, err);
    *there = rc == 0;
    return session->api.status == 404 ? 0 : rc;
}

int data_put(struct session *session, const char *path, enum archive_part part, char out[NAME_SIZE],
             struct err *err)
{
    AUTO(upload_done) struct upload upload = {.fd = -1};
    char sha256[HASH_TEXT_SIZE], target[API_PATH_SIZE];
    char *real = realpath(path, NULL); /* "." has no name for a data set */
    bool there = false;
    int rc = upload_open(path, part, &upload, err);
    rc = rc ? rc : upload_hash(&upload, sha256, err);
    if (!rc) {
        data_name(real ? real : path, part, sha256, out);
        (void)snprintf(target, sizeof(target), "/v1/datasets/%s", out);
        rc = look_up(session, target, &there, err);
    }
    free(real);
    if (rc || there) {
        return rc;
    }
    if (session->call.options.flag[OPTION_CURL]) {
        return write_curl(session, path, &upload, target, err);
    }
    if (isatty(fileno(session->complaints)) == 1) {
        fprintf(session->complaints, "paceline: uploading %s as %s\n", path, out);
    }
    rc = content_send(session, "PUT", target, &upload, err);
    return rc ? err_wrap(err, "%s", path) : 0;
}
