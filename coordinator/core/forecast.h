/* forecast.h: what a job would get, beside a pipeline and one device in its place. Of a job of
 * sub-models: its groups on their devices, the seconds of its phases and its savings. Of one of
 * servers and workers: a step of its plan, also with other transfers. It takes several searches of
 * the planner, one after the other: forecast_ask fills one, placement_solve solves it on any
 * thread, forecast_take takes its answer. The loop's thread. docs/adr/0095, 0161. */
#ifndef COORDINATOR_CORE_FORECAST_H
#define COORDINATOR_CORE_FORECAST_H

#include <stdbool.h>

#include "coordinator/core/core.h"

struct forecast;

struct forecast_request {
    const struct job_spec *spec; /* of strategy submodel or parameter_server */
    const struct job_data *data;
    const struct model *model; /* the target; stays until forecast_free. NULL: the question's job
                                  has it */
    const struct event_classes *classes;  /* of sub-models */
    const struct plan_question *question; /* of a user; stays as well. NULL: the devices of now */
};

/* Begin: of sub-models, divide classes and channels. ERR_INVALID: they cannot be divided;
 * ERR_MEMORY. */
NODISCARD int forecast_new(struct core *core, const struct forecast_request *request,
                           struct forecast **out, struct err *err);
void forecast_free(struct forecast **forecast);
/* Return the groups of a job of sub-models, from which the caller derives the models of the parts;
 * there are none of another job. */
const struct class_groups *forecast_groups(const struct forecast *forecast);
/* Take these models, which stay until forecast_free: group[groups.count], and that of the joint
 * phase. */
void forecast_take_models(struct forecast *forecast, const struct derived_model *group,
                          const struct derived_model *joint);

/* Fill the next search. The question's job must be active. Takes up to some milliseconds. */
void forecast_ask(struct core *core, struct forecast *forecast, struct planning *planning);
/* Take its answer. Return whether there is another search. The first search of a job of servers and
 * workers is for its own plan: a caller that has the answer may give it without asking. */
bool forecast_take(const struct core *core, struct forecast *forecast,
                   const struct event_planned *answer);

/* After the last search, return the plan of the job, which of sub-models is that of the target as a
 * pipeline, and the forecast. */
const struct event_planned *forecast_target(const struct forecast *forecast);
struct event_forecast forecast_preview(const struct forecast *forecast);

#endif
