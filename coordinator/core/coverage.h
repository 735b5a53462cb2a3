/* coverage.h: what each failure would cost a job. */
#ifndef COORDINATOR_CORE_COVERAGE_H
#define COORDINATOR_CORE_COVERAGE_H

#include "coordinator/core/core.h"

void coverage_on_question(struct core *core, const struct event *event);

#endif
