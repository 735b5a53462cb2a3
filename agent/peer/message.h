/* message.h: the form of a tensor between two agents: path and safetensors header, for both sides.
 * Allocates nothing. Any thread.
 *
 * PUT {url}/peer/v1/{job}/{generation}/{step}/{micro_batch}/{boundary}/{kind}: boundary is the
 * first unit after the stage boundary that the tensor crosses. Body: one F32 tensor "data"
 * [samples, H, W, C], of kind norm, norm_total and judged one F64 [1, 1, 1, 1]; the stop mark has
 * samples 0
 * and {"last": "1"} in __metadata__. Activations and gradients of a link with a codec are one U8
 * tensor "data" [bytes] (libtrain/quant/coder.h) and have {"codec": NAME} there. Activations of a
 * step that a round of replication takes its snapshot of say so there:
 * {"snapshot": "neighbor", "center" or "neighbor,center", "keep": "VERSION,VERSION,VERSION"}
 * (struct round_mark). */
#ifndef AGENT_PEER_MESSAGE_H
#define AGENT_PEER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runtime/work.h"
#include "libtrain/formats/safetensors.h"

#define MESSAGE_HEADER_MAX 512 /* bytes of a safetensors header as written here */
#define MESSAGE_PATH_MAX 384

struct message_path {
    char text[MESSAGE_PATH_MAX];
};

struct message_path message_tensor_path(const char *url, const struct job_id *job,
                                        int64_t generation, const struct transfer *transfer,
                                        size_t boundary);
struct message_path message_snapshot_path(const char *url, const struct job_id *job,
                                          int64_t generation, int64_t version, int64_t unit);
struct message_path message_ping_path(const char *url, const struct job_id *job,
                                      int64_t generation);

/* The content of a header besides the tensor's form. */
struct message_note {
    bool last;          /* the stop mark */
    size_t coded_bytes; /* of a coded tensor */
    struct round_mark mark;
};

/* Write the header of a tensor. Returns its size. */
size_t message_write_header(const struct work_tensor *tensor, const struct message_note *note,
                            char out[MESSAGE_HEADER_MAX]);
/* Check that a header is that of the tensor expected. ERR_FORMAT. */
NODISCARD int message_read_header(const void *bytes, size_t size,
                                  const struct work_tensor *expected, struct message_note *note,
                                  struct err *err);
/* Write or read the metadata of a note: "last", and "snapshot" with "keep". false: they cannot be
 * read. */
void message_write_note(const struct message_note *note, struct safetensors_header *header);
bool message_read_note(const struct safetensors_header *header, struct message_note *note);
/* Return the data bytes of a tensor; for a coded tensor the maximum. */
size_t message_data_bytes(const struct work_tensor *tensor);

#endif
