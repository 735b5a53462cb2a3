/* enrolment.h: which keys are devices, and which boot speaks for a device. Handlers of these
 * events. */
#ifndef COORDINATOR_CORE_DEVICES_ENROLMENT_H
#define COORDINATOR_CORE_DEVICES_ENROLMENT_H

#include "coordinator/core/core.h"

void enrolment_on_join(struct core *core, const struct event *event);
void enrolment_on_enroll(struct core *core, const struct event *event);

#endif
