/* improve.h: a good plan for the search to begin with. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_IMPROVE_H
#define COORDINATOR_PLAN_IMPROVE_H

#include "coordinator/plan/search.h"

/* Find a plan, and change one thing of it at a time as long as that helps: a boundary, a codec, a
 * device, the order. Ends after search->work_max. */
void improve_run(struct search *search);
/* Play the plan that the tables of search->bound are of. */
void improve_path(struct search *search);
/* Move the boundaries and change the codecs of the best plan as long as that helps. */
void improve_cuts(struct search *search);

#endif
