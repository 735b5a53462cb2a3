/* identity.h: decides which of two agents with one identity is refused. */
#ifndef COORDINATOR_CORE_IDENTITY_H
#define COORDINATOR_CORE_IDENTITY_H

#include "coordinator/core/core.h"

struct device_slot;

#define PAST_BOOTS 4

/* Boots of a device, to find two agents that use one identity. */
struct identity {
    char past_boot[PAST_BOOTS][ID_SIZE]; /* replaced last */
    size_t next_past;                    /* the one to overwrite next */
    bool shared;                         /* one of them came back: two agents use the identity */
    char claim_boot[ID_SIZE]; /* asks to take over from the present one, which may live; "": none */
    int64_t claim_ms;         /* when it asked first */
};

/* Whether another boot takes over the device; if not, the problem has been answered. */
bool identity_takes(struct core *core, struct device_slot *device, const char *boot);

#endif
