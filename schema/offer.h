/* offer.h: a data set that a device offers and that never leaves it: what its agent states of it.
 * Plain structs; wire form by the records below. */
#ifndef SCHEMA_OFFER_H
#define SCHEMA_OFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"

/* The first samples of a data set: what was offered before the others were appended. */
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
    char class_names_sha256[SHA256_SIZE];    /* as of struct dataset; "": they have none */
    char reading[READING_SIZE];              /* as of struct dataset */
    int64_t class_count[OFFER_CLASSES_MAX];  /* samples of each class */
    size_t class_count_count;                /* = classes; 0: not known */
    struct offer_part part[OFFER_PARTS_MAX]; /* with the same classes; the shortest first */
    size_t part_count;
    bool stale; /* its files have changed, and could not be read since */
};

#define OFFER_FORM_SIZE 256

/* Of GET /v1/datasets?local=true. */
struct local_dataset {
    struct device_id device;
    char device_name[NAME_SIZE];
    int device_state; /* enum device_state */
    struct offer offer;
};

extern const struct record offer_part_record;
extern const struct record offer_record;
extern const struct record local_dataset_record;

/* Return whether the samples of its classes, if they are known, add up to its samples. */
bool offer_adds_up(const struct offer *offer);
/* Return whether its parts become longer, and all are shorter than it. */
bool offer_grows(const struct offer *offer);
/* Return the part that has this hash; NULL: there is none. */
const struct offer_part *offer_part(const struct offer *offer, const char *sha256);
/* Return whether these are its data, or a part of them. */
bool offer_has(const struct offer *offer, const char *sha256);
/* Return the offer of that name, or NULL. */
const struct offer *offer_find(const struct offer *offer, size_t count, const char *name);
/* Write what data sets must have in common for one job to train on them: shape, type, labels of a
 * sample, class names and reading. Where classes have no names, their number is no part of it: a
 * device may lack the last ones. */
void offer_form(const struct offer *offer, char out[OFFER_FORM_SIZE]);

#endif
