/* assumed.h: the devices and links of a user's question (schema/what_if.h) in a question to the
 * planner. */
#ifndef COORDINATOR_CORE_PLACEMENT_ASSUMED_H
#define COORDINATOR_CORE_PLACEMENT_ASSUMED_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/id.h"

struct core;
struct plan_question;
struct planning;

/* Return whether the question is about the device: it lists the device, or it lists no devices. */
bool assumed_has(const struct plan_question *question, const struct device_id *id);
/* Return the count of hypothetical devices; NULL: no question. */
size_t assumed_count(const struct plan_question *question);
/* Add hypothetical devices after those of the planning, then the stated links. */
void assumed_fill(const struct core *core, const struct plan_question *question,
                  struct planning *planning);

#endif
