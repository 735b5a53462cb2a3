/* challenge.h: requests for an immediate sign of life, and the reports of devices about each other.
 */
#ifndef COORDINATOR_CORE_FAILURES_CHALLENGE_H
#define COORDINATOR_CORE_FAILURES_CHALLENGE_H

#include "coordinator/core/core.h"

struct device_slot;

/* A report: the reporting device cannot reach `device`. */
struct trouble {
    struct device_id device;
    int kind; /* enum peer_trouble */
    int64_t since_ms;
    int64_t due_ms; /* time to blame the link; NEVER: `device` has not answered its challenge */
};

struct challenge {
    /* Devices that this device does not reach in its present generation. */
    struct trouble trouble[PEER_REPORTS_MAX];
    size_t trouble_count;
    char nonce[ID_SIZE]; /* its next heartbeat must repeat it; "": no challenge */
    int64_t due_ms;      /* deadline of the answer; NEVER: no challenge */
    bool silent;         /* it missed the deadline of a challenge: no plan uses it */
    bool poll_broken;    /* the connection of its poll broke */
    double jitter_ms;    /* mean delay of its heartbeats */
    int64_t busy_ms;     /* time that its compute thread has spent in the present task */
};

/* Ask the device for an immediate sign of life, unless it is not reachable or was asked already. */
void challenge_send(struct core *core, struct device_slot *device);
/* Forget the challenge and the reports of the device. */
void challenge_clear(struct device_slot *device);
/* Return the first deadline of the challenge and of the reports, or NEVER. */
int64_t challenge_next_ms(const struct device_slot *device);
/* Extend the deadlines after a time in which the coordinator could not listen. */
void challenge_late(const struct core *core, struct device_slot *device);
/* Return the time of the last sign of life: the last call, or a later observation of its peers. */
int64_t challenge_alive_ms(const struct core *core, const struct device_slot *device);
/* Return the report of `device` about another device, or NULL. */
struct trouble *challenge_trouble(struct device_slot *device, const struct device_id *about);
/* Return the time since which other devices report a refused or broken connection to it, or
 * NEVER. */
int64_t challenge_broken_since_ms(const struct core *core, const struct device_slot *device);

#endif
