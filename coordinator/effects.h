/* effects.h: passes the functions of the content and HTTP edges to a turn, which must not include
 * these higher rooms. */
#ifndef COORDINATOR_EFFECTS_H
#define COORDINATOR_EFFECTS_H

#include "coordinator/turn/turn.h"

struct coordinator;

/* Return the effects of the coordinator's turns. The coordinator is borrowed for the turn's life;
 * its parts may be opened later, before the first event. */
struct turn_effects effects_of(struct coordinator *coordinator);

#endif
