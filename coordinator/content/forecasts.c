#include "coordinator/content/forecasts.h"

#include <stddef.h>

#include "coordinator/content/catalog.h"
#include "coordinator/coordinator.h"

int forecasts_begin(struct coordinator *coordinator, const struct forecast_request *request,
                    const struct catalog_entry *target, struct forecasts *out, struct err *err)
{
    const struct submodel_options *options = &request->spec->submodel;
    out->set = (struct derived_set){.coordinator = coordinator};
    int rc = forecast_new(coordinator->core, request, &out->forecast, err);
    if (rc) {
        return rc;
    }
    const struct class_groups *groups = forecast_groups(out->forecast);
    rc = derived_add_groups(&out->set, options, groups, target, err);
    rc = rc ? rc : derived_add_joint(&out->set, options, target, err);
    if (rc) {
        forecasts_end(out);
        return rc;
    }
    forecast_take_models(out->forecast, out->set.model, &out->set.model[groups->count]);
    return 0;
}

void forecasts_end(struct forecasts *forecasts)
{
    if (forecasts->forecast) {
        derived_let_go(&forecasts->set);
        forecast_free(&forecasts->forecast);
    }
}
