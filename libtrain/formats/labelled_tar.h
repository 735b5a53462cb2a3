/* labelled_tar.h: an archive of one file per sample (sounds, images), whose class is the directory
 * that a file lies in or the start of its name. The sorted names of the classes give the numbers of
 * the labels; samples keep the archive's order. The archive is read twice: for the names, then for
 * the contents. Private to libtrain/formats. One thread. */
#ifndef LIBTRAIN_FORMATS_LABELLED_TAR_H
#define LIBTRAIN_FORMATS_LABELLED_TAR_H

#include "libtrain/formats/dataset.h"
#include "libtrain/formats/part.h"
#include "libtrain/formats/source.h"

#define LABELLED_CLASSES_MAX 32768

/* What the files are made into. */
struct labelled_samples {
    uint32_t h, w, c;               /* of a sample; `look` may still change them */
    enum dtype dtype;               /* DTYPE_U8 or DTYPE_F32 */
    char reading[READING_TEXT_MAX]; /* how a sample is made of a file (reading_write) */
    /* Read a file to its end, or a part of it, before any is made into a sample. NULL: nobody
     * looks. */
    int (*look)(void *arg, struct stream *stream, struct err *err);
    /* Read a file to its end and write its h x w x c elements to `sample`; errors name the file,
     * stream->name. */
    int (*read)(void *arg, struct stream *stream, void *sample, struct err *err);
    void *arg;
};

/* The next file of an archive that is a sample, borrowed until the next call; NULL behind the last.
 * Files whose name starts with a dot are passed over. */
NODISCARD int labelled_tar_next(struct source *source, struct stream **out, struct err *err);

/* ERR_FORMAT: what a file that begins with these bytes is instead of such an archive. */
NODISCARD int labelled_tar_refuse(const char *name, const uint8_t *bytes, size_t size,
                                  struct err *err);

/* Give the data set of the archive to `sink`, in the one form. With limits->unlabelled, no file of
 * the archive needs to say a class (else all do), and files that are no archives are a sample each,
 * in their order. ERR_FORMAT where it is no archive, or a file says no class; ERR_LIMIT for more
 * than LABELLED_CLASSES_MAX classes; else as dataset_convert. */
NODISCARD int labelled_tar_convert(const struct files *files, enum dataset_label label,
                                   const struct labelled_samples *samples,
                                   const struct dataset_limits *limits, dataset_sink_fn sink,
                                   void *arg, struct dataset_info *out, struct err *err);

#endif
