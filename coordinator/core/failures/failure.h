/* failure.h: the failure of a generation that this step has noted. */
#ifndef COORDINATOR_CORE_FAILURES_FAILURE_H
#define COORDINATOR_CORE_FAILURES_FAILURE_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

enum failure_cause {
    FAILURE_NONE,
    FAILURE_DEVICE_LOST,
    FAILURE_RESTARTED, /* a new boot, or a generation that the database does not know */
    FAILURE_ERROR,     /* a device reported an error */
    FAILURE_DEADLINE,  /* of prepare, stop or finish */
    FAILURE_LINK,      /* two live devices do not reach each other */
    FAILURE_STALLED,   /* no step for too long */
};

/* The cause of a failure and the device that it is charged to. */
struct blame {
    enum failure_cause cause;
    const struct device_slot *device; /* the failure is charged to it; NULL: to no device */
    const struct device_slot *other;  /* LINK: the other end */
    const char *code;                 /* ERROR: the code that the device reported; else NULL */
    int64_t since_ms;                 /* the last known sign of life or progress */
};

struct failure {
    enum failure_cause cause; /* NONE: none noted */
    char code[REASON_SIZE];   /* failures of the same kind have equal codes */
    struct incident_device device[STAGES_MAX];
    size_t device_count;
    /* The devices to which the failures of this step are charged. */
    struct device_id gone[STAGES_MAX];
    size_t gone_count;
    bool nobody; /* a failure of this step is charged to no device */
    int64_t since_ms;
    char text[MESSAGE_SIZE];
};

/* Note that the generation failed. Later failures of the same step only add to `gone`. */
void failure_note(struct core *core, struct job_slot *job, struct blame blame, const char *format,
                  ...) PRINTF_LIKE(4, 5);
/* Add a device to the noted failure; NULL adds none. */
void failure_add(struct failure *failure, const struct device_slot *device);

#endif
