/* submodel.h: a job of sub-models: its options, its class groups, and the state of the parent: the
 * job that consists of such groups. Defaults and meaning: docs/jobs.md. Plain structs. */
#ifndef SCHEMA_SUBMODEL_H
#define SCHEMA_SUBMODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "libtrain/model/model.h"
#include "schema/device.h"
#include "schema/gossip.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/part_of.h"

struct unit_name {
    char text[NAME_SIZE];
};

#define JOINT_UNITS_MAX 32

struct submodel_options {
    int64_t stem;        /* units that all sub-models share */
    int64_t stem_epochs; /* 0: the stem comes from init.checkpoint */
    int64_t group_count; /* 0: one for each device */
    double negatives;    /* samples of other classes for each own one */
    bool allow_no_negatives;
    int64_t replicas;                             /* groups that serve each class */
    int64_t joint_epochs;                         /* 0: the harvested model is the result */
    int joint_units;                              /* enum joint_units: what they train */
    struct unit_name joint_unit[JOINT_UNITS_MAX]; /* JOINT_NAMED */
    size_t joint_unit_count;
    char joint_dataset[NAME_SIZE]; /* uploaded, in place of data that stay on devices; "": none */
    int64_t deadline_seconds;      /* of the groups; 0: none */
    json_t *groups; /* input; owned. NULL inside cores, which use struct class_groups */
};
#define SUBMODEL_OPTIONS_DEFAULT                                                                   \
    {                                                                                              \
        .stem = 1, .stem_epochs = 1, .negatives = 1, .replicas = 1, .joint_epochs = 1              \
    }

/* The units that the joint phase trains: the last unit with parameters, all units, or a list, which
 * has no name on the wire. */
enum joint_units { JOINT_HEAD, JOINT_ALL, JOINT_NAMED };
extern const char *const joint_units_names[];

#define WORK_DEVICES_MAX (2 * STAGES_MAX) /* devices whose operations are counted separately */

/* Facts of a group's data if they stay on its device. */
struct group_data {
    char sha256[SHA256_SIZE];
    int64_t own, held, others, drawn; /* samples of its view (view.h) */
};

/* One group: its range of the class list that all groups share, and its share of the channels. */
struct class_group {
    int64_t class_first, class_count;
    double width; /* a share of the channels: those of all groups add up to 1 */
    struct label label[LABELS_MAX];
    size_t label_count;
    /* The device that the group was planned for, though it may train on any device. If the job's
     * data stay on devices: the device whose data it trains on. "": none */
    struct device_id device;
    struct group_data data; /* of data that stay on devices, else empty */
};

struct class_groups {
    struct class_group group[GROUPS_MAX];
    size_t count;
    int64_t class_of[GROUP_CLASSES_MAX];
    size_t class_count;
};

/* The phases of a parent, in the order of a job of sub-models. */
enum parent_phase {
    PARENT_STEM,
    PARENT_GROUPS,
    PARENT_HARVEST,
    PARENT_JOINT,
    PARENT_MIXING, /* the only one of a job of strategy gossip */
    PARENT_ENDED,
};
extern const char *const parent_phase_names[];

enum part_state {
    PART_WAITING, /* its job is not made yet */
    PART_TRAINS,
    PART_TRAINED,
    PART_MISSING, /* abandoned after failures, by the quality gate or at the deadline */
};
extern const char *const part_state_names[];

/* The operations of a job of sub-models, by device: those of submodel_compute. */
struct submodel_work {
    struct device_work {
        struct device_id device;
        double flops;
    } device[WORK_DEVICES_MAX]; /* the first that worked for it */
    size_t device_count;
    double flops; /* of all devices */
};

/* The savings of a job of sub-models against training the target alone in the same epochs, as
 * factors, and the job's own operations. Operations are those of the plan: one forward pass of each
 * frozen unit, three of each trained one. 0: nothing to compare yet. */
struct submodel_compute {
    double per_sample_least, per_sample_most; /* operations of a sample: target / group */
    double total;                             /* operations: target / all parts */
    double busiest;                           /* operations: target / busiest device */
    double flops;                             /* of all parts */
};
extern const struct record submodel_compute_record;

/* A part of a parent: its newest job and, after that job has succeeded, its model. */
struct parent_part {
    int state; /* enum part_state */
    struct job_id job;
    int64_t attempts;
    int64_t reseeded; /* attempts that did not learn: the next one has another seed */
    struct checkpoint_id checkpoint;
    char sha256[SHA256_SIZE];
    int64_t bytes;
    double flops_per_sample; /* of its newest job; 0: not begun */
    int64_t counted;         /* version of that job up to which operations are counted */
};

/* The row of a parent beside its job: written with every change, so that a restart finds the same
 * phase. */
struct parent {
    struct job_id job;
    int64_t revision;
    int phase; /* enum parent_phase */
    bool paused;
    int64_t class_samples[COUNTED_CLASSES_MAX]; /* training samples of each class */
    size_t class_count;
    int64_t joint_samples[COUNTED_CLASSES_MAX]; /* the same of submodel.joint.dataset */
    size_t joint_class_count;                   /* 0: the joint phase trains on the same data */
    struct class_groups groups; /* given, or planned when the phase of groups begins; count 0 */
    int64_t divisions;          /* how often groups were planned for devices; 0: given */
    struct parent_part stem, joint;
    struct parent_part part[GROUPS_MAX]; /* of the groups */
    int64_t groups_until_ms;             /* the deadline of the groups (wall time); 0: none */
    int64_t groups_left_ms;              /* until the deadline when it was paused; 0: none */
    struct checkpoint_id harvest;        /* "": not harvested yet */
    char harvest_sha256[SHA256_SIZE];
    int64_t harvest_bytes;
    struct submodel_work work; /* of plans that have ended */
    struct submodel_compute compute;
    struct gossip_state gossip; /* of a job of that strategy */
};
extern const struct record parent_record;
/* List the classes without a group that is trained or will be. Returns their number. */
size_t parent_missing(const struct parent *parent, int64_t class_of[COUNTED_CLASSES_MAX]);
extern const struct record submodel_options_record;

/* Set frozen[] for the units that the joint phase does not train. Returns whether it trains any. */
bool submodel_joint_frozen(const struct submodel_options *options, const struct model *model,
                           bool frozen[MODEL_UNITS_MAX]);

struct job_spec;
/* Check the rules between the fields of a job of sub-models, and between its `submodel` and the
 * other fields. Adds faults. ERR_INVALID when there is one; err names the first. */
NODISCARD int submodel_check(const struct job_spec *spec, struct record_faults *faults,
                             struct err *err);
/* Check the units of the joint phase. Adds faults. ERR_INVALID. */
NODISCARD int submodel_joint_check(const struct submodel_options *options,
                                   const struct model *model, struct record_faults *faults,
                                   struct err *err);
/* Read options->groups, if any: out->count is 0 without. class_count: classes of the data set.
 * Widths are 0 where none are given. Adds a fault for each unknown class, class that is not in
 * `replicas` groups, and width that does not fit. ERR_INVALID. */
NODISCARD int submodel_groups_read(const struct submodel_options *options, int64_t class_count,
                                   struct class_groups *out, struct record_faults *faults,
                                   struct err *err);
/* Return the groups in the form that submodel_groups_read reads; the caller owns them. NULL: out of
 * memory. */
json_t *submodel_groups_write(const struct class_groups *groups);

#endif
