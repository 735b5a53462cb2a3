/* offer.h: an agent's description of a data set that its device offers and that never leaves the
 * device. Plain structs; wire form by the records below. */
#ifndef SCHEMA_OFFER_H
#define SCHEMA_OFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"

/* The first samples of a data set: an earlier offer, before others were appended. */
struct offer_part {
    char sha256[SHA256_SIZE]; /* of these samples as a data set of their own */
    int64_t samples;
};

struct offer {
    char name[NAME_SIZE];
    char sha256[SHA256_SIZE]; /* of the converted file on the device */
    int64_t samples;
    int64_t height, width, channels;
    char dtype[8]; /* "U8", "F32" */
    int64_t classes;
    int64_t positions;                       /* labels of a sample; 0: one */
    char class_names_sha256[SHA256_SIZE];    /* as of struct dataset; "": no class names */
    char reading[READING_SIZE];              /* as of struct dataset */
    int64_t class_count[OFFER_CLASSES_MAX];  /* samples of each class */
    size_t class_count_count;                /* = classes; 0: unknown */
    struct offer_part part[OFFER_PARTS_MAX]; /* with the same classes; the shortest first */
    size_t part_count;
    bool stale; /* its files have changed and cannot be read */
};

#define OFFER_FORM_SIZE 256

/* An item of GET /v1/datasets?local=true. */
struct local_dataset {
    struct device_id device;
    char device_name[NAME_SIZE];
    int device_state; /* enum device_state */
    struct offer offer;
};

extern const struct record offer_part_record;
extern const struct record offer_record;
extern const struct record local_dataset_record;

/* Return whether the class counts of the offer, if known, add up to its samples. */
bool offer_adds_up(const struct offer *offer);
/* Return whether the parts of the offer rise in length, and all are shorter than the offer. */
bool offer_grows(const struct offer *offer);
/* Return the part with this hash; NULL: none. */
const struct offer_part *offer_part(const struct offer *offer, const char *sha256);
/* Return whether the hash is that of the offer's data, or of a part of them. */
bool offer_has(const struct offer *offer, const char *sha256);
/* Return the offer of that name, or NULL. */
const struct offer *offer_find(const struct offer *offer, size_t count, const char *name);
/* Write the properties that data sets must share for one job to train on them: shape, type, labels
 * of a sample, class names and reading. The number of unnamed classes is not a part of them,
 * because a device may lack the last classes. */
void offer_form(const struct offer *offer, char out[OFFER_FORM_SIZE]);

#endif
