/* form.h: the header of the project's one form of a data set, with its metadata. Private to
 * libtrain/formats. */
#ifndef LIBTRAIN_FORMATS_FORM_H
#define LIBTRAIN_FORMATS_FORM_H

#include "libtrain/formats/class_names.h"
#include "libtrain/formats/dataset.h"
#include "libtrain/formats/safetensors.h"

#define FORM_TENSORS 2
#define FORM_NOTE_MAX (CLASS_NAMES_TEXT_MAX + 1024u)
#define FORM_HEADER_MAX (4096u + 2u * FORM_NOTE_MAX) /* quotation marks are escaped */

/* Pass the header of a data set to `sink`. *info has count, shape, dtype and reading; its offsets
 * and sizes are set. `classes` (may be empty) becomes part of the header unless the list is too
 * long (class_names.h). ERR_LIMIT if the result would exceed limits->total_bytes. */
NODISCARD int form_send_header(struct dataset_info *info, const struct name_list *classes,
                               const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                               struct err *err);

#endif
