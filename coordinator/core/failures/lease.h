/* lease.h: the lease of a device: every call renews it, silence ends it. */
#ifndef COORDINATOR_CORE_FAILURES_LEASE_H
#define COORDINATOR_CORE_FAILURES_LEASE_H

#include "coordinator/core/core.h"
#include "coordinator/core/failures/failure.h"

struct device_slot;

#define DEVICE_FORGET_MS 3600000 /* an idle device that never worked is removed after its loss */

struct lease {
    int64_t seen_ms; /* time of the last call of any kind */
    int64_t beat_ms; /* time of the last heartbeat */
    int64_t lost_ms; /* in states lost, joined: start of the wait of DEVICE_FORGET_MS */
};

/* Renew the lease; a device that was not online is online again. */
void lease_renew(struct core *core, struct device_slot *device);
/* Let no lease end within the next `ms` milliseconds. */
void lease_spare(struct core *core, int64_t ms);
/* Return the next deadline of the device: of its lease, challenge or reports. */
int64_t lease_next_ms(const struct core *core, const struct device_slot *device);
/* Recompute that deadline. */
void lease_time(struct core *core, struct device_slot *device);
/* Treat the device as lost before its lease ends: its connections broke and it does not answer. */
void lease_disconnected(struct core *core, struct device_slot *device);
/* Return the start of the device's silence, without the time in which the coordinator could not
 * listen. */
int64_t lease_silent_from_ms(const struct core *core, const struct device_slot *device);
/* Return the time at which silence ends the present state of the device, or NEVER. */
int64_t lease_end_ms(const struct core *core, const struct device_slot *device);
/* Set the state of the device and publish `event`. */
void lease_set_state(struct core *core, struct device_slot *device, int state, const char *event);
/* Fail the job of the device and the jobs that fetch units from it. how: completes "device 'x'". */
void lease_fail_jobs(struct core *core, const struct device_slot *device, struct blame blame,
                     const char *how);
/* The lease has ended: fail the jobs and set state lost. */
void lease_lost(struct core *core, struct device_slot *device);

#endif
