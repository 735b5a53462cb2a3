/* job_metric.h: a metric in the list of GET /v1/jobs/{id}/metrics, with its part if the job has
 * parts. Wire form by the record below. */
#ifndef SCHEMA_JOB_METRIC_H
#define SCHEMA_JOB_METRIC_H

#include <stdint.h>

#include "base/record.h"
#include "schema/heartbeat.h"
#include "schema/part_of.h"

struct job_metric {
    struct metric metric;
    struct job_id job; /* the part; "": the requested job itself */
    int part;          /* enum job_part */
    int64_t group;
};
extern const struct record job_metric_record;

#endif
