/* mix_body.h: the body of a copy that one group sends to another, or of an average: a safetensors
 * file of two tensors. The second one is left out if the model has no batch-norm:
 *
 *     data        F32 [n]  trained parameters in the order of the arena
 *     statistics  F32 [n]  running statistics
 *
 * and in __metadata__, under "mix", the JSON of struct mix_note. Any thread. */
#ifndef AGENT_GOSSIP_MIX_BODY_H
#define AGENT_GOSSIP_MIX_BODY_H

#include "agent/core/mixing.h"
#include "base/buf.h"
#include "base/err.h"

/* Maximum bytes of a header: the record of an average of 32 groups has 5 KB. */
#define MIX_BODY_HEADER_MAX ((size_t)512 << 10)
/* Maximum bytes of a buffer that is kept for the next header; most headers have 1 KB. */
#define MIX_BODY_KEPT_MAX ((size_t)16 << 10)

/* Too large for a stack. */
struct mix_note {
    struct mix_member copy; /* of an average: the copy of the group that has computed it */
    double parked_seconds;  /* how long the request waited for it */
    struct mix_record record[MIXING_RECORDS_MAX];
    size_t record_count;
};

struct mix_body {
    size_t parameters, statistics; /* floats */
};

static inline size_t mix_body_bytes(const struct mix_body *body)
{
    return (body->parameters + body->statistics) * sizeof(float);
}

/* Append the header. ERR_MEMORY.
 *
 *     text  scratch, kept by the caller for the next call: of MIX_BODY_HEADER_MAX at most */
NODISCARD int mix_body_write_header(const struct mix_body *body, const struct mix_note *note,
                                    struct buf *text, struct buf *out, struct err *err);
/* Read the header of the expected body. ERR_FORMAT, ERR_INVALID, ERR_LIMIT: it is not one. `text`:
 * as above. */
NODISCARD int mix_body_read_header(const char *bytes, size_t size, const struct mix_body *expected,
                                   struct buf *text, struct mix_note *note, struct err *err);
/* Clear such a buffer, and free its memory if that exceeds MIX_BODY_KEPT_MAX. */
void mix_body_forget(struct buf *buf);

#endif
