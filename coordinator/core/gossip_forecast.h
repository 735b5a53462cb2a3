/* gossip_forecast.h: what a job of groups that train apart would get, beside other ways to train
 * it: a part of the answers of dry runs and of questions about plans. */
#ifndef COORDINATOR_CORE_GOSSIP_FORECAST_H
#define COORDINATOR_CORE_GOSSIP_FORECAST_H

#include "coordinator/core/core.h"

struct gossip_asked {
    const struct job_spec *spec;
    const struct model *model;
    const struct job_data *data;
    const struct event_classes *classes;  /* NULL: the data stay on devices */
    const struct plan_question *question; /* devices and links that it assumes; NULL: a dry run */
};

/* Fill out->gossip, of the devices that are free, or else of all that are there. The steps and the
 * seconds of a pipeline are in `out` already. */
void gossip_forecast(struct core *core, const struct gossip_asked *asked, struct job_preview *out);

#endif
