/* previews.h: what users see of an answer of the planner: dry runs and their own questions. */
#ifndef COORDINATOR_CORE_PREVIEWS_H
#define COORDINATOR_CORE_PREVIEWS_H

#include "coordinator/core/core.h"
#include "schema/what_if.h"

struct model;
struct planned;

/* Fill all but steps, starts and waiting_for; preview->steps must be set. question: NULL for a dry
 * run. */
void previews_fill(const struct core *core, const struct plan_question *question,
                   const struct planned *planned, const struct model *model,
                   struct job_preview *preview);

#endif
