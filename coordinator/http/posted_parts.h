/* posted_parts.h: resolves the fields of a posted job about its parts: classes and slices of
 * sub-models, the classes of data that groups divide. The loop's thread only. */
#ifndef COORDINATOR_HTTP_POSTED_PARTS_H
#define COORDINATOR_HTTP_POSTED_PARTS_H

#include "coordinator/http/posted.h"

/* Resolve the fields of the job's strategy, once its data and its model are known. ERR_INVALID: a
 * fault was added for each problem. */
NODISCARD int posted_parts_resolve(struct posted_job *posted, struct record_faults *faults,
                                   struct err *err);

#endif
