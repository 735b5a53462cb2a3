/* improve.h: finds a good first plan for the search. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_IMPROVE_H
#define COORDINATOR_PLAN_IMPROVE_H

#include "coordinator/plan/search.h"

/* Find a plan and improve it by single changes of a boundary, a codec, a device or the order, as
 * long as that helps. Ends after search->work_max. */
void improve_run(struct search *search);
/* Play the plan that attains the bound of search->bound. */
void improve_path(struct search *search);
/* Move the boundaries and change the codecs of the best plan as long as that helps. */
void improve_cuts(struct search *search);

#endif
