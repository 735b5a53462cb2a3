/* gossip_parts.h: divides the data of a job of groups that train apart, and writes the job of each
 * group: an ordinary job with the fields of its parent. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_PARTS_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_PARTS_H

#include "coordinator/core/core.h"

struct device_slot;
struct parent_slot;

/* Divide the training data.
 *
 *     samples      [class_count] of each class
 *     speed        [groups] samples per second of each group
 *     out          [groups][class_count] samples of each group and class (libtrain/model/shards.h)
 *
 * ERR_INVALID: the data do not suffice for so many groups. */
NODISCARD int gossip_divide(const struct job_spec *spec, const int64_t *samples, size_t class_count,
                            const double *speed, size_t groups, int64_t *out, struct err *err);
/* Divide the training data of a parent by the speeds in its row, into core->shard. */
void gossip_divide_parent(struct core *core, const struct parent_slot *parent);
/* Write the job of a group, on its shard in core->shard or on the offer of its device. *data: in,
 * the data of the parent; out, with the changes for the group. false: the device of the group does
 * not offer data for it. */
bool gossip_group_job(const struct core *core, const struct parent_slot *parent, size_t group,
                      struct job_spec *spec, struct job_data *data);
/* Return the seconds of a copy of a group's state from one device to another; above 0. */
double gossip_copy_seconds(const struct core *core, const struct device_slot *from,
                           const struct device_slot *to, const struct model *model);
/* Write the job of any group, without its samples. */
void gossip_any_job(const struct job_spec *parent, struct job_spec *spec);

#endif
