#include "libtrain/formats/source.h"

/* What compressed data may expand to: labels of 8 bytes become 4, archives add headers. */
static uint64_t expanded_limit(const struct dataset_limits *limits)
{
    uint64_t limit;
    return __builtin_mul_overflow(limits->total_bytes, 2, &limit) || limit > UINT64_MAX - (1u << 20)
               ? UINT64_MAX
               : limit + (1u << 20);
}

/* *out: `raw` itself, or `expanded` opened over it where it is compressed. */
static int expand(struct stream *raw, struct stream *expanded, const struct dataset_limits *limits, struct stream **out,
                  struct err *err)
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
    if ((rc = stream_open_gzip(expanded, raw, expanded_limit(limits), err))) {
        return rc;
    }
    *out = expanded;
    return 0;
}

int source_open(struct source *source, int fd, const char *name, const struct dataset_limits *limits, struct err *err)
{
    const uint8_t *bytes;
    size_t size = 0;
    int rc;
    source_close(source);
    *source = (struct source){.limits = limits};
    if ((rc = stream_open_file(&source->file, fd, name, err)) ||
        (rc = expand(&source->file, &source->expanded_file, limits, &source->base, err)) ||
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
    return expand(&source->entry, &source->expanded_entry, source->limits, out, err);
}

void source_close(struct source *source)
{
    stream_done(&source->expanded_file);
    stream_done(&source->expanded_entry);
}
