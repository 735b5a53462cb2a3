/* labelled_tar.h: an archive with one file per sample (sounds, images). The class of a file is its
 * directory or the start of its name. The sorted class names give the numbers of the labels;
 * samples keep the archive's order. The archive is read twice: for the names, then for the
 * contents. Private to libtrain/formats. One thread. */
#ifndef LIBTRAIN_FORMATS_LABELLED_TAR_H
#define LIBTRAIN_FORMATS_LABELLED_TAR_H

#include "libtrain/formats/dataset.h"
#include "libtrain/formats/part.h"
#include "libtrain/formats/source.h"

#define LABELLED_CLASSES_MAX 32768

/* How files become samples. */
struct labelled_samples {
    uint32_t h, w, c;               /* of a sample; `look` may still change them */
    enum dtype dtype;               /* DTYPE_U8 or DTYPE_F32 */
    char reading[READING_TEXT_MAX]; /* how a sample is made of a file (reading_write) */
    /* Inspect a file, reading all or part of it, before any becomes a sample. NULL: none. */
    int (*look)(void *arg, struct stream *stream, struct err *err);
    /* Read a file to its end and write its h x w x c elements to `sample`; errors name the file,
     * stream->name. */
    int (*read)(void *arg, struct stream *stream, void *sample, struct err *err);
    void *arg;
};

/* Return the next sample's file, borrowed until the next call; NULL after the last. Files whose
 * name starts with a dot are skipped. */
NODISCARD int labelled_tar_next(struct source *source, struct stream **out, struct err *err);

/* Return ERR_FORMAT for a file with these first bytes, which is not such an archive. */
NODISCARD int labelled_tar_refuse(const char *name, const uint8_t *bytes, size_t size,
                                  struct err *err);

/* Pass the data set of the archive to `sink`, in the one form. With limits->unlabelled either all
 * files of the archive have a class or none, and files that are not archives are one sample each,
 * in their order. ERR_FORMAT if it is not an archive, or a file has no class; ERR_LIMIT for more
 * than LABELLED_CLASSES_MAX classes; other errors as dataset_convert. */
NODISCARD int labelled_tar_convert(const struct files *files, enum dataset_label label,
                                   const struct labelled_samples *samples,
                                   const struct dataset_limits *limits, dataset_sink_fn sink,
                                   void *arg, struct dataset_info *out, struct err *err);

#endif
