/* form.h: the project's one form of a data set, as a safetensors header, and what it says of the
 * data in its metadata. Private to libtrain/formats. */
#ifndef LIBTRAIN_FORMATS_FORM_H
#define LIBTRAIN_FORMATS_FORM_H

#include "libtrain/formats/class_names.h"
#include "libtrain/formats/dataset.h"
#include "libtrain/formats/safetensors.h"

#define FORM_TENSORS 2
#define FORM_NOTE_MAX (CLASS_NAMES_TEXT_MAX + 1024u)
#define FORM_HEADER_MAX (4096u + 2u * FORM_NOTE_MAX) /* quotation marks are escaped */

/* Give the header of a data set whose count, shape, dtype and reading are set to `sink`; sets the
 * offsets and sizes of *info. `classes` (may be empty) becomes part of it unless the list is too
 * long (class_names.h). ERR_LIMIT where the whole would have more than limits->total_bytes. */
NODISCARD int form_send_header(struct dataset_info *info, const struct name_list *classes,
                               const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                               struct err *err);

#endif
