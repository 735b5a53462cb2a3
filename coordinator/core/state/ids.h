/* ids.h: new ids, which rise strictly. */
#ifndef COORDINATOR_CORE_STATE_IDS_H
#define COORDINATOR_CORE_STATE_IDS_H

#include "coordinator/core/core.h"

/* Make an id with the prefix, greater than all before. */
void ids_new(struct core *core, char out[ID_SIZE], const char *prefix);
/* Take an id from a row: new ids will be greater. */
void ids_seen(struct core *core, const char *id);

#endif
