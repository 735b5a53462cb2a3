/* submodel_local.h: jobs of sub-models whose training data stay on their devices. Each group is
 * bound to the data of one device (class_owners.h), and waits for this device. docs/adr/0160. */
#ifndef COORDINATOR_CORE_SUBMODEL_SUBMODEL_LOCAL_H
#define COORDINATOR_CORE_SUBMODEL_SUBMODEL_LOCAL_H

#include "coordinator/core/core.h"

struct parent_slot;
struct plan_question;

/* Check that the known devices have data for two groups or more. ERR_INVALID. */
NODISCARD int submodel_local_check(struct core *core, const struct event_job_submit *submit,
                                   struct err *err);
/* Choose the groups, their devices and widths. The devices are those online if these have all
 * classes, else all known devices. Overwrites core->planning. ERR_INVALID. */
NODISCARD int submodel_local_plan(struct core *core, struct parent_slot *parent,
                                  const struct plan_question *question, struct err *err);

/* Return whether a group may begin; always true if the data are uploaded. */
bool submodel_local_ready(const struct core *core, const struct parent_slot *parent, size_t group);
/* Bind a group that is ready to the data that its device has now. */
void submodel_local_begin(const struct core *core, struct parent_slot *parent, size_t group);
/* End the jobs of groups whose devices have other data now. These groups begin again when the data
 * fit. Leave out groups whose devices were removed. */
void submodel_local_follow(struct core *core, struct parent_slot *parent);
/* Write for which devices groups wait, for the message of the parent. */
void submodel_local_note(const struct core *core, struct parent_slot *parent);

#endif
