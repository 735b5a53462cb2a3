/* deletion.h: deletes stored objects: reads what belongs to them from the rows, lets the core
 * decide, and deletes the blobs that nothing needs afterwards. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_DELETION_H
#define COORDINATOR_CONTENT_DELETION_H

#include <stdint.h>

#include "base/err.h"
#include "coordinator/core/event.h"

struct coordinator;
struct http_exchange;
struct turn_extra;

/* Delete the object with this id or name, and answer `exchange` (NULL: nobody asks), unless an
 * error is returned: ERR_NOT_FOUND; ERR_STATE: a part of another job, which err names; ERR_IO,
 * ERR_FORMAT, ERR_MEMORY. if_revision 0: any. */
NODISCARD int deletion_run(struct coordinator *coordinator, enum delete_kind kind, const char *id,
                           int64_t if_revision, struct http_exchange *exchange,
                           const struct turn_extra *extra, struct err *err);

#endif
