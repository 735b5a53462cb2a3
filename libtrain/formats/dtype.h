/* dtype.h: element types of tensors in files and on the wire. Pure. */
#ifndef LIBTRAIN_FORMATS_DTYPE_H
#define LIBTRAIN_FORMATS_DTYPE_H

#include <stddef.h>

enum dtype { DTYPE_U8, DTYPE_I32, DTYPE_I64, DTYPE_F32, DTYPE_F64 };

/* Bytes of one element. */
size_t dtype_size(enum dtype dtype);
/* safetensors' names: "U8", "I32", "I64", "F32", "F64". */
const char *dtype_name(enum dtype dtype);

#endif
