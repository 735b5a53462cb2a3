#include "libtrain/formats/form.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/record.h"
#include "libtrain/formats/part.h"

#define INPUTS "inputs"
#define LABELS "labels"
#define NOTE_KEY "paceline"
#define PIECE_BYTES (1u << 20)

/* ---- the note in the metadata ---- */

struct note {
    json_t *class_names; /* NULL: none */
    char reading[READING_TEXT_MAX];
};

/* An unknown member is an error, as in the file of a model: it may change the meaning of the
 * data. */
static const struct field note_field[] = {
    MEMBER_JSON(struct note, class_names, "class_names", FIELD_SKIP_EMPTY),
    MEMBER_TEXT(struct note, reading, "reading", FIELD_SKIP_EMPTY),
};
static const struct record note_record = RECORD(struct note, "data set", note_field);

/* Append the note, if it has anything to state. */
static int write_note(const struct name_list *classes, const char *reading, struct buf *out,
                      struct err *err)
{
    BUF_AUTO struct buf names;
    buf_init(&names, CLASS_NAMES_TEXT_MAX);
    int rc = classes->count > 0 ? class_names_write(classes, &names, err) : 0;
    const bool named = rc == 0 && classes->count > 0;
    struct note note = {.class_names = named ? class_names_json(classes) : NULL};
    memcpy(note.reading, reading, sizeof(note.reading));
    if (rc == ERR_LIMIT) {
        rc = 0; /* the list is too long, so it is left out */
    }
    if (rc == 0 && (named || reading[0] != '\0')) {
        json_auto_t *value = named && !note.class_names ? NULL : record_write(&note_record, &note);
        rc = value ? json_write(value, out, err)
                   : err_set(err, ERR_MEMORY, "no memory for the names of classes");
    }
    record_done(&note_record, &note);
    return rc;
}

static int read_note(const char *text, struct name_list *classes, char reading[READING_TEXT_MAX],
                     struct err *err)
{
    json_auto_t *value = NULL;
    struct note note = {0};
    struct reading known;
    int rc = json_parse(text, strlen(text), &value, err);
    rc = rc ? rc : record_read(&note_record, value, "", &note, NULL, err);
    if (rc == 0 && note.class_names && (rc = class_names_read(note.class_names, classes, err))) {
        rc = err ? err_wrap(err, "class_names") : rc;
    }
    if (rc == 0 && note.reading[0] && (rc = reading_parse_written(note.reading, &known, err))) {
        rc = err ? err_wrap(err, "reading") : rc;
    }
    if (rc == 0) {
        memcpy(reading, note.reading, sizeof(note.reading));
    }
    record_done(&note_record, &note);
    return rc;
}

/* ---- the header ---- */

/* Fill *out, except classes, from a header. ERR_FORMAT if the header does not have the project's
 * form. */
static int check(const struct safetensors_header *header, struct dataset_info *out, struct err *err)
{
    const struct safetensors_tensor *inputs = safetensors_find(header, INPUTS);
    const struct safetensors_tensor *labels = safetensors_find(header, LABELS);
    if (header->tensor_count != FORM_TENSORS || !inputs || !labels) {
        return err_set(err, ERR_FORMAT,
                       "a data set has the two tensors '" INPUTS "' and '" LABELS "'");
    }
    if (inputs->rank != 4 || (inputs->dtype != DTYPE_U8 && inputs->dtype != DTYPE_F32)) {
        return err_set(err, ERR_FORMAT, "'" INPUTS "' must be U8 or F32 of [count, H, W, C]");
    }
    if (labels->rank < 1 || labels->rank > 2 || labels->dtype != DTYPE_I32) {
        return err_set(err, ERR_FORMAT,
                       "'" LABELS "' must be I32 of [count] or [count, positions]");
    }
    if (labels->dim[0] != inputs->dim[0]) {
        return err_set(err, ERR_FORMAT, "%" PRIu64 " labels for %" PRIu64 " samples",
                       labels->dim[0], inputs->dim[0]);
    }
    const uint64_t positions = labels->rank == 2 ? labels->dim[1] : 1;
    if (positions == 0 || positions > DATASET_POSITIONS_MAX) {
        return err_set(err, ERR_FORMAT, "%" PRIu64 " labels a sample; from 1 to %d are possible",
                       positions, DATASET_POSITIONS_MAX);
    }
    if (inputs->dim[0] == 0 || inputs->dim[0] > DATASET_SAMPLES_MAX) {
        return err_set(err, ERR_FORMAT, "%" PRIu64 " samples; from 1 to %d are possible",
                       inputs->dim[0], DATASET_SAMPLES_MAX);
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

static int send_header(struct dataset_info *info, const char *note, char text[FORM_HEADER_MAX],
                       const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                       struct err *err)
{
    size_t size = 0;
    struct safetensors_tensor tensor[FORM_TENSORS] = {
        {.name = INPUTS,
         .dtype = info->dtype,
         .rank = 4,
         .dim = {info->count, info->h, info->w, info->c}},
        {.name = LABELS,
         .dtype = DTYPE_I32,
         .rank = info->positions > 1 ? 2 : 1,
         .dim = {info->count, info->positions}},
    };
    struct safetensors_header header = {
        .tensor = tensor, .tensor_capacity = FORM_TENSORS, .tensor_count = FORM_TENSORS};
    if (note) {
        header.metadata[0] = (struct safetensors_metadata){.key = NOTE_KEY, .long_value = note};
        header.metadata_count = 1;
    }
    int rc = safetensors_write(&header, text, FORM_HEADER_MAX, &size, err);
    if (rc) {
        return rc;
    }
    const struct dataset_info stated = *info;
    rc = check(&header, info, err);
    info->classes = stated.classes;
    memcpy(info->reading, stated.reading, sizeof(info->reading));
    if (rc == 0 && info->total_bytes > limits->total_bytes) {
        return err_set(err, ERR_LIMIT,
                       "the data set takes %" PRIu64 " bytes; at most %" PRIu64 " are allowed",
                       info->total_bytes, limits->total_bytes);
    }
    return rc ? rc : sink(arg, text, size, err);
}

int form_send_header(struct dataset_info *info, const struct name_list *classes,
                     const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                     struct err *err)
{
    BUF_AUTO struct buf note;
    buf_init(&note, FORM_NOTE_MAX);
    int rc = write_note(classes, info->reading, &note, err);
    char *text = rc ? NULL : malloc(FORM_HEADER_MAX);
    if (rc == 0 && !text) {
        rc = err_set(err, ERR_MEMORY, "no memory for a header of %u bytes", FORM_HEADER_MAX);
    }
    rc =
        rc ? rc : send_header(info, note.size > 0 ? note.data : NULL, text, limits, sink, arg, err);
    free(text);
    return rc;
}

bool form_recognise(const uint8_t *bytes, size_t available)
{
    uint64_t size;
    return available > 8 && bytes[8] == '{' && safetensors_header_bytes(bytes, &size, NULL) == 0;
}

/* Parse a header of `size` bytes. text[2 * size]: the header, then space for the note. */
static int take_header(const char *name, uint8_t *text, size_t size, struct dataset_info *info,
                       struct name_list *classes, struct err *err)
{
    struct safetensors_tensor tensor[FORM_TENSORS];
    struct safetensors_header header = {.tensor = tensor,
                                        .tensor_capacity = FORM_TENSORS,
                                        .text = (char *)text + size,
                                        .text_capacity = size};
    int rc;
    if ((rc = safetensors_parse(text, size, &header, err)) || (rc = check(&header, info, err))) {
        return err ? err_wrap(err, "%s", name) : rc;
    }
    const char *note = safetensors_metadata(&header, NOTE_KEY);
    if (note && (rc = read_note(note, classes, info->reading, err))) {
        return err ? err_wrap(err, "%s: what it says of its data", name) : rc;
    }
    return 0;
}

/* Read the header; *classes is an output. */
static int read_form_header(struct stream *stream, struct dataset_info *info,
                            struct name_list *classes, struct err *err)
{
    uint8_t prefix[8];
    uint64_t size = 0;
    int rc;
    if ((rc = stream_read_all(stream, prefix, sizeof(prefix), "the header ends", err)) ||
        (rc = safetensors_header_bytes(prefix, &size, err))) {
        return rc;
    }
    if (size > FORM_HEADER_MAX) {
        return err_set(err, ERR_LIMIT,
                       "%s: a header of %" PRIu64 " bytes; a data set's has at most %u",
                       stream->name, size, FORM_HEADER_MAX);
    }
    uint8_t *text = malloc(2 * (size_t)size);
    if (!text) {
        return err_set(err, ERR_MEMORY, "no memory for a header of %" PRIu64 " bytes", size);
    }
    memcpy(text, prefix, sizeof(prefix));
    rc = stream_read_all(stream, text + sizeof(prefix), (size_t)size - sizeof(prefix),
                         "the header ends", err);
    rc = rc ? rc : take_header(stream->name, text, (size_t)size, info, classes, err);
    free(text);
    return rc;
}

int form_read(struct stream *stream, struct part *part, struct labels *labels,
              struct form_note *note, struct err *err)
{
    struct dataset_info info;
    int rc = read_form_header(stream, &info, &note->classes, err);
    if (rc) {
        return rc;
    }
    memcpy(note->reading, info.reading, sizeof(note->reading));
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
    struct dataset_info info;
    struct name_list classes AUTO(name_list_done) = {0};
    int rc;
    if ((rc = stream_open_file(&stream, fd, "data set", err)) ||
        (rc = read_form_header(&stream, &info, &classes, err))) {
        return rc;
    }
    if (stream.size != info.total_bytes) {
        return err_set(err, ERR_FORMAT,
                       "data set: the file has %" PRIu64 " bytes, its header says %" PRIu64,
                       stream.size, info.total_bytes);
    }
    *out = info;
    return 0;
}

/* Read the header of a file in memory. */
static int read_bytes(const unsigned char *bytes, struct dataset_info *info,
                      struct name_list *classes, struct err *err)
{
    uint64_t size = 0;
    int rc = safetensors_header_bytes(bytes, &size, err);
    if (rc == 0 && size > FORM_HEADER_MAX) {
        rc = err_set(err, ERR_LIMIT, "a header of %" PRIu64 " bytes", size);
    }
    uint8_t *text = rc ? NULL : malloc(2 * (size_t)size);
    if (rc == 0 && !text) {
        rc = err_set(err, ERR_MEMORY, "no memory for a header of %" PRIu64 " bytes", size);
    }
    if (rc == 0) {
        memcpy(text, bytes, (size_t)size);
        rc = take_header("data set", text, (size_t)size, info, classes, err);
    }
    free(text);
    return rc;
}

/* Send the bytes in pieces, so that the sink can stop between them. */
static int send_bytes(const unsigned char *bytes, uint64_t size, dataset_sink_fn sink, void *arg,
                      struct err *err)
{
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < size; at += PIECE_BYTES) {
        rc =
            sink(arg, bytes + at, size - at < PIECE_BYTES ? (size_t)(size - at) : PIECE_BYTES, err);
    }
    return rc;
}

int dataset_send_prefix(const unsigned char *bytes, uint64_t count, dataset_sink_fn sink, void *arg,
                        struct err *err)
{
    static const struct dataset_limits limits = {.total_bytes = UINT64_MAX};
    struct dataset_info info;
    struct name_list classes AUTO(name_list_done) = {0};
    int rc = read_bytes(bytes, &info, &classes, err);
    if (rc == 0 && (count == 0 || count > info.count)) {
        rc = err_set(err, ERR_INVALID, "the first %" PRIu64 " samples of a data set of %" PRIu64,
                     count, info.count);
    }
    if (rc) {
        return rc;
    }
    struct dataset_info part = info;
    part.count = count;
    rc = form_send_header(&part, &classes, &limits, sink, arg, err);
    rc = rc ? rc : send_bytes(bytes + info.inputs_offset, part.inputs_bytes, sink, arg, err);
    return rc ? rc : send_bytes(bytes + info.labels_offset, part.labels_bytes, sink, arg, err);
}
