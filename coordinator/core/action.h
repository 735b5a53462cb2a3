/* action.h: the requests of the coordinator's core to the world, as plain data. The loop carries
 * out every PERSIST and FORGET in one transaction, then the rest in order (persist before reply).
 * Object pointers are borrowed until the next core_step. Pure. */
#ifndef COORDINATOR_CORE_ACTION_H
#define COORDINATOR_CORE_ACTION_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/capacity_row.h"
#include "schema/dataset.h"
#include "schema/heartbeat.h"
#include "schema/id.h"
#include "schema/part_of.h"
#include "schema/problem.h"

/* The kind of an object: its table and the record that describes it. */
enum object_kind {
    OBJECT_DEVICE,      /* struct device */
    OBJECT_JOB,         /* struct job */
    OBJECT_PARENT,      /* struct parent; never woken */
    OBJECT_PLAN,        /* struct plan */
    OBJECT_DATASET,     /* struct dataset */
    OBJECT_MODEL,       /* struct model_row */
    OBJECT_CHECKPOINT,  /* struct checkpoint */
    OBJECT_CENTER_UNIT, /* struct center_unit */
    OBJECT_INCIDENT,    /* struct incident */
    OBJECT_MIX,         /* struct mix_row; never woken */
    OBJECT_ASSIGNMENT,  /* of a device; woken, never persisted */
    OBJECT_JOIN_REPLY,  /* replied only, as all that follow */
    OBJECT_ENROLL_REPLY,
    OBJECT_HEARTBEAT_REPLY,
    OBJECT_JOB_PREVIEW, /* answer to a dry run */
    OBJECT_PLAN_ANSWER, /* struct plan_answer: answer to a plan question */
    OBJECT_NOTHING,     /* an empty reply */
};

enum action_type {
    ACTION_PERSIST, /* write the object's row */
    /* delete the row `id` of `kind`; JOB: with all rows that belong to it; CENTER_UNIT: all rows of
     * the job `id` below `version` */
    ACTION_FORGET,
    ACTION_REPLY,   /* answer the request of the event with `status` and the object */
    ACTION_PROBLEM, /* answer the request of the event with a problem */
    ACTION_WAKE,    /* wake the requests that wait for a new revision of `kind`/`id` */
    /* assemble the model of job `id` from the center's units of `version`; answer: EVENT_EXPORTED
     */
    ACTION_EXPORT,
    ACTION_TUNE, /* put core_job_kernels into the model of job `id`; answer: EVENT_TUNED */
    /* make the descriptions of the parts of job `id` in the phase of core_parent; answer:
     * EVENT_DERIVED */
    ACTION_DERIVE,
    /* assemble the model of job `id` from the trained parts of core_parent; answer:
     * EVENT_HARVESTED */
    ACTION_HARVEST,
    /* answer core_planning of question `question` on another thread; answer: EVENT_PLANNED */
    ACTION_PLAN,
    ACTION_DELETE_BLOB, /* delete the blob `sha256`: nothing refers to it */
    /* delete the blob `sha256` unless the core or a row refers to it: the core does not know the
     * checkpoints of ended jobs */
    ACTION_DELETE_CHECKPOINT,
    ACTION_METRIC,   /* telemetry: one number of a job */
    ACTION_MEASURED, /* telemetry: the history of a device, struct measured_units */
    ACTION_CAPACITY, /* telemetry: the changes of a device's capacity, struct capacity_change */
    ACTION_PUBLISH,  /* a public event: type, subject `id`, text */
};

struct action {
    enum action_type type;
    enum object_kind kind;
    const void *object;
    char id[NAME_SIZE]; /* or the name of a data set or model */
    int64_t version;
    uint64_t question;         /* PLAN */
    int status;                /* REPLY: 200, 201, 202, 204 */
    int protocol;              /* REPLY: protocol version of the reader; 0: not an agent */
    enum problem_code problem; /* PROBLEM */
    char sha256[SHA256_SIZE];
    struct metric metric;
    const struct measured_units *measured;
    const struct capacity_change *capacity;
    const char *event;       /* PUBLISH: static text, "job_running" */
    struct job_id job;       /* PUBLISH: the job of the event; "": none */
    struct part_of of;       /* PUBLISH: the parent of `job` */
    char text[MESSAGE_SIZE]; /* PROBLEM: detail; PUBLISH: one sentence */
};

#define ACTIONS_MAX 8192
struct actions {
    struct action *item; /* [ACTIONS_MAX], allocated once by the loop */
    size_t count;
};

#endif
