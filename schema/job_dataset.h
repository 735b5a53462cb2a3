/* job_dataset.h: the data sets of a job: uploaded ones by name, or one that devices offer and that
 * never leaves them (offer.h); and their facts when the job is submitted. Plain structs; wire form
 * by the record below. */
#ifndef SCHEMA_JOB_DATASET_H
#define SCHEMA_JOB_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"
#include "libtrain/model/holdout.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/offer.h"

/* Training data that stay on their devices. */
struct local_train {
    char name[NAME_SIZE];       /* of the offers; "": the job trains on an uploaded data set */
    char form[OFFER_FORM_SIZE]; /* offer_form of the accepted data sets */
    int64_t classes;            /* of the model; no data set has more */
    struct device_id device;    /* of a group: the device whose data it trains on */
    char sha256[SHA256_SIZE];   /* of a group: hash of these data */
};

#define TEST_HOLDOUT_MIN 0.01
#define TEST_HOLDOUT_MAX HOLDOUT_SHARE_MAX

/* Evaluation on held-out samples of each device instead of an uploaded data set
 * (libtrain/model/holdout.h). */
struct local_test {
    double holdout;  /* held-out share of the samples; 0: none */
    int64_t classes; /* of a group: hold out samples of each class; 0: regardless of class */
};

/* Facts about a job's data sets, checkpoint and kernels, fixed at its submission. */
struct job_data {
    char train_sha256[SHA256_SIZE];
    char test_sha256[SHA256_SIZE]; /* "" without one */
    int64_t train_samples, test_samples;
    int64_t epoch_samples;               /* of the view, or without held-out ones; 0: all */
    int64_t holdout_samples;             /* of the view; 0: none */
    char checkpoint_sha256[SHA256_SIZE]; /* "" without one */
    int64_t checkpoint_bytes;
    char joint_sha256[SHA256_SIZE]; /* of submodel.joint.dataset; "" without one */
    int64_t joint_samples;
    bool tune; /* job_tunes */
};

/* The members of `dataset` of struct job_spec. */
extern const struct record job_dataset_group;
extern const struct record job_data_record;

struct job_spec;
/* Return whether the job trains on data that stay on their devices. */
bool job_is_local(const struct job_spec *spec);
/* Return the name of the training data, uploaded or not. */
const char *job_train_name(const struct job_spec *spec);
/* Return whether the job is evaluated: on an uploaded test set, or on what devices hold out. */
bool job_has_test(const struct job_spec *spec);
/* Return how a group holds out samples of its own data. */
struct holdout job_holdout(const struct job_spec *spec);
/* Return how many samples of a device's data it holds out for the job; 0: none. */
int64_t job_held(const struct job_spec *spec, const struct offer *offer);
/* Check the rules between the data sets and the other fields. Adds faults. ERR_INVALID when there
 * is one; err names the first. */
NODISCARD int job_dataset_check(const struct job_spec *spec, struct record_faults *faults,
                                struct err *err);

#endif
