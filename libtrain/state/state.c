#include "libtrain/state/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* Upper bound of the header bytes of one tensor: name, dtype, shape and offsets. */
#define HEADER_BYTES_PER_TENSOR 320
_Static_assert((MODEL_TENSORS_MAX + 1) * HEADER_BYTES_PER_TENSOR + 2 * STATE_NOTE_MAX <=
                   SAFETENSORS_HEADER_MAX,
               "every model that is read can be exported");

static size_t count_tensors(const struct unit *unit, size_t optimizer_arrays)
{
    size_t count = 0;
    for (size_t i = 0; i < unit->op_count; i++) {
        for (size_t k = 0; k < unit->op[i].tensor_count; k++) {
            count += 1 + (unit->op[i].tensor[k].role == TENSOR_PARAMETER ? optimizer_arrays : 0);
        }
    }
    return count;
}

/* Describe one tensor of an op in a header. array: the name of an optimizer's array, or NULL. */
static void describe_tensor(const struct op *op, const struct op_tensor *from, const char *array,
                            struct safetensors_tensor *to)
{
    *to = (struct safetensors_tensor){.dtype = DTYPE_F32, .rank = from->rank};
    int length = snprintf(to->name, sizeof(to->name), "%s.%s%s%s", op->name, from->suffix,
                          array ? "." : "", array ? array : "");
    ASSERT(length > 0 && (size_t)length < sizeof(to->name));
    for (size_t i = 0; i < from->rank; i++) {
        to->dim[i] = from->dim[i];
    }
}

static void append_tensor(struct state_layout *layout, const struct unit *unit,
                          struct state_source source, const char *array)
{
    const struct op *op = &unit->op[source.op];
    size_t index = layout->header.tensor_count++;
    describe_tensor(op, &op->tensor[source.tensor], array, &layout->header.tensor[index]);
    layout->source[index] = source;
}

/* Append the unit's parameters and buffers, or with an optimizer only its arrays. */
static void append_state(struct state_layout *layout, const struct unit *unit,
                         const struct optimizer *optimizer)
{
    size_t arrays = optimizer ? optimizer_state_arrays(optimizer) : 0;
    for (size_t i = 0; i < unit->op_count; i++) {
        for (size_t k = 0; k < unit->op[i].tensor_count; k++) {
            bool parameter = unit->op[i].tensor[k].role == TENSOR_PARAMETER;
            struct state_source source = {.kind = parameter ? STATE_PARAMETER : STATE_BUFFER,
                                          .op = (uint16_t)i,
                                          .tensor = (uint16_t)k};
            if (!optimizer) {
                append_tensor(layout, unit, source, NULL);
                continue;
            }
            source.kind = STATE_OPTIMIZER;
            for (size_t a = 0; parameter && a < arrays; a++) {
                source.array = (uint16_t)a;
                append_tensor(layout, unit, source, optimizer_array_name(optimizer, a));
            }
        }
    }
}

/* Write the header's text to a new allocation of exactly its size. `capacity` bytes are enough. */
static int write_header(struct safetensors_header *header, char **out, struct err *err)
{
    const char *note = safetensors_metadata(header, STATE_NOTE_KEY);
    size_t capacity =
        (header->tensor_count + 1) * HEADER_BYTES_PER_TENSOR + (note ? 2 * strlen(note) : 0);
    size_t size;
    char *text = malloc(capacity);
    if (!text) {
        return err_set(err, ERR_MEMORY, "no memory for a header of %zu tensors",
                       header->tensor_count);
    }
    int rc = safetensors_write(header, text, capacity, &size, err);
    if (rc) {
        free(text);
        return rc;
    }
    char *shrunk = realloc(text, size);
    *out = shrunk ? shrunk : text;
    return 0;
}

int state_layout_new(const struct model *model, size_t unit, const struct optimizer *optimizer,
                     struct state_layout **out, struct err *err)
{
    ASSERT(unit < model->unit_count);
    const struct unit *from = &model->unit[unit];
    size_t count = count_tensors(from, from->frozen ? 0 : optimizer_state_arrays(optimizer));
    ASSERT(count <= STATE_TENSORS_MAX);
    struct state_layout *layout AUTO(state_layout_free) = calloc(1, sizeof(*layout));
    if (layout) {
        layout->header.tensor = calloc(count + 1, sizeof(*layout->header.tensor));
        layout->source = calloc(count + 1, sizeof(*layout->source));
    }
    if (!layout || !layout->header.tensor || !layout->source) {
        return err_set(err, ERR_MEMORY, "no memory for the layout of unit '%s'", from->name);
    }
    layout->header.tensor_capacity = count;
    append_state(layout, from, NULL);
    layout->export_count = layout->header.tensor_count;
    if (from->frozen) {
        layout->header.metadata[0] =
            (struct safetensors_metadata){.key = "frozen", .value = "true"};
        layout->header.metadata_count = 1;
    } else {
        append_state(layout, from, optimizer);
    }
    ASSERT(layout->header.tensor_count == count);
    int rc = write_header(&layout->header, &layout->header_text, err);
    if (rc) {
        return rc;
    }
    layout->export_bytes =
        layout->export_count > 0 ? layout->header.tensor[layout->export_count - 1].end : 0;
    layout->blob_bytes = layout->header.data_offset + layout->header.data_bytes;
    *out = layout;
    layout = NULL;
    return 0;
}

void state_layout_free(struct state_layout **layout)
{
    if (!*layout) {
        return;
    }
    free((*layout)->header.tensor);
    free((*layout)->source);
    free((*layout)->header_text);
    free(*layout);
    *layout = NULL;
}

static void free_tensors(struct safetensors_tensor **tensor)
{
    free(*tensor);
}

bool state_has_tensor(const struct model *model, const char *name)
{
    struct safetensors_tensor tensor;
    for (size_t i = 0; i < model->unit_count; i++) {
        for (size_t k = 0; k < model->unit[i].op_count; k++) {
            const struct op *op = &model->unit[i].op[k];
            for (size_t j = 0; j < op->tensor_count; j++) {
                describe_tensor(op, &op->tensor[j], NULL, &tensor);
                if (strcmp(tensor.name, name) == 0) {
                    return true;
                }
            }
        }
    }
    return false;
}

int state_export_header(const struct model *model, const char *note, struct buf *out,
                        struct err *err)
{
    size_t count = 0;
    if (note && strlen(note) > STATE_NOTE_MAX) {
        return err_set(err, ERR_LIMIT, "the model's description takes more than %u bytes",
                       STATE_NOTE_MAX);
    }
    for (size_t i = 0; i < model->unit_count; i++) {
        count += count_tensors(&model->unit[i], 0);
    }
    struct safetensors_tensor *tensor AUTO(free_tensors) = calloc(count + 1, sizeof(*tensor));
    if (!tensor) {
        return err_set(err, ERR_MEMORY, "no memory for a header of %zu tensors", count);
    }
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = count};
    if (note) {
        header.metadata[0] =
            (struct safetensors_metadata){.key = STATE_NOTE_KEY, .long_value = note};
        header.metadata_count = 1;
    }
    for (size_t i = 0; i < model->unit_count; i++) {
        for (size_t k = 0; k < model->unit[i].op_count; k++) {
            const struct op *op = &model->unit[i].op[k];
            for (size_t j = 0; j < op->tensor_count; j++) {
                describe_tensor(op, &op->tensor[j], NULL, &tensor[header.tensor_count++]);
            }
        }
    }
    char *text = NULL;
    int rc = write_header(&header, &text, err);
    if (rc == 0) {
        rc = buf_append(out, text, (size_t)header.data_offset, err);
    }
    free(text);
    return rc;
}
