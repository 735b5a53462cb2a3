/* submodel_preview.h: the preview of a job of sub-models: its groups on their devices, the seconds
 * of its phases and its savings, beside the target as a pipeline and on one device. A part of the
 * answer of a dry run. */
#ifndef SCHEMA_SUBMODEL_PREVIEW_H
#define SCHEMA_SUBMODEL_PREVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/submodel.h"

/* A group as predicted. Seconds are 0 where no device fits. */
struct preview_group {
    int64_t group;
    int64_t class_of[COUNTED_CLASSES_MAX];
    size_t class_count;
    double width;
    int64_t samples;         /* of an epoch */
    double flops_per_sample; /* as of submodel_compute */
    struct device_id device; /* "": hypothetical, or none */
    char name[NAME_SIZE];    /* of the device */
    int64_t memory_bytes;
    double begins_seconds; /* after the phase of groups begins; groups queue for devices */
    double seconds;
    char failure[MESSAGE_SIZE]; /* why no device can train it; "": a device can */
};

/* The ways to train the target that a preview compares. */
enum preview_way { WAY_NONE, WAY_SUBMODEL, WAY_PIPELINE, WAY_SINGLE };

/* 0 seconds: there is no plan. */
struct submodel_preview {
    struct preview_group group[GROUPS_MAX];
    size_t group_count;
    double stem_seconds, groups_seconds, joint_seconds; /* of a phase that the job leaves out: 0 */
    double total_seconds;
    bool runs; /* every phase has a plan: the seconds are known */
    struct submodel_compute compute;
    double pipeline_seconds;        /* of the target in the same epochs, by the plan of `stages` */
    double single_seconds;          /* the same on the fastest device alone */
    struct device_id single_device; /* "": hypothetical, or none */
    char single_name[NAME_SIZE];
    int fastest; /* enum preview_way; WAY_NONE: no way has a plan */
};
extern const struct record submodel_preview_record;

#endif
