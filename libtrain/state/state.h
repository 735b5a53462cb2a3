/* state.h: the layout of a unit's state (parameters, buffers, optimizer state) in its snapshot
 * blob, and of the exported model file. Both follow from the description alone, so the coordinator
 * assembles an export without reading tensors. Pure.
 *
 * A snapshot blob is a safetensors file. Parameters and buffers come first, in op order under
 * PyTorch's names ("stem.0.weight"); then, for each parameter, the optimizer's arrays
 * ("stem.0.weight.momentum", or "stem.0.weight.exp_avg" and "stem.0.weight.exp_avg_sq"). All are in
 * PyTorch's layout. The blob of a frozen unit has no such arrays and has "frozen" in its metadata.
 * Without that, the blob of a model's only unit would equal the exported file.
 *
 * The exported file holds the first part of each blob, unit after unit: its data is the
 * concatenation of the blobs' [0, export_bytes) data ranges. The same state gives the same bytes
 * and sha256. */
#ifndef LIBTRAIN_STATE_STATE_H
#define LIBTRAIN_STATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "libtrain/formats/safetensors.h"
#include "libtrain/model/model.h"
#include "libtrain/model/recipe.h"

enum state_kind { STATE_PARAMETER, STATE_BUFFER, STATE_OPTIMIZER };

/* The source of one tensor of the blob; index i belongs to header.tensor[i]. */
struct state_source {
    enum state_kind kind;
    uint16_t op;     /* of the unit */
    uint16_t tensor; /* of the op */
    uint16_t array;  /* OPTIMIZER: which of its arrays */
};

/* Most tensors and optimizer arrays of one unit. */
#define STATE_TENSORS_MAX ((1 + OPTIMIZER_ARRAYS_MAX) * MODEL_UNIT_OPS_MAX * MODEL_OP_TENSORS_MAX)

struct state_layout {
    struct safetensors_header header; /* header.tensor is owned by the layout */
    struct state_source *source;      /* [header.tensor_count] */
    char *header_text;                /* header.data_offset bytes: 8-byte length and JSON */
    size_t export_count;   /* parameters and buffers: the first tensors, which are exported */
    uint64_t export_bytes; /* data bytes of parameters and buffers, which are exported */
    uint64_t blob_bytes;   /* the whole file */
};

NODISCARD int state_layout_new(const struct model *model, size_t unit,
                               const struct optimizer *optimizer, struct state_layout **out,
                               struct err *err);
void state_layout_free(struct state_layout **layout);

/* The metadata key under which an exported file describes its model (trained.h). The largest
 * description, of 256 x 64 ops with about 90 bytes each, has 1.5 MB. */
#define STATE_NOTE_KEY "paceline"
#define STATE_NOTE_MAX (2u << 20) /* bytes; twice as many with every quotation mark escaped */
/* Append the header (8-byte length and JSON) of the exported file. note NULL: none. ERR_LIMIT for a
 * note longer than STATE_NOTE_MAX. */
NODISCARD int state_export_header(const struct model *model, const char *note, struct buf *out,
                                  struct err *err);
/* Return whether the model has a parameter or buffer with this name. */
bool state_has_tensor(const struct model *model, const char *name);

#endif
