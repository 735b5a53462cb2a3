/* suspicion.h: finds whether a device or a link is to blame for a failed connection. */
#ifndef COORDINATOR_CORE_FAILURES_SUSPICION_H
#define COORDINATOR_CORE_FAILURES_SUSPICION_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* A reported error with code "peer". It fails the generation when TIMER_SUSPICION is due. */
struct suspicion {
    size_t stage; /* the stage that reported it */
    char text[MESSAGE_SIZE];
};

/* Challenge a device whose poll broke (EVENT_POLL_BROKEN). */
void suspicion_on_poll_broken(struct core *core, const struct event *event);
/* Take the answer to a challenge and the reports of other devices from a heartbeat. */
void suspicion_take(struct core *core, struct device_slot *device,
                    const struct heartbeat *heartbeat);
/* Handle the expired deadlines of the device's challenge and reports. */
void suspicion_tick(struct core *core, struct device_slot *device);
/* Fail the generation for its error of code "peer", which was not settled in time. */
void suspicion_settle(struct core *core, struct job_slot *job);

#endif
