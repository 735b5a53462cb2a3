/* A build without zstd. */
#include "base/assert.h"
#include "libtrain/quant/squeeze.h"

int squeeze_new(void *memory, struct squeeze **out, struct err *err)
{
    (void)memory;
    (void)out;
    return err_set(err, ERR_INVALID, "this build has no zstd (PACELINE_ZSTD)");
}

size_t squeeze_pack(struct squeeze *squeeze, const void *in, size_t size, void *out,
                    size_t capacity)
{
    (void)squeeze, (void)in, (void)size, (void)out, (void)capacity;
    ASSERT(false); /* squeeze_new always fails */
    return 0;
}

bool squeeze_unpack(struct squeeze *squeeze, const void *in, size_t in_size, void *out, size_t size)
{
    (void)squeeze, (void)in, (void)in_size, (void)out, (void)size;
    ASSERT(false); /* squeeze_new always fails */
    return false;
}
