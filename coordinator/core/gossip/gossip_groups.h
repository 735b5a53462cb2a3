/* gossip_groups.h: follows the jobs of the groups: when a group begins again, when it takes part in
 * mixes, how fast it is. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_GROUPS_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_GROUPS_H

#include "coordinator/core/core.h"

struct job_slot;
struct parent_slot;

/* Return the steps that all groups have made. */
int64_t gossip_steps_done(const struct parent_slot *parent);
/* Return the steps after which the job ends. */
int64_t gossip_steps_all(const struct parent_slot *parent);
/* Return the measured samples per second of a group; 0: not measured. */
double gossip_measured_speed(const struct parent_slot *parent, const struct job_slot *job);
/* Count the claimed steps of the group, as far as they are possible. Return whether all are. */
bool gossip_take_steps(const struct core *core, struct parent_slot *parent, size_t group,
                       const struct job_slot *job);
/* Let the group take part in mixes, or not, according to the state of its job. */
void gossip_look_at(struct core *core, struct parent_slot *parent, size_t group);
/* Note that the job of a group has ended: its steps count, although its state is lost. */
void gossip_leave_job(struct parent_slot *parent, size_t group);
/* Note that the assignment of the group's device has changed. */
void gossip_touch(struct core *core, const struct parent_slot *parent, size_t group);

#endif
