/* plan_file.h: a file with the plans of a job (the answer of GET /v1/jobs/{id}/plans), and the
 * versions of the job that each plan trained. For train.c. */
#ifndef AGENT_OFFLINE_PLAN_FILE_H
#define AGENT_OFFLINE_PLAN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/model/model.h"
#include "schema/job.h"
#include "schema/plan.h"

/* The versions (first, last] of the job that a plan trained. Versions that a later plan retrained
 * from an older one do not count. */
struct plan_span {
    const struct plan *plan;
    int64_t first, last;
};

struct plan_file {
    struct plan *plan; /* owned */
    struct plan_span *span;
    size_t count; /* of the spans, which follow each other from 0 to the job's last step; with
                   * `stop` the last version of the last plan */
};

/* Read the file. Call plan_file_done(out), also on failure. ERR_FORMAT and ERR_INVALID for a file
 * that is not such an answer, is not the whole list, or belongs to another job. Errors name the
 * path. */
NODISCARD int plan_file_read(const char *path, const struct job_spec *spec,
                             const struct model *model, int64_t total_steps, struct plan_file *out,
                             struct err *err);
void plan_file_done(struct plan_file *file);

#endif
