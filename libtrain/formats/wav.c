#include "libtrain/formats/wav.h"

#include <inttypes.h>
#include <string.h>

#include "libtrain/formats/element.h"

#define RIFF_BYTES 12
#define CHUNK_BYTES 8
#define FORMAT_BYTES_MIN 16
#define FORMAT_BYTES_MAX 40 /* size of the extensible form; further bytes are skipped */
#define FORMAT_EXTENSIBLE 0xfffe
#define SUBFORMAT_AT 24
#define BUFFER_BYTES 16384
#define FLOAT_MAX                                                                                  \
    256.0 /* some programs write floats slightly beyond 1; larger ones are integers or damaged */

struct wav {
    struct stream *stream;
    uint64_t left; /* unread bytes of the RIFF form */
    struct element element;
    size_t channels;
    bool has_format, has_data;
};

static uint32_t little_endian(const uint8_t *bytes, size_t size)
{
    return (uint32_t)element_integer(
        (struct element){.kind = ELEMENT_UNSIGNED, .size = (uint8_t)size}, bytes);
}

/* The stored form of a number; false for unsupported formats. */
static bool find_element(uint32_t format, uint32_t bits, struct element *out)
{
    static const struct {
        uint32_t format, bits;
        enum element_kind kind;
    } known[] = {{1, 8, ELEMENT_UNSIGNED}, {1, 16, ELEMENT_SIGNED}, {1, 24, ELEMENT_SIGNED},
                 {1, 32, ELEMENT_SIGNED},  {3, 32, ELEMENT_FLOAT},  {3, 64, ELEMENT_FLOAT}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].format == format && known[i].bits == bits) {
            *out = (struct element){.kind = known[i].kind, .size = (uint8_t)(bits / 8)};
            return true;
        }
    }
    return false;
}

static int read_riff(struct wav *wav, struct err *err)
{
    uint8_t bytes[RIFF_BYTES];
    struct stream *stream = wav->stream;
    int rc = stream_read_all(stream, bytes, sizeof(bytes), "the WAV header ends", err);
    if (rc) {
        return rc;
    }
    if (memcmp(bytes, "RIFF", 4) != 0 || memcmp(bytes + 8, "WAVE", 4) != 0) {
        return err_set(err, ERR_FORMAT, "%s: is not a WAV file", stream->name);
    }
    const uint64_t size = (uint64_t)little_endian(bytes + 4, 4) + CHUNK_BYTES;
    if (size < RIFF_BYTES) {
        return err_set(err, ERR_FORMAT, "%s: its RIFF header says %" PRIu64 " bytes", stream->name,
                       size);
    }
    if (stream->size != STREAM_SIZE_UNKNOWN && size > stream->size) {
        return err_set(err, ERR_FORMAT, "%s: has %" PRIu64 " bytes, its RIFF header says %" PRIu64,
                       stream->name, stream->size, size);
    }
    wav->left = size - RIFF_BYTES;
    return 0;
}

static int read_format(struct wav *wav, uint32_t size, uint32_t rate, struct err *err)
{
    uint8_t bytes[FORMAT_BYTES_MAX] = {0};
    const char *name = wav->stream->name;
    if (wav->has_format || size < FORMAT_BYTES_MIN) {
        return err_set(err, ERR_FORMAT, "%s: %s", name,
                       wav->has_format ? "a second 'fmt ' chunk"
                                       : "a 'fmt ' chunk of less than 16 bytes");
    }
    const uint32_t kept = size < sizeof(bytes) ? size : (uint32_t)sizeof(bytes);
    int rc = stream_read_all(wav->stream, bytes, kept, "the 'fmt ' chunk ends", err);
    rc = rc ? rc : stream_skip(wav->stream, size - kept, "the 'fmt ' chunk ends", err);
    if (rc) {
        return rc;
    }
    uint32_t format = little_endian(bytes, 2);
    if (format == FORMAT_EXTENSIBLE) {
        format = little_endian(bytes + SUBFORMAT_AT, 2);
    }
    wav->channels = little_endian(bytes + 2, 2);
    const uint32_t has_rate = little_endian(bytes + 4, 4);
    const uint32_t bits = little_endian(bytes + 14, 2);
    if (!find_element(format, bits, &wav->element)) {
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: WAV format 0x%04" PRIx32 " of %" PRIu32
                       " bits; PCM of 8, 16, 24 and 32 bits and floats of 32 and 64 are read",
                       name, format, bits);
    }
    if (wav->channels < 1 || wav->channels > WAV_CHANNELS_MAX) {
        return err_set(err, ERR_UNSUPPORTED, "%s: %zu channels; from 1 to %d are read", name,
                       wav->channels, WAV_CHANNELS_MAX);
    }
    if (little_endian(bytes + 12, 2) != wav->channels * wav->element.size) {
        return err_set(err, ERR_FORMAT,
                       "%s: %zu channels of %" PRIu32 " bits, but %" PRIu32 " bytes a sample", name,
                       wav->channels, bits, little_endian(bytes + 12, 2));
    }
    if (has_rate != rate) {
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: %" PRIu32 " samples a second, the data set has %" PRIu32
                       "; convert it first",
                       name, has_rate, rate);
    }
    wav->has_format = true;
    return 0;
}

/* Return the mean of one sample over its channels, in -1 to 1. */
static double sample_at(const struct wav *wav, const uint8_t *bytes)
{
    const struct element element = wav->element;
    double sum = 0.0;
    for (size_t c = 0; c < wav->channels; c++) {
        double value = element_number(element, bytes + c * element.size);
        if (element.kind == ELEMENT_UNSIGNED) {
            value = (value - 128.0) / 128.0;
        } else if (element.kind == ELEMENT_SIGNED) {
            value /= (double)(UINT64_C(1) << (8u * element.size - 1));
        }
        sum += value;
    }
    return sum / (double)wav->channels;
}

static int read_data(struct wav *wav, uint32_t size, double *wave, size_t count, struct err *err)
{
    uint8_t buffer[BUFFER_BYTES];
    const char *name = wav->stream->name;
    if (!wav->has_format || wav->has_data) {
        return err_set(err, ERR_FORMAT, "%s: a 'data' chunk %s", name,
                       wav->has_data ? "after another" : "without a 'fmt ' chunk before it");
    }
    const size_t block = wav->channels * wav->element.size;
    if (size == 0 || size % block != 0) {
        return err_set(err, size == 0 ? ERR_INVALID : ERR_FORMAT,
                       "%s: its 'data' chunk has %" PRIu32 " bytes, which is %s %zu", name, size,
                       size == 0 ? "no sample of" : "no multiple of", block);
    }
    const size_t kept = size / block < count ? size / block : count;
    size_t at = 0;
    while (at < kept) {
        const size_t wanted =
            kept - at < sizeof(buffer) / block ? kept - at : sizeof(buffer) / block;
        int rc = stream_read_all(wav->stream, buffer, wanted * block, "the samples end", err);
        for (size_t i = 0; i < wanted && rc == 0; i++, at++) {
            wave[at] = sample_at(wav, buffer + i * block);
            if (!(wave[at] >= -FLOAT_MAX && wave[at] <= FLOAT_MAX)) {
                return err_set(err, ERR_INVALID, "%s: sample %zu is %g; floats are from -1 to 1",
                               name, at, wave[at]);
            }
        }
        if (rc) {
            return rc;
        }
    }
    for (; at < count; at++) {
        wave[at] = 0.0;
    }
    wav->has_data = true;
    return stream_skip(wav->stream, size - kept * block, "the samples end", err);
}

/* Read one chunk with its header. A padding byte follows a chunk of odd size, but some programs
 * omit it at the end. */
static int read_chunk(struct wav *wav, uint32_t rate, double *wave, size_t count, struct err *err)
{
    uint8_t header[CHUNK_BYTES];
    if (wav->left < CHUNK_BYTES) {
        return err_set(err, ERR_FORMAT, "%s: %" PRIu64 " bytes after the last chunk",
                       wav->stream->name, wav->left);
    }
    int rc = stream_read_all(wav->stream, header, sizeof(header), "a chunk ends", err);
    if (rc) {
        return rc;
    }
    const uint32_t size = little_endian(header + 4, 4);
    wav->left -= CHUNK_BYTES;
    if (size > wav->left) {
        return err_set(err, ERR_FORMAT,
                       "%s: a chunk of %" PRIu32 " bytes, where the RIFF header leaves %" PRIu64,
                       wav->stream->name, size, wav->left);
    }
    if (memcmp(header, "fmt ", 4) == 0) {
        rc = read_format(wav, size, rate, err);
    } else if (memcmp(header, "data", 4) == 0) {
        rc = read_data(wav, size, wave, count, err);
    } else {
        rc = stream_skip(wav->stream, size, "a chunk ends", err);
    }
    const uint32_t fill = wav->left > size ? size % 2 : 0;
    wav->left -= (uint64_t)size + fill;
    return rc ? rc : stream_skip(wav->stream, fill, "a chunk ends", err);
}

int wav_read(struct stream *stream, uint32_t rate, double *wave, size_t count, struct err *err)
{
    struct wav wav = {.stream = stream};
    int rc = read_riff(&wav, err);
    while (rc == 0 && wav.left > 0) {
        rc = read_chunk(&wav, rate, wave, count, err);
    }
    if (rc == 0 && !wav.has_data) {
        return err_set(err, ERR_FORMAT, "%s: has no 'data' chunk", stream->name);
    }
    return rc ? rc : stream_finish(stream, err);
}
