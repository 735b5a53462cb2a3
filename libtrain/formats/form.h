/* form.h: the project's one form of a data set, as a safetensors header. Private to libtrain/formats. */
#ifndef LIBTRAIN_FORMATS_FORM_H
#define LIBTRAIN_FORMATS_FORM_H

#include "libtrain/formats/dataset.h"
#include "libtrain/formats/safetensors.h"

#define FORM_TENSORS 2
#define FORM_HEADER_MAX 4096

/* Write the header of a data set whose count, shape and dtype are set; sets the offsets and sizes of *info. */
NODISCARD int form_write(struct dataset_info *info, char out[FORM_HEADER_MAX], size_t *out_size, struct err *err);

#endif
