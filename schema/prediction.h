/* prediction.h: the expected times of a model's units on a device (POST /v1/predictions). Wire form
 * by the records below. */
#ifndef SCHEMA_PREDICTION_H
#define SCHEMA_PREDICTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"

/* prediction_question_check has the rules between the fields. */
struct prediction_question {
    struct device_id device;
    char model[NAME_SIZE];   /* "": the job's model */
    char dataset[NAME_SIZE]; /* for the model's input; "": the usual one */
    struct job_id job;       /* "": a job with default fields */
    int64_t batch;           /* 0: as the job */
    int64_t micro_batches;   /* 0: as the job */
};
extern const struct record prediction_question_record;

struct prediction_unit {
    char name[NAME_SIZE];
    double forward_seconds, forward_sd_seconds; /* per micro-batch */
    double backward_seconds, backward_sd_seconds;
    double update_seconds; /* per step */
    bool measured;
};

struct prediction {
    struct device_id device;
    char model[NAME_SIZE];
    int64_t batch, micro_batches;
    struct prediction_unit unit[UNITS_MAX];
    size_t unit_count;
    double processor_share;  /* part of the time for which it has its processor; times are without
                                the stops */
    double overhead_seconds; /* of a stage per micro-batch, beyond its units */
    double overhead_seconds_per_byte; /* the same, of the stage's boundary tensors */
};
extern const struct record prediction_record;

#endif
