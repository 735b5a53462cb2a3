/* posted_parts.h: what a posted job that consists of parts says of them: classes and slices of
 * sub-models, the classes of data that groups divide. The loop's thread only. */
#ifndef COORDINATOR_HTTP_POSTED_PARTS_H
#define COORDINATOR_HTTP_POSTED_PARTS_H

#include "coordinator/http/posted.h"

/* Resolve the fields of the job's strategy, when its data and its model are known. ERR_INVALID: a
 * fault was added for each problem. */
NODISCARD int posted_parts_resolve(struct posted_job *posted, struct record_faults *faults,
                                   struct err *err);

#endif
