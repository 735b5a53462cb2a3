/* names.h: the names of the samples and classes of a data set, if it has one file per sample
 * (images, sounds), or states its class names in the one form. One thread. */
#ifndef LIBTRAIN_FORMATS_NAMES_H
#define LIBTRAIN_FORMATS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct name_list {
    char **item; /* [count], each one line of UTF-8; other bytes are replaced by '?' */
    size_t count, capacity;
};

/* Append the first `size` bytes of a text. */
NODISCARD int name_list_append(struct name_list *list, const char *text, size_t size,
                               struct err *err);

/* Free the list and leave it empty; safe on a zeroed one. */
void name_list_done(struct name_list *list);

struct dataset_names {
    const char *const
        *file; /* in: the names of the files given to dataset_convert, borrowed; NULL: "file 1" */
    bool classes_only;       /* in: sample names are not wanted */
    struct name_list sample; /* out: the file of each sample; empty if samples are not files */
    struct name_list class;  /* out: the class of each label (class_names.h); empty if not named */
};

/* Free the lists; safe on a zeroed struct. */
void dataset_names_done(struct dataset_names *names);

#endif
