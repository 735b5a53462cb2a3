/* job_metric.h: a metric as GET /v1/jobs/{id}/metrics lists it: with its part where the job has
 * parts. Wire form by the record below. */
#ifndef SCHEMA_JOB_METRIC_H
#define SCHEMA_JOB_METRIC_H

#include <stdint.h>

#include "base/record.h"
#include "schema/heartbeat.h"
#include "schema/part_of.h"

struct job_metric {
    struct metric metric;
    struct job_id job; /* the part; "": the job that was asked for */
    int part;          /* enum job_part */
    int64_t group;
};
extern const struct record job_metric_record;

#endif
