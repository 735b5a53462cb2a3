/* replicas.h: the copies of a job's units on its devices, and the cost of each failure (GET
 * /v1/jobs/{id}/replicas). Wire form by the record below. */
#ifndef SCHEMA_REPLICAS_H
#define SCHEMA_REPLICAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/part_of.h"

#define COPIES_MAX 16  /* shown for one unit, the newest */
#define LOSSES_MAX 512 /* every single device of a plan and every two of them */

struct replica_copy {
    struct device_id device;
    int64_t version;
    int64_t generation;
};

struct replica_unit {
    int64_t unit;
    struct replica_copy copy[COPIES_MAX]; /* newest first */
    size_t copy_count;
};

/* The cost of losing these devices now. */
struct replica_loss {
    struct device_id device[2];
    size_t device_count;
    int64_t resume_version;
    int64_t steps_lost;
    bool can_continue; /* enough devices and memory remain; false: the job waits for devices */
};

struct replicas {
    int64_t step;
    int64_t neighbor_version; /* committed: survives the loss of any single device; 0: the seed */
    int64_t center_version;   /* whole at the coordinator; 0: the seed */
    struct replica_unit unit[UNITS_MAX];
    size_t unit_count;
    struct replica_loss single[STAGES_MAX];
    size_t single_count;
    struct replica_loss pair[LOSSES_MAX];
    size_t pair_count;
};
extern const struct record replicas_record;

/* The copies of a part, in the answer for its parent. */
struct part_replicas {
    struct job_id job;
    struct part_of of;
    struct replicas copies;
};
extern const struct record part_replicas_record;

#endif
