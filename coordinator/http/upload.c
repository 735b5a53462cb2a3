#include "coordinator/http/upload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/content/disk.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/audit.h"
#include "coordinator/http/edge.h"
#include "schema/token.h"

/* End an upload that is no longer in progress. */
static void upload_end(struct upload *upload)
{
    awaited_end(&upload->publication.awaited);
    if (upload->kind->end) {
        upload->kind->end(upload);
    }
}

/* Runs on the blob writer's thread, never after the blob was finished or aborted. */
static void upload_room(void *arg)
{
    struct upload *upload = arg;
    http_exchange_continue(upload->exchange);
}

static bool has_body(const struct http_exchange *exchange)
{
    return http_content_length(exchange) > 0 || http_header(exchange, "Transfer-Encoding");
}

void *upload_new(const struct upload_kind *kind, struct coordinator *coordinator,
                 struct http_exchange *exchange, const char *sha256)
{
    if (!sha256 && !edge_takes_rows(coordinator, exchange)) {
        return NULL;
    }
    struct upload *upload = calloc(1, kind->size);
    struct err err = {0};
    int rc = upload ? 0 : err_set(&err, ERR_MEMORY, "upload: out of memory");
    if (!rc && (!sha256 || has_body(exchange))) {
        disk_look(coordinator);
        rc = blob_upload_open(coordinator->blobs, sha256, BLOB_BYTES_MAX, &upload->blob, &err);
    }
    if (!rc && !sha256) {
        const int64_t announced = http_content_length(exchange);
        rc = blob_upload_keep_free(upload->blob, announced > 0 ? (uint64_t)announced : 0, &err);
    }
    if (rc) {
        if (upload && upload->blob) {
            blob_upload_abort(upload->blob);
        }
        free(upload);
        answer_upload_err(exchange, &err);
        return NULL;
    }
    upload->kind = kind;
    upload->coordinator = coordinator;
    upload->exchange = exchange;
    if (http_role(exchange) != ROLE_DEVICE) {
        audit_origin(coordinator, exchange, &upload->origin);
    }
    if (sha256) {
        awaited_begin(coordinator, &upload->publication.awaited, sha256);
    }
    if (upload->blob) {
        blob_upload_on_room(upload->blob, upload_room, upload);
    }
    return upload;
}

/* A rejection is sent at once. The server then discards the rest of the body and calls abort. */
size_t upload_write(void *state, const void *data, size_t size)
{
    struct upload *upload = state;
    struct err err = {0};
    int64_t taken = blob_upload_write(upload->blob, data, size, &err);
    if (taken < 0) {
        answer_err(upload->exchange, &err);
        return size;
    }
    if (!access_spend_bytes(upload->coordinator, upload->exchange, (size_t)taken)) {
        return size;
    }
    if (upload->kind->look && !upload->kind->look(upload, data, (size_t)taken)) {
        return size;
    }
    upload->bytes += (uint64_t)taken;
    return (size_t)taken;
}

static void upload_report(void *arg)
{
    struct upload *upload = arg;
    const struct publication *publication = &upload->publication;
    struct http_exchange *exchange = upload->exchange;
    if (exchange) {
        http_on_end(exchange, NULL, NULL);
    }
    if (publication->code) {
        awaited_let_go(upload->coordinator, &upload->publication.awaited);
    }
    upload_end(upload); /* before the turn, in which the core may have the blob deleted */
    upload->bytes = publication->bytes;
    if (!publication->code) {
        struct event event = upload->kind->event(upload);
        const struct turn_extra extra = {.origin =
                                             upload->origin.method[0] ? &upload->origin : NULL};
        turn_event(upload->coordinator->turn, &event, exchange, &extra);
        awaited_discard(upload->coordinator, publication->sha256);
    } else if (exchange) {
        upload->kind->refuse(exchange, &publication->err);
    }
    free(upload);
}

static void upload_client_gone(void *arg)
{
    struct upload *upload = arg;
    upload->exchange = NULL;
}

void upload_finish(void *state)
{
    struct upload *upload = state;
    struct http_exchange *exchange = upload->exchange;
    struct err err = {0};
    http_on_end(exchange, upload_client_gone, upload);
    if (upload->blob) {
        publication_begin(&upload->publication, upload->coordinator, upload->blob, upload_report,
                          upload);
    } else if (publication_confirm(&upload->publication, upload->coordinator, upload_report, upload,
                                   &err)) {
        http_on_end(exchange, NULL, NULL);
        awaited_let_go(upload->coordinator, &upload->publication.awaited);
        upload_end(upload);
        free(upload);
        answer_upload_err(exchange, &err);
    }
}

void upload_abort(void *state)
{
    struct upload *upload = state;
    if (upload->blob) {
        blob_upload_abort(upload->blob);
    }
    awaited_let_go(upload->coordinator, &upload->publication.awaited);
    upload_end(upload);
    free(upload);
}

void upload_refuse_known(struct http_exchange *exchange, const struct err *err)
{
    if (err->code == ERR_FORMAT) {
        answer_problem(exchange, PROBLEM_INVALID_BLOB, "%s", err->text);
    } else if (err->code == ERR_NOT_FOUND) {
        answer_problem(exchange, PROBLEM_UNKNOWN_BLOB, "%s; send it", err->text);
    } else {
        answer_err(exchange, err);
    }
}
