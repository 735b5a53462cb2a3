/* failure.h: the failure of a generation that this step has noted. */
#ifndef COORDINATOR_CORE_FAILURE_H
#define COORDINATOR_CORE_FAILURE_H

#include "coordinator/core/state.h"

/* Note that the generation failed; the first cause counts. */
void failure_note(struct core *core, struct job_slot *job, struct blame blame, const char *format,
                  ...) PRINTF_LIKE(4, 5);
/* Add a device to the noted failure; NULL adds none. */
void failure_add(struct failure *failure, const struct device_slot *device);

#endif
