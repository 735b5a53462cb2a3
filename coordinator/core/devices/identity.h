/* identity.h: decides which of two agents with one identity is rejected. */
#ifndef COORDINATOR_CORE_DEVICES_IDENTITY_H
#define COORDINATOR_CORE_DEVICES_IDENTITY_H

#include "coordinator/core/core.h"

struct device_slot;

#define PAST_BOOTS 4
#define SOURCE_SIZE 64

/* The boots of a device, which reveal two agents with one identity. */
struct identity {
    char past_boot[PAST_BOOTS][ID_SIZE]; /* the last replaced boots */
    size_t next_past;                    /* index of the entry to overwrite next */
    bool shared;                         /* a past boot returned: two agents use the identity */
    char source[SOURCE_SIZE];            /* address of the present boot's calls; "": unknown */
    char claim_boot[ID_SIZE];            /* boot that wants to replace a live one; "": none */
    int64_t claim_ms;                    /* time of its first request */
};

/* Return whether the request's boot replaces the present one. If not, answer with a problem.
 * source: address of the caller, for people; NULL: unknown. */
bool identity_takes(struct core *core, struct device_slot *device,
                    const struct enroll_request *request, const char *source);
/* Note the address from which the present boot calls. */
void identity_note_source(struct device_slot *device, const char *source);

#endif
