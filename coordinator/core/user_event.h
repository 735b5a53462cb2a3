/* user_event.h: the contents of the events of PATCH and DELETE. Pointers are borrowed for the step.
 * Pure. */
#ifndef COORDINATOR_CORE_USER_EVENT_H
#define COORDINATOR_CORE_USER_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/id.h"
#include "schema/job.h"
#include "schema/limits.h"

struct event_job_patch {
    struct job_id job;
    int64_t if_revision; /* 0: any */
    struct replication_periods replication;
    int64_t replan_first, replan_every;
};

/* Objects that users delete. The order is that of a table in deletions.c. */
enum delete_kind { DELETE_DATASET, DELETE_MODEL, DELETE_CHECKPOINT, DELETE_JOB, DELETE_INCIDENT };

/* The edge reads these values from the row of the object: ended jobs and most checkpoints and
 * incidents exist only as rows. */
struct event_delete {
    enum delete_kind kind;
    char id[NAME_SIZE]; /* or its name */
    int64_t revision;
    int64_t if_revision; /* 0: any */
    struct job_id job;   /* DELETE_JOB: the same as id; DELETE_INCIDENT: its job */
    /* The blobs of a data set or checkpoint; of a job and its parts: [unit_count] units that the
     * center keeps, then their checkpoints. */
    const char (*sha256)[SHA256_SIZE];
    size_t sha256_count, unit_count;
    const struct job_id *part; /* [part_count] of a job: the jobs that are its parts */
    size_t part_count;
    bool parts_only; /* forget these parts; the job and its other parts follow */
};

#endif
