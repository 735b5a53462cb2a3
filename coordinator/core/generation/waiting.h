/* waiting.h: how a job waits for its next generation. */
#ifndef COORDINATOR_CORE_GENERATION_WAITING_H
#define COORDINATOR_CORE_GENERATION_WAITING_H

#include "coordinator/core/core.h"

struct job_slot;

struct waiting {
    int reason; /* enum plan_reason of the plan after the wait */
    bool early; /* TIMER_RETRY ends early if the job can do without the devices that failed */
    int delays; /* delays since the last progress of the job */
};

/* Wait `wait_ms` at most until the devices have reported their snapshots. */
void waiting_for_reports(struct core *core, struct job_slot *job, int64_t wait_ms);
/* Return whether the plan in core->planned must wait because its devices have just failed. */
bool waiting_for_failed(struct core *core, struct job_slot *job);
/* Close the plan and wait until the devices that returned have reported their snapshots. */
void waiting_ask(struct core *core, struct job_slot *job);
/* Wait for devices that may hold a version newer than `start`, at most as long as retraining takes.
 * Return whether the job waits. */
bool waiting_for_newer(struct core *core, struct job_slot *job, int64_t start);
/* Too few devices: close the plan and wait, or pause when a pause was requested. */
void waiting_for_devices(struct core *core, struct job_slot *job, int reason, int64_t start,
                         const char *text);
/* Close the plan and delay the next generation by pause_ms. With code device_failed it begins as
 * soon as the job can do without the devices that failed. */
void waiting_delay(struct core *core, struct job_slot *job, int reason, const char *code,
                   int64_t pause_ms, const char *text);
/* Return the next delay: a lease, doubled each time. */
int64_t waiting_delay_ms(const struct core *core, struct job_slot *job);

#endif
