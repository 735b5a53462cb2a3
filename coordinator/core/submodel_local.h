/* submodel_local.h: jobs of sub-models whose training data stay on their devices: groups that are
 * bound to what a device has (class_owners.h), and wait for it. docs/adr/0160. */
#ifndef COORDINATOR_CORE_SUBMODEL_LOCAL_H
#define COORDINATOR_CORE_SUBMODEL_LOCAL_H

#include "coordinator/core/core.h"

struct parent_slot;
struct plan_question;

/* Check that the known devices have data for two groups or more. ERR_INVALID. */
NODISCARD int submodel_local_check(struct core *core, const struct event_job_submit *submit,
                                   struct err *err);
/* Choose the groups, their devices and widths: of the devices that are online if those have all
 * classes, else of all that are known. Overwrites core->planning. ERR_INVALID. */
NODISCARD int submodel_local_plan(struct core *core, struct parent_slot *parent,
                                  const struct plan_question *question, struct err *err);

/* Return whether a group may begin: always where data are uploaded. */
bool submodel_local_ready(const struct core *core, const struct parent_slot *parent, size_t group);
/* Bind a group that is ready to the data that its device has now. */
void submodel_local_begin(const struct core *core, struct parent_slot *parent, size_t group);
/* End the jobs of groups whose devices have other data now: they begin again when those fit. Give
 * up groups whose devices were removed. */
void submodel_local_follow(struct core *core, struct parent_slot *parent);
/* Write for which devices groups wait, for the message of the parent. */
void submodel_local_note(const struct core *core, struct parent_slot *parent);

#endif
