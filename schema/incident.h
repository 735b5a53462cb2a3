/* incident.h: one failure of a running job, from the first suspicion to resumed training, with a
 * time for each phase. Wire form by the record below. */
#ifndef SCHEMA_INCIDENT_H
#define SCHEMA_INCIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/part_of.h"

#define INCIDENT_DEVICES_MAX 8

enum incident_cause {
    INCIDENT_DEVICE_LOST,      /* its lease ended, or it was silent and refused its neighbours'
                                  connections */
    INCIDENT_DEVICE_RESTARTED, /* it came back with a new boot */
    INCIDENT_LINK,             /* two live devices do not reach each other */
    INCIDENT_STALLED,          /* a stage holds work and makes no progress */
    INCIDENT_ERROR,            /* a device reported one */
    INCIDENT_DEADLINE,         /* a phase took too long */
};
extern const char *const incident_cause_names[];

enum incident_state {
    INCIDENT_OPEN,
    INCIDENT_RESOLVED,  /* the job trains again */
    INCIDENT_ABANDONED, /* it ended or was paused before */
};
extern const char *const incident_state_names[];

struct incident_device {
    struct device_id id;
    char name[NAME_SIZE];
};

struct incident {
    struct incident_id id;
    int64_t revision;
    struct job_id job;
    struct part_of of;
    int state; /* enum incident_state */
    int cause; /* enum incident_cause: of the first failure */
    char message[MESSAGE_SIZE];
    struct incident_device device[INCIDENT_DEVICES_MAX]; /* the failed devices */
    size_t device_count;
    int64_t generation_before; /* the generation that failed first */
    int64_t generation_after;  /* the generation that resumed; 0: not yet */
    int64_t failures;          /* generations that failed on the way */
    int64_t step_reached;      /* the highest reported step */
    int64_t resume_version;
    int64_t steps_redone; /* step_reached - resume_version, at least 0 */
    int64_t bytes_moved;  /* state fetched from devices and the center */
    double detect_seconds, decide_seconds, fetch_seconds, rebuild_seconds, resume_seconds;
    int64_t suspected_ms; /* wall time: the last sign of life or progress */
    int64_t detected_ms, decided_ms, fetched_ms, ready_ms, resumed_ms; /* wall times; 0: not yet */
};
extern const struct record incident_record;

#endif
