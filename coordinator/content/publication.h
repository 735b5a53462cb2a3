/* publication.h: the end of an upload into the center. The blob writer hashes the content, the loop
 * protects that hash from deletion, and only then the writer publishes the blob. The same content
 * may be stored already and about to be deleted for its former owner. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_PUBLICATION_H
#define COORDINATOR_CONTENT_PUBLICATION_H

#include <stdint.h>

#include "coordinator/content/awaited.h"
#include "coordinator/content/work.h"
#include "coordinator/store/blobs.h"

/* A part of its owner's struct. */
struct publication {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct blob_upload *blob;
    struct awaited awaited; /* the owner ends it, before or after its report to the core */
    void (*done)(void *arg);
    void *arg;
    char sha256[SHA256_SIZE]; /* of the content; from here on valid in done */
    uint64_t bytes;
    int code; /* err's; ERR_CANCELLED: the program ends */
    struct err err;
};

/* Publish the upload; done runs when the blob is durable or was rejected. With an awaited hash that
 * the upload was opened with, the blob is finished at once. Ends the upload. */
void publication_begin(struct publication *publication, struct coordinator *coordinator,
                       struct blob_upload *blob, void (*done)(void *arg), void *arg);
/* The same for a blob that is to be there already: ERR_NOT_FOUND in done unless it is. A negative
 * code (as blob_confirm's): done does not run. */
NODISCARD int publication_confirm(struct publication *publication, struct coordinator *coordinator,
                                  void (*done)(void *arg), void *arg, struct err *err);

/* End the protection of the blob, for an owner whose report the core may have ignored. Deletes the
 * blob then: no row names it. Does nothing before the hash is known. */
void publication_end(struct publication *publication);

#endif
