/* hashed_draft.h: a file that appears whole or not at all (base/file.h), with the hash of its
 * content. One thread. */
#ifndef AGENT_RUNTIME_HASHED_DRAFT_H
#define AGENT_RUNTIME_HASHED_DRAFT_H

#include "base/file.h"
#include "net/hash.h"

/* HASHED_DRAFT_NONE: not open. */
struct hashed_draft {
    struct file_draft draft;
    struct sha256 *hash;
};
#define HASHED_DRAFT_NONE                                                                          \
    (struct hashed_draft)                                                                          \
    {                                                                                              \
        .draft = {.fd = -1 }                                                                       \
    }

/* As file_draft_open; whatever it returns, hashed_draft_drop follows in the end. */
NODISCARD int hashed_draft_open(struct hashed_draft *draft, const char *path, unsigned mode,
                                struct err *err);
/* Append to the draft `arg`. It has the type of a sink for writers that write in pieces. */
NODISCARD int hashed_draft_append(void *arg, const void *data, size_t size, struct err *err);
/* Keep the file, after the last append. */
NODISCARD int hashed_draft_keep(struct hashed_draft *draft, char sha256[HASH_TEXT_SIZE],
                                struct err *err);
/* Remove the file if it was not kept. */
void hashed_draft_drop(struct hashed_draft *draft);

#endif
