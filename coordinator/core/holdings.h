/* holdings.h: snapshots that devices report, and which of them may be dropped. */
#ifndef COORDINATOR_CORE_HOLDINGS_H
#define COORDINATOR_CORE_HOLDINGS_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

#define HOLDINGS_POOL_MAX (1u << 18) /* verified snapshots of all devices together */

struct holding_item {
    struct holding holding;
    uint32_t next; /* in the device's list or among the free ones; 0: none */
    bool let_go; /* the device was told to drop it and may do so at any moment: nothing relies on it
                  */
};

/* What a device holds. */
struct device_holdings {
    uint32_t first; /* of its list in core->holding, the newest versions first; 0: none */
    uint32_t count;
    int64_t let_go_revision; /* of the assignment that last named something to drop */
    bool known;              /* reported since its boot and since the start of the coordinator */
};

/* Devices that a plan of the job had. */
struct members {
    uint64_t bits[DEVICES_MAX / 64]; /* by the slot of a device */
    bool known; /* every plan of the job was made since the start of the coordinator */
};

/* A consistent cut: a version of which the devices hold every unit. */
struct cut {
    int64_t version; /* 0: none */
    struct {
        char sha256[SHA256_SIZE];
        int64_t bytes;
    } unit[UNITS_MAX];
};

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
