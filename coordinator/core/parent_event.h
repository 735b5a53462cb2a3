/* parent_event.h: the contents of events about jobs that consist of groups. Pointers are borrowed
 * for the step, except those of models: the core keeps them until the part has ended. Pure. */
#ifndef COORDINATOR_CORE_PARENT_EVENT_H
#define COORDINATOR_CORE_PARENT_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/model.h"
#include "schema/mix.h"
#include "schema/submodel.h"

/* Inputs of a job of sub-models that are not in its spec. */
struct event_classes {
    const int64_t *samples; /* [count] training samples of each class */
    size_t count;
    const struct class_groups
        *groups;          /* given by the user, width 0 where not given; NULL: planned */
    const int64_t *joint; /* [count] samples of submodel.joint.dataset; NULL: no such data set */
};

/* A description that was made for a parent's jobs. */
struct derived_model {
    const struct model *model;
    char sha256[SHA256_SIZE]; /* of the description */
};

struct event_derived {
    struct job_id job;
    int phase; /* enum parent_phase: for the jobs of this phase */
    bool failed;
    char message[MESSAGE_SIZE];
    const struct derived_model *model; /* [model_count]: of each group, or of the joint job */
    size_t model_count;
};

struct event_harvested {
    struct job_id job;
    bool failed;
    char message[MESSAGE_SIZE];
    char sha256[SHA256_SIZE];
    int64_t bytes;
};

/* The average of the groups of a job, as one of them sends it. */
struct stored_average {
    struct job_id job; /* of the group that has computed it */
    int64_t generation;
    struct mix_xid xid;
    double loss, accuracy; /* has_accuracy */
    bool has_accuracy;
};

struct event_average_stored {
    struct device_id device;
    struct stored_average average;
    char sha256[SHA256_SIZE];
    int64_t bytes;
    bool refused; /* the file is not a model of the job: nothing is stored */
};

#endif
