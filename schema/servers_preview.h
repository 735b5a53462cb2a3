/* servers_preview.h: the predicted step of a job of servers and workers, beside the same plan with
 * other transfers, a pipeline and one device. A part of the answer of a dry run. */
#ifndef SCHEMA_SERVERS_PREVIEW_H
#define SCHEMA_SERVERS_PREVIEW_H

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/parameter_server.h"

/* The ways to train that the preview compares. Of equally fast ones it names the first: a pipeline
 * of one stage is one device. */
enum servers_way {
    SERVERS_WAY_NONE,
    SERVERS_WAY_SINGLE,
    SERVERS_WAY_PIPELINE,
    SERVERS_WAY_PARAMETER_SERVER,
};

/* Seconds are those of a step; 0: there is no plan. */
struct servers_preview {
    int transfers; /* enum segments_transfers of the plan; without a plan, of the job */
    double step_seconds;
    /* With the stages and shares of the plan. */
    double optimal_seconds, whole_seconds, layer_seconds, layer_window_seconds;
    double pipeline_seconds;
    double single_seconds;          /* on the fastest device alone */
    struct device_id single_device; /* "": hypothetical, or none */
    char single_name[NAME_SIZE];
    int fastest; /* enum servers_way */
};
extern const struct record servers_preview_record;

#endif
