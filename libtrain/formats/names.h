/* names.h: what the samples and the classes of a data set are called, where it is made of a file for each sample
 * (images, sounds). For who shows them to people; the one form of a data set has no names. One thread. */
#ifndef LIBTRAIN_FORMATS_NAMES_H
#define LIBTRAIN_FORMATS_NAMES_H

#include <stddef.h>

#include "base/err.h"

struct name_list {
    char **item; /* [count], each one line of UTF-8: what is neither stands as '?' */
    size_t count, capacity;
};

/* Append the first `size` bytes of a text. */
NODISCARD int name_list_append(struct name_list *list, const char *text, size_t size, struct err *err);

struct dataset_names {
    const char *const *file; /* in: what the files given to dataset_convert are called, borrowed; NULL: "file 1" */
    struct name_list sample; /* out: of each sample its file; empty where samples are no files */
    struct name_list class;  /* out: of each label; empty where labels are no names */
};

/* Free the lists; safe on a zeroed struct. */
void dataset_names_done(struct dataset_names *names);

#endif
