/* mark.h: notes which devices, jobs and plans changed; core.c writes their rows and wakes their
 * readers at the end of the step. */
#ifndef COORDINATOR_CORE_STATE_MARK_H
#define COORDINATOR_CORE_STATE_MARK_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

struct device_marks {
    bool row;     /* write the row */
    bool touched; /* the assignment changed: wake its poll */
};
struct job_marks {
    bool listed;                        /* in core->job_list */
    bool row, plan, previous, incident; /* rows to write */
    bool ended;                         /* free the slot at the end of the step */
};

/* Note that the row of the device changed; that its assignment changed. */
void mark_device_changed(struct core *core, struct device_slot *device);
void mark_device_touched(struct core *core, struct device_slot *device);
/* Note that the job's timers or its failure changed; that its row changed; that the row of its plan
 * changed. */
void mark_job(struct core *core, struct job_slot *job);
void mark_job_changed(struct core *core, struct job_slot *job);
void mark_plan_changed(struct core *core, struct job_slot *job);

#endif
