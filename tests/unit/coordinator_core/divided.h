/* divided.h: a job of sub-models on spoken digits, and five devices with slowdowns of 2, 2, 4, 6
 * and 10, for tests of its division. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_DIVIDED_H
#define TESTS_UNIT_COORDINATOR_CORE_DIVIDED_H

#include "coordinator/core/state/state.h"
#include "tests/unit/coordinator_core/world.h"

#define DIVIDED_CLASSES 10
#define DIVIDED_DEVICES 5
#define DIVIDED_BATCH 32

struct divided {
    struct world *world;
    struct model *model;
    struct parent_slot *parent;
};

/* class_samples: training samples of each class. */
void divided_begin(struct divided *bench, const char *model, uint32_t classes,
                   int64_t class_samples);
void divided_end(struct divided *bench);
/* Plan the groups. */
const struct class_groups *divided_plan(struct divided *bench);
/* The index of the group's device among those of the plan. */
size_t divided_device(const struct core *core, const struct class_group *group);
/* The expected seconds of a sample, and the samples of an epoch, of each group on the device that
 * it was planned for. */
void divided_samples(const struct divided *bench, const struct class_groups *groups,
                     double *seconds, double *samples);
/* The expected seconds of an epoch of each group. */
void divided_seconds(const struct divided *bench, const struct class_groups *groups,
                     double *seconds);

#endif
