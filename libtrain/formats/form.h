/* form.h: the project's one form of a data set, as a safetensors header. Private to libtrain/formats. */
#ifndef LIBTRAIN_FORMATS_FORM_H
#define LIBTRAIN_FORMATS_FORM_H

#include "libtrain/formats/dataset.h"
#include "libtrain/formats/safetensors.h"

#define FORM_TENSORS 2
#define FORM_HEADER_MAX 4096

/* Give the header of a data set whose count, shape and dtype are set to `sink`; sets the offsets and sizes of *info.
 * ERR_LIMIT where the whole would have more than limits->total_bytes. */
NODISCARD int form_send_header(struct dataset_info *info, const struct dataset_limits *limits, dataset_sink_fn sink,
                               void *arg, struct err *err);

#endif
