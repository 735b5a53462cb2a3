/* damage.h: what follows when a blob in the center is damaged. */
#ifndef COORDINATOR_CORE_DAMAGE_H
#define COORDINATOR_CORE_DAMAGE_H

#include "coordinator/core/core.h"

void damage_on_blob(struct core *core, const struct event *event);

#endif
