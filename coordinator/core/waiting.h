/* waiting.h: how a job waits for its next generation. */
#ifndef COORDINATOR_CORE_WAITING_H
#define COORDINATOR_CORE_WAITING_H

#include "coordinator/core/core.h"

struct job_slot;

struct waiting {
    int reason;   /* enum plan_reason of the plan after it */
    bool early;   /* TIMER_RETRY ends as soon as the job can do without the devices that failed */
    int put_offs; /* since the job last made progress */
};

/* Put the next generation off, until then at most: devices may tell of a newer version, or bring
 * one. */
void waiting_gather(struct core *core, struct job_slot *job, int64_t until_ms, const char *format,
                    ...) PRINTF_LIKE(4, 5);
/* The plan in core->planning needs devices that have just failed by themselves: whether it has to
 * wait. */
bool waiting_for_failed(struct core *core, struct job_slot *job);
/* Ask the devices that have just returned what they hold. */
void waiting_ask(struct core *core, struct job_slot *job);
/* Wait for devices that may bring a version newer than `start`, no longer than retraining takes.
 * Returns whether the job waits. */
bool waiting_for_newer(struct core *core, struct job_slot *job, int64_t start);
/* Too few devices: close the plan and wait, or pause when a pause was requested. */
void waiting_for_devices(struct core *core, struct job_slot *job, int reason, int64_t start,
                         const char *text);
/* Close the plan and delay the next generation by pause_ms. With code device_failed it begins as
 * soon as the job can do without the devices that failed. */
void waiting_put_off(struct core *core, struct job_slot *job, int reason, const char *code,
                     int64_t pause_ms, const char *text);
/* The next delay: a lease, doubled each time. */
int64_t waiting_put_off_ms(const struct core *core, struct job_slot *job);

#endif
