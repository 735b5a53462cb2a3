#include "libtrain/formats/dtype.h"

static const struct {
    size_t size;
    const char *name;
} dtypes[] = {
    [DTYPE_U8] = {1, "U8"},   [DTYPE_I32] = {4, "I32"}, [DTYPE_I64] = {8, "I64"},
    [DTYPE_F32] = {4, "F32"}, [DTYPE_F64] = {8, "F64"},
};

size_t dtype_size(enum dtype dtype)
{
    return dtypes[dtype].size;
}

const char *dtype_name(enum dtype dtype)
{
    return dtypes[dtype].name;
}
