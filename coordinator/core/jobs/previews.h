/* previews.h: shows answers of the planner to users: dry runs and answers to their questions. */
#ifndef COORDINATOR_CORE_JOBS_PREVIEWS_H
#define COORDINATOR_CORE_JOBS_PREVIEWS_H

#include "coordinator/core/core.h"
#include "schema/what_if.h"

struct model;
struct planned;

/* Write the id and the name of a device of an answer. Hypothetical devices have a name and no id.
 */
void previews_name_device(const struct core *core, const struct plan_question *question,
                          const struct device_id *id, struct device_id *out, char name[NAME_SIZE]);
/* Fill all but steps, starts and waiting_for; preview->steps must be set. question: NULL for a dry
 * run. */
void previews_fill(const struct core *core, const struct plan_question *question,
                   const struct planned *planned, const struct model *model,
                   struct job_preview *preview);
void previews_add_forecast(const struct event_forecast *forecast, struct job_preview *preview);
/* Return the way to train, 1 to count - 1, with the least seconds above 0; the first one if they
 * are equal up to rounding. 0: no way has a plan.
 *
 *     seconds  [count] by way; 0: it has no plan */
int previews_fastest(const double *seconds, int count);

#endif
