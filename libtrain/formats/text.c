/* Plain text as a data set: contiguous samples of T bytes. The label of each byte is the next byte.
 * The text is read three times (to count its bytes, as inputs, as labels), so that it need not fit
 * in memory. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/formats/dataset.h"
#include "libtrain/formats/form.h"
#include "libtrain/formats/part.h"
#include "libtrain/formats/source.h"

#define BYTE_VALUES 256
#define LABELS_AT_ONCE 16384

struct text {
    int fd;
    const struct dataset_limits *limits;
    struct source source;
    dataset_sink_fn sink;
    void *sink_arg;
    uint8_t bytes[LABELS_AT_ONCE];
    int32_t labels[LABELS_AT_ONCE];
};

static void text_free(struct text **text)
{
    if (*text) {
        source_close(&(*text)->source);
        free(*text);
    }
}

static int text_new(int fd, const struct dataset_limits *limits, struct text **out, struct err *err)
{
    struct text *text = calloc(1, sizeof(*text));
    if (!text) {
        return err_set(err, ERR_MEMORY, "no memory to read a text");
    }
    text->fd = fd;
    text->limits = limits;
    *out = text;
    return 0;
}

/* Open the text at its first byte. */
static int reopen(struct text *text, struct stream **out, struct err *err)
{
    int rc = source_open(&text->source, text->fd, "file 1", text->limits, err);
    rc = rc ? rc : source_next(&text->source, out, err);
    if (rc == 0 && !*out) {
        return err_set(err, ERR_FORMAT, "file 1: the archive has no files");
    }
    return rc;
}

/* The last bytes read. */
struct end {
    uint8_t *bytes; /* [capacity] */
    size_t size, capacity;
};

static void append(struct end *end, const uint8_t *bytes, size_t size)
{
    if (size > end->capacity) {
        bytes += size - end->capacity;
        size = end->capacity;
    }
    const size_t room = end->capacity - size;
    const size_t kept = end->size < room ? end->size : room;
    memmove(end->bytes, end->bytes + end->size - kept, kept);
    memcpy(end->bytes + kept, bytes, size);
    end->size = kept + size;
}

/* Read the whole text, which must be one file. *out: its number of bytes. end: empty, or NULL. */
static int read_whole(struct text *text, struct end *end, uint64_t *out, struct err *err)
{
    struct stream *stream = NULL;
    struct stream *another = NULL;
    size_t got = 1;
    int rc = reopen(text, &stream, err);
    while (rc == 0 && got > 0) {
        rc = stream_read(stream, text->bytes, sizeof(text->bytes), &got, err);
        if (end) {
            append(end, text->bytes, got);
        }
    }
    if (rc || (rc = stream_finish(stream, err))) {
        return rc;
    }
    *out = stream->position;
    rc = source_next(&text->source, &another, err);
    if (rc == 0 && another) {
        return err_set(err, ERR_FORMAT, "%s: a second file; a text is one", another->name);
    }
    return rc;
}

/* Write `count` bytes after the first `skip` bytes, unchanged or each as an int32. */
static int send(struct text *text, uint64_t skip, uint64_t count, bool labels, struct err *err)
{
    struct stream *stream = NULL;
    int rc = reopen(text, &stream, err);
    rc = rc ? rc : stream_skip(stream, skip, "the text ends", err);
    while (rc == 0 && count > 0) {
        const size_t size = count < LABELS_AT_ONCE ? (size_t)count : LABELS_AT_ONCE;
        rc = stream_read_all(stream, text->bytes, size, "the text ends", err);
        for (size_t i = 0; labels && i < size; i++) {
            text->labels[i] = text->bytes[i];
        }
        if (rc == 0) {
            rc = labels
                     ? text->sink(text->sink_arg, text->labels, size * sizeof(text->labels[0]), err)
                     : text->sink(text->sink_arg, text->bytes, size, err);
        }
        count -= size;
    }
    return rc;
}

static int describe(uint64_t bytes, uint32_t positions, struct dataset_info *info, struct err *err)
{
    if (bytes <= positions) {
        return err_set(err, ERR_FORMAT,
                       "file 1: %" PRIu64 " bytes of text; a sample of %" PRIu32
                       " and the byte after it need %" PRIu32,
                       bytes, positions, positions + 1);
    }
    *info = (struct dataset_info){.count = (bytes - 1) / positions,
                                  .h = positions,
                                  .w = 1,
                                  .c = 1,
                                  .dtype = DTYPE_U8,
                                  .classes = BYTE_VALUES,
                                  .positions = positions};
    if (info->count > DATASET_SAMPLES_MAX) {
        return err_set(err, ERR_LIMIT,
                       "file 1: %" PRIu64 " samples of %" PRIu32 " bytes; at most %d", info->count,
                       positions, DATASET_SAMPLES_MAX);
    }
    return 0;
}

int text_convert(const struct files *files, const struct reading *reading,
                 const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                 struct dataset_info *out, struct err *err)
{
    const uint32_t positions = (uint32_t)reading->text;
    struct text *text AUTO(text_free) = NULL;
    uint64_t bytes = 0;
    static const struct name_list no_names;
    struct dataset_info info;
    int rc = text_new(files->fd[0], limits, &text, err);
    if (rc) {
        return rc;
    }
    text->sink = sink;
    text->sink_arg = arg;
    rc = read_whole(text, NULL, &bytes, err);
    rc = rc ? rc : describe(bytes, positions, &info, err);
    rc = rc ? rc : form_send_header(&info, &no_names, limits, sink, arg, err);
    rc = rc ? rc : send(text, 0, info.inputs_bytes, false, err);
    rc = rc ? rc : send(text, 1, info.inputs_bytes, true, err);
    if (rc == 0) {
        *out = info;
    }
    return rc;
}

int dataset_text_end(int fd, const struct dataset_limits *limits, uint8_t *out, size_t capacity,
                     size_t *size, struct err *err)
{
    struct text *text AUTO(text_free) = NULL;
    struct end end = {.bytes = out, .capacity = capacity};
    uint64_t bytes = 0;
    ASSERT(capacity > 0);
    int rc = text_new(fd, limits, &text, err);
    rc = rc ? rc : read_whole(text, &end, &bytes, err);
    if (rc == 0) {
        *size = end.size;
    }
    return rc;
}
