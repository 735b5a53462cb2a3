/* links.h: pairs of devices that do not reach each other. */
#ifndef COORDINATOR_CORE_FAILURES_LINKS_H
#define COORDINATOR_CORE_FAILURES_LINKS_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;
struct stage_list;

#define BAD_LINKS_MAX 32 /* bad pairs of one job */

/* Two live devices of a job that did not reach each other. */
struct bad_link {
    struct device_id device[2];
    int64_t until_ms; /* after this time the link counts as good */
};

struct links {
    struct bad_link bad[BAD_LINKS_MAX];
    size_t next_bad;  /* index of the entry to overwrite next */
    int failures;     /* generations in a row that failed by a link, without progress */
    int64_t step;     /* the furthest step of these generations */
    int64_t since_ms; /* time of the first of these failures; NEVER: none */
};

/* Note a bad pair: both are alive and do not reach each other. */
void links_note(const struct core *core, struct job_slot *job, const struct device_slot *a,
                const struct device_slot *b);
/* Return whether the pair is bad. */
bool links_is_bad(const struct core *core, const struct job_slot *job, const struct device_slot *a,
                  const struct device_slot *b);
/* Return whether the job can use the plan that ran again: the failed preparation needed the link
 * only to move units. */
bool links_can_stay(const struct core *core, const struct job_slot *job);
/* Return whether the newest plan that ran had the device. */
bool links_ran(const struct job_slot *job, const struct device_slot *device);
/* Count a failed generation. */
void links_count(const struct core *core, struct job_slot *job, bool by_link);
/* Clear the count of failures by a link. */
void links_reset(struct job_slot *job);
/* Return the delay of the next generation. The job waits before it abandons a version that it could
 * load if a link returned. */
int64_t links_pause_ms(const struct core *core, const struct job_slot *job);
/* Return whether these stages would use a bad link. */
bool links_break(const struct core *core, const struct job_slot *job,
                 const struct stage_list *stages);

#endif
