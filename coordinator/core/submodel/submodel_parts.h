/* submodel_parts.h: writes the job of each part of a job of sub-models: an ordinary job with the
 * fields of its parent. */
#ifndef COORDINATOR_CORE_SUBMODEL_SUBMODEL_PARTS_H
#define COORDINATOR_CORE_SUBMODEL_SUBMODEL_PARTS_H

#include "coordinator/core/core.h"
#include "coordinator/core/submodel/class_groups.h"
#include "libtrain/model/slim.h"

struct parent_slot;

/* Return the division of the target's channels among the groups. group: out, of its pointers. */
struct slim_split submodel_split(const struct model *target, size_t stem,
                                 const struct class_groups *groups,
                                 struct slim_group group[GROUPS_MAX]);
/* Write the view of a group on these data, and its sizes. */
void submodel_group_view(const struct class_groups *groups, size_t group,
                         const struct class_samples *data, double negatives, struct view *view,
                         struct view_sizes *sizes);
/* Check that each group has at least one batch in an epoch, because it trains only whole batches.
 * ERR_INVALID. */
NODISCARD int submodel_check_epochs(const struct class_problem *problem,
                                    const struct class_groups *groups, int64_t batch,
                                    struct err *err);
/* Write the view of a group of a parent, and its sizes: on its training data, or on those of the
 * group's device. */
void submodel_part_view(const struct parent *row, double negatives, size_t group, struct view *view,
                        struct view_sizes *sizes);
/* List the groups in the order in which they begin: planned ones by number, others by their
 * operations, the most first, so that the phase does not end with one long group. order[groups]:
 * out. */
void submodel_begin_order(const struct parent_slot *parent, size_t order[GROUPS_MAX]);
/* Write the job of a part. *spec: out. *data: in, the data of the parent; out, with the changes for
 * the part. */
void submodel_stem_job(const struct parent_slot *parent, struct job_spec *spec);
void submodel_group_job(const struct parent_slot *parent, size_t group, struct job_spec *spec,
                        struct job_data *data);
void submodel_joint_job(const struct parent_slot *parent, struct job_spec *spec,
                        struct job_data *data);

#endif
