/* gossip_preview.h: what a job of groups that train apart would get: its groups on their devices,
 * how often they mix, and its seconds beside those of a pipeline and of one device. A part of the
 * answer of a dry run. */
#ifndef SCHEMA_GOSSIP_PREVIEW_H
#define SCHEMA_GOSSIP_PREVIEW_H

#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"

struct preview_mixer {
    struct device_id device;
    char name[NAME_SIZE];      /* of the device */
    int64_t samples;           /* of its part of the data */
    double samples_per_second; /* expected */
    int64_t every;             /* steps between two mixes */
    bool slows;                /* after them, until it has mixed */
    /* For mixes and averages, in the mean. */
    double given_bytes_per_second, taken_bytes_per_second;
    double link_share; /* the greater of both over the rate of its link; 0: that is not known */
};

/* The ways to train that the preview compares. */
enum gossip_way { GOSSIP_WAY_NONE, GOSSIP_WAY_GOSSIP, GOSSIP_WAY_PIPELINE, GOSSIP_WAY_SINGLE };

/* 0 seconds: there is no plan. */
struct gossip_preview {
    struct preview_mixer group[GROUPS_MAX];
    size_t group_count; /* 0: too few devices are there */
    double period_seconds;
    int64_t copy_bytes;   /* that a group gives and takes in a period */
    double epoch_seconds; /* in which all groups together train as many samples as there are */
    double total_seconds; /* until they have made the steps of the job */
    /* Of the same steps in rounds of one pass, with equal parts of the data and by speed. */
    double rounds_seconds, sized_rounds_seconds;
    double pipeline_seconds; /* of the same steps, by the plan of `stages` */
    double single_seconds;   /* the same on the fastest device alone */
    int fastest;             /* enum gossip_way */
};
extern const struct record gossip_preview_record;

#endif
