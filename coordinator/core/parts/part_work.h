/* part_work.h: counts the operations of the parts of a parent, by device, when their plans end, or
 * their jobs fail or are cancelled. What they save: savings.h. */
#ifndef COORDINATOR_CORE_PARTS_PART_WORK_H
#define COORDINATOR_CORE_PARTS_PART_WORK_H

struct core;
struct job_slot;
struct parent_part;
struct parent_slot;

/* Count the plans of a part that have ended and are not counted yet. To be called at the end of
 * each step in which the job has changed, before the parent takes its result. */
void part_work_count(struct parent_slot *parent, const struct job_slot *job);
/* Count the steps of the last plan of a part whose job failed or is about to be cancelled, also
 * those without a copy. job: NULL is allowed. */
void part_work_count_lost(struct parent_slot *parent, struct parent_part *part,
                          const struct job_slot *job);

#endif
