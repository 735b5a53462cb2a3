#include "libtrain/formats/labelled_tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/formats/class_names.h"
#include "libtrain/formats/form.h"
#include "libtrain/formats/part.h"
#include "libtrain/formats/source.h"

#define CLASSES_FIRST_CAPACITY 16

struct class
{
    char *name; /* owned */
    uint32_t
        order; /* order of first occurrence: the value of its labels until all names are known */
};

struct labelled_tar {
    const struct files *files;
    size_t file; /* the open file */
    const struct dataset_limits *limits;
    enum dataset_label label;
    struct source source;
    struct labels labels;
    struct class *class; /* sorted by name */
    size_t class_count, class_capacity;
    size_t class_last;            /* the last class found: the next file often has the same */
    struct name_list class_names; /* sorted; set when all are known */
    uint8_t *sample;
};

static void labelled_tar_free(struct labelled_tar **tar)
{
    if (*tar) {
        source_close(&(*tar)->source);
        labels_done(&(*tar)->labels);
        for (size_t i = 0; i < (*tar)->class_count; i++) {
            free((*tar)->class[i].name);
        }
        free((*tar)->class);
        name_list_done(&(*tar)->class_names);
        free((*tar)->sample);
        free(*tar);
    }
}

/* ---- the class of a file ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Return the class in a path, as a part of the path. *size is 0 if the path has no class. */
static const char *class_of(const char *path, enum dataset_label label, size_t *size)
{
    const char *base = base_name(path);
    const char *first = base;
    const char *end = base;
    if (label == DATASET_LABEL_PREFIX) {
        const char *mark = strchr(base, '_');
        end = mark ? mark : base;
    } else if (base > path) {
        end = base - 1;
        for (first = end; first > path && first[-1] != '/'; first--) {
        }
    }
    *size = (size_t)(end - first);
    if (label == DATASET_LABEL_DIRECTORY && *size == 1 && *first == '.') {
        *size = 0;
    }
    return first;
}

static int compare(const char *text, size_t size, const char *name)
{
    int order = strncmp(text, name, size);
    return order ? order : name[size] ? -1 : 0;
}

/* Return the position of the class among the sorted ones, or the position to insert it at. */
static size_t find_class(const struct labelled_tar *tar, const char *text, size_t size, bool *found)
{
    size_t low = 0;
    size_t high = tar->class_count;
    *found = tar->class_last < high && compare(text, size, tar->class[tar->class_last].name) == 0;
    if (*found) {
        return tar->class_last;
    }
    while (low < high && !*found) {
        size_t middle = low + (high - low) / 2;
        int order = compare(text, size, tar->class[middle].name);
        *found = order == 0;
        low = order > 0 ? middle + 1 : *found ? middle : low;
        high = order < 0 ? middle : high;
    }
    return low;
}

static int add_class(struct labelled_tar *tar, size_t at, const char *text, size_t size,
                     struct err *err)
{
    if (tar->class_count == LABELLED_CLASSES_MAX) {
        return err_set(err, ERR_LIMIT, "more than %d classes", LABELLED_CLASSES_MAX);
    }
    if (tar->class_count == tar->class_capacity) {
        size_t capacity = tar->class_capacity ? 2 * tar->class_capacity : CLASSES_FIRST_CAPACITY;
        struct class *grown = realloc(tar->class, capacity * sizeof(*grown));
        if (!grown) {
            return err_set(err, ERR_MEMORY, "no memory for %zu classes", capacity);
        }
        tar->class = grown;
        tar->class_capacity = capacity;
    }
    char *name = strndup(text, size);
    if (!name) {
        return err_set(err, ERR_MEMORY, "no memory for a class");
    }
    memmove(tar->class + at + 1, tar->class + at, (tar->class_count - at) * sizeof(*tar->class));
    tar->class[at] = (struct class){.name = name, .order = (uint32_t)tar->class_count++};
    return 0;
}

/* Classes are compared by the bytes of their names, because two names that are not UTF-8 may have
 * the same displayed form. */
static int add_label(struct labelled_tar *tar, const struct stream *stream, struct err *err)
{
    size_t size = 0;
    bool found = false;
    const char *path = stream->name;
    const char *text = class_of(stream->raw_name, tar->label, &size);
    if (tar->limits->unlabelled && tar->class_count == 0) {
        if (size == 0) {
            return labels_append(&tar->labels, 0, path, err);
        }
        if (tar->labels.count > 0) {
            return err_set(err, ERR_FORMAT, "%s: says its class, and the files before it do not",
                           path);
        }
    }
    if (size == 0) {
        return tar->label == DATASET_LABEL_PREFIX
                   ? err_set(err, ERR_FORMAT, "%s: its name has no class before a '_'", path)
                   : err_set(err, ERR_FORMAT, "%s: lies in no directory, which would be its class",
                             path);
    }
    size_t at = find_class(tar, text, size, &found);
    int rc = found ? 0 : add_class(tar, at, text, size, err);
    if (rc) {
        return err ? err_wrap(err, "%s", path) : rc;
    }
    tar->class_last = at;
    return labels_append(&tar->labels, tar->class[at].order, path, err);
}

/* ---- the two passes ---- */

int labelled_tar_refuse(const char *name, const uint8_t *bytes, size_t size, struct err *err)
{
    const char *other = tar_other(bytes, size);
    return other ? err_set(err, ERR_FORMAT, "%s: is %s; send a tar or tar.gz", name, other)
                 : err_set(err, ERR_FORMAT, "%s: is not a tar (or tar.gz) with one file per sample",
                           name);
}

static int refuse_other(struct stream *stream, const char *name, struct err *err)
{
    const uint8_t *bytes;
    size_t size = 0;
    int rc = stream_peek(stream, &bytes, &size, err);
    return rc ? rc : labelled_tar_refuse(name, bytes, size, err);
}

static int open_file(struct labelled_tar *tar, size_t file, struct err *err)
{
    const struct dataset_names *names = tar->limits->names;
    char name[STREAM_NAME_MAX];
    (void)snprintf(name, sizeof(name), "file %zu", file + 1);
    if (names && names->file) { /* without its directory, which would become the class */
        (void)snprintf(name, sizeof(name), "%s", base_name(names->file[file]));
    }
    tar->file = file;
    int rc = source_open(&tar->source, tar->files->fd[file], name, tar->limits, err);
    if (rc == 0 && !tar->source.is_tar && !tar->limits->unlabelled) {
        return refuse_other(tar->source.base, name, err);
    }
    if (rc == 0 && tar->source.is_tar && tar->files->count > 1) {
        return err_set(err, ERR_FORMAT, "%s: is an archive; one of several files is a sample",
                       name);
    }
    return rc;
}

int labelled_tar_next(struct source *source, struct stream **out, struct err *err)
{
    int rc;
    do {
        rc = source_next(source, out, err);
    } while (rc == 0 && *out && source->is_tar && base_name((*out)->name)[0] == '.');
    return rc;
}

/* The next sample of all files. */
static int next(struct labelled_tar *tar, struct stream **out, struct err *err)
{
    int rc = labelled_tar_next(&tar->source, out, err);
    if (rc == 0 && !*out && tar->file + 1 < tar->files->count) {
        rc = open_file(tar, tar->file + 1, err);
        rc = rc ? rc : labelled_tar_next(&tar->source, out, err);
    }
    return rc;
}

/* Replace the order of first occurrence in the labels by the position of the name after sorting. */
static int number_classes(struct labelled_tar *tar, struct err *err)
{
    if (tar->class_count == 0) {
        return 0;
    }
    int32_t *place = malloc(tar->class_count * sizeof(*place));
    if (!place) {
        return err_set(err, ERR_MEMORY, "no memory for %zu classes", tar->class_count);
    }
    for (size_t i = 0; i < tar->class_count; i++) {
        place[tar->class[i].order] = (int32_t)i;
    }
    for (size_t i = 0; i < tar->labels.count; i++) {
        tar->labels.value[i] = place[tar->labels.value[i]];
    }
    free(place);
    return 0;
}

static int keep_sample_name(struct labelled_tar *tar, const char *entry, struct err *err)
{
    struct dataset_names *names = tar->limits->names;
    if (!names || names->classes_only) {
        return 0;
    }
    const char *name = !tar->source.is_tar && names->file ? names->file[tar->file] : entry;
    return name_list_append(&names->sample, name, strlen(name), err);
}

static int keep_class_names(struct labelled_tar *tar, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < tar->class_count; i++) {
        rc = class_names_append(&tar->class_names, tar->class[i].name, strlen(tar->class[i].name),
                                err);
    }
    return rc == 0 && tar->limits->names
               ? class_names_copy(&tar->class_names, &tar->limits->names->class, err)
               : rc;
}

static int read_names(struct labelled_tar *tar, const struct labelled_samples *samples,
                      struct err *err)
{
    struct stream *stream = NULL;
    int rc = open_file(tar, 0, err);
    rc = rc ? rc : next(tar, &stream, err);
    while (rc == 0 && stream) {
        rc = add_label(tar, stream, err);
        rc = rc ? rc : keep_sample_name(tar, stream->name, err);
        rc = rc == 0 && samples->look ? samples->look(samples->arg, stream, err) : rc;
        rc = rc ? rc : next(tar, &stream, err);
    }
    if (rc == 0 && tar->labels.count == 0) {
        return err_set(err, ERR_FORMAT, "file 1: the archive has no files");
    }
    rc = rc ? rc : number_classes(tar, err);
    return rc ? rc : keep_class_names(tar, err);
}

static int send_samples(struct labelled_tar *tar, const struct labelled_samples *samples,
                        size_t sample_bytes, dataset_sink_fn sink, void *arg, struct err *err)
{
    int rc = open_file(tar, 0, err);
    for (size_t i = 0; i < tar->labels.count && rc == 0; i++) {
        struct stream *stream = NULL;
        rc = next(tar, &stream, err);
        if (rc == 0 && !stream) {
            return err_set(err, ERR_IO, "file 1: changed while it was read");
        }
        rc = rc ? rc : samples->read(samples->arg, stream, tar->sample, err);
        rc = rc ? rc : sink(arg, tar->sample, sample_bytes, err);
    }
    return rc;
}

int labelled_tar_convert(const struct files *files, enum dataset_label label,
                         const struct labelled_samples *samples,
                         const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                         struct dataset_info *out, struct err *err)
{
    struct labelled_tar *tar AUTO(labelled_tar_free) = calloc(1, sizeof(*tar));
    if (!tar) {
        return err_set(err, ERR_MEMORY, "no memory to read an archive");
    }
    tar->files = files;
    tar->limits = limits;
    tar->label = label;
    tar->source.by_size = true;
    int rc = read_names(tar, samples, err);
    if (rc) {
        return rc;
    }
    const size_t sample_bytes =
        (size_t)samples->h * samples->w * samples->c * dtype_size(samples->dtype);
    tar->sample = malloc(sample_bytes);
    if (!tar->sample) {
        return err_set(err, ERR_MEMORY, "no memory for a sample of %zu bytes", sample_bytes);
    }
    struct dataset_info info = {.count = tar->labels.count,
                                .h = samples->h,
                                .w = samples->w,
                                .c = samples->c,
                                .dtype = samples->dtype,
                                .classes = (uint32_t)tar->class_count,
                                .positions = 1};
    memcpy(info.reading, samples->reading, sizeof(info.reading));
    if ((rc = form_send_header(&info, &tar->class_names, limits, sink, arg, err)) ||
        (rc = send_samples(tar, samples, sample_bytes, sink, arg, err)) ||
        (rc = sink(arg, tar->labels.value, tar->labels.count * sizeof(int32_t), err))) {
        return rc;
    }
    labels_tally(tar->labels.value, &info, limits);
    *out = info;
    return 0;
}
