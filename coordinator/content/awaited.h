/* awaited.h: blobs that must not be deleted though the core refers to none of them: those that it
 * is about to hear of, as their uploads or exports end, and those that an export still reads. And
 * the end of those that it would not have. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_AWAITED_H
#define COORDINATOR_CONTENT_AWAITED_H

#include <stdbool.h>

#include "schema/limits.h"

struct coordinator;

/* A part of its owner's struct. */
struct awaited {
    char sha256[SHA256_SIZE]; /* "": none, it is not in the list */
    bool unwanted;            /* the core wanted it deleted meanwhile */
    struct awaited *next, **link;
};

/* From the blob's announcement, or before it is finished at the latest, until just before the core
 * is told. */
void awaited_begin(struct coordinator *coordinator, struct awaited *awaited, const char *sha256);
/* Also of one that did not begin. */
void awaited_end(struct awaited *awaited);
bool awaited_has(const struct coordinator *coordinator, const char *sha256);
/* The core wants the blob deleted: at once, unless somebody waits for it, who is told that it is
 * unwanted. */
void awaited_delete(struct coordinator *coordinator, const char *sha256);

/* awaited_end of a blob that was only read, or that did not come: delete it if the core wanted that
 * meanwhile and still does. */
void awaited_let_go(struct coordinator *coordinator, struct awaited *awaited);

/* Nobody waits for the blob any more, and the core was told of it if it came: delete it unless
 * something refers to it or is about to. */
void awaited_discard(struct coordinator *coordinator, const char *sha256);

#endif
