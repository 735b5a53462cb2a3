/* challenge.h: a request for an immediate sign of life, and what devices report of each other. */
#ifndef COORDINATOR_CORE_CHALLENGE_H
#define COORDINATOR_CORE_CHALLENGE_H

#include "coordinator/core/core.h"

struct device_slot;

/* A device that another one cannot reach, as that one reported. */
struct trouble {
    struct device_id device;
    int kind; /* enum peer_trouble */
    int64_t since_ms;
    int64_t due_ms; /* the device has answered: the link is blamed then; NEVER: it has not */
};

struct challenge {
    struct trouble
        trouble[PEER_REPORTS_MAX]; /* peers it does not reach in its present generation */
    size_t trouble_count;
    char nonce[ID_SIZE]; /* that its next heartbeat must repeat; "": none */
    int64_t due_ms;      /* for the answer; NEVER */
    bool silent;         /* it left a challenge without an answer: no plan takes it */
    bool poll_broken;    /* the connection of its poll broke */
    double jitter_ms;    /* typical delay of its heartbeats */
    int64_t busy_ms;     /* how long its compute thread has been in one task */
};

/* Ask the device for a sign of life at once. */
void challenge_send(struct core *core, struct device_slot *device);
void challenge_clear(struct device_slot *device);
int64_t challenge_next_ms(const struct device_slot *device);
void challenge_late(const struct core *core, struct device_slot *device);
/* When the device was last seen alive, by itself or by its peers. */
int64_t challenge_alive_ms(const struct core *core, const struct device_slot *device);
/* What the device reports of another one; NULL: nothing. */
struct trouble *challenge_trouble(struct device_slot *device, const struct device_id *about);
/* Since when other devices report a refused or broken connection to it; NEVER: none does. */
int64_t challenge_broken_since_ms(const struct core *core, const struct device_slot *device);

#endif
