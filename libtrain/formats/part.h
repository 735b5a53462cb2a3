/* part.h: the contents of one file of a data set, found by reading it once to its end: images,
 * labels or both. Images stay in the file, labels are kept in memory. Private to libtrain/formats;
 * one function per format. One thread. */
#ifndef LIBTRAIN_FORMATS_PART_H
#define LIBTRAIN_FORMATS_PART_H

#include "libtrain/formats/dataset.h"
#include "libtrain/formats/element.h"
#include "libtrain/formats/stream.h"

#define CIFAR_PIXELS 1024
#define CIFAR_IMAGE_BYTES (3 * CIFAR_PIXELS)
#define CIFAR_RECORD_BYTES (1 + CIFAR_IMAGE_BYTES)

enum part_kind {
    PART_IMAGES,
    PART_LABELS,
    PART_CIFAR,
    PART_WHOLE /* images and labels of the project's one form */
};

struct part {
    enum part_kind kind;
    char name[STREAM_NAME_MAX];
    size_t file, content;   /* which file, and which content within it */
    uint64_t count;         /* images or labels */
    uint32_t h, w, c;       /* of an image */
    struct element element; /* of images: of one byte, or floats */
    uint32_t positions;     /* PART_WHOLE: labels of an image; other kinds have one: 0 */
    uint64_t skip;          /* bytes before the images; they are contiguous except in PART_CIFAR */
    size_t
        label_first; /* PART_LABELS, PART_CIFAR, PART_WHOLE: its labels are label.value[label_first,
                        + part_label_count()) */
};

/* Element types of the project's one form. */
extern const struct element element_u8, element_i32, element_f32;

struct labels {
    int32_t *value;
    size_t count, capacity;
    int32_t largest;
};

void labels_done(struct labels *labels);
/* Append a label. ERR_INVALID if it is not in [0, DATASET_CLASSES_MAX); the error starts with
 * `name`. */
NODISCARD int labels_append(struct labels *labels, int64_t label, const char *name,
                            struct err *err);
/* Count the samples of each class, where limits->counts asks for it. label[info->count]. */
void labels_tally(const int32_t *label, const struct dataset_info *info,
                  const struct dataset_limits *limits);

/* Set the shape from the `rank` dimensions after the count: (F), (H, W) or (H, W, C); bounded, none
 * is 0. */
NODISCARD int part_set_shape(struct part *part, const uint64_t *dim, size_t rank, struct err *err);
/* Count and shape are set and the images follow: note their place, and skip them. */
NODISCARD int part_pass_images(struct part *part, struct stream *stream, struct err *err);
/* The count is set and the labels follow: append them. */
NODISCARD int part_read_labels(struct part *part, struct stream *stream, struct element element,
                               struct labels *labels, struct err *err);
/* Elements of an image. */
uint64_t part_image_elements(const struct part *part);
/* The element type of the result: DTYPE_F32 for floats, else DTYPE_U8. */
enum dtype part_dtype(const struct part *part);
uint64_t part_label_count(const struct part *part);

/* Recognise a format by its first bytes. size: of the whole stream, or STREAM_SIZE_UNKNOWN. */
bool idx_recognise(const uint8_t *bytes, size_t available, uint64_t size);
bool npy_recognise(const uint8_t *bytes, size_t available);
bool cifar_recognise(const uint8_t *bytes, size_t available);
bool form_recognise(const uint8_t *bytes, size_t available);

/* The metadata of a whole data set, which can only be one part. */
struct form_note {
    struct name_list classes; /* name_list_done */
    char reading[READING_TEXT_MAX];
};

/* Read a stream of the format to its end. part->name is set. */
NODISCARD int idx_read(struct stream *stream, struct part *part, struct labels *labels,
                       struct err *err);
NODISCARD int npy_read(struct stream *stream, struct part *part, struct labels *labels,
                       struct err *err);
NODISCARD int cifar_read(struct stream *stream, struct part *part, struct labels *labels,
                         struct err *err);
NODISCARD int form_read(struct stream *stream, struct part *part, struct labels *labels,
                        struct form_note *note, struct err *err);

/* The files of a data set. */
struct files {
    const int *fd; /* [count], borrowed */
    size_t count;
};

/* Conversions that a reading has to name, because the content is not recognised: dataset_convert
 * for one kind of reading. Several files are possible only if each may be a sample:
 * limits->unlabelled, and no text. */
NODISCARD int text_convert(const struct files *files, const struct reading *reading,
                           const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                           struct dataset_info *out, struct err *err);
NODISCARD int sound_convert(const struct files *files, const struct reading *reading,
                            const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                            struct dataset_info *out, struct err *err);
NODISCARD int images_convert(const struct files *files, const struct reading *reading,
                             const struct dataset_limits *limits, dataset_sink_fn sink, void *arg,
                             struct dataset_info *out, struct err *err);
/* Whether a file is an archive of images, by its first content, or, with limits->unlabelled, an
 * image. */
NODISCARD int images_recognise(int fd, const struct dataset_limits *limits, bool *out,
                               struct err *err);

/* Interleave one record's planes, R then G then B, to out[32 x 32 x 3]. */
void cifar_interleave(const uint8_t planes[CIFAR_IMAGE_BYTES], uint8_t out[CIFAR_IMAGE_BYTES]);

#endif
