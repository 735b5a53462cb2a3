/* restored.h: the rows of the store as the first event of the coordinator's core. Pure. */
#ifndef COORDINATOR_CORE_RESTORED_H
#define COORDINATOR_CORE_RESTORED_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/capacity_row.h"
#include "libtrain/model/model.h"
#include "schema/dataset.h"
#include "schema/device.h"
#include "schema/incident.h"
#include "schema/job.h"
#include "schema/plan.h"

/* A job and its model, which the loop keeps alive until the job has ended. */
struct restored_job {
    struct job job;
    const struct model *model;
};

struct event_restored {
    uint64_t seed; /* seed of ids: entropy drawn once per start */
    const struct device *device;
    size_t device_count;
    const struct restored_job *job; /* jobs that have not ended */
    size_t job_count;
    const struct parent *parent; /* of the jobs above that consist of groups */
    size_t parent_count;
    const struct plan *plan; /* the newest plan of each of these jobs */
    size_t plan_count;
    const struct dataset *dataset;
    size_t dataset_count;
    const struct model_row *model;
    size_t model_count;
    const struct checkpoint *checkpoint; /* uploaded checkpoints */
    size_t checkpoint_count;
    const struct center_unit *center_unit;
    size_t center_unit_count;
    const struct incident *incident; /* open incidents */
    size_t incident_count;
    struct restored_capacities capacities;
};

#endif
