/* job_view.h: the view of a job: its fields, and the rules between them and the training data.
 * Pure; any thread. */
#ifndef SCHEMA_JOB_VIEW_H
#define SCHEMA_JOB_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "libtrain/model/view.h"
#include "schema/job.h"

extern const struct record job_view_record; /* of a struct view */

/* The training data of a view. */
struct job_view_data {
    const char *name;
    int64_t classes;
    int64_t positions;    /* labels of a sample; 0 and 1: one */
    const int64_t *count; /* [counted] samples of each class */
    size_t counted;       /* 0: not known */
};

/* Check the view of a job against the data. Adds a fault at /view or one of its members for each
 * violated rule. Returns 0 and the numbers of samples, or ERR_INVALID with the first fault. */
NODISCARD int job_view_check(const struct job_spec *spec, const struct job_view_data *data,
                             struct view_sizes *out, struct record_faults *faults, struct err *err);

#endif
