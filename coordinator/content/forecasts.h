/* forecasts.h: runs a forecast of a job (core/forecast.h). For a job of sub-models it keeps the
 * models of the parts in the catalog. The loop's thread. */
#ifndef COORDINATOR_CONTENT_FORECASTS_H
#define COORDINATOR_CONTENT_FORECASTS_H

#include "base/err.h"
#include "coordinator/content/derived.h"
#include "coordinator/core/jobs/forecast.h"

struct coordinator;

/* All zero: no forecast. */
struct forecasts {
    struct forecast *forecast;
    struct derived_set set;
};

/* Return whether previews of jobs of this strategy need a forecast. */
bool forecasts_of(enum job_strategy strategy);
/* Begin a forecast. target: the entry of request->model; NULL if that is NULL. ERR_INVALID: the
 * classes or channels cannot be divided. ERR_MEMORY. */
NODISCARD int forecasts_begin(struct coordinator *coordinator,
                              const struct forecast_request *request,
                              const struct catalog_entry *target, struct forecasts *out,
                              struct err *err);
void forecasts_end(struct forecasts *forecasts);

#endif
