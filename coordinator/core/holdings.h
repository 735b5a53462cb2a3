/* holdings.h: snapshots that devices report, and which of them may be dropped. */
#ifndef COORDINATOR_CORE_HOLDINGS_H
#define COORDINATOR_CORE_HOLDINGS_H

#include "coordinator/core/state.h"

void holdings_replace(struct core *core, struct device_slot *device,
                      const struct heartbeat *heartbeat);
void holdings_clear(struct core *core, struct device_slot *device);
/* Whether a decision about the job may rest on it: it is on the job's line, and the device was not
 * told to drop it. */
bool holdings_usable(const struct job_slot *job, const struct holding_item *item);
/* NULL: the device does not hold it usably. */
const struct holding *holdings_find(const struct core *core, const struct device_slot *device,
                                    const struct job_slot *job, int64_t version, int64_t unit);
bool holdings_of_job(const struct core *core, const struct device_slot *device, const char *job_id);
/* The plan's devices may hold something of the job from now on. */
void holdings_add_members(struct core *core, struct job_slot *job);
/* Whether a plan of the job had the device; true where that is not known. */
bool holdings_has_member(const struct core *core, const struct job_slot *job,
                         const struct device_slot *device);
/* The device's slot will be another one's. */
void holdings_forget_member(struct core *core, const struct device_slot *device);
/* What the device shall drop, by what it holds and how the jobs stand: drop[DROPS_MAX]. */
size_t holdings_drops(const struct core *core, const struct device_slot *device, struct drop *drop);
/* Note that the device's assignment now tells it to drop what holdings_drops names: nothing relies
 * on it any more. */
void holdings_let_go(struct core *core, struct device_slot *device);
/* Wake every device whose assignment depends on the job: its stages and all that hold something of
 * it. */
void holdings_touch_job(struct core *core, struct job_slot *job);
/* Take what the stages' devices hold at the version as the job's cut. false: something is missing.
 */
bool holdings_take_cut(const struct core *core, struct job_slot *job, int64_t version);

#endif
