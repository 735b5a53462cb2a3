/* forecast.h: predicts the plan of a job and compares it with a pipeline and with one device. For a
 * job of sub-models: its groups on their devices, the seconds of its phases and its savings. For a
 * job of servers and workers: a step of its plan, also with other transfers. A forecast takes
 * several searches of the planner, one after the other: forecast_ask fills a search,
 * placement_solve solves it on any thread, forecast_take takes its answer. The loop's thread.
 * docs/adr/0095, 0161. */
#ifndef COORDINATOR_CORE_JOBS_FORECAST_H
#define COORDINATOR_CORE_JOBS_FORECAST_H

#include <stdbool.h>

#include "coordinator/core/core.h"

struct forecast;

struct forecast_request {
    const struct job_spec *spec; /* of strategy submodel or parameter_server */
    const struct job_data *data;
    const struct model *model; /* the target; borrowed until forecast_free. NULL: that of the
                                  question's job */
    const struct event_classes *classes;  /* of sub-models */
    const struct plan_question *question; /* of a user; borrowed too. NULL: the present devices */
};

/* Begin a forecast. For sub-models, divide classes and channels. ERR_INVALID: they cannot be
 * divided; ERR_MEMORY. */
NODISCARD int forecast_new(struct core *core, const struct forecast_request *request,
                           struct forecast **out, struct err *err);
void forecast_free(struct forecast **forecast);
/* Return the groups of a job of sub-models. The caller derives the models of the parts from them.
 * Other jobs have no groups. */
const struct class_groups *forecast_groups(const struct forecast *forecast);
/* Take the models, borrowed until forecast_free: group[groups.count], and that of the joint phase.
 */
void forecast_take_models(struct forecast *forecast, const struct derived_model *group,
                          const struct derived_model *joint);

/* Fill the next search. The question's job must be active. Takes up to some milliseconds. */
void forecast_ask(struct core *core, struct forecast *forecast, struct planning *planning);
/* Take the answer to the search. Return whether another search follows. The first search of a job
 * of servers and workers is for its own plan: a caller that has this answer may pass it without
 * forecast_ask. */
bool forecast_take(const struct core *core, struct forecast *forecast,
                   const struct event_planned *answer);

/* Return the plan of the job, and its forecast. Call them after the last search. For sub-models,
 * the plan is that of the target as a pipeline. */
const struct event_planned *forecast_target(const struct forecast *forecast);
struct event_forecast forecast_preview(const struct forecast *forecast);

#endif
