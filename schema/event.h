/* event.h: one public event: a change, in one sentence. GET /v1/events sends it as server-sent
 * event: its `id` is the event's id, its `event` the type, its `data` this record. Plain struct;
 * wire form by the record below. */
#ifndef SCHEMA_EVENT_H
#define SCHEMA_EVENT_H

#include <stdint.h>

#include "base/record.h"
#include "schema/limits.h"
#include "schema/part_of.h"

/* Every type of event; NULL-terminated. */
extern const char *const public_event_types[];
/* Return the index of a type in public_event_types; -1: unknown type. */
int public_event_type(const char *text);

struct public_event {
    char id[ID_SIZE];       /* "evt_...": sortable, Last-Event-ID resumes after it */
    char type[REASON_SIZE]; /* "job_running", "device_lost", ... */
    char subject[ID_SIZE];  /* id of the job, device, plan or checkpoint; "" for an object with a
                               name */
    struct job_id job;      /* of the event; also if the subject is its plan, incident or model */
    struct part_of of;      /* of job */
    char message[MESSAGE_SIZE]; /* one sentence for people */
    int64_t created_ms;
};

extern const struct record public_event_record;

#endif
