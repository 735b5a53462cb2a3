/* forecasts.h: a forecast of a job of sub-models (core/forecast.h) with the models of its parts,
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

/* Begin a forecast; request->model is that of the target. ERR_INVALID: the classes or channels
 * cannot be divided. ERR_MEMORY. */
NODISCARD int forecasts_begin(struct coordinator *coordinator,
                              const struct forecast_request *request,
                              const struct catalog_entry *target, struct forecasts *out,
                              struct err *err);
void forecasts_end(struct forecasts *forecasts);

#endif
