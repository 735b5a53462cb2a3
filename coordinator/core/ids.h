/* ids.h: new ids, which rise strictly. */
#ifndef COORDINATOR_CORE_IDS_H
#define COORDINATOR_CORE_IDS_H

#include "coordinator/core/core.h"

void ids_new(struct core *core, char out[ID_SIZE], const char *prefix);
/* An id from the rows: new ones are greater. */
void ids_seen(struct core *core, const char *id);

#endif
