/* stage_loop.h: the compute thread: runs the tasks of the pipeline until it stops. */
#ifndef AGENT_PIPELINE_STAGE_LOOP_H
#define AGENT_PIPELINE_STAGE_LOOP_H

#include "agent/pipeline/stage.h"

/* Work until the pipeline stops: *version is the final state, and the stop mark is queued.
 * ERR_DIVERGED if a loss or gradient is not finite (nothing of that step was applied here);
 * ERR_INVALID for a label outside the model's classes; ERR_CANCELLED. Allocates nothing. */
NODISCARD int stage_loop(struct stage *stage, const struct work_listener *listener,
                         int64_t *version, struct err *err);

#endif
