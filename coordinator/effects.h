/* effects.h: hands a turn the functions of the content and HTTP edges, which stand above it. */
#ifndef COORDINATOR_EFFECTS_H
#define COORDINATOR_EFFECTS_H

#include "coordinator/turn/turn.h"

struct coordinator;

/* The effects of the coordinator's turns. The coordinator is borrowed for the turn's life; its
 * parts may be opened later, before the first event. */
struct turn_effects effects_of(struct coordinator *coordinator);

#endif
