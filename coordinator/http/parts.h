/* parts.h: the parts of a job that consists of them, for routes that answer for all of them. The
 * loop's thread only. */
#ifndef COORDINATOR_HTTP_PARTS_H
#define COORDINATOR_HTTP_PARTS_H

#include "coordinator/coordinator.h"
#include "schema/part_of.h"

/* Stem, joint phase, and each group with its retries (SUBMODEL_ATTEMPTS_MAX). */
#define PARTS_MAX (4 * GROUPS_MAX)

struct part_row {
    struct job_id job;
    struct part_of of;
};

struct parts {
    struct part_row row[PARTS_MAX];
    size_t count;
};

/* List the jobs that are or were parts of the job, in the order in which they began. A job without
 * parts: the job alone, as no part. */
NODISCARD int parts_list(struct coordinator *coordinator, const char *id, struct parts *out,
                         struct err *err);

#endif
