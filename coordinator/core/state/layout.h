/* layout.h: converts the stages of a plan to the form that the rows of strategies read, and to a
 * request for the same stages. Such a request serves to return to these stages, to keep them, or to
 * compare another plan with them. */
#ifndef COORDINATOR_CORE_STATE_LAYOUT_H
#define COORDINATOR_CORE_STATE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/core/placement/strategy.h"
#include "schema/job_change.h"
#include "schema/plan.h"

struct job_slot;

/* Return the stages of the job's newest plan. The result is valid until the plan changes. */
struct stage_list layout_stages(const struct job_slot *job);
/* Return the work of a stage of the job's newest plan. */
struct stage_work layout_work(const struct job_slot *job, size_t stage);
/* Return the units that the stage loads. */
struct stage_work layout_loads(const struct job_slot *job, size_t stage);

/* Write the plan's devices, stage boundaries and shares as a request for the same plan. */
void layout_request(const struct plan *plan, struct replan_request *out);
/* Return whether a request with devices is for these stages. */
bool layout_is(const struct replan_request *request, const struct plan_stage *stage, size_t count);
/* Write the devices, units and shares of the requested stages.
 *
 *     out  [request->device_count] */
void layout_read(const struct replan_request *request, size_t unit_count, struct plan_stage *out);

#endif
