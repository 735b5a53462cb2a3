/* submodel_requests.h: the submission of jobs of sub-models. */
#ifndef COORDINATOR_CORE_SUBMODEL_SUBMODEL_REQUESTS_H
#define COORDINATOR_CORE_SUBMODEL_SUBMODEL_REQUESTS_H

#include "coordinator/core/core.h"

void submodel_on_submit(struct core *core, const struct event *event);

#endif
