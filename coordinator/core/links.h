/* links.h: pairs of devices that do not reach each other. */
#ifndef COORDINATOR_CORE_LINKS_H
#define COORDINATOR_CORE_LINKS_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

#define BAD_LINKS_MAX 32 /* pairs of devices that do not reach each other, of one job */

/* Two devices of a job that did not reach each other though both lived. */
struct bad_link {
    struct device_id device[2];
    int64_t until_ms; /* it is believed so long */
};

struct links {
    struct bad_link bad[BAD_LINKS_MAX];
    size_t next_bad;
    int failures;     /* generations in a row that failed by a link and got no further */
    int64_t step;     /* the furthest of them */
    int64_t since_ms; /* when the first of them failed; NEVER */
};

/* Both live, and do not reach each other. */
void links_note(const struct core *core, struct job_slot *job, const struct device_slot *a,
                const struct device_slot *b);
/* Whether that was so lately. */
bool links_is_bad(const struct core *core, const struct job_slot *job, const struct device_slot *a,
                  const struct device_slot *b);
/* Whether the plan that is being prepared and fails by a link can be made without moving units: by
 * that which ran. */
bool links_can_stay(const struct core *core, const struct job_slot *job);
/* Whether the newest plan that ran had the device. */
bool links_ran(const struct job_slot *job, const struct device_slot *device);
/* A generation failed, by a link or otherwise. */
void links_count(const struct core *core, struct job_slot *job, bool by_link);
/* No generation has failed by a link lately. */
void links_reset(struct job_slot *job);
/* How long the next generation is put off. What is held is not given up for what may be over in a
 * moment. */
int64_t links_pause_ms(const struct core *core, const struct job_slot *job);
/* Whether stages on these devices, in this order, would have to use a bad link among themselves. */
bool links_break_ring(const struct core *core, const struct job_slot *job,
                      struct device_slot *const *device, size_t count);

#endif
