/* local_groups.h: a job of groups that train apart on data that never leave their devices: which
 * devices have such data, and when a group begins again because its data have changed. */
#ifndef COORDINATOR_CORE_PARTS_LOCAL_GROUPS_H
#define COORDINATOR_CORE_PARTS_LOCAL_GROUPS_H

#include "coordinator/core/core.h"

struct job_slot;
struct parent_slot;

/* Return the offer of a group's device if the group can train on it; else NULL. */
const struct offer *local_groups_offer(const struct core *core, const struct parent_slot *parent,
                                       size_t group);
/* Return whether the device of a group's job now offers other data than the job trains on. Appended
 * samples alone do not count. */
bool local_groups_changed(const struct core *core, const struct parent_slot *parent,
                          const struct job_slot *job);
/* Write to the message of the parent which devices are left out and for which devices groups wait.
 */
void local_groups_note(const struct core *core, struct parent_slot *parent);

#endif
