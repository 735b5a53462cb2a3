/* retention.h: deletes old jobs and thins their metrics by the options --keep-days, --keep-jobs and
 * --keep-points. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_RETENTION_H
#define COORDINATOR_CONTENT_RETENTION_H

#include <stddef.h>
#include <stdint.h>

#include "schema/limits.h"

struct coordinator;

/* A walk over the jobs, the newest first, a few rows at a time. All zero: it has not begun. */
struct retention {
    char after[ID_SIZE]; /* the last job of the walk so far */
    size_t ended;        /* jobs of the walk that have ended */
    int64_t thinned_ms;  /* wall time: metrics of jobs that ended before it are already thinned */
    int64_t started_ms;  /* wall time of the start of the walk */
};

/* Do a piece of the walk, outside of a transaction, with no commit held. Returns the milliseconds
 * until the next call is due. */
int64_t retention_step(struct coordinator *coordinator, struct retention *retention,
                       int64_t wall_ms);

#endif
