/* forecasts.h: a forecast of a job (core/forecast.h), of sub-models with the models of its parts,
 * which it keeps in the catalog. The loop's thread. */
#ifndef COORDINATOR_CONTENT_FORECASTS_H
#define COORDINATOR_CONTENT_FORECASTS_H

#include "base/err.h"
#include "coordinator/content/derived.h"
#include "coordinator/core/forecast.h"

struct coordinator;

/* All zero: there is none. */
struct forecasts {
    struct forecast *forecast;
    struct derived_set set;
};

/* Return whether what users see of such jobs takes a forecast. */
bool forecasts_of(enum job_strategy strategy);
/* Begin a forecast; target: of request->model, NULL if that is. ERR_INVALID: the classes or
 * channels cannot be divided. ERR_MEMORY. */
NODISCARD int forecasts_begin(struct coordinator *coordinator,
                              const struct forecast_request *request,
                              const struct catalog_entry *target, struct forecasts *out,
                              struct err *err);
void forecasts_end(struct forecasts *forecasts);

#endif
