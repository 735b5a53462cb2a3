/* failure.h: the failure of a generation that this step has noted. */
#ifndef COORDINATOR_CORE_FAILURE_H
#define COORDINATOR_CORE_FAILURE_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

enum failure_cause {
    FAILURE_NONE,
    FAILURE_DEVICE_LOST,
    FAILURE_RESTARTED, /* a new boot, or a generation from another life */
    FAILURE_ERROR,     /* a device reported one */
    FAILURE_DEADLINE,  /* of prepare, stop or finish */
    FAILURE_LINK,      /* two live devices do not reach each other */
    FAILURE_STALLED,   /* no step for too long */
};

/* Why a generation fails. */
struct blame {
    enum failure_cause cause;
    const struct device_slot *device; /* whose fault it is; NULL: nobody's in particular */
    const struct device_slot *other;  /* LINK: the other end */
    const char *code; /* ERROR: of the device's report; NULL: the cause says it all */
    int64_t since_ms; /* the last sign of life or progress as far as known */
};

struct failure {
    enum failure_cause cause; /* NONE: none noted */
    char code[REASON_SIZE];   /* failures in the same way have the same */
    struct incident_device device[STAGES_MAX];
    size_t device_count;
    int64_t since_ms;
    char text[MESSAGE_SIZE];
};

/* Note that the generation failed; the first cause counts. */
void failure_note(struct core *core, struct job_slot *job, struct blame blame, const char *format,
                  ...) PRINTF_LIKE(4, 5);
/* Add a device to the noted failure; NULL adds none. */
void failure_add(struct failure *failure, const struct device_slot *device);

#endif
