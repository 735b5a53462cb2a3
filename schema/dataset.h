/* dataset.h: records of the center: data sets, checkpoints, units of versions, models. Plain
 * structs; wire form by the records below. */
#ifndef SCHEMA_DATASET_H
#define SCHEMA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/part_of.h"

struct dataset {
    char name[NAME_SIZE];
    int64_t revision;
    char sha256[SHA256_SIZE]; /* of the stored safetensors file */
    int64_t bytes;
    int64_t samples;
    int64_t height, width, channels;
    char dtype[8]; /* "U8", "F32" */
    int64_t classes;
    int64_t positions;                    /* labels of a sample; 0: one */
    char class_names_sha256[SHA256_SIZE]; /* of the list of class names in the store; "": unknown */
    int64_t class_count[COUNTED_CLASSES_MAX]; /* samples of each class */
    size_t class_count_count;                 /* = classes; 0: unknown */
    char reading[READING_SIZE]; /* how sounds became samples (libtrain/formats/reading.h); "":
                                   unknown */
    int64_t created_ms;
};

/* A trained model in the center, or weights that were uploaded. */
struct checkpoint {
    struct checkpoint_id id;
    struct job_id job; /* the job that trained it; "": uploaded */
    struct part_of of; /* of job */
    int64_t revision;
    int64_t version; /* 0: uploaded */
    char sha256[SHA256_SIZE];
    int64_t bytes;
    int64_t created_ms;
    bool damaged; /* its content has another hash; not in rows */
};

/* One unit's state of a version in the center. A job is `paused` or `succeeded` only when the
 * center has all units of the version. */
struct center_unit {
    struct job_id job;
    int64_t version;
    int64_t unit;
    int64_t generation;
    char sha256[SHA256_SIZE];
    int64_t bytes;
};

/* A stored model description (POST /v1/models), and the resolved one of a job (name = its sha256).
 */
struct model_row {
    char name[NAME_SIZE];
    char sha256[SHA256_SIZE];
    int64_t revision;
    int64_t created_ms; /* 0: a model of the zoo */
};

extern const struct record dataset_record;
extern const struct record checkpoint_record;
extern const struct record center_unit_record;
extern const struct record model_row_record;

#endif
