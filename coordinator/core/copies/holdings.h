/* holdings.h: the snapshots that devices report, and the versions that they may drop. */
#ifndef COORDINATOR_CORE_COPIES_HOLDINGS_H
#define COORDINATOR_CORE_COPIES_HOLDINGS_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

#define HOLDINGS_POOL_MAX (1u << 18) /* verified snapshots of all devices together */

struct holding_item {
    struct holding holding;
    uint32_t next; /* in the device's list or the free list; 0: end */
    bool dropped;  /* the assignment allows the device to drop it: nothing relies on it any more */
};

/* The snapshots of one device. */
struct device_holdings {
    uint32_t first; /* index of its list in core->holding, newest version first; 0: empty */
    uint32_t count;
    int64_t drop_revision; /* revision of the last assignment that named versions to drop */
    bool known;            /* reported since its boot and since the start of the coordinator */
};

/* The devices of all plans of a job. */
struct members {
    uint64_t bits[DEVICES_MAX / 64]; /* by the slot of a device */
    bool known;                      /* complete: this life of the coordinator made all plans */
};

/* A consistent cut: a version of which the devices hold every unit. */
struct cut {
    int64_t version; /* 0: none */
    struct {
        char sha256[SHA256_SIZE];
        int64_t bytes;
    } unit[UNITS_MAX];
};

/* Replace the snapshots of the device by those in its report. */
void holdings_replace(struct core *core, struct device_slot *device,
                      const struct heartbeat *heartbeat);
/* Forget the snapshots of the device. */
void holdings_clear(struct core *core, struct device_slot *device);
/* Return whether decisions may rely on the snapshot: it belongs to the job's lineage, and the
 * device may not drop it. */
bool holdings_usable(const struct job_slot *job, const struct holding_item *item);
/* Return the usable snapshot of the unit on the device, or NULL. */
const struct holding *holdings_find(const struct core *core, const struct device_slot *device,
                                    const struct job_slot *job, int64_t version, int64_t unit);
/* Return whether the device holds any snapshot of the job. */
bool holdings_of_job(const struct core *core, const struct device_slot *device, const char *job_id);
/* Add the devices of the plan to the members of the job. */
void holdings_add_members(struct core *core, struct job_slot *job);
/* Return whether a plan of the job had the device; true if unknown. */
bool holdings_has_member(const struct core *core, const struct job_slot *job,
                         const struct device_slot *device);
/* Remove the device from all jobs: its slot will be reused. */
void holdings_forget_member(struct core *core, const struct device_slot *device);
/* List the versions that the device may drop in drop[DROPS_MAX]. Return the count. */
size_t holdings_drops(const struct core *core, const struct device_slot *device, struct drop *drop);
/* Mark the snapshots that the device's assignment allows it to drop, so that nothing relies on
 * them.
 */
void holdings_mark_drops(struct core *core, struct device_slot *device);
/* Wake every device whose assignment depends on the job: its stages and all holders of its
 * snapshots. */
void holdings_touch_job(struct core *core, struct job_slot *job);
/* Take the stages' snapshots of the version as the job's cut. false: a snapshot is missing. */
bool holdings_take_cut(const struct core *core, struct job_slot *job, int64_t version);

#endif
