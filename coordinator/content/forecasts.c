#include "coordinator/content/forecasts.h"

#include <stddef.h>

#include "coordinator/content/catalog.h"
#include "coordinator/coordinator.h"

bool forecasts_of(enum job_strategy strategy)
{
    return strategy == STRATEGY_SUBMODEL || strategy == STRATEGY_PARAMETER_SERVER;
}

/* Derive the models of the parts of a job of sub-models. */
static int add_parts(const struct submodel_options *options, const struct catalog_entry *target,
                     struct forecasts *out, struct err *err)
{
    const struct class_groups *groups = forecast_groups(out->forecast);
    int rc = derived_add_groups(&out->set, options, groups, target, err);
    rc = rc ? rc : derived_add_joint(&out->set, options, target, err);
    if (rc == 0) {
        forecast_take_models(out->forecast, out->set.model, &out->set.model[groups->count]);
    }
    return rc;
}

int forecasts_begin(struct coordinator *coordinator, const struct forecast_request *request,
                    const struct catalog_entry *target, struct forecasts *out, struct err *err)
{
    out->set = (struct derived_set){.coordinator = coordinator};
    int rc = forecast_new(coordinator->core, request, &out->forecast, err);
    if (rc == 0 && request->spec->strategy == STRATEGY_SUBMODEL) {
        rc = add_parts(&request->spec->submodel, target, out, err);
    }
    if (rc) {
        forecasts_end(out);
    }
    return rc;
}

void forecasts_end(struct forecasts *forecasts)
{
    if (forecasts->forecast) {
        derived_let_go(&forecasts->set);
        forecast_free(&forecasts->forecast);
    }
}
