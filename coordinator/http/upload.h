/* upload.h: the common part of uploads into the center. The pieces of the body become a blob. The
 * client may disconnect meanwhile. The core gets the event when the blob is durable. The loop's
 * thread only. */
#ifndef COORDINATOR_HTTP_UPLOAD_H
#define COORDINATOR_HTTP_UPLOAD_H

#include "coordinator/content/publication.h"
#include "coordinator/coordinator.h"
#include "schema/audit.h"

/* The first member of each kind's own struct. */
struct upload {
    const struct upload_kind *kind;
    struct coordinator *coordinator;
    struct http_exchange *exchange; /* NULL: the client has disconnected */
    struct blob_upload *blob;       /* NULL: the request names an existing blob */
    struct publication publication; /* protects the expected blob, if any, from the beginning */
    struct audit_entry origin;      /* method "": the request of an agent */
    uint64_t bytes;                 /* received; after the blob is durable: its size */
};

/* The differences between kinds of uploads. */
struct upload_kind {
    size_t size; /* of the struct that begins with struct upload */
    /* Check the bytes taken. Answers and returns false to reject the upload. May be NULL. */
    bool (*look)(struct upload *upload, const char *data, size_t size);
    /* Release the resources taken since upload_new, except the struct. May be NULL. */
    void (*end)(struct upload *upload);
    struct event (*event)(const struct upload *upload); /* the event of a durable blob */
    void (*refuse)(struct http_exchange *exchange, const struct err *err);
};

/* Return a zeroed struct of kind->size with its struct upload filled in; NULL: a problem was sent.
 * sha256: of the blob, which must exist already if the request has no body; NULL: any body. */
void *upload_new(const struct upload_kind *kind, struct coordinator *coordinator,
                 struct http_exchange *exchange, const char *sha256);
/* The function `refuse` of a kind whose requests name the blob by its hash. */
void upload_refuse_known(struct http_exchange *exchange, const struct err *err);
/* The other functions of a struct http_sink. */
size_t upload_write(void *state, const void *data, size_t size);
void upload_finish(void *state);
void upload_abort(void *state);

#endif
