/* safetensors_head.h: the header of a safetensors file that arrives in pieces: an upload is judged
 * before its data come. One thread. */
#ifndef LIBTRAIN_FORMATS_SAFETENSORS_HEAD_H
#define LIBTRAIN_FORMATS_SAFETENSORS_HEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct safetensors_head {
    struct buf bytes; /* of the header, as far as they are there */
    bool complete;
};

void safetensors_head_init(struct safetensors_head *head);
void safetensors_head_done(struct safetensors_head *head);
/* Take the part of a piece that belongs to the header: *taken bytes. ERR_FORMAT for a file that is
 * none, or whose header is too long; ERR_MEMORY. */
NODISCARD int safetensors_head_take(struct safetensors_head *head, const void *data, size_t size,
                                    size_t *taken, struct err *err);

#endif
