/* event.h: the inputs of the coordinator's core, as plain data. Pointers are borrowed for the step,
 * except `model`: the core keeps it until the job has ended. Pure. */
#ifndef COORDINATOR_CORE_EVENT_H
#define COORDINATOR_CORE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/device_event.h"
#include "coordinator/core/parent_event.h"
#include "coordinator/core/restored.h"
#include "coordinator/core/user_event.h"
#include "libtrain/model/model.h"
#include "schema/assignment.h"
#include "schema/dataset.h"
#include "schema/device.h"
#include "schema/heartbeat.h"
#include "schema/incident.h"
#include "schema/job.h"
#include "schema/plan.h"
#include "schema/what_if.h"

enum event_type {
    EVENT_RESTORED, /* always the first: the rows of the store, or none */
    EVENT_TICK,     /* core_deadline_ms is reached */
    EVENT_JOIN,     /* a machine with a join token: its key may enrol */
    EVENT_ENROLL,
    EVENT_HEARTBEAT,
    EVENT_DEVICE_VERB,
    EVENT_JOB_SUBMIT,
    EVENT_JOB_VERB,
    EVENT_JOB_PATCH,
    EVENT_DATASET_STORED,    /* the upload is durable in the blob store */
    EVENT_MODEL_STORED,      /* POST /v1/models */
    EVENT_CHECKPOINT_STORED, /* an uploaded checkpoint is durable in the blob store */
    EVENT_BLOB_STORED,       /* a unit's state from an agent is durable in the blob store */
    EVENT_EXPORTED,          /* the answer to ACTION_EXPORT */
    EVENT_TUNED,             /* the answer to ACTION_TUNE */
    EVENT_DERIVED,           /* the answer to ACTION_DERIVE */
    EVENT_HARVESTED,         /* the answer to ACTION_HARVEST */
    EVENT_AVERAGE_STORED,    /* an average of groups is durable in the blob store, or
                                refused */
    EVENT_PLANNED,           /* the answer to ACTION_PLAN */
    EVENT_PLAN_QUESTION,     /* POST /v1/plans: answered with OBJECT_PLAN_ANSWER or a problem */
    EVENT_CONTACT,           /* a device made any other call: it is alive */
    EVENT_POLL_BROKEN,       /* the connection of a device's parked poll broke: it may be lost */
    EVENT_BLOB_DAMAGED,      /* the content of a blob in the center does not match its hash */
    EVENT_DELETE,            /* of a stored object */
    EVENT_DISK,              /* the store's disk is nearly full, or has room again */
};

/* The forecast of a job by further searches of the planner; NULL: the job has another strategy. */
struct event_forecast {
    const struct submodel_preview *submodel;
    const struct servers_preview *servers;
};

struct event_job_submit {
    const struct job_spec *spec; /* passed job_spec_check; model.sha256 and model.name are set */
    const struct job_data *data;
    const struct model *model;
    bool dry_run;
    const struct event_planned *planned; /* dry run: the answer to core_plan_submission */
    const struct event_classes *classes; /* of a job of sub-models; else NULL */
    struct event_forecast forecast;      /* of a dry run */
};

enum job_verb {
    JOB_PAUSE,
    JOB_RESUME,
    JOB_CANCEL,
    JOB_CANCEL_KEEP, /* cancel, and keep the newest whole version as a checkpoint */
    JOB_EXPORT,      /* the newest whole version becomes a checkpoint */
    JOB_REPLAN,
};
struct event_job_verb {
    struct job_id job;
    enum job_verb verb;
    int64_t if_revision;                 /* 0: any */
    const struct replan_request *replan; /* JOB_REPLAN */
    const struct plan *plan;             /* JOB_REPLAN: plan of replan->generation; NULL: none */
};

struct event_dataset_stored {
    const struct dataset *dataset; /* the core sets revision and created_ms */
};

struct event_model_stored {
    const struct model_row *model;
};

struct event_checkpoint_stored {
    char sha256[SHA256_SIZE];
    int64_t bytes;
};

struct event_blob_stored {
    struct device_id device;
    struct center_unit unit;
};

struct event_exported {
    struct job_id job;
    int64_t version;
    bool failed;
    char message[MESSAGE_SIZE];
    char sha256[SHA256_SIZE];
    int64_t bytes;
};

struct event_tuned {
    struct job_id job;
    int64_t generation;        /* that measured the kernels */
    const struct model *model; /* names the kernels; NULL: failed, see message */
    char sha256[SHA256_SIZE];  /* hash of the model's description */
    char message[MESSAGE_SIZE];
};

struct planned;

struct event_planned {
    uint64_t question;
    const struct planned *planned;
    int code; /* 0, or the error of placement_solve, with its text */
    char message[MESSAGE_SIZE];
};

struct event_plan_question {
    const struct plan_question *question;
    const struct event_planned *planned; /* the best answer to core_plan_question, or the first */
    /* The job of question->spec. NULL and 0 if the question is about a live job. */
    const struct job_spec *spec;
    const struct model *model;
    int64_t steps;
    const struct job_data *data;
    const struct event_classes *classes; /* NULL: not counted, or the data stay on devices */
    struct event_forecast forecast;
    /* If question->vary is set: the combinations, in the order of the answer. */
    const struct plan_combination *combination;
    size_t combination_count;
};

struct event_blob_damaged {
    char sha256[SHA256_SIZE];
    char message[MESSAGE_SIZE]; /* names the damaged object, for users */
};

struct event_disk {
    bool nearly_full; /* rounds to the center pause */
};

struct event {
    enum event_type type;
    int64_t now_ms;   /* CLOCK_BOOTTIME, the only clock of decisions */
    int64_t wall_ms;  /* time of day, for display and ids only */
    uint64_t request; /* the request to answer; 0: none */
    union {
        struct event_restored restored;
        struct event_join join;
        struct event_enroll enroll;
        struct event_heartbeat heartbeat;
        struct event_device_verb device_verb;
        struct event_job_submit job_submit;
        struct event_job_verb job_verb;
        struct event_job_patch job_patch;
        struct event_dataset_stored dataset_stored;
        struct event_model_stored model_stored;
        struct event_checkpoint_stored checkpoint_stored;
        struct event_blob_stored blob_stored;
        struct event_exported exported;
        struct event_tuned tuned;
        struct event_derived derived;
        struct event_harvested harvested;
        struct event_average_stored average_stored;
        struct event_planned planned;
        struct event_plan_question plan_question;
        struct event_contact contact;
        struct event_poll_broken poll_broken;
        struct event_blob_damaged blob_damaged;
        struct event_delete delete;
        struct event_disk disk;
    };
};

#endif
