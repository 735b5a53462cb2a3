/* An archive of JPEG and PNG images in directories, one per class, or images without classes. The
 * first pass measures every image. It reports a wrong size, or an archive that expands without
 * bound, before any pixel is decoded. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libtrain/formats/labelled_tar.h"
#include "libtrain/formats/part.h"
#include "libtrain/images/image.h"

#define FILE_FIRST_CAPACITY (64u << 10)

struct images {
    const struct reading *reading;
    struct labelled_samples samples;
    struct image_reader *reader; /* NULL before the second pass */
    uint8_t *file;               /* the current image */
    size_t size, capacity;
    uint64_t expanded, expanded_max; /* pixel bytes of all images, 3 per pixel */
    char first[STREAM_NAME_MAX];     /* the first image; "" until it is read */
};

static void images_free(struct images **images)
{
    if (*images) {
        image_reader_free(&(*images)->reader);
        free((*images)->file);
        free(*images);
    }
}

static int grow(struct images *images, size_t capacity, struct err *err)
{
    uint8_t *grown = realloc(images->file, capacity);
    if (!grown) {
        return err_set(err, ERR_MEMORY, "no memory for an image of %zu bytes", capacity);
    }
    images->file = grown;
    images->capacity = capacity;
    return 0;
}

/* Read the whole file. One byte more than allowed may be read, to detect that it is too large. */
static int load(struct images *images, struct stream *stream, struct err *err)
{
    images->size = 0;
    for (;;) {
        size_t got = 0;
        int rc = 0;
        if (images->size == images->capacity) {
            rc = grow(images, images->capacity ? 2 * images->capacity : FILE_FIRST_CAPACITY, err);
        }
        rc = rc ? rc
                : stream_read(stream, images->file + images->size, images->capacity - images->size,
                              &got, err);
        images->size += got;
        if (rc || got == 0) {
            return rc ? rc : stream_finish(stream, err);
        }
        if (images->size > IMAGE_FILE_BYTES_MAX) {
            return err_set(err, ERR_LIMIT, "%s: has more than %u bytes", stream->name,
                           IMAGE_FILE_BYTES_MAX);
        }
    }
}

/* Return the length of the part of the path that precedes the class directory. */
static size_t trunk_of(const char *path)
{
    const char *end = strrchr(path, '/');
    while (end && end > path && end[-1] != '/') {
        end--;
    }
    return end ? (size_t)(end - path) : 0;
}

static const char *plain_path(const char *path)
{
    return strncmp(path, "./", 2) == 0 ? path + 2 : path;
}

/* All class directories must have one parent. Otherwise classes of the same name in two parents,
 * usually train and test, would be merged. */
static int check_place(const struct images *images, const char *name, struct err *err)
{
    const char *first = plain_path(images->first);
    const char *path = plain_path(name);
    const size_t size = trunk_of(first);
    if (trunk_of(path) == size && memcmp(first, path, size) == 0) {
        return 0;
    }
    return err_set(
        err, ERR_FORMAT,
        "%s: does not lie beside the directory of %s; a data set has one directory of classes",
        name, images->first);
}

static int check_same_size(const struct images *images, const char *name, struct image_size size,
                           struct err *err)
{
    if (images->reading->size.h > 0 ||
        (size.h == images->samples.h && size.w == images->samples.w)) {
        return 0;
    }
    return err_set(err, ERR_FORMAT,
                   "%s: has %" PRIu32 " x %" PRIu32 " pixels, %s %" PRIu32 " x %" PRIu32
                   "; set one size with size=HxW",
                   name, size.h, size.w, images->first, images->samples.h, images->samples.w);
}

static int look(void *arg, struct stream *stream, struct err *err)
{
    struct images *images = arg;
    struct image_size size = {0};
    int rc = load(images, stream, err);
    if (rc) {
        return rc;
    }
    if ((rc = image_measure(images->file, images->size, &size, err))) {
        return err ? err_wrap(err, "%s", stream->name) : rc;
    }
    images->expanded += (uint64_t)size.h * size.w * 3;
    if (images->expanded > images->expanded_max) {
        return err_set(err, ERR_LIMIT,
                       "%s: up to here the images have more than %" PRIu64
                       " bytes of pixels, %d times the file",
                       stream->name, images->expanded_max, SOURCE_EXPANSION_MAX);
    }
    if (images->first[0] == '\0') {
        memcpy(images->first, stream->name, sizeof(images->first));
        images->samples.h =
            images->reading->size.h > 0 ? (uint32_t)images->reading->size.h : size.h;
        images->samples.w =
            images->reading->size.w > 0 ? (uint32_t)images->reading->size.w : size.w;
    }
    rc = images->reading->label == DATASET_LABEL_DIRECTORY ? check_place(images, stream->name, err)
                                                           : 0;
    return rc ? rc : check_same_size(images, stream->name, size, err);
}

static int read_image(void *arg, struct stream *stream, void *sample, struct err *err)
{
    struct images *images = arg;
    const struct image_size size = {.h = images->samples.h, .w = images->samples.w};
    int rc = images->reader ? 0 : image_reader_new(size, images->samples.c, &images->reader, err);
    rc = rc ? rc : load(images, stream, err);
    if (rc == 0 && (rc = image_read(images->reader, images->file, images->size, sample, err))) {
        return err ? err_wrap(err, "%s", stream->name) : rc;
    }
    return rc;
}

int images_convert(const struct files *files, const struct reading *reading,
                   const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                   struct dataset_info *out, struct err *err)
{
    struct images *images AUTO(images_free) = calloc(1, sizeof(*images));
    if (!images) {
        return err_set(err, ERR_MEMORY, "no memory to read images");
    }
    images->reading = reading;
    images->expanded_max = SOURCE_EXPANSION_FREE_BYTES;
    for (size_t i = 0; i < files->count; i++) {
        struct stat status;
        if (fstat(files->fd[i], &status)) {
            return err_set(err, err_from_errno(errno), "file %zu: %s", i + 1, strerror(errno));
        }
        images->expanded_max += SOURCE_EXPANSION_MAX * (uint64_t)status.st_size;
    }
    images->samples = (struct labelled_samples){.c = (uint32_t)reading->channels,
                                                .dtype = DTYPE_U8,
                                                .look = look,
                                                .read = read_image,
                                                .arg = images};
    return labelled_tar_convert(files, (enum dataset_label)reading->label, &images->samples, limits,
                                sink, arg, out, err);
}

/* Whether the file is an image, or an archive whose first content is an image. */
static int recognise(struct source *source, int fd, const struct dataset_limits *limits, bool *out,
                     struct err *err)
{
    struct stream *stream = NULL;
    const uint8_t *bytes;
    size_t size = 0;
    int rc = source_open(source, fd, "file 1", limits, err);
    *out = false;
    if (rc || (!source->is_tar && !limits->unlabelled) ||
        (rc = labelled_tar_next(source, &stream, err)) || !stream ||
        (rc = stream_peek(stream, &bytes, &size, err))) {
        return rc;
    }
    *out = image_recognise(bytes, size);
    return 0;
}

static void source_free(struct source **source)
{
    if (*source) {
        source_close(*source);
        free(*source);
    }
}

int images_recognise(int fd, const struct dataset_limits *limits, bool *out, struct err *err)
{
    struct source *source AUTO(source_free) = calloc(1, sizeof(*source));
    if (!source) {
        return err_set(err, ERR_MEMORY, "no memory to read an archive");
    }
    return recognise(source, fd, limits, out, err);
}
