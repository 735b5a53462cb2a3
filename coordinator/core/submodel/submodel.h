/* submodel.h: jobs of sub-models: the phases stem, groups, harvest and joint, and which part begins
 * in each. docs/jobs.md, "Sub-models". */
#ifndef COORDINATOR_CORE_SUBMODEL_SUBMODEL_H
#define COORDINATOR_CORE_SUBMODEL_SUBMODEL_H

#include "coordinator/core/parts/parent_row.h"

#define SUBMODEL_ATTEMPTS_MAX 3 /* attempts of a group: the first and two with the next seeds */

/* Handlers of the answers of the edge. */
void submodel_on_derived(struct core *core, const struct event *event);
void submodel_on_harvested(struct core *core, const struct event *event);
/* Retrain the parts whose damaged models are still needed, or harvest again. */
void submodel_on_damage(struct core *core, const char *sha256);
/* Retry failed harvests now: the disk has room again. */
void submodel_disk_has_room(struct core *core);
extern const struct parent_row submodel_row;

#endif
