/* jobs.h: submission and verbs of jobs. Handlers of their events. */
#ifndef COORDINATOR_CORE_JOBS_JOBS_H
#define COORDINATOR_CORE_JOBS_JOBS_H

#include "coordinator/core/core.h"

struct job_slot;
struct replan_request;

void jobs_on_submit(struct core *core, const struct event *event);
void jobs_on_verb(struct core *core, const struct event *event);
/* Reject a job that can never run. Return whether it was rejected; the request is then answered. */
bool jobs_refuse(struct core *core, const struct event_job_submit *submit,
                 const struct replan_request *wanted);
/* Answer a dry run. */
void jobs_dry_run(struct core *core, const struct event_job_submit *submit);
/* Add a queued job. NULL: the coordinator has its maximum of live jobs. */
struct job_slot *jobs_add(struct core *core, const struct job_spec *spec,
                          const struct job_data *data, const struct model *model);
/* Pause the job as soon as possible. A job that has trained its last step ends instead. */
void jobs_pause(struct core *core, struct job_slot *job);
/* Queue a paused job, or end the delays of a waiting job. */
void jobs_resume(struct core *core, struct job_slot *job);
/* Initialise a slot after its job (id, spec, data) was written. */
void jobs_init(struct core *core, struct job_slot *job, const struct model *model);

#endif
