/* submodel_parts.h: what each part of a job of sub-models trains, as an ordinary job with the
 * fields of its parent. */
#ifndef COORDINATOR_CORE_SUBMODEL_PARTS_H
#define COORDINATOR_CORE_SUBMODEL_PARTS_H

#include "coordinator/core/core.h"

struct parent_slot;

/* Write the view of a group on data of these classes, and its sizes. */
void submodel_group_view(const struct class_groups *groups, size_t group,
                         const struct event_classes *classes, double negatives, struct view *view,
                         struct view_sizes *sizes);
/* The same of a group of a parent: on its training data, or on those of the group's device. */
void submodel_part_view(const struct parent *row, double negatives, size_t group, struct view *view,
                        struct view_sizes *sizes);
/* Write the job of a part. *spec: out. *data: that of the parent, in; what differs, out. */
void submodel_stem_job(const struct parent_slot *parent, struct job_spec *spec);
void submodel_group_job(const struct parent_slot *parent, size_t group, struct job_spec *spec,
                        struct job_data *data);
void submodel_joint_job(const struct parent_slot *parent, struct job_spec *spec,
                        struct job_data *data);

#endif
