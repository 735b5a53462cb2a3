#include "libtrain/formats/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/formats/form.h"
#include "libtrain/formats/labelled_tar.h"
#include "libtrain/formats/part.h"
#include "libtrain/formats/source.h"

#define PARTS_MAX 64
#define FLOATS_AT_ONCE                                                                             \
    (STREAM_BUFFER_BYTES / sizeof(double)) /* doubles are the largest numbers that are read */
#define CIFAR_RECORDS_AT_ONCE (STREAM_BUFFER_BYTES / CIFAR_RECORD_BYTES)

_Static_assert(DATASET_HEAD_BYTES == STREAM_PEEK_MAX, "formats are recognised by as many bytes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "labels are written as they lie in memory");

/* Files are read twice: first to learn their content, then to write the images in the order of the
 * result, after its header. */
struct conversion {
    const int *fd;
    const struct dataset_limits *limits;
    struct source source;
    size_t open_file; /* the file of `source`, if it is open */
    struct part part[PARTS_MAX];
    size_t part_count;
    struct labels labels;
    struct form_note note;
    const struct part *image_part[PARTS_MAX]; /* in the order of the result */
    const struct part *label_part[PARTS_MAX];
    size_t image_part_count, label_part_count;
    dataset_sink_fn sink;
    void *sink_arg;
    uint8_t buffer[STREAM_BUFFER_BYTES];
    union {
        uint8_t cifar[CIFAR_RECORDS_AT_ONCE * CIFAR_IMAGE_BYTES];
        float floats[FLOATS_AT_ONCE];
    } converted; /* contents of the buffer, in the form of the result */
};

static void conversion_free(struct conversion **conversion)
{
    if (*conversion) {
        source_close(&(*conversion)->source);
        labels_done(&(*conversion)->labels);
        name_list_done(&(*conversion)->note.classes);
        free(*conversion);
    }
}

static int open_file(struct conversion *conversion, size_t file, struct err *err)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "file %zu", file + 1);
    conversion->open_file = file;
    return source_open(&conversion->source, conversion->fd[file], name, conversion->limits, err);
}

/* ---- first pass ---- */

static int refuse_part(const char *name, const uint8_t *bytes, size_t size, struct err *err)
{
    const char *other = tar_other(bytes, size);
    if (other) {
        return err_set(err, ERR_FORMAT, "%s: is %s; send a tar or tar.gz", name, other);
    }
    return err_set(
        err, ERR_FORMAT,
        "%s: unknown format; expected IDX, NPY, CIFAR-10 binary, safetensors, a tar of JPEG "
        "or PNG, or a tar or gzip of these; plain text needs text=LENGTH, which train and predict "
        "take by --as",
        name);
}

static int read_part(struct stream *stream, struct part *part, struct labels *labels,
                     struct form_note *note, struct err *err)
{
    const uint8_t *bytes;
    size_t size = 0;
    int rc = stream_peek(stream, &bytes, &size, err);
    if (rc) {
        return rc;
    }
    if (size == 0) {
        return stream->cut ? stream_finish(stream, err)
                           : err_set(err, ERR_FORMAT, "%s: is empty", stream->name);
    }
    if (npy_recognise(bytes, size)) {
        return npy_read(stream, part, labels, err);
    }
    if (idx_recognise(bytes, size, stream->size)) {
        return idx_read(stream, part, labels, err);
    }
    if (form_recognise(bytes, size)) {
        return form_read(stream, part, labels, note, err);
    }
    if (cifar_recognise(bytes, size)) {
        return cifar_read(stream, part, labels, err);
    }
    return refuse_part(stream->name, bytes, size, err);
}

static int read_file(struct conversion *conversion, size_t file, struct err *err)
{
    int rc = open_file(conversion, file, err);
    while (rc == 0) {
        struct stream *stream;
        rc = source_next(&conversion->source, &stream, err);
        if (rc || !stream) {
            return rc;
        }
        if (conversion->part_count == PARTS_MAX) {
            return err_set(err, ERR_LIMIT, "%s: more than %d files", stream->name, PARTS_MAX);
        }
        struct part *part = &conversion->part[conversion->part_count++];
        part->file = file;
        part->content = conversion->source.next - 1;
        memcpy(part->name, stream->name, sizeof(part->name));
        rc = read_part(stream, part, &conversion->labels, &conversion->note, err);
    }
    return rc;
}

/* ---- pairing images and labels ---- */

static const char *kind_name(enum part_kind kind)
{
    static const char *const names[] = {"samples", "labels", "CIFAR records", "a whole data set"};
    return names[kind];
}

static bool comes_before(const struct part *a, const struct part *b)
{
    return a->file != b->file ? a->file < b->file : strcmp(a->name, b->name) < 0;
}

/* Sort several CIFAR files by name. */
static void order_cifar(struct conversion *conversion)
{
    for (size_t i = 0; i < conversion->part_count; i++) {
        size_t at = i;
        for (; at > 0 && comes_before(&conversion->part[i], conversion->image_part[at - 1]); at--) {
            conversion->image_part[at] = conversion->image_part[at - 1];
        }
        conversion->image_part[at] = &conversion->part[i];
    }
    memcpy(conversion->label_part, conversion->image_part, sizeof(conversion->label_part));
    conversion->image_part_count = conversion->label_part_count = conversion->part_count;
}

/* Find the images and the labels among the parts. */
static int combine(struct conversion *conversion, struct err *err)
{
    const struct part *part = conversion->part;
    size_t count = conversion->part_count;
    if (count == 0) {
        return err_set(err, ERR_FORMAT, "file 1: the archive has no files");
    }
    bool all_cifar = true;
    for (size_t i = 0; i < count; i++) {
        all_cifar = all_cifar && part[i].kind == PART_CIFAR;
    }
    if (all_cifar) {
        order_cifar(conversion);
        return 0;
    }
    if (count == 1 && part[0].kind == PART_WHOLE) {
        conversion->image_part[0] = conversion->label_part[0] = &part[0];
    } else if (count == 1 && part[0].kind == PART_IMAGES && conversion->limits->unlabelled) {
        conversion->image_part[0] = &part[0];
        conversion->image_part_count = 1;
        return 0;
    } else if (count == 1) {
        return err_set(err, ERR_FORMAT, "%s: %s alone; samples and labels are needed", part[0].name,
                       kind_name(part[0].kind));
    } else if (count == 2 && part[0].kind + part[1].kind == PART_IMAGES + PART_LABELS) {
        bool images_first = part[0].kind == PART_IMAGES;
        conversion->image_part[0] = &part[!images_first];
        conversion->label_part[0] = &part[images_first];
    } else {
        return err_set(err, ERR_FORMAT,
                       "%s has %s, %s has %s%s; one file of samples and one of labels are needed, "
                       "or CIFAR files alone",
                       part[0].name, kind_name(part[0].kind), part[1].name, kind_name(part[1].kind),
                       count > 2 ? ", and more follow" : "");
    }
    conversion->image_part_count = conversion->label_part_count = 1;
    const struct part *images = conversion->image_part[0];
    const struct part *labels = conversion->label_part[0];
    if (images->count != labels->count) {
        return err_set(err, ERR_FORMAT, "%s: %" PRIu64 " labels for %" PRIu64 " samples",
                       labels->name, labels->count, images->count);
    }
    return 0;
}

/* A class without samples keeps its number. */
static int name_classes(const struct conversion *conversion, struct dataset_info *info,
                        struct err *err)
{
    const struct name_list *names = &conversion->note.classes;
    memcpy(info->reading, conversion->note.reading, sizeof(info->reading));
    if (names->count == 0) {
        return 0;
    }
    if (names->count < info->classes) {
        return err_set(err, ERR_FORMAT, "%s: has labels up to %" PRIu32 " and %zu class_names",
                       conversion->image_part[0]->name, info->classes - 1, names->count);
    }
    info->classes = (uint32_t)names->count;
    return conversion->limits->names
               ? class_names_copy(names, &conversion->limits->names->class, err)
               : 0;
}

static int describe(const struct conversion *conversion, struct dataset_info *info, struct err *err)
{
    const struct part *first = conversion->image_part[0];
    *info = (struct dataset_info){
        .h = first->h,
        .w = first->w,
        .c = first->c,
        .dtype = part_dtype(first),
        .classes = conversion->label_part_count ? (uint32_t)conversion->labels.largest + 1 : 0,
        .positions = first->positions ? first->positions : 1};
    for (size_t i = 0; i < conversion->image_part_count; i++) {
        info->count += conversion->image_part[i]->count;
    }
    if (info->count == 0) {
        return err_set(err, ERR_FORMAT, "%s: there are no samples", first->name);
    }
    return name_classes(conversion, info, err);
}

/* ---- second pass ---- */

/* Open the content of a part. Reading continues if the part follows the last one; otherwise its
 * file is opened again. */
static int reopen(struct conversion *conversion, const struct part *part, struct stream **out,
                  struct err *err)
{
    int rc = 0;
    if (conversion->open_file != part->file || conversion->source.next > part->content) {
        rc = open_file(conversion, part->file, err);
    }
    while (rc == 0) {
        rc = source_next(&conversion->source, out, err);
        if (rc || !*out || conversion->source.next > part->content) {
            break;
        }
    }
    if (rc == 0 && !*out) {
        return err_set(err, ERR_IO, "%s: changed while it was read", part->name);
    }
    return rc;
}

static int send_plain(struct conversion *conversion, struct stream *stream, uint64_t bytes,
                      struct err *err)
{
    while (bytes > 0) {
        size_t size =
            bytes < sizeof(conversion->buffer) ? (size_t)bytes : sizeof(conversion->buffer);
        int rc = stream_read_all(stream, conversion->buffer, size, "the samples end", err);
        if (rc || (rc = conversion->sink(conversion->sink_arg, conversion->buffer, size, err))) {
            return rc;
        }
        bytes -= size;
    }
    return 0;
}

static int send_floats(struct conversion *conversion, const struct part *part,
                       struct stream *stream, struct err *err)
{
    float *floats = conversion->converted.floats;
    const uint64_t total = part->count * part_image_elements(part);
    for (uint64_t at = 0; at < total;) {
        const size_t count = total - at < FLOATS_AT_ONCE ? (size_t)(total - at) : FLOATS_AT_ONCE;
        int rc = stream_read_all(stream, conversion->buffer, count * part->element.size,
                                 "the samples end", err);
        if (rc) {
            return rc;
        }
        const size_t finite = element_floats(part->element, conversion->buffer, count, floats);
        if (finite < count) {
            return err_set(err, ERR_INVALID,
                           "%s: number %" PRIu64 " of sample %" PRIu64
                           " (both from 0) is %g as a float32; only finite "
                           "ones can be trained on",
                           part->name, (at + finite) % part_image_elements(part),
                           (at + finite) / part_image_elements(part), (double)floats[finite]);
        }
        if ((rc = conversion->sink(conversion->sink_arg, floats, count * sizeof(*floats), err))) {
            return rc;
        }
        at += count;
    }
    return 0;
}

static int send_cifar(struct conversion *conversion, struct stream *stream, uint64_t records,
                      struct err *err)
{
    while (records > 0) {
        size_t count = records < CIFAR_RECORDS_AT_ONCE ? (size_t)records : CIFAR_RECORDS_AT_ONCE;
        int rc = stream_read_all(stream, conversion->buffer, count * CIFAR_RECORD_BYTES,
                                 "the records end", err);
        if (rc) {
            return rc;
        }
        for (size_t i = 0; i < count; i++) {
            cifar_interleave(conversion->buffer + i * CIFAR_RECORD_BYTES + 1,
                             conversion->converted.cifar + i * CIFAR_IMAGE_BYTES);
        }
        if ((rc = conversion->sink(conversion->sink_arg, conversion->converted.cifar,
                                   count * CIFAR_IMAGE_BYTES, err))) {
            return rc;
        }
        records -= count;
    }
    return 0;
}

static int send_images(struct conversion *conversion, const struct part *part, struct err *err)
{
    struct stream *stream = NULL;
    int rc;
    if ((rc = reopen(conversion, part, &stream, err)) ||
        (rc = stream_skip(stream, part->skip, "the header ends", err))) {
        return rc;
    }
    if (part->kind == PART_CIFAR) {
        return send_cifar(conversion, stream, part->count, err);
    }
    if (part->element.kind == ELEMENT_FLOAT) {
        return send_floats(conversion, part, stream, err);
    }
    return send_plain(conversion, stream, part->count * part_image_elements(part), err);
}

static int send_no_labels(struct conversion *conversion, uint64_t bytes, struct err *err)
{
    memset(conversion->buffer, 0, sizeof(conversion->buffer));
    int rc = 0;
    while (rc == 0 && bytes > 0) {
        const size_t size =
            bytes < sizeof(conversion->buffer) ? (size_t)bytes : sizeof(conversion->buffer);
        rc = conversion->sink(conversion->sink_arg, conversion->buffer, size, err);
        bytes -= size;
    }
    return rc;
}

static int send_all(struct conversion *conversion, struct dataset_info *info, struct err *err)
{
    int rc = form_send_header(info, &conversion->note.classes, conversion->limits, conversion->sink,
                              conversion->sink_arg, err);
    for (size_t i = 0; i < conversion->image_part_count && rc == 0; i++) {
        rc = send_images(conversion, conversion->image_part[i], err);
    }
    for (size_t i = 0; i < conversion->label_part_count && rc == 0; i++) {
        const struct part *part = conversion->label_part[i];
        if (part->count > 0) {
            rc =
                conversion->sink(conversion->sink_arg, conversion->labels.value + part->label_first,
                                 (size_t)part_label_count(part) * sizeof(int32_t), err);
        }
    }
    return rc == 0 && conversion->label_part_count == 0
               ? send_no_labels(conversion, info->labels_bytes, err)
               : rc;
}

static int convert_recognised(const int *fd, size_t fd_count, const struct dataset_limits *limits,
                              dataset_sink_fn sink, void *arg, struct dataset_info *out,
                              struct err *err)
{
    struct conversion *conversion AUTO(conversion_free) = calloc(1, sizeof(*conversion));
    if (!conversion) {
        return err_set(err, ERR_MEMORY, "no memory to read a data set");
    }
    conversion->fd = fd;
    conversion->limits = limits;
    conversion->sink = sink;
    conversion->sink_arg = arg;

    int rc = 0;
    for (size_t i = 0; i < fd_count && rc == 0; i++) {
        rc = read_file(conversion, i, err);
    }
    struct dataset_info info;
    if (rc || (rc = combine(conversion, err)) || (rc = describe(conversion, &info, err)) ||
        (rc = send_all(conversion, &info, err))) {
        return rc;
    }
    labels_tally(conversion->labels.value, &info, limits);
    *out = info;
    return 0;
}

int dataset_convert(const int *fd, size_t fd_count, const struct reading *reading,
                    const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                    struct dataset_info *out, struct err *err)
{
    static int (*const convert[READING_KINDS])(
        const struct files *files, const struct reading *reading,
        const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
        struct dataset_info *out, struct err *err) = {[READING_TEXT] = text_convert,
                                                      [READING_SOUND] = sound_convert,
                                                      [READING_IMAGES] = images_convert};
    enum reading_kind kind = reading->kind;
    bool images = false;
    ASSERT(fd_count >= 1);
    int rc = 0;
    if (kind == READING_RECOGNISED && (fd_count == 1 || limits->unlabelled) &&
        (rc = images_recognise(fd[0], limits, &images, err))) {
        return rc;
    }
    kind = images ? READING_IMAGES : kind;
    if (kind == READING_RECOGNISED) {
        return convert_recognised(fd, fd_count, limits, sink, arg, out, err);
    }
    if (fd_count > 1 && (kind == READING_TEXT || !limits->unlabelled)) {
        return err_set(err, ERR_INVALID, "%zu files; a data set with a stated reading has one",
                       fd_count);
    }
    const struct files files = {.fd = fd, .count = fd_count};
    return convert[kind](&files, reading, limits, sink, arg, out, err);
}

int dataset_check_head(const uint8_t *head, const struct reading *reading, struct err *err)
{
    const size_t size = DATASET_HEAD_BYTES;
    if (reading->kind == READING_TEXT || stream_is_gzip(head, size) || tar_recognise(head, size)) {
        return 0;
    }
    if (reading->kind != READING_RECOGNISED) {
        return labelled_tar_refuse("file 1", head, size, err);
    }
    const bool known = npy_recognise(head, size) ||
                       idx_recognise(head, size, STREAM_SIZE_UNKNOWN) ||
                       form_recognise(head, size) || cifar_recognise(head, size);
    return known ? 0 : refuse_part("file 1", head, size, err);
}
