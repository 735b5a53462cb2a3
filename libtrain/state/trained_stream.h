/* trained_stream.h: checks the file of a trained model (trained.h) while its bytes arrive: it must
 * be of the expected model, have the exact size, and contain only finite numbers. Keeps only the
 * header in memory. One thread. */
#ifndef LIBTRAIN_STATE_TRAINED_STREAM_H
#define LIBTRAIN_STATE_TRAINED_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/formats/safetensors_head.h"
#include "libtrain/state/trained.h"

#define TRAINED_NUMBER_BYTES 4 /* F32 */

struct trained_stream {
    struct safetensors_head head;
    uint64_t data_bytes;                        /* data bytes by the header */
    uint64_t seen;                              /* data bytes so far */
    unsigned char number[TRAINED_NUMBER_BYTES]; /* the received bytes of the present number */
};

void trained_stream_init(struct trained_stream *stream);
void trained_stream_done(struct trained_stream *stream);
/* Take the next bytes of the file. The file must state `model` and `evaluation`. ERR_FORMAT,
 * ERR_INVALID or ERR_LIMIT says what is wrong with the file; ERR_MEMORY. */
NODISCARD int trained_stream_take(struct trained_stream *stream, const struct model *model,
                                  const struct evaluation *evaluation, const void *data,
                                  size_t size, struct err *err);
/* Check that the file is complete. ERR_FORMAT. */
NODISCARD int trained_stream_end(const struct trained_stream *stream, struct err *err);

#endif
