/* reading.h: how to read a data set whose content does not determine it: as plain text, as sounds,
 * as images of one size. One table of parameters for PUT /v1/datasets/{name}?... and for `--as` of
 * `paceline-agent train` and `predict`. Pure; any thread. */
#ifndef LIBTRAIN_FORMATS_READING_H
#define LIBTRAIN_FORMATS_READING_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The class of a file in an archive with one file per sample. */
enum dataset_label {
    DATASET_LABEL_DIRECTORY, /* its directory: yes/0001.wav */
    DATASET_LABEL_PREFIX,    /* its name up to the first '_': 7_jackson_32.wav */
};

enum reading_kind {
    READING_RECOGNISED /* by content */,
    READING_TEXT,
    READING_SOUND,
    READING_IMAGES
};
#define READING_KINDS 4

/* reading_default, then reading_set for each parameter, then reading_check. */
struct reading {
    enum reading_kind kind;
    uint32_t given; /* bit i: parameter i of the table was set */
    int64_t text;   /* bytes of a sample */
    int64_t sound;  /* samples a second of the recordings */
    int64_t clip_ms, window_ms, hop_ms;
    int64_t mels;     /* bands */
    int64_t floor_db; /* lower bound of energies: 10^(-floor_db / 10) */
    int64_t label;    /* enum dataset_label */
    struct {
        int64_t h, w;
    } size;           /* of the resized samples; 0: all images have one size */
    int64_t channels; /* of an image sample: 1 or 3 */
};

#define READING_TEXT_MAX 128

/* No parameter: recognised by content. */
extern const struct reading reading_default;
/* Set one parameter. ERR_INVALID for an unknown name (the text suggests the nearest), a value out
 * of bounds, and a duplicate. */
NODISCARD int reading_set(struct reading *reading, const char *name, const char *value,
                          struct err *err);
/* Finish after all parameters: determine the kind. ERR_INVALID for two kinds at once, and for
 * parameters of another kind. */
NODISCARD int reading_check(struct reading *reading, struct err *err);
/* Parse all parameters from one text, "text=64" or "sound=8000,mels=40". */
NODISCARD int reading_parse(const char *text, struct reading *out, struct err *err);
/* Write the parameters that reproduce samples of this kind, for reading_parse, with all defaults:
 * "sound=8000,clip_ms=1000,..."; "" if the shape of a sample says it all. The same samples give the
 * same text. */
void reading_write(const struct reading *reading, char out[READING_TEXT_MAX]);
/* Parse a text of reading_write. ERR_INVALID for any other. */
NODISCARD int reading_parse_written(const char *text, struct reading *out, struct err *err);
/* Take the parameters of samples that `reading` was not given from `other`, of the same kind.
 * ERR_INVALID names one that was given and differs. */
NODISCARD int reading_follow(struct reading *reading, const struct reading *other, struct err *err);
/* Set the defaults for images: h x w x channels, as far as images can have them. Data of other
 * kinds is unaffected. */
void reading_fill_images(struct reading *reading, uint32_t h, uint32_t w, uint32_t channels);

#endif
