/* zstd's static interface has contexts in the caller's memory. Only those are sure not to
 * allocate. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "base/assert.h"
#include "libtrain/quant/codec.h"
#include "libtrain/quant/squeeze.h"

#define LEVEL 1
#define ALIGNMENT 64

struct squeeze {
    ZSTD_CCtx *compressor;
    ZSTD_DCtx *decompressor;
};

static size_t align(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int squeeze_new(void *memory, struct squeeze **out, struct err *err)
{
    const size_t head = align(sizeof(struct squeeze));
    const size_t compressor = align(ZSTD_estimateCCtxSize(LEVEL));
    const size_t decompressor = align(ZSTD_estimateDCtxSize());
    struct squeeze *squeeze = memory;
    unsigned char *at = (unsigned char *)memory + head;
    if (head + compressor + decompressor > CODEC_ZSTD_BYTES) {
        return err_set(err, ERR_LIMIT, "zstd %s needs %zu bytes; %u are planned",
                       ZSTD_versionString(), head + compressor + decompressor, CODEC_ZSTD_BYTES);
    }
    squeeze->compressor = ZSTD_initStaticCCtx(at, compressor);
    squeeze->decompressor = ZSTD_initStaticDCtx(at + compressor, decompressor);
    ASSERT(squeeze->compressor && squeeze->decompressor); /* zstd itself estimated the sizes */
    *out = squeeze;
    return 0;
}

size_t squeeze_pack(struct squeeze *squeeze, const void *in, size_t size, void *out,
                    size_t capacity)
{
    const size_t packed = ZSTD_compressCCtx(squeeze->compressor, out, capacity, in, size, LEVEL);
    return ZSTD_isError(packed) ? 0 : packed;
}

bool squeeze_unpack(struct squeeze *squeeze, const void *in, size_t in_size, void *out, size_t size)
{
    /* One frame, not several: its header states the size. */
    return ZSTD_findFrameCompressedSize(in, in_size) == in_size &&
           ZSTD_getFrameContentSize(in, in_size) == size &&
           ZSTD_decompressDCtx(squeeze->decompressor, out, size, in, in_size) == size;
}
