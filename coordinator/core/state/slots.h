/* slots.h: finds devices and jobs by id (NULL: unknown), by index in order of ids, and by stage. */
#ifndef COORDINATOR_CORE_STATE_SLOTS_H
#define COORDINATOR_CORE_STATE_SLOTS_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;
struct parent_slot;

struct device_slot *slots_device(const struct core *core, const char *id);
struct job_slot *slots_job(const struct core *core, const char *id);
/* Return a job that consists of groups. slots_job does not find such jobs. */
struct parent_slot *slots_parent(const struct core *core, const char *id);
struct parent_slot *slots_parent_at(const struct core *core, size_t index);
struct device_slot *slots_device_at(const struct core *core, size_t index);
struct job_slot *slots_job_at(const struct core *core, size_t index);
struct device_slot *slots_stage_device(const struct core *core, const struct job_slot *job,
                                       size_t stage);

#endif
