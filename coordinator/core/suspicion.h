/* suspicion.h: finds whether a device or a link is to blame for a failed connection. */
#ifndef COORDINATOR_CORE_SUSPICION_H
#define COORDINATOR_CORE_SUSPICION_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* An error of code peer stands when TIMER_SUSPICION is due. */
struct suspicion {
    size_t stage; /* who reported it */
    char text[MESSAGE_SIZE];
};

void suspicion_on_poll_broken(struct core *core, const struct event *event);
void suspicion_take(struct core *core, struct device_slot *device,
                    const struct heartbeat *heartbeat);
void suspicion_tick(struct core *core, struct device_slot *device);
/* An error of code peer has waited long enough. */
void suspicion_settle(struct core *core, struct job_slot *job);

#endif
