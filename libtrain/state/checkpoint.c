#include "libtrain/state/checkpoint.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/formats/class_names.h"
#include "libtrain/state/trained.h"

#define PREFIX_BYTES 8
/* Fewest header bytes of a tensor: ,"":{"dtype":"U8","shape":[],"data_offsets":[0,1]} has more. */
#define ENTRY_BYTES_MIN 40
#define SHAPE_TEXT 96
#define INPUT_TEXT 96

struct checkpoint_file {
    struct safetensors_header header; /* header.tensor is owned */
    char *note;                       /* the file's description of its model; NULL: none */
    checkpoint_read_fn read;
    void *arg;
};

/* ---- the header ---- */

static int read_header(struct checkpoint_file *file, struct err *err)
{
    uint8_t prefix[PREFIX_BYTES];
    uint64_t bytes = 0;
    int rc = file->read(file->arg, 0, prefix, sizeof(prefix), err);
    rc = rc ? rc : safetensors_header_bytes(prefix, &bytes, err);
    if (rc) {
        return rc;
    }
    const uint64_t most = bytes / ENTRY_BYTES_MIN + 1;
    struct safetensors_header *header = &file->header;
    header->tensor_capacity = most < CHECKPOINT_TENSORS_MAX ? (size_t)most : CHECKPOINT_TENSORS_MAX;
    header->tensor = calloc(header->tensor_capacity, sizeof(*header->tensor));
    /* Read the header, then its long metadata. */
    unsigned char *text = malloc(2 * (size_t)bytes);
    if (!header->tensor || !text) {
        free(text);
        return err_set(err, ERR_MEMORY, "no memory for a header of %" PRIu64 " bytes", bytes);
    }
    memcpy(text, prefix, sizeof(prefix));
    rc =
        file->read(file->arg, PREFIX_BYTES, text + PREFIX_BYTES, (size_t)bytes - PREFIX_BYTES, err);
    header->text = (char *)text + bytes;
    header->text_capacity = (size_t)bytes;
    rc = rc ? rc : safetensors_parse(text, (size_t)bytes, header, err);
    const char *note = rc ? NULL : safetensors_metadata(header, STATE_NOTE_KEY);
    if (note && !(file->note = strdup(note))) {
        rc = err_set(err, ERR_MEMORY, "no memory for a header of %" PRIu64 " bytes", bytes);
    }
    header->text = NULL;
    header->text_capacity = header->metadata_count = 0;
    free(text);
    return rc;
}

/* The format allows empty tensors, but no model has one. */
static int check_elements(const struct safetensors_header *header, struct err *err)
{
    for (size_t i = 0; i < header->tensor_count; i++) {
        const struct safetensors_tensor *tensor = &header->tensor[i];
        if (tensor->begin == tensor->end) {
            return err_set(err, ERR_FORMAT, "tensor '%s' has no elements", tensor->name);
        }
    }
    return 0;
}

int checkpoint_file_open(checkpoint_read_fn read, void *arg, struct checkpoint_file **out,
                         struct err *err)
{
    struct checkpoint_file *file AUTO(checkpoint_file_close) = calloc(1, sizeof(*file));
    if (!file) {
        return err_set(err, ERR_MEMORY, "no memory for a checkpoint");
    }
    file->read = read;
    file->arg = arg;
    int rc = read_header(file, err);
    rc = rc ? rc : check_elements(&file->header, err);
    if (rc) {
        return rc;
    }
    *out = file;
    file = NULL;
    return 0;
}

void checkpoint_file_close(struct checkpoint_file **file)
{
    if (*file) {
        free((*file)->header.tensor);
        free((*file)->note);
        free(*file);
        *file = NULL;
    }
}

uint64_t checkpoint_file_bytes(const struct checkpoint_file *file)
{
    return file->header.data_offset + file->header.data_bytes;
}

size_t checkpoint_file_tensors(const struct checkpoint_file *file)
{
    return file->header.tensor_count;
}

int checkpoint_file_model(const struct checkpoint_file *file, struct model **out, struct err *err)
{
    struct evaluation evaluation;
    struct err fault = {0};
    *out = NULL;
    int rc = file->note ? trained_read_note(file->note, out, &evaluation, &fault) : 0;
    return rc == 0 ? 0
                   : err_set(err, rc == ERR_MEMORY ? ERR_MEMORY : ERR_INVALID,
                             "what the checkpoint says of its model: %s", fault.text);
}

/* ---- the tensors of a unit ---- */

static void shape_text(const uint64_t *dim, size_t rank, char out[SHAPE_TEXT])
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < rank && at < SHAPE_TEXT; i++) {
        at += (size_t)snprintf(out + at, SHAPE_TEXT - at, "%s%" PRIu64, i ? " x " : "", dim[i]);
    }
}

/* Find the file's tensor for one of the unit's. */
static int match_tensor(const struct checkpoint_file *file, const struct safetensors_tensor *own,
                        const struct safetensors_tensor **out, struct err *err)
{
    const struct safetensors_tensor *from = safetensors_find(&file->header, own->name);
    if (!from) {
        return err_set(err, ERR_INVALID, "the checkpoint has no tensor '%s'", own->name);
    }
    bool same = from->rank == own->rank;
    for (size_t i = 0; same && i < own->rank; i++) {
        same = from->dim[i] == own->dim[i];
    }
    if (!same) {
        char theirs[SHAPE_TEXT], ours[SHAPE_TEXT];
        shape_text(from->dim, from->rank, theirs);
        shape_text(own->dim, own->rank, ours);
        return err_set(err, ERR_INVALID, "tensor '%s' is %s in the checkpoint, %s in the model",
                       own->name, theirs, ours);
    }
    if (from->dtype != own->dtype) {
        return err_set(err, ERR_INVALID, "tensor '%s' is %s in the checkpoint: expected %s",
                       own->name, dtype_name(from->dtype), dtype_name(own->dtype));
    }
    *out = from;
    return 0;
}

static bool is_exported(const struct state_layout *layout, const char *name)
{
    for (size_t i = 0; i < layout->export_count; i++) {
        if (strcmp(layout->header.tensor[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Reject a tensor with the unit's prefix that the unit does not have. */
static int check_strangers(const struct checkpoint_file *file, const char *unit,
                           const struct state_layout *layout, struct err *err)
{
    const size_t length = strlen(unit);
    for (size_t i = 0; i < file->header.tensor_count; i++) {
        const char *name = file->header.tensor[i].name;
        bool of_unit = strncmp(name, unit, length) == 0 && name[length] == '.';
        if (of_unit && !is_exported(layout, name) && !ends_with(name, ".num_batches_tracked")) {
            return err_set(err, ERR_INVALID, "the model has no tensor '%s' of the checkpoint",
                           name);
        }
    }
    return 0;
}

/* Read the unit's tensors into `blob`. blob NULL: only check them. */
static int take_unit(const struct checkpoint_file *file, const struct model *model, size_t unit,
                     const struct state_layout *layout, unsigned char *blob, struct err *err)
{
    const char *name = model->unit[unit].name;
    int rc = check_strangers(file, name, layout, err);
    for (size_t i = 0; rc == 0 && i < layout->export_count; i++) {
        const struct safetensors_tensor *own = &layout->header.tensor[i];
        const struct safetensors_tensor *from = NULL;
        rc = match_tensor(file, own, &from, err);
        if (rc == 0 && blob) {
            rc = file->read(file->arg, file->header.data_offset + from->begin,
                            blob + layout->header.data_offset + own->begin,
                            (size_t)(own->end - own->begin), err);
        }
    }
    return rc == 0 ? 0 : err_wrap(err, "unit '%s'", name);
}

int checkpoint_check_unit(const struct checkpoint_file *file, const struct model *model,
                          size_t unit, struct err *err)
{
    static const struct optimizer none = {.type = OPTIMIZER_SGD};
    struct state_layout *layout AUTO(state_layout_free) = NULL;
    int rc = state_layout_new(model, unit, &none, &layout, err);
    return rc ? rc : take_unit(file, model, unit, layout, NULL, err);
}

/* ---- the input and the classes of the training ---- */

static bool same_normalise(const struct normalise *a, const struct normalise *b)
{
    bool same = a->mean_count == b->mean_count;
    for (size_t i = 0; same && i < a->mean_count; i++) {
        same = a->mean[i] == b->mean[i] && a->std[i] == b->std[i];
    }
    return same;
}

/* "times 0.00392, mean 0.286, std 0.353": of the first channel. */
static void input_text(const struct model *model, char out[INPUT_TEXT])
{
    const struct normalise *normalise = &model->input_normalise;
    const size_t size = (size_t)snprintf(out, INPUT_TEXT, "times %.3g", model->input_scale);
    if (normalise->mean_count > 0) {
        (void)snprintf(out + size, INPUT_TEXT - size, ", mean %.3g, std %.3g", normalise->mean[0],
                       normalise->std[0]);
    }
}

static int compare_input(const struct model *theirs, const struct model *ours, struct err *err)
{
    const bool scaled_alike =
        theirs->input_dtype != ours->input_dtype || theirs->input_scale == ours->input_scale;
    if (!scaled_alike || !same_normalise(&theirs->input_normalise, &ours->input_normalise)) {
        char their_input[INPUT_TEXT], our_input[INPUT_TEXT];
        input_text(theirs, their_input);
        input_text(ours, our_input);
        return err_set(
            err, ERR_INVALID,
            "the checkpoint was trained on samples %s, the job's are %s; state the same in augment",
            their_input, our_input);
    }
    if (theirs->input_reading[0] && ours->input_reading[0] &&
        strcmp(theirs->input_reading, ours->input_reading) != 0) {
        return err_set(err, ERR_INVALID,
                       "the checkpoint was trained on samples made by %s, the job's by %s",
                       theirs->input_reading, ours->input_reading);
    }
    return 0;
}

static int compare_classes(const struct model *theirs, const struct model *ours, const char *head,
                           struct err *err)
{
    if (class_names_agree(&ours->class_names, &theirs->class_names)) {
        return 0;
    }
    char difference[CLASS_NAMES_DIFFERENCE_MAX];
    class_names_difference(&ours->class_names, &theirs->class_names, difference);
    return err_set(err, ERR_INVALID,
                   "the job's classes are not the checkpoint's (%s); name '%s' in init.except to "
                   "learn other classes",
                   difference, head);
}

static bool has_parameters(const struct unit *unit)
{
    bool found = false;
    for (size_t i = 0; i < unit->op_count && !found; i++) {
        found = unit->op[i].tensor_count > 0;
    }
    return found;
}

/* Return the last unit with parameters if it is taken, else NULL. */
static const struct unit *taken_head(const struct model *model, const bool *taken)
{
    size_t head = model->unit_count;
    while (head > 0 && !has_parameters(&model->unit[head - 1])) {
        head--;
    }
    return head > 0 && taken[head - 1] ? &model->unit[head - 1] : NULL;
}

int checkpoint_check_samples(const struct checkpoint_file *file, const struct model *model,
                             const bool *taken, struct err *err)
{
    struct model *theirs AUTO(model_free) = NULL;
    const struct unit *head = taken_head(model, taken);
    int rc = checkpoint_file_model(file, &theirs, err);
    if (rc || !theirs) {
        return rc;
    }
    rc = taken[0] ? compare_input(theirs, model, err) : 0;
    return rc || !head ? rc : compare_classes(theirs, model, head->name, err);
}

int checkpoint_check_view(const struct checkpoint_file *file, const struct model *model,
                          const bool *taken, const struct view *view, struct err *err)
{
    static const struct view all;
    struct model *theirs AUTO(model_free) = NULL;
    struct evaluation evaluation;
    const struct unit *head = taken_head(model, taken);
    const struct view *ours = view ? view : &all;
    if (!file->note || !head) {
        return 0;
    }
    int rc = trained_read_note(file->note, &theirs, &evaluation, err);
    if (rc) {
        return rc;
    }
    const struct view *known = &evaluation.view;
    bool same = known->class_count == ours->class_count;
    for (size_t i = 0; same && i < known->class_count; i++) {
        same = known->class[i] == ours->class[i];
    }
    return same ? 0
                : err_set(err, ERR_INVALID,
                          "the outputs of the checkpoint stand for %s, those of the job for %s; "
                          "name '%s' in init.except to learn others",
                          known->class_count > 0 ? "a view's classes" : "all classes",
                          ours->class_count == 0   ? "all classes"
                          : known->class_count > 0 ? "another view's"
                                                   : "a view's classes",
                          head->name);
}

int checkpoint_read_unit(struct checkpoint_file *file, const struct model *model, size_t unit,
                         const struct state_layout *layout, void *blob, struct err *err)
{
    const uint64_t state = layout->header.data_offset + layout->export_bytes;
    int rc = take_unit(file, model, unit, layout, blob, err);
    if (rc == 0) {
        memcpy(blob, layout->header_text, (size_t)layout->header.data_offset);
        memset((unsigned char *)blob + state, 0, (size_t)(layout->blob_bytes - state));
    }
    return rc;
}
