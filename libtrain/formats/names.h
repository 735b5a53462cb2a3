/* names.h: what the samples and the classes of a data set are called, where it is made of a file
 * for each sample (images, sounds) or is in the one form and says what its classes are called. One
 * thread. */
#ifndef LIBTRAIN_FORMATS_NAMES_H
#define LIBTRAIN_FORMATS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct name_list {
    char **item; /* [count], each one line of UTF-8: what is neither stands as '?' */
    size_t count, capacity;
};

/* Append the first `size` bytes of a text. */
NODISCARD int name_list_append(struct name_list *list, const char *text, size_t size,
                               struct err *err);

/* Free the list and leave it empty; safe on a zeroed one. */
void name_list_done(struct name_list *list);

struct dataset_names {
    const char *const *
        file; /* in: what the files given to dataset_convert are called, borrowed; NULL: "file 1" */
    bool classes_only;       /* in: nobody asks for those of the samples */
    struct name_list sample; /* out: of each sample its file; empty where samples are no files */
    struct name_list class;  /* out: of each label (class_names.h); empty where labels are no names
                              */
};

/* Free the lists; safe on a zeroed struct. */
void dataset_names_done(struct dataset_names *names);

#endif
