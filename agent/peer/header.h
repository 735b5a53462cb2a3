/* header.h: the safetensors header of a body that arrives in pieces. Plain struct, zero at first.
 */
#ifndef AGENT_PEER_HEADER_H
#define AGENT_PEER_HEADER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define HEADER_MAX 1024 /* bytes of a header between agents */

struct header {
    char text[HEADER_MAX];
    size_t size; /* 0: not known yet */
    size_t got;
};

static inline bool header_is_whole(const struct header *header)
{
    return header->size > 0 && header->got == header->size;
}

/* Take bytes of a header that is not whole yet; *taken: how many. ERR_FORMAT; ERR_LIMIT: the header
 * has more than `most` bytes. */
NODISCARD int header_take(struct header *header, size_t most, const void *data, size_t size,
                          size_t *taken, struct err *err);

#endif
