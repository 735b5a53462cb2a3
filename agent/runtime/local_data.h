/* local_data.h: a data set on this machine in any format of an upload, converted to the format of
 * data sets: into an unnamed file that is mapped, for the commands without a coordinator, or to the
 * caller. A directory is read as the tar of its files. */
#ifndef AGENT_RUNTIME_LOCAL_DATA_H
#define AGENT_RUNTIME_LOCAL_DATA_H

#include <stdbool.h>

#include "agent/runtime/data.h"
#include "base/buf.h"
#include "base/err.h"
#include "libtrain/formats/dataset.h"

#define LOCAL_DATA_FILES_MAX 63

struct local_form {
    const struct reading *reading; /* how to read content that is not recognised */
    bool unlabelled;               /* accept samples without labels; info->classes is then 0 */
    struct dataset_names *names;   /* out, if samples are files; NULL: not needed */
    struct dataset_counts *counts; /* as of struct dataset_limits, as the next two */
    int (*go_on)(void *arg, struct err *err);
    void *arg;
    const char *directory; /* of temporary files; NULL: TMPDIR, or /tmp */
    /* For directories: the files to put first (archive_put_first), if all of them exist. */
    const struct buf *first; /* NULL: none */
    struct buf *files;       /* out: the files as they were read, in this form; NULL: not needed */
};

/* Pass the data set of paths[count], as below, to `sink` (dataset_convert). */
NODISCARD int local_data_convert(const char *const *paths, size_t count,
                                 const struct local_form *form, dataset_sink_fn sink, void *arg,
                                 struct dataset_info *info, struct err *err);

/* Convert and map the data set of paths[count], 1 to LOCAL_DATA_FILES_MAX: the inputs of
 * dataset_convert. A single path may be "PATH,PATH" for images and labels. Leaves no file on the
 * disk. */
NODISCARD int local_data_open(const char *const *paths, size_t count, const struct local_form *form,
                              struct data **out, struct dataset_info *info, struct err *err);
/* Read the last `capacity` bytes of a plain text, or all if it has fewer (dataset_text_end). */
NODISCARD int local_data_text_end(const char *path, uint8_t *out, size_t capacity, size_t *size,
                                  struct err *err);

#endif
