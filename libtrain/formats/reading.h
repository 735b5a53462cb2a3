/* reading.h: how a data set is read whose content does not say it: as plain text, as sounds, as
 * images of one size. Its parameters are those of PUT /v1/datasets/{name}?... and of `--as` of
 * `paceline-agent train` and `predict`, one table for all. Pure; any thread. */
#ifndef LIBTRAIN_FORMATS_READING_H
#define LIBTRAIN_FORMATS_READING_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Where the class of a file in an archive of one file per sample stands. */
enum dataset_label {
    DATASET_LABEL_DIRECTORY, /* the directory that it lies in: yes/0001.wav */
    DATASET_LABEL_PREFIX,    /* its name, up to the first '_': 7_jackson_32.wav */
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
    int64_t floor_db; /* energies below 10^(-floor_db / 10) count as that */
    int64_t label;    /* enum dataset_label */
    struct {
        int64_t h, w;
    } size;           /* of a sample that images are resized to; 0: they all have one size */
    int64_t channels; /* of a sample made of an image: 1 or 3 */
};

#define READING_TEXT_MAX 128

/* Nothing is said: recognised by content. */
extern const struct reading reading_default;
/* One parameter from outside. ERR_INVALID for an unknown name (the text tells the nearest known
 * one), a value out of bounds, and a parameter that was set already. */
NODISCARD int reading_set(struct reading *reading, const char *name, const char *value,
                          struct err *err);
/* All is set: decides the kind. ERR_INVALID for two kinds at once, and for parameters that do not
 * go with the kind. */
NODISCARD int reading_check(struct reading *reading, struct err *err);
/* The same from one text, "text=64" or "sound=8000,mels=40". */
NODISCARD int reading_parse(const char *text, struct reading *out, struct err *err);
/* What whoever makes samples of the same kind has to repeat, as reading_parse takes it, with every
 * default written out: "sound=8000,clip_ms=1000,..."; "" where the shape of a sample says all of
 * it. Same samples, same text. */
void reading_write(const struct reading *reading, char out[READING_TEXT_MAX]);
/* Read such a text. ERR_INVALID for one that reading_write would not write. */
NODISCARD int reading_parse_written(const char *text, struct reading *out, struct err *err);
/* Take from `other`, of the same kind, the parameters of samples that `reading` was not given.
 * ERR_INVALID names one that was given and differs. */
NODISCARD int reading_follow(struct reading *reading, const struct reading *other, struct err *err);
/* What images become where nothing is said of it: h x w x channels, as far as images can become
 * that. Data that are no images are read as before. */
void reading_fill_images(struct reading *reading, uint32_t h, uint32_t w, uint32_t channels);

#endif
