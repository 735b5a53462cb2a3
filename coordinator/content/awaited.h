/* awaited.h: protects blobs without a reference in the core from deletion: blobs of uploads and
 * exports that will be reported to it, and blobs that an export still reads. Deletes those that it
 * does not accept. The loop's thread only.
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
    char sha256[SHA256_SIZE]; /* "": none, it is not in the list */
    bool unwanted;            /* the core has asked to delete it meanwhile */
    struct awaited *next, **link;
};

/* Protect the blob from its announcement, at the latest from before it is finished, until just
 * before the report to the core. */
void awaited_begin(struct coordinator *coordinator, struct awaited *awaited, const char *sha256);
/* Does nothing for one that did not begin. */
void awaited_end(struct awaited *awaited);
bool awaited_has(const struct coordinator *coordinator, const char *sha256);
/* Delete the blob for the core: at once, or, while it is protected, mark it unwanted. */
void awaited_delete(struct coordinator *coordinator, const char *sha256);

/* The same for a blob to which other rows may refer: it stays while one does. */
void awaited_release(struct coordinator *coordinator, const char *sha256);

/* awaited_end of a blob that was only read, or whose upload failed. Deletes it if it was marked and
 * the core still has no reference. */
void awaited_let_go(struct coordinator *coordinator, struct awaited *awaited);

/* End the protection of the blob, after its report to the core if there was one. Delete it unless
 * the core refers to it or will. */
void awaited_discard(struct coordinator *coordinator, const char *sha256);

#endif
