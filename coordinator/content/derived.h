/* derived.h: makes the model descriptions of a parent's parts: the slices of its groups, and the
 * harvested model with frozen units. The descriptions of a job are stored in the transaction of its
 * parts' rows; those of a forecast are not stored. */
#ifndef COORDINATOR_CONTENT_DERIVED_H
#define COORDINATOR_CONTENT_DERIVED_H

#include "base/err.h"
#include "coordinator/core/parent_event.h"
#include "coordinator/turn/turn.h"

struct catalog_entry;
struct coordinator;

/* The models of parts, which stay in the catalog until derived_let_go. */
struct derived_set {
    struct coordinator *coordinator;
    struct derived_model model[GROUPS_MAX + 1];
    struct turn_description description[GROUPS_MAX + 1];
    size_t count;
};

/* Add the models of all groups, or the model of the joint phase, of a target. The loop's thread.
 * ERR_INVALID names the group or the unit; ERR_MEMORY. */
NODISCARD int derived_add_groups(struct derived_set *set, const struct submodel_options *options,
                                 const struct class_groups *groups,
                                 const struct catalog_entry *target, struct err *err);
NODISCARD int derived_add_joint(struct derived_set *set, const struct submodel_options *options,
                                const struct catalog_entry *target, struct err *err);
void derived_let_go(struct derived_set *set);

/* Make the descriptions for the phase of the parent. The result, a success or an error, arrives as
 * EVENT_DERIVED in a turn of its own, unless the program ends first. It is ignored if the job has
 * ended meanwhile. The loop's thread. ERR_MEMORY. */
NODISCARD int derived_start(struct coordinator *coordinator, const char *job_id, struct err *err);

#endif
