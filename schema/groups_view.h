/* groups_view.h: the parts of a job as GET /v1/jobs/{id}/groups shows them. Pure. */
#ifndef SCHEMA_GROUPS_VIEW_H
#define SCHEMA_GROUPS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/submodel.h"

struct part_view {
    int state; /* enum part_state */
    struct job_id job;
    int64_t attempts;
    struct checkpoint_id checkpoint;
};

/* A group's last evaluation of an average on the samples that its device holds out. */
struct group_tests {
    int64_t step, samples;
    double loss, accuracy;
};

/* A group that trains apart from others, as far as it trains now. */
struct group_mixes {
    struct device_id device; /* "": no device trains it */
    int64_t samples;         /* of its part of the data */
    int64_t steps;           /* of all its jobs */
    int64_t every;           /* steps between two mixes */
    bool slows;              /* it trains slower after these steps until it has mixed */
    int64_t mixes;           /* of its present job since the job began or moved to another device */
    int64_t missed_periods;  /* since its last mix */
    double samples_per_second; /* 0: not measured */
    double mix_seconds;        /* of its newest mix, without waits; 0: unknown */
    bool averages;             /* it computes an average now */
    double loss;               /* of its training; has_loss */
    bool has_loss;
    double distance; /* from the last average it was part of; has_distance */
    bool has_distance;
    double gap_seconds;       /* the longest between two steps */
    struct group_tests tests; /* has_tests */
    bool has_tests;
};

struct group_view {
    int64_t group;
    int64_t class_of[COUNTED_CLASSES_MAX];
    size_t class_count;
    double width;
    struct label label[LABELS_MAX];
    size_t label_count;
    struct device_id device; /* the device that prefers its classes; "": none */
    double flops_per_sample; /* 0: not begun */
    struct part_view part;
    struct group_mixes mixes; /* has_mixes */
    bool has_mixes;
};

struct average_view {
    struct checkpoint_id checkpoint;
    int64_t step;
    double accuracy;
    bool has_accuracy;
};

struct groups_view {
    struct job_id job;
    int phase; /* enum parent_phase */
    struct part_view stem, joint;
    struct group_view group[GROUPS_MAX];
    size_t group_count;
    int64_t divisions;
    struct checkpoint_id harvest;
    int64_t missing[COUNTED_CLASSES_MAX]; /* classes of which no group was trained */
    size_t missing_count;
    struct submodel_compute compute;
    struct average_view average[GOSSIP_AVERAGES_KEPT]; /* the newest last */
    size_t average_count;
    int64_t averages; /* stored so far */
};
extern const struct record groups_view_record;

/* Fill *out, which is zeroed: it is large. */
void groups_view_fill(const struct parent *parent, struct groups_view *out);

#endif
