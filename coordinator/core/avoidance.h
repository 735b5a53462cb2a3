/* avoidance.h: devices that a job excludes for a time that doubles. */
#ifndef COORDINATOR_CORE_AVOIDANCE_H
#define COORDINATOR_CORE_AVOIDANCE_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

#define AVOIDED_MAX 8 /* devices that a job excludes at a time */

/* A device that is left out of a job's plans while the job can do without it. */
struct avoided {
    struct device_id device;
    bool failed; /* by itself: the job rather waits for its next try than takes it at once */
    int count;   /* times in a row */
    int64_t for_ms, until_ms;
};

enum avoidance {
    AVOID_LINK,   /* it does not reach another one */
    AVOID_SLOW,   /* it held work without progress */
    AVOID_LOST,   /* it was lost, or started anew: from the second time on */
    AVOID_DAMAGE, /* its own copy of a unit was damaged: by itself from the second time on */
    AVOID_FAILED, /* by itself */
};

/* Whom a plan leaves out. With AVOID_NOBODY those that ran out of memory are given all they have,
 * too. */
enum avoid_level { AVOID_NOBODY, AVOID_FAILURES, AVOID_ALL };

/* Leave the device out of the job's plans for a time that doubles. */
void avoidance_add(struct core *core, struct job_slot *job, const struct device_slot *device,
                   enum avoidance why);
bool avoidance_has(const struct core *core, const struct job_slot *job,
                   const struct device_slot *device, enum avoid_level level);
/* When the first of those that the job avoids is taken again; NEVER: it avoids nobody. */
int64_t avoidance_until_ms(const struct core *core, const struct job_slot *job);
/* From now on. */
void avoidance_clear(struct job_slot *job);
/* Look for more devices now, and plan the next look: when a move has paid for itself, or an
 * exclusion ends. */
void avoidance_watch(struct core *core, struct job_slot *job);

#endif
