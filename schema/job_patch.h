/* job_patch.h: the fields of a job that may change after its submission: PATCH /v1/jobs/{id}. Pure;
 * any thread. */
#ifndef SCHEMA_JOB_PATCH_H
#define SCHEMA_JOB_PATCH_H

#include "base/record.h"
#include "schema/job.h"

/* Reads into a struct job_spec that holds the job's present values: absent fields keep them. */
extern const struct record job_patch_record;

/* Read a patch. Reports fields that are fixed at submission with a fault of their own. Returns as
 * record_read. */
NODISCARD int job_patch_read(json_t *patch, struct job_spec *spec, struct record_faults *faults,
                             struct err *err);

#endif
