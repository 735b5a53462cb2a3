/* publication.h: ends an upload into the center. The blob writer hashes the content, the loop
 * protects that hash from deletion, and only then the writer publishes the blob. The reason: the
 * same content may already be stored and about to be deleted for its former owner. The loop's
 * thread only. */
#ifndef COORDINATOR_CONTENT_PUBLICATION_H
#define COORDINATOR_CONTENT_PUBLICATION_H

#include <stdint.h>

#include "coordinator/content/awaited.h"
#include "coordinator/content/work.h"
#include "coordinator/store/blobs.h"

/* A member of its owner's struct. */
struct publication {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct blob_upload *blob;
    struct awaited awaited; /* the owner ends it, before or after its report to the core */
    void (*done)(void *arg);
    void *arg;
    char sha256[SHA256_SIZE]; /* of the content; this and the members below are valid in done */
    uint64_t bytes;
    int code; /* err's; ERR_CANCELLED: the program ends */
    struct err err;
};

/* Publish and end the upload; done runs when the blob is durable or was rejected. If `awaited`
 * already protects the hash that the upload was opened with, the blob is finished at once. */
void publication_begin(struct publication *publication, struct coordinator *coordinator,
                       struct blob_upload *blob, void (*done)(void *arg), void *arg);
/* The same for a blob that should already exist; done gets ERR_NOT_FOUND if it does not. If the
 * call returns a negative code (as blob_confirm), done does not run. */
NODISCARD int publication_confirm(struct publication *publication, struct coordinator *coordinator,
                                  void (*done)(void *arg), void *arg, struct err *err);

/* End the protection of the blob, for an owner whose report the core may have ignored. If it did,
 * no row names the blob, and the blob is deleted. Does nothing before the hash is known. */
void publication_end(struct publication *publication);

#endif
