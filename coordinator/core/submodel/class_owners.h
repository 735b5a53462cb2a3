/* class_owners.h: which devices train which classes if samples stay on their devices: each group is
 * bound to a device of its own and trains on the samples of that device. Pure; nothing of the
 * core's state. docs/adr/0160. */
#ifndef COORDINATOR_CORE_SUBMODEL_CLASS_OWNERS_H
#define COORDINATOR_CORE_SUBMODEL_CLASS_OWNERS_H

#include "base/err.h"
#include "coordinator/core/submodel/class_groups.h"
#include "schema/limits.h"

#define OWNERS_MAX 1024 /* = PLANNING_DEVICES_MAX */
/* A class goes only to devices with at least this part of the samples of the device that has most
 * samples of the class. */
#define OWNER_SHARE_MIN 0.5

/* A device and its samples. A group needs two classes of its own and another class for negatives:
 * a device with fewer than three classes cannot have a group. */
struct class_owner {
    struct class_samples data;
    double speed; /* samples a second, in any unit; above 0 */
};

struct owner_problem {
    const struct class_owner *owner; /* [owner_count] at most OWNERS_MAX */
    size_t owner_count;
    size_t class_count; /* at most OFFER_CLASSES_MAX */
    size_t replicas;    /* groups that have each class */
    size_t group_count; /* replicas included; 0: as many as there can be */
    size_t groups_max;  /* that the channels allow */
    double negatives;   /* samples of other classes for each own one */
};

/* Choose the classes of each group, and its device, place[GROUPS_MAX]. Every class gets `replicas`
 * devices that have it. Every group gets two classes or more, but not all classes of its device. A
 * class goes to a device with many samples of it. Among those devices, the choice minimises the
 * time of the group that trains longest. If there are more devices than groups, the devices with
 * the fewest samples get no group. Widths stay 0. ERR_INVALID: no choice is possible. */
NODISCARD int class_owners_solve(const struct owner_problem *problem, struct class_groups *out,
                                 size_t *place, struct err *err);

#endif
