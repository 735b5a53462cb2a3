#include "coordinator/http/content.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "coordinator/content/damage.h"
#include "coordinator/content/work.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"

#define PIECE_BYTES (1u << 20)

enum piece_state { PIECE_EMPTY, PIECE_READING, PIECE_FULL, PIECE_FAILED };

/* One download: a worker opens the blob, then reads it piece by piece. A running job of the worker
 * owns all of it except `exchange` and `abandoned`; otherwise the loop's thread does. */
struct content {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct http_exchange *exchange; /* NULL: the client went before the answer began */
    struct blob_reader *reader;
    char sha256[SHA256_SIZE];
    char file_name[NAME_SIZE + 16]; /* "": none */
    uint64_t size;                  /* of the blob */
    uint64_t base;                  /* offset of the range within the blob */
    uint64_t length;                /* of the range */
    uint64_t piece_offset;          /* of the buffer, within the range */
    size_t piece_size;
    enum piece_state state;
    bool abandoned;
    int code;
    struct err err;
    char *piece;
};

static void content_free(struct content *content)
{
    blob_reader_close(&content->reader);
    free(content->piece);
    free(content);
}

/* ---- pieces ---- */

static void piece_run(struct work_job *job)
{
    struct content *content = (struct content *)job;
    uint64_t left = content->length - content->piece_offset;
    size_t wanted = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
    content->code = blob_read(content->reader, content->base + content->piece_offset,
                              content->piece, wanted, &content->piece_size, &content->err);
    if (!content->code && content->piece_size == 0) {
        content->code = err_set(&content->err, ERR_FORMAT, "blob %s ends early", content->sha256);
    }
}

static void piece_done(struct work_job *job)
{
    struct content *content = (struct content *)job;
    if (content->abandoned) {
        content_free(content);
        return;
    }
    content->state = content->code ? PIECE_FAILED : PIECE_FULL;
    if (content->code) {
        log_error("download_failed", "sha256=%s error=%s", content->sha256,
                  log_quote(content->err.text).text);
        damage_report(content->coordinator, content->sha256);
    }
    http_exchange_ready(content->exchange);
}

static ssize_t content_read(void *arg, uint64_t offset, void *out, size_t size)
{
    struct content *content = arg;
    if (content->state == PIECE_FULL) {
        uint64_t skip = offset - content->piece_offset;
        if (skip < content->piece_size) {
            size_t left = content->piece_size - (size_t)skip;
            size_t count = left < size ? left : size;
            memcpy(out, content->piece + skip, count);
            content->coordinator->edge->bytes_sent += count;
            return (ssize_t)count;
        }
        content->state = PIECE_EMPTY;
    }
    if (content->state == PIECE_EMPTY) {
        content->state = PIECE_READING;
        content->piece_offset = offset;
        work_submit(content->coordinator->work, &content->job);
    }
    return content->state == PIECE_FAILED ? -2 : 0;
}

static void content_end(void *arg)
{
    struct content *content = arg;
    if (content->state == PIECE_READING) {
        content->abandoned = true; /* piece_done frees it */
        return;
    }
    content_free(content);
}

/* ---- the answer begins ---- */

/* Headers of a whole or partial answer; returns the status, 0 when a problem was answered. */
static int choose_range(struct content *content)
{
    struct http_exchange *exchange = content->exchange;
    const char *range = http_header(exchange, "Range");
    const char *if_range = http_header(exchange, "If-Range");
    char text[96];
    snprintf(text, sizeof(text), "\"%s\"", content->sha256);
    if (if_range && strcmp(if_range, text) != 0) {
        range = NULL; /* a part of something else, for which only the whole is of use */
    }
    int partial = http_parse_range(range, content->size, &content->base, &content->length);
    http_reply_header(exchange, "Accept-Ranges", "bytes");
    if (partial < 0) {
        snprintf(text, sizeof(text), "bytes */%" PRIu64, content->size);
        http_reply_header(exchange, "Content-Range", text);
        answer_problem(exchange, PROBLEM_RANGE_NOT_SATISFIABLE,
                       "Range '%.60s' is not within %" PRIu64 " bytes", range, content->size);
        return 0;
    }
    if (partial == 0) {
        return 200;
    }
    snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, content->base,
             content->base + content->length - 1, content->size);
    http_reply_header(exchange, "Content-Range", text);
    return 206;
}

static void begin_answer(struct content *content)
{
    struct http_exchange *exchange = content->exchange;
    int status = choose_range(content);
    if (status == 0) {
        content_free(content);
        return;
    }
    char etag[SHA256_SIZE + 8];
    snprintf(etag, sizeof(etag), "\"%s\"", content->sha256);
    http_reply_header(exchange, "ETag", etag);
    if (content->file_name[0]) {
        char disposition[160];
        snprintf(disposition, sizeof(disposition), "attachment; filename=\"%.100s\"",
                 content->file_name);
        http_reply_header(exchange, "Content-Disposition", disposition);
    }
    content->job = (struct work_job){.run = piece_run, .done = piece_done};
    struct http_source source = {
        .read = content_read, .done = content_end, .arg = content, .held_bytes = PIECE_BYTES};
    http_reply_stream(exchange, status, "application/octet-stream", content->length, &source);
}

static void open_run(struct work_job *job)
{
    struct content *content = (struct content *)job;
    content->code = blob_reader_open(content->coordinator->blobs, content->sha256, &content->reader,
                                     &content->size, &content->err);
    if (!content->code) {
        content->piece = malloc(PIECE_BYTES);
        content->code =
            content->piece ? 0 : err_set(&content->err, ERR_MEMORY, "download: out of memory");
    }
}

static void open_done(struct work_job *job)
{
    struct content *content = (struct content *)job;
    if (!content->exchange) {
        content_free(content);
        return;
    }
    http_on_end(content->exchange, NULL, NULL);
    if (!content->code) {
        begin_answer(content);
        return;
    }
    if (content->code == ERR_NOT_FOUND) {
        answer_problem(content->exchange, PROBLEM_UNKNOWN_BLOB, "no blob %.70s", content->sha256);
    } else {
        answer_err(content->exchange, &content->err);
    }
    content_free(content);
}

static void client_gone(void *arg)
{
    struct content *content = arg;
    content->exchange = NULL;
}

void content_serve(struct coordinator *coordinator, struct http_exchange *exchange,
                   const char *sha256, const char *file_name)
{
    struct content *content = calloc(1, sizeof(*content));
    if (!content) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return;
    }
    content->coordinator = coordinator;
    content->exchange = exchange;
    content->job = (struct work_job){.run = open_run, .done = open_done};
    snprintf(content->sha256, sizeof(content->sha256), "%s", sha256);
    snprintf(content->file_name, sizeof(content->file_name), "%s", file_name ? file_name : "");
    http_on_end(exchange, client_gone, content);
    work_submit(coordinator->work, &content->job);
}
