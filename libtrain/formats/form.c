#include "libtrain/formats/form.h"

#include <inttypes.h>

#include "libtrain/formats/part.h"

#define INPUTS "inputs"
#define LABELS "labels"

/* Fill *out (but classes) from a header; ERR_FORMAT when it is not the one form. */
static int check(const struct safetensors_header *header, struct dataset_info *out, struct err *err)
{
    const struct safetensors_tensor *inputs = safetensors_find(header, INPUTS);
    const struct safetensors_tensor *labels = safetensors_find(header, LABELS);
    if (header->tensor_count != FORM_TENSORS || !inputs || !labels) {
        return err_set(err, ERR_FORMAT, "a data set has the two tensors '" INPUTS "' and '" LABELS "'");
    }
    if (inputs->rank != 4 || (inputs->dtype != DTYPE_U8 && inputs->dtype != DTYPE_F32)) {
        return err_set(err, ERR_FORMAT, "'" INPUTS "' must be U8 or F32 of [count, H, W, C]");
    }
    if (labels->rank < 1 || labels->rank > 2 || labels->dtype != DTYPE_I32) {
        return err_set(err, ERR_FORMAT, "'" LABELS "' must be I32 of [count] or [count, positions]");
    }
    if (labels->dim[0] != inputs->dim[0]) {
        return err_set(err, ERR_FORMAT, "%" PRIu64 " labels for %" PRIu64 " samples", labels->dim[0], inputs->dim[0]);
    }
    const uint64_t positions = labels->rank == 2 ? labels->dim[1] : 1;
    if (positions == 0 || positions > DATASET_POSITIONS_MAX) {
        return err_set(err, ERR_FORMAT, "%" PRIu64 " labels a sample; from 1 to %d are possible", positions,
                       DATASET_POSITIONS_MAX);
    }
    if (inputs->dim[0] == 0 || inputs->dim[0] > DATASET_SAMPLES_MAX) {
        return err_set(err, ERR_FORMAT, "%" PRIu64 " samples; from 1 to %d are possible", inputs->dim[0],
                       DATASET_SAMPLES_MAX);
    }
    struct part shape = {.name = "'" INPUTS "'"};
    int rc = part_set_shape(&shape, inputs->dim + 1, 3, err);
    if (rc) {
        return rc;
    }
    *out = (struct dataset_info){
        .count = inputs->dim[0],
        .h = shape.h,
        .w = shape.w,
        .c = shape.c,
        .dtype = inputs->dtype,
        .positions = (uint32_t)positions,
        .inputs_offset = header->data_offset + inputs->begin,
        .inputs_bytes = inputs->end - inputs->begin,
        .labels_offset = header->data_offset + labels->begin,
        .labels_bytes = labels->end - labels->begin,
        .total_bytes = header->data_offset + header->data_bytes,
    };
    return 0;
}

int form_send_header(struct dataset_info *info, const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                     struct err *err)
{
    char text[FORM_HEADER_MAX];
    size_t size = 0;
    struct safetensors_tensor tensor[FORM_TENSORS] = {
        {.name = INPUTS, .dtype = info->dtype, .rank = 4, .dim = {info->count, info->h, info->w, info->c}},
        {.name = LABELS,
         .dtype = DTYPE_I32,
         .rank = info->positions > 1 ? 2 : 1,
         .dim = {info->count, info->positions}},
    };
    struct safetensors_header header = {
        .tensor = tensor, .tensor_capacity = FORM_TENSORS, .tensor_count = FORM_TENSORS};
    int rc = safetensors_write(&header, text, sizeof(text), &size, err);
    if (rc) {
        return rc;
    }
    uint32_t classes = info->classes;
    rc = check(&header, info, err);
    info->classes = classes;
    if (rc == 0 && info->total_bytes > limits->total_bytes) {
        return err_set(err, ERR_LIMIT, "the data set takes %" PRIu64 " bytes; at most %" PRIu64 " are allowed",
                       info->total_bytes, limits->total_bytes);
    }
    return rc ? rc : sink(arg, text, size, err);
}

bool form_recognise(const uint8_t *bytes, size_t available)
{
    uint64_t size;
    return available > 8 && bytes[8] == '{' && safetensors_header_bytes(bytes, &size, NULL) == 0;
}

/* Read the header into `text` and parse it. */
static int read_form_header(struct stream *stream, struct safetensors_header *header, struct dataset_info *info,
                            struct err *err)
{
    uint8_t text[FORM_HEADER_MAX];
    uint64_t size = 0;
    int rc;
    if ((rc = stream_read_all(stream, text, 8, "the header ends", err)) ||
        (rc = safetensors_header_bytes(text, &size, err))) {
        return rc;
    }
    if (size > sizeof(text)) {
        return err_set(err, ERR_LIMIT, "%s: a header of %" PRIu64 " bytes; a data set's has at most %zu", stream->name,
                       size, sizeof(text));
    }
    if ((rc = stream_read_all(stream, text + 8, (size_t)size - 8, "the header ends", err))) {
        return rc;
    }
    if ((rc = safetensors_parse(text, (size_t)size, header, err)) || (rc = check(header, info, err))) {
        return err ? err_wrap(err, "%s", stream->name) : rc;
    }
    return 0;
}

int form_read(struct stream *stream, struct part *part, struct labels *labels, struct err *err)
{
    struct safetensors_tensor tensor[FORM_TENSORS];
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = FORM_TENSORS};
    struct dataset_info info;
    int rc = read_form_header(stream, &header, &info, err);
    if (rc) {
        return rc;
    }
    part->kind = PART_WHOLE;
    part->count = info.count;
    part->element = info.dtype == DTYPE_F32 ? element_f32 : element_u8;
    part->h = info.h;
    part->w = info.w;
    part->c = info.c;
    part->positions = info.positions;
    bool images_first = info.inputs_offset < info.labels_offset;
    if (images_first) {
        rc = part_pass_images(part, stream, err);
    }
    if (rc == 0) {
        rc = part_read_labels(part, stream, element_i32, labels, err);
    }
    if (rc == 0 && !images_first) {
        rc = part_pass_images(part, stream, err);
    }
    return rc ? rc : stream_finish(stream, err);
}

int dataset_read_info(int fd, struct dataset_info *out, struct err *err)
{
    struct stream stream;
    struct safetensors_tensor tensor[FORM_TENSORS];
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = FORM_TENSORS};
    struct dataset_info info;
    int rc;
    if ((rc = stream_open_file(&stream, fd, "data set", err)) ||
        (rc = read_form_header(&stream, &header, &info, err))) {
        return rc;
    }
    if (stream.size != info.total_bytes) {
        return err_set(err, ERR_FORMAT, "data set: the file has %" PRIu64 " bytes, its header says %" PRIu64,
                       stream.size, info.total_bytes);
    }
    *out = info;
    return 0;
}
