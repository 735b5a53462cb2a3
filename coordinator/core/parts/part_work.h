/* part_work.h: counts the operations of the parts of a parent, by device, when their plans end or
 * their work is given up. What they save: savings.h. */
#ifndef COORDINATOR_CORE_PARTS_PART_WORK_H
#define COORDINATOR_CORE_PARTS_PART_WORK_H

struct core;
struct job_slot;
struct parent_part;
struct parent_slot;

/* Count the plans of a part that have ended and are not counted yet. To be called at the end of
 * each step in which the job has changed, before the parent takes its result. */
void part_work_count(struct parent_slot *parent, const struct job_slot *job);
/* Count the steps of the part's running plan, which are given up: its job is about to be ended. */
void part_work_count_lost(const struct core *core, struct parent_slot *parent,
                          struct parent_part *part);

#endif
