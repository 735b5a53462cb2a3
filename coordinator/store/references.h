/* references.h: finds the contents that rows name, by one table for backups, the sweep of blobs at
 * start, and the sweep of texts. On the connection's thread. Private to coordinator/store; others
 * use state.h. */
#ifndef COORDINATOR_STORE_REFERENCES_H
#define COORDINATOR_STORE_REFERENCES_H

#include "coordinator/store/state.h"

struct sqlite3;

/* Visit the hash of each blob that a row needs, once for each row that names it. */
NODISCARD int references_visit(struct sqlite3 *db, state_reference_fn visit, void *arg,
                               struct err *err);

#endif
