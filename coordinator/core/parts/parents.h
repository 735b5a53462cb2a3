/* parents.h: jobs that consist of parts, by the rows of their strategies (parent_row.h). */
#ifndef COORDINATOR_CORE_PARTS_PARENTS_H
#define COORDINATOR_CORE_PARTS_PARENTS_H

#include "coordinator/core/core.h"

/* Handlers of events. */
void parents_on_submit(struct core *core, const struct event *event);
void parents_on_verb(struct core *core, const struct event *event);
/* Take the changed parts, and let each parent proceed. Called at the end of a step. */
void parents_run(struct core *core);

#endif
