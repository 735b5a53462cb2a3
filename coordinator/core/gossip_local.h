/* gossip_local.h: a job of groups that train apart on data that never leave their devices: which
 * devices have such data, and when a group begins again because its data have changed. */
#ifndef COORDINATOR_CORE_GOSSIP_LOCAL_H
#define COORDINATOR_CORE_GOSSIP_LOCAL_H

#include "coordinator/core/core.h"

struct job_slot;
struct parent_slot;

/* Return whether the job trains on data that stay on their devices. */
bool gossip_is_local(const struct job_spec *spec);
/* Return whether the device of a group's job offers other data to it than those that it trains on,
 * and not only more of them. */
bool gossip_local_changed(const struct core *core, const struct parent_slot *parent,
                          const struct job_slot *job);
/* Write which devices are left out, and for which devices groups wait, for the message of the
 * parent. */
void gossip_local_note(const struct core *core, struct parent_slot *parent);

#endif
