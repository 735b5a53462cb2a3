/* servers_forecast.h: compares a step of a job of servers and workers with the same plan with other
 * transfers, with a pipeline and with one device: a part of a forecast (forecast.h).
 * docs/adr/0161. */
#ifndef COORDINATOR_CORE_JOBS_SERVERS_FORECAST_H
#define COORDINATOR_CORE_JOBS_SERVERS_FORECAST_H

#include "coordinator/core/core.h"

/* Take the answers of the planner in this order: the plan of the job, the same job as a pipeline,
 * and on one device. */
void servers_forecast_own(const struct job_spec *spec, const struct event_planned *answer,
                          struct servers_preview *out);
void servers_forecast_pipeline(const struct event_planned *answer, struct servers_preview *out);
/* The last call: it also names the fastest way. question: NULL for a dry run. */
void servers_forecast_single(const struct core *core, const struct plan_question *question,
                             const struct event_planned *answer, struct servers_preview *out);

#endif
