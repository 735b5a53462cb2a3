/* parent_row.h: how a job that consists of parts proceeds: one row of functions for each strategy
 * with parts (parents.c). */
#ifndef COORDINATOR_CORE_PARTS_PARENT_ROW_H
#define COORDINATOR_CORE_PARTS_PARENT_ROW_H

#include "coordinator/core/core.h"

struct job_slot;
struct parent_slot;

struct parent_row {
    /* Take a job of a part that has changed or ended. Called at the end of the step. */
    void (*take_part)(struct core *core, struct parent_slot *parent, const struct job_slot *job);
    /* Return whether `run` is due although no part has changed. */
    bool (*is_due)(const struct core *core, const struct parent_slot *parent);
    /* Begin parts, end phases, show the state. */
    void (*run)(struct core *core, struct parent_slot *parent);
    /* Return the model to keep if the job is cancelled now; "": none. */
    const struct checkpoint_id *(*kept)(const struct parent_slot *parent);
};

#endif
