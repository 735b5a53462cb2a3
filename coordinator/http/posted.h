/* posted.h: a posted job: its fields and the objects that they name. The loop's thread only. */
#ifndef COORDINATOR_HTTP_POSTED_H
#define COORDINATOR_HTTP_POSTED_H

#include "coordinator/content/catalog.h"
#include "coordinator/coordinator.h"
#include "libtrain/description/description.h"
#include "schema/job.h"

struct posted_job {
    struct job_spec spec; /* as read over job_spec_default */
    struct job_data data;
    struct model_fit fit;
    struct name_list class_names; /* of the training data, until the model is known */
    char reading[READING_SIZE];
    const struct catalog_entry *model;
    struct dataset local; /* the training data, if they stay on devices */
    /* Of a job of sub-models: */
    const struct dataset *train; /* borrowed until the loop's next turn */
    const struct dataset *joint; /* the same; NULL: the joint phase has no data of its own */
    int64_t class_samples[COUNTED_CLASSES_MAX], joint_samples[COUNTED_CLASSES_MAX];
    struct class_groups groups; /* count 0: planned */
    struct event_classes classes;
};

/* Look up the objects that the spec names, and check that its parts fit together. Frees its JSON.
 * ERR_INVALID: a fault was added for each problem. */
NODISCARD int posted_resolve(struct coordinator *coordinator, struct posted_job *posted,
                             struct record_faults *faults, struct err *err);

#endif
