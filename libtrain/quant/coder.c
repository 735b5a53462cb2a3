#include "libtrain/quant/coder.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/backend/simd.h"
#include "libtrain/quant/group.h"
#include "libtrain/quant/squeeze.h"

/* The coder tries zstd on the first TRIAL_BYTES. It uses zstd if they shrink by 1 / TRIAL_GAIN. */
#define TRIAL_BYTES (64u << 10)
#define TRIAL_GAIN 20

struct coder {
    enum codec codec;
    size_t values_max;
    unsigned char *buffer;  /* the coded tensor */
    unsigned char *scratch; /* the codes without zstd; NULL if the codec does not use zstd */
    struct squeeze *squeeze;
    void *squeeze_memory;
};

/* The table entry of a group that is sent raw. */
static const struct group_range raw_range = {.lo = 0, .scale = -1};

static bool is_raw(const struct group_range *range)
{
    return memcmp(range, &raw_range, sizeof(raw_range)) == 0;
}

static size_t count_groups(size_t n)
{
    return (n + CODEC_GROUP - 1) / CODEC_GROUP;
}

static size_t group_values(size_t n, size_t group)
{
    const size_t left = n - group * CODEC_GROUP;
    return left < CODEC_GROUP ? left : CODEC_GROUP;
}

static size_t code_bytes(size_t values, unsigned bits)
{
    return (values * bits + 7) / 8;
}

static size_t table_bytes(const struct coder *coder, size_t n)
{
    return codec_info(coder->codec)->grouped ? count_groups(n) * CODEC_ENTRY_BYTES : 0;
}

int coder_new(enum codec codec, size_t values_max, struct coder **out, struct err *err)
{
    const struct codec_info *info = codec_info(codec);
    struct coder *coder = calloc(1, sizeof(*coder));
    if (!coder) {
        return err_set(err, ERR_MEMORY, "coder");
    }
    coder->codec = codec;
    coder->values_max = values_max;
    coder->buffer = malloc(codec_bytes_max(codec, values_max) + 1);
    int rc = coder->buffer ? 0 : err_set(err, ERR_MEMORY, "coder of %zu values", values_max);
    if (rc == 0 && info->zstd) {
        coder->scratch = malloc(codec_bytes(info->plain, values_max) + 1);
        coder->squeeze_memory = malloc(CODEC_ZSTD_BYTES);
        rc = coder->scratch && coder->squeeze_memory
                 ? squeeze_new(coder->squeeze_memory, &coder->squeeze, err)
                 : err_set(err, ERR_MEMORY, "coder of %zu values", values_max);
    }
    if (rc) {
        coder_free(&coder);
        return rc;
    }
    *out = coder;
    return 0;
}

void coder_free(struct coder **coder)
{
    if (*coder) {
        free((*coder)->buffer);
        free((*coder)->scratch);
        free((*coder)->squeeze_memory);
        free(*coder);
        *coder = NULL;
    }
}

enum codec coder_codec(const struct coder *coder)
{
    return coder->codec;
}

unsigned char *coder_buffer(struct coder *coder)
{
    return coder->buffer;
}

/* ---- bfloat16 ---- */

typedef uint32_t float_word __attribute__((may_alias));

SIMD_CLONES static void round_to_bfloat16(const float *x, size_t n, unsigned char *out)
{
    const float_word *word = (const float_word *)x;
    for (size_t i = 0; i < n; i++) {
        /* A NaN stays a NaN. Rounding it could carry into the sign. */
        const uint32_t nan = (word[i] & INT32_MAX) > 0x7f800000u;
        const uint32_t even = word[i] >> 16 & 1u;
        const uint32_t up = nan ? 0 : 0x7fffu + even;
        const uint16_t half = (uint16_t)((word[i] + up) >> 16 | nan << 6);
        memcpy(out + 2 * i, &half, sizeof(half));
    }
}

SIMD_CLONES static void extend_bfloat16(const unsigned char *in, size_t n, float *x)
{
    float_word *word = (float_word *)x;
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, in + 2 * i, sizeof(half));
        word[i] = (uint32_t)half << 16;
    }
}

/* ---- groups ---- */

/* A short group is padded with its first value. The codes of the padding are not sent. */
static void encode_short(const float *x, size_t count, const struct group_range *range,
                         unsigned bits, unsigned char *out)
{
    float whole[CODEC_GROUP];
    unsigned char code[CODEC_GROUP];
    const size_t bytes = code_bytes(count, bits);
    for (size_t i = 0; i < CODEC_GROUP; i++) {
        whole[i] = x[i < count ? i : 0];
    }
    group_encode(whole, range, bits, code);
    if (count * bits % 8 != 0) {
        code[bytes - 1] &= (unsigned char)((1u << count * bits % 8) - 1);
    }
    memcpy(out, code, bytes);
}

static void decode_short(const unsigned char *in, size_t count, const struct group_range *range,
                         unsigned bits, float *x)
{
    float whole[CODEC_GROUP];
    unsigned char code[CODEC_GROUP] = {0};
    memcpy(code, in, code_bytes(count, bits));
    group_decode(code, range, bits, whole);
    memcpy(x, whole, count * sizeof(*x));
}

/* Fill the table, then write the codes to `codes`. Return their size in bytes. */
static size_t encode_groups(unsigned bits, bool symmetric, const float *x, size_t n,
                            unsigned char *table, unsigned char *codes)
{
    size_t at = 0;
    for (size_t g = 0; g < count_groups(n); g++, x += CODEC_GROUP) {
        const size_t count = group_values(n, g);
        struct group_range range;
        if (!group_choose(x, count, bits, symmetric, &range)) {
            range = raw_range;
            memcpy(codes + at, x, count * sizeof(*x));
            at += count * sizeof(*x);
        } else {
            if (count == CODEC_GROUP) {
                group_encode(x, &range, bits, codes + at);
            } else {
                encode_short(x, count, &range, bits, codes + at);
            }
            at += code_bytes(count, bits);
        }
        memcpy(table + g * CODEC_ENTRY_BYTES, &range, CODEC_ENTRY_BYTES);
    }
    return at;
}

static void decode_groups(unsigned bits, const unsigned char *table, const unsigned char *codes,
                          float *x, size_t n)
{
    for (size_t g = 0; g < count_groups(n); g++, x += CODEC_GROUP) {
        const size_t count = group_values(n, g);
        struct group_range range;
        memcpy(&range, table + g * CODEC_ENTRY_BYTES, CODEC_ENTRY_BYTES);
        if (is_raw(&range)) {
            memcpy(x, codes, count * sizeof(*x));
            codes += count * sizeof(*x);
            continue;
        }
        if (count == CODEC_GROUP) {
            group_decode(codes, &range, bits, x);
        } else {
            decode_short(codes, count, &range, bits, x);
        }
        codes += code_bytes(count, bits);
    }
}

/* Check a table and count the bytes of its codes. */
static int read_table(unsigned bits, const unsigned char *table, size_t n, size_t *codes,
                      struct err *err)
{
    *codes = 0;
    for (size_t g = 0; g < count_groups(n); g++) {
        const size_t count = group_values(n, g);
        struct group_range range;
        memcpy(&range, table + g * CODEC_ENTRY_BYTES, CODEC_ENTRY_BYTES);
        if (is_raw(&range)) {
            *codes += count * sizeof(float);
        } else if (group_is_valid(&range, bits)) {
            *codes += code_bytes(count, bits);
        } else {
            return err_set(err, ERR_FORMAT, "group %zu has an impossible range", g);
        }
    }
    return 0;
}

/* ---- tensors ---- */

/* Write the `size` bytes of codes in the scratch to `out`, compressed if zstd makes them
 * smaller. */
static size_t squeeze_codes(struct coder *coder, size_t size, unsigned char *out)
{
    const size_t trial = size < TRIAL_BYTES ? size : TRIAL_BYTES;
    const size_t enough = trial - trial / TRIAL_GAIN;
    size_t packed = 0;
    if (trial > 0) {
        packed = squeeze_pack(coder->squeeze, coder->scratch, trial, out, enough);
    }
    if (packed > 0 && size > trial) {
        packed = squeeze_pack(coder->squeeze, coder->scratch, size, out, size - 1);
    }
    if (packed == 0) {
        memcpy(out, coder->scratch, size);
        packed = size;
    }
    return packed;
}

size_t coder_encode(struct coder *coder, enum coder_data data, const float *x, size_t n)
{
    const struct codec_info *info = codec_info(coder->codec);
    const size_t table = table_bytes(coder, n);
    unsigned char *codes = coder->buffer + table;
    size_t size;
    ASSERT(n <= coder->values_max);
    if (info->grouped) {
        size = encode_groups(info->bits, data == CODER_GRADIENT, x, n, coder->buffer, codes);
    } else {
        ASSERT(info->bits == 16);
        size = 2 * n;
        round_to_bfloat16(x, n, codes);
    }
    /* With raw groups the codes may not fit in the scratch. Then zstd is not tried. */
    if (info->zstd && table + size <= codec_bytes(info->plain, n)) {
        memcpy(coder->scratch, codes, size);
        size = squeeze_codes(coder, size, codes);
    }
    return table + size;
}

int coder_decode(struct coder *coder, size_t size, float *x, size_t n, struct err *err)
{
    const struct codec_info *info = codec_info(coder->codec);
    const size_t table = table_bytes(coder, n);
    const unsigned char *codes = coder->buffer + table;
    size_t wanted = 2 * n;
    ASSERT(n <= coder->values_max && size <= codec_bytes_max(coder->codec, coder->values_max));
    if (size < table) {
        return err_set(err, ERR_FORMAT, "%zu bytes are less than the table of %zu groups", size,
                       count_groups(n));
    }
    int rc = info->grouped ? read_table(info->bits, coder->buffer, n, &wanted, err) : 0;
    if (rc) {
        return rc;
    }
    if (info->zstd && size - table < wanted && table + wanted <= codec_bytes(info->plain, n)) {
        if (!squeeze_unpack(coder->squeeze, codes, size - table, coder->scratch, wanted)) {
            return err_set(err, ERR_FORMAT, "its codes are not one zstd frame of %zu bytes",
                           wanted);
        }
        codes = coder->scratch;
    } else if (size - table != wanted) {
        return err_set(err, ERR_FORMAT, "%zu bytes of codes; its table asks for %zu", size - table,
                       wanted);
    }
    if (info->grouped) {
        decode_groups(info->bits, coder->buffer, codes, x, n);
    } else {
        extend_bfloat16(codes, n, x);
    }
    return 0;
}
