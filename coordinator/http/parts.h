/* parts.h: lists the parts of a parent, for routes that answer for all of them. The loop's thread
 * only. */
#ifndef COORDINATOR_HTTP_PARTS_H
#define COORDINATOR_HTTP_PARTS_H

#include "coordinator/coordinator.h"
#include "schema/part_of.h"

struct part_row {
    struct job_id job;
    struct part_of of;
};

struct parts {
    struct part_row *row; /* [count] */
    size_t count, capacity;
};
/* Free a list that parts_list has filled, or {0}. */
void parts_done(struct parts *parts);

/* List the jobs that are or were parts of the job, in the order in which they began; the last entry
 * is the job itself, without a part. Call parts_done afterwards in any case. ERR_MEMORY, ERR_IO,
 * ERR_FORMAT. */
NODISCARD int parts_list(struct coordinator *coordinator, const char *id, struct parts *out,
                         struct err *err);

#endif
