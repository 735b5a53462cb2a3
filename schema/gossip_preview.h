/* gossip_preview.h: the preview of a job of groups that train apart: its groups on their devices,
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
    bool slows;                /* it trains slower after these steps until it has mixed */
    /* Mean rates at which it sends and receives copies for mixes and averages. */
    double given_bytes_per_second, taken_bytes_per_second;
    double link_share; /* the greater of both, divided by the rate of its link; 0: the rate is
                          unknown */
};

/* The ways to train that the preview compares. */
enum gossip_way { GOSSIP_WAY_NONE, GOSSIP_WAY_GOSSIP, GOSSIP_WAY_PIPELINE, GOSSIP_WAY_SINGLE };

/* 0 seconds: there is no plan. */
struct gossip_preview {
    struct preview_mixer group[GROUPS_MAX];
    size_t group_count; /* 0: too few devices */
    double period_seconds;
    int64_t copy_bytes;   /* that a group sends and receives in a period */
    double epoch_seconds; /* until all groups together have trained as many samples as the data set
                             has */
    double total_seconds; /* until they have made the steps of the job */
    /* The same steps in rounds of one pass: with equal parts of the data, with parts by speed. */
    double rounds_seconds, sized_rounds_seconds;
    double pipeline_seconds; /* of the same steps, by the plan of `stages` */
    double single_seconds;   /* the same on the fastest device alone */
    int fastest;             /* enum gossip_way */
};
extern const struct record gossip_preview_record;

#endif
