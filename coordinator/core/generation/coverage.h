/* coverage.h: the cost of each possible loss of devices to a job. */
#ifndef COORDINATOR_CORE_GENERATION_COVERAGE_H
#define COORDINATOR_CORE_GENERATION_COVERAGE_H

#include "coordinator/core/core.h"

/* Answer EVENT_PLAN_QUESTION: the plan of a job without some devices. */
void coverage_on_question(struct core *core, const struct event *event);

#endif
