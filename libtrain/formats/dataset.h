/* dataset.h: converts data sets of known formats (IDX, NPY, CIFAR-10 binary, images, sounds, text,
 * safetensors; gzip and tar of these) to the project's one form, and opens that form for reading.
 * The one form is a safetensors file with two tensors:
 *
 *     "inputs"  U8 or F32 [count, H, W, C]
 *     "labels"  I32       [count]; [count, positions] if a sample has several labels
 *
 * and, if there is anything to state, one JSON document in its metadata under "paceline":
 *
 *     {"class_names": ["bird", "cat"], "reading": "sound=8000,clip_ms=1000,..."}
 *
 * For the coordinator (uploads) and `paceline-agent train` (local files). Any thread; reads files,
 * never the network. */
#ifndef LIBTRAIN_FORMATS_DATASET_H
#define LIBTRAIN_FORMATS_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/formats/dtype.h"
#include "libtrain/formats/names.h"
#include "libtrain/formats/reading.h"

#define DATASET_SAMPLES_MAX (1 << 24)         /* labels are held in memory */
#define DATASET_SAMPLE_ELEMENTS_MAX (1 << 26) /* of one sample */
#define DATASET_CLASSES_MAX 65536
#define DATASET_COUNTED_CLASSES_MAX 1024 /* with more, classes are not counted */
#define DATASET_POSITIONS_MAX 32767      /* labels of a sample */
#define DATASET_ENTRIES_MAX                                                                        \
    (1 << 20) /* files in an archive, for programs without a limit of their own */

struct dataset_info {
    uint64_t count;   /* samples */
    uint32_t h, w, c; /* shape of one sample */
    enum dtype dtype; /* of inputs: DTYPE_U8 or DTYPE_F32 */
    uint32_t
        classes; /* largest label + 1, or the number of names; text: 256; 0: labels not known */
    uint32_t positions;             /* labels of a sample */
    char reading[READING_TEXT_MAX]; /* how its samples were made (reading_write); "": stored as they
                                       are */
    uint64_t inputs_offset;         /* bytes from the start of the file */
    uint64_t inputs_bytes;
    uint64_t labels_offset;
    uint64_t labels_bytes;
    uint64_t total_bytes;
};

/* How many samples each class has. */
struct dataset_counts {
    uint32_t samples[DATASET_COUNTED_CLASSES_MAX];
    size_t classes; /* = the info's; 0: not counted, since it has more, or several labels a sample,
                       or none */
};

struct dataset_limits {
    uint64_t total_bytes; /* of the result; all compressed files together may expand to a few times
                             as much */
    size_t entries;       /* of an archive */
    bool unlabelled; /* samples without labels are accepted: labels become 0, and the info's classes
                        0 */
    /* Receives the names of samples and classes; on failure the first of them. NULL: none. */
    struct dataset_names *names;
    struct dataset_counts *counts; /* out, zeroed by the caller; NULL: classes are not counted */
    /* Called repeatedly while files are read, even before there is a result; an error ends the
     * conversion. NULL: none. */
    int (*go_on)(void *arg, struct err *err);
    void *go_on_arg;
};

typedef int (*dataset_sink_fn)(void *arg, const void *data, size_t size, struct err *err);

/* Convert the files fd[0..fd_count) and pass the result to `sink` piece by piece, in order. The
 * files are seekable and read from offset 0. One file may have any format; two files are images and
 * labels, in either order.
 *
 * If `reading` (checked) names no kind, the format is recognised by content, never by name: IDX of
 * 3 or 4 dimensions (images; H, W [, C]) and 1 dimension (labels); NPY images u1, f2, f4, f8 of
 * [N,H,W], [N,H,W,C], [N,F] and labels of any integer type of [N], in either byte order; CIFAR-10
 * binary records (1 label + 3072 bytes, planes); safetensors as above; tar (ustar,
 * pax, GNU; optionally gzip) of these, several CIFAR files in name order; tar of JPEG and PNG
 * images, as below. Floats become float32 and must be finite then. Archives: regular files only, no
 * links, no "..", limits->entries.
 *
 * Kinds that `reading` names, for one file:
 *
 *   - sound: a tar of WAV files, labelled by directory or name (labelled_tar.h), as log-mel
 *     spectrograms (log_mel.h) of frames x mels x 1, float32.
 *   - text: plain text, or a gzip of it. Sample i is the bytes [i T, i T + T) as T x 1 x 1,
 *     T = reading->text; the label of each byte is the next byte. An incomplete last sample is
 *     dropped. ERR_FORMAT for fewer than T + 1 bytes.
 *   - images: a tar of JPEG and PNG images, CLASS/FILE or DIRECTORIES/CLASS/FILE; also recognised.
 *     The sorted class names give the labels, samples keep the archive's order; bytes of size.h x
 *     size.w x channels (image.h). Without a size all images must have the same.
 *
 * The expansion of sounds and images, by gzip as well as to pixels, is bounded by the archive's
 * size.
 *
 * With limits->unlabelled, files in archives of sounds and of images may have no class, and each of
 * `fd` may itself be a sound or an image.
 *
 * Errors name the file or entry: "train-labels: 2999 labels for 3000 images". ERR_FORMAT,
 * ERR_INVALID, ERR_UNSUPPORTED, ERR_LIMIT, ERR_IO, or the error of sink or limits->go_on. */
NODISCARD int dataset_convert(const int *fd, size_t fd_count, const struct reading *reading,
                              const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                              struct dataset_info *out, struct err *err);

#define DATASET_HEAD_BYTES 512

/* Check whether a file with these first DATASET_HEAD_BYTES bytes can be a data set. ERR_FORMAT with
 * the text of dataset_convert. A gzip file can always be one. */
NODISCARD int dataset_check_head(const uint8_t *head, const struct reading *reading,
                                 struct err *err);

/* Read the last bytes of a plain text or of its gzip: all of it if it has at most `capacity` > 0
 * bytes. out[capacity]; *size: their number. Errors as dataset_convert. */
NODISCARD int dataset_text_end(int fd, const struct dataset_limits *limits, uint8_t *out,
                               size_t capacity, size_t *size, struct err *err);

/* Read the header of a file in the one form and check it against the file's size. `classes` is 0,
 * since the header does not have it. */
NODISCARD int dataset_read_info(int fd, struct dataset_info *out, struct err *err);

/* Pass the data set of the first `count` samples of a file in the one form to `sink`: what
 * dataset_convert makes of them alone, byte for byte, if they have the same names of classes.
 *
 *     bytes  the whole file, which dataset_read_info has read
 *
 * ERR_INVALID: it has fewer samples. ERR_FORMAT, ERR_MEMORY, or the error of sink. */
NODISCARD int dataset_send_prefix(const unsigned char *bytes, uint64_t count, dataset_sink_fn sink,
                                  void *arg, struct err *err);

#endif
