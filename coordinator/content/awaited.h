/* awaited.h: protects blobs without a reference in the core from deletion: blobs of uploads and
 * exports before their report to the core, and blobs that an export still reads. Deletes blobs that
 * the core does not accept. The loop's thread only.
 *
 * The center stores each content once. An upload can have the content that its former owner
 * releases in the same turn. Without this list the core's deletion would hit the new copy too. */
#ifndef COORDINATOR_CONTENT_AWAITED_H
#define COORDINATOR_CONTENT_AWAITED_H

#include <stdbool.h>

#include "schema/limits.h"

struct coordinator;

/* A part of its owner's struct. */
struct awaited {
    char sha256[SHA256_SIZE]; /* "": no blob; not in the list */
    bool unwanted;            /* the core has asked to delete the blob meanwhile */
    struct awaited *next, **link;
};

/* Protect the blob. Call it when the blob is announced, at the latest before it is finished, and
 * end the protection just before the report to the core. */
void awaited_begin(struct coordinator *coordinator, struct awaited *awaited, const char *sha256);
/* End the protection. Does nothing if it did not begin. */
void awaited_end(struct awaited *awaited);
bool awaited_has(const struct coordinator *coordinator, const char *sha256);
/* Delete the blob for the core, or mark it as unwanted while it is protected. */
void awaited_delete(struct coordinator *coordinator, const char *sha256);

/* The same for a blob to which other rows may refer: it stays while a row does. */
void awaited_release(struct coordinator *coordinator, const char *sha256);

/* End the protection of a blob that was only read, or whose upload failed. Deletes the blob if it
 * is marked and the core still has no reference. */
void awaited_let_go(struct coordinator *coordinator, struct awaited *awaited);

/* End the protection of the blob, after its report to the core, if any. Deletes the blob unless the
 * core refers to it or will. */
void awaited_discard(struct coordinator *coordinator, const char *sha256);

#endif
