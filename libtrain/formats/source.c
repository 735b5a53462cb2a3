#include "libtrain/formats/source.h"

/* Readings that raise the expansion limit, counted over all files. Two files are read twice, a text
 * three times. Parts out of order share the remaining readings. */
#define READINGS_MAX 4
#define ARCHIVE_BYTES (UINT64_C(1) << 20) /* headers and other bytes around the data */

/* a * b + c, at most UINT64_MAX. */
static uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t sum;
    return __builtin_mul_overflow(a, b, &sum) || __builtin_add_overflow(sum, c, &sum) ? UINT64_MAX
                                                                                      : sum;
}

/* Raise the expansion limit for one more reading. The limit leaves room for labels of 8 bytes that
 * become 4 bytes, and for the headers of archives. */
static void allow_expansion(struct source *source, const struct dataset_limits *limits)
{
    struct stream_watch *watch = &source->watch;
    if (source->readings < READINGS_MAX) {
        source->readings++;
        watch->expanded_max =
            multiply_add(source->readings, multiply_add(limits->total_bytes, 2, ARCHIVE_BYTES), 0);
    }
    if (source->by_size) {
        uint64_t by_size =
            multiply_add(source->file.size, SOURCE_EXPANSION_MAX, SOURCE_EXPANSION_FREE_BYTES);
        watch->expanded_max = watch->expanded_max < by_size ? watch->expanded_max : by_size;
    }
    watch->go_on = limits->go_on;
    watch->go_on_arg = limits->go_on_arg;
}

/* *out: `expanded`, opened over `raw`, if `raw` is compressed; otherwise `raw`. */
static int expand(struct stream *raw, struct stream *expanded, struct stream_watch *watch,
                  struct stream **out, struct err *err)
{
    const uint8_t *bytes;
    size_t size = 0;
    int rc = stream_peek(raw, &bytes, &size, err);
    if (rc) {
        return rc;
    }
    if (!stream_is_gzip(bytes, size)) {
        *out = raw;
        return 0;
    }
    if ((rc = stream_open_gzip(expanded, raw, watch, err))) {
        return rc;
    }
    *out = expanded;
    return 0;
}

int source_open(struct source *source, int fd, const char *name,
                const struct dataset_limits *limits, struct err *err)
{
    const uint8_t *bytes;
    size_t size = 0;
    source_close(source);
    source->next = 0;
    int rc = stream_open_file(&source->file, fd, name, err);
    if (rc) {
        return rc;
    }
    allow_expansion(source, limits);
    source->file.watch = &source->watch;
    if ((rc = expand(&source->file, &source->expanded_file, &source->watch, &source->base, err)) ||
        (rc = stream_peek(source->base, &bytes, &size, err))) {
        return rc;
    }
    source->is_tar = tar_recognise(bytes, size);
    tar_open(&source->tar, source->base, limits->entries);
    return 0;
}

int source_next(struct source *source, struct stream **out, struct err *err)
{
    *out = NULL;
    if (!source->is_tar) {
        *out = source->next == 0 ? source->base : NULL;
        source->next++;
        return 0;
    }
    bool found = false;
    stream_done(&source->expanded_entry);
    int rc = tar_next(&source->tar, &source->entry, &found, err);
    if (rc || !found) {
        return rc;
    }
    source->next++;
    return expand(&source->entry, &source->expanded_entry, &source->watch, out, err);
}

void source_close(struct source *source)
{
    stream_done(&source->expanded_file);
    stream_done(&source->expanded_entry);
}
