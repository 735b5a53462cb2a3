/* A coded tensor from a peer: the first byte chooses the codec, the next two the number of values.
 * What is accepted decodes to finite values (bfloat16 and raw groups apart) and has exactly the
 * size that its table asks for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/quant/coder.h"

#define HEAD 3
#define VALUES_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* False: a group travels raw, so anything may be in the tensor. */
static bool is_quantised(const unsigned char *table, size_t n)
{
    for (size_t g = 0; g < (n + CODEC_GROUP - 1) / CODEC_GROUP; g++) {
        float scale;
        memcpy(&scale, table + g * CODEC_ENTRY_BYTES + sizeof(scale), sizeof(scale));
        if (scale < 0) {
            return false;
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static float x[VALUES_MAX];
    if (size < HEAD) {
        return 0;
    }
    const enum codec codec = (enum codec)(1 + data[0] % (CODECS - 1));
    const size_t n = (data[1] | (size_t)data[2] << 8) % (VALUES_MAX + 1);
    struct coder *coder = NULL;
    struct err err = {0};
    size -= HEAD;
    if (!codec_available(codec) || size > codec_bytes_max(codec, n)) {
        return 0;
    }
    ASSERT(coder_new(codec, n, &coder, &err) == 0);
    memcpy(coder_buffer(coder), data + HEAD, size);
    const int rc = coder_decode(coder, size, x, n, &err);
    ASSERT(rc == err.code && (rc == 0 || rc == ERR_FORMAT));
    if (rc == 0 && codec_info(codec)->grouped && is_quantised(coder_buffer(coder), n)) {
        ASSERT(codec_info(codec)->zstd ? size <= codec_bytes(codec, n)
                                       : size == codec_bytes(codec, n));
        for (size_t i = 0; i < n; i++) {
            ASSERT(isfinite(x[i]));
        }
    }
    coder_free(&coder);
    return 0;
}
