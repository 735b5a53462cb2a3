/* holdings.h: rules for the snapshots of a device: whether one more replica fits, and whether a
 * version is complete here. Pure; the product and the simulator use it.
 *
 * A device promises memory for the replicas of the stage before it: replica_bytes of its
 * assignment, twice that stage's state. A new plan starts with replicas of the previous plan, which
 * the coordinator needs until a round of the new plan is committed. So one set of the new plan
 * always fits, even if the old replicas fill the bound. */
#ifndef AGENT_COPIES_HOLDINGS_H
#define AGENT_COPIES_HOLDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/heartbeat.h"

/* Whether one more replica fits. bound: replica_bytes of the assignment; held: bytes of all
 * replicas here; present: those of this generation among them. */
bool holdings_have_room(int64_t bound, int64_t held, int64_t present, int64_t bytes);

/* Count every holding of the device, in any order: the version of `of` is whole if the device has
 * as many units of it as of the job's newest version before it. */
struct holdings_units {
    const struct holding *of;
    int64_t before; /* the newest version below, if here_before > 0 */
    size_t here, here_before;
};
void holdings_units_count(struct holdings_units *units, const struct holding *other);
static inline bool holdings_units_are_whole(const struct holdings_units *units)
{
    return units->here >= units->here_before;
}

#endif
