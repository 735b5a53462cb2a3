/* mark.h: which devices, jobs and plans changed in this step; core.c writes and wakes them at its
 * end. */
#ifndef COORDINATOR_CORE_MARK_H
#define COORDINATOR_CORE_MARK_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* What changed in this step: the row to write, and the polls to wake. */
struct device_marks {
    bool row, touched;
};
struct job_marks {
    bool listed; /* in core->job_list */
    bool row, plan, previous, incident;
    bool ended; /* the slot is freed at the end of the step */
};

void mark_device_changed(struct core *core, struct device_slot *device);
void mark_device_touched(struct core *core, struct device_slot *device);
/* The job is looked at at the end of the step (its deadlines, a failure); job_changed and
 * plan_changed write the row too. */
void mark_job(struct core *core, struct job_slot *job);
void mark_job_changed(struct core *core, struct job_slot *job);
void mark_plan_changed(struct core *core, struct job_slot *job);

#endif
