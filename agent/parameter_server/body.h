/* body.h: the body of a message between a worker and a server: a safetensors file of up to three
 * tensors, in this order, those without elements left out:
 *
 *     numbers     F64 [n]  losses, a result of an evaluation, a sum of squares
 *     data        F32 [n]  parameters, or sums of gradients, of consecutive layers
 *     statistics  F32 [n]  of batch-norm, by micro-batch and layer
 *
 * and in __metadata__ the fields of struct body_note. Allocates nothing. Any thread. */
#ifndef AGENT_PARAMETER_SERVER_BODY_H
#define AGENT_PARAMETER_SERVER_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/rounds.h"
#include "base/err.h"

#define BODY_HEADER_MAX 1024 /* bytes of a header as written here */

enum body_part { BODY_NUMBERS, BODY_DATA, BODY_STATISTICS, BODY_PARTS };

struct body {
    size_t count[BODY_PARTS]; /* elements */
};

#define BODY_NO_VERSION (-1)

struct body_note {
    bool last;             /* the generation ends with this version */
    int64_t version;       /* of the parameters of an answer; BODY_NO_VERSION: not stated */
    double parked_seconds; /* of an answer: how long its request waited for the version */
    struct round_mark mark;
};

/* Return the bytes of the body without the header. */
size_t body_bytes(const struct body *body);
/* Return the bytes of the header. */
size_t body_write_header(const struct body *body, const struct body_note *note,
                         char out[BODY_HEADER_MAX]);
/* Check that a header belongs to the expected body or, with `last`, to one without tensors.
 * ERR_FORMAT. */
NODISCARD int body_read_header(const void *bytes, size_t size, const struct body *expected,
                               struct body_note *note, struct err *err);

#endif
