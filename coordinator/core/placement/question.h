/* question.h: the memory of a question to the planner (planning.h), with the scratch of each
 * strategy. */
#ifndef COORDINATOR_CORE_PLACEMENT_QUESTION_H
#define COORDINATOR_CORE_PLACEMENT_QUESTION_H

#include "base/err.h"

struct planning;

/* Reserve a question: some megabytes. A small question touches little of them. ERR_MEMORY. */
NODISCARD int question_new(struct planning **out, struct err *err);
void question_free(struct planning **planning);

#endif
