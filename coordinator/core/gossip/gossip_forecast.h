/* gossip_forecast.h: predicts a job of groups that train apart, and compares it with other ways to
 * train it: a part of the answers to dry runs and to questions about plans. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_FORECAST_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_FORECAST_H

#include "coordinator/core/core.h"

struct gossip_asked {
    const struct job_spec *spec;
    const struct model *model;
    const struct job_data *data;
    const struct event_classes *classes;  /* NULL: the data stay on devices */
    const struct plan_question *question; /* with hypothetical devices and links; NULL: a dry run */
};

/* Fill out->gossip for the free devices or, if they do not suffice, for all devices that are
 * online. The steps and the seconds of a pipeline are in `out` already. */
void gossip_forecast(struct core *core, const struct gossip_asked *asked, struct job_preview *out);

#endif
