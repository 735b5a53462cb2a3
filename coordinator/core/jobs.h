/* jobs.h: submission and the verbs of jobs. */
#ifndef COORDINATOR_CORE_JOBS_H
#define COORDINATOR_CORE_JOBS_H

#include "coordinator/core/core.h"

struct job_slot;

void jobs_on_submit(struct core *core, const struct event *event);
void jobs_on_verb(struct core *core, const struct event *event);
/* Write the planning's answer into core->answer's preview. */
void jobs_preview(struct core *core, const struct model *model);
/* What a new slot needs when its job (id, spec, data) is in it. */
void jobs_init(struct core *core, struct job_slot *job, const struct model *model);

#endif
