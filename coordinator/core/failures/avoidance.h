/* avoidance.h: devices that a job excludes for a time that doubles. */
#ifndef COORDINATOR_CORE_FAILURES_AVOIDANCE_H
#define COORDINATOR_CORE_FAILURES_AVOIDANCE_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

#define AVOIDED_MAX 8 /* devices that a job excludes at a time */

/* A device that a job's plans exclude as long as the other devices suffice. */
struct avoided {
    struct device_id device;
    bool failed;      /* it failed by itself: the job waits before using it again */
    int count;        /* exclusions in a row */
    int64_t for_ms;   /* length of the exclusion */
    int64_t until_ms; /* its end */
};

enum avoidance {
    AVOID_LINK,   /* it does not reach another device */
    AVOID_SLOW,   /* it held work without progress */
    AVOID_LOST,   /* it was lost or restarted; excluded from the second time on */
    AVOID_DAMAGE, /* its copy of a unit was damaged; excluded from the second time on */
    AVOID_FAILED, /* it failed by itself */
};

/* The devices that a plan excludes: none; devices that failed by themselves; all devices that the
 * job excludes. AVOID_NONE also ignores the memory limits of devices that ran out of memory. */
enum avoid_level { AVOID_NONE, AVOID_FAILURES, AVOID_ALL };

/* Exclude the device from the job's plans; each exclusion in a row lasts twice as long. */
void avoidance_add(struct core *core, struct job_slot *job, const struct device_slot *device,
                   enum avoidance why);
/* Return whether a plan of this level excludes the device. */
bool avoidance_has(const struct core *core, const struct job_slot *job,
                   const struct device_slot *device, enum avoid_level level);
/* Return the time at which the first exclusion ends, or NEVER. */
int64_t avoidance_until_ms(const struct core *core, const struct job_slot *job);
/* End all exclusions of the job. */
void avoidance_clear(struct job_slot *job);
/* Set the timer of change.c's next look at the job: the end of the first exclusion, or of the
 * cool-down. */
void avoidance_wait(struct core *core, struct job_slot *job);
/* The same, and let change.c look at the job at once. */
void avoidance_watch(struct core *core, struct job_slot *job);

#endif
