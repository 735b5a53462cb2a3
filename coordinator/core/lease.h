/* lease.h: a device's lease: renewed by every call, lost by silence. */
#ifndef COORDINATOR_CORE_LEASE_H
#define COORDINATOR_CORE_LEASE_H

#include "coordinator/core/core.h"
#include "coordinator/core/failure.h"

struct device_slot;

#define DEVICE_FORGET_MS 3600000 /* an idle device that never worked is removed after its loss */

struct lease {
    int64_t seen_ms; /* last call of any kind */
    int64_t beat_ms; /* last heartbeat */
    int64_t lost_ms; /* in state lost: when the wait of DEVICE_FORGET_MS began */
};

void lease_renew(struct core *core, struct device_slot *device);
/* Nobody loses the lease within so long from now on. */
void lease_spare(struct core *core, int64_t ms);
int64_t lease_next_ms(const struct core *core, const struct device_slot *device);
/* Reckon anew when it is due. */
void lease_time(struct core *core, struct device_slot *device);
/* Its connections are broken and it does not answer: as good as lost, though its lease still runs.
 */
void lease_disconnected(struct core *core, struct device_slot *device);
/* Since when the device is silent by its own doing. */
int64_t lease_silent_from_ms(const struct core *core, const struct device_slot *device);
/* When the device's present state ends by silence; NEVER: it does not. */
int64_t lease_end_ms(const struct core *core, const struct device_slot *device);
void lease_set_state(struct core *core, struct device_slot *device, int state, const char *event);
/* Fail the job the device works for, and the jobs that take units from it. */
void lease_fail_jobs(struct core *core, const struct device_slot *device, struct blame blame,
                     const char *how);
void lease_lost(struct core *core, struct device_slot *device);

#endif
