/* deletion.h: deletes stored objects: finds their rows, lets the core decide, and deletes the blobs
 * that no row needs afterwards. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_DELETION_H
#define COORDINATOR_CONTENT_DELETION_H

#include <stdint.h>

#include "base/err.h"
#include "coordinator/core/event.h"

struct coordinator;
struct http_exchange;
struct turn_extra;

/* Delete the object with this id or name and, unless an error is returned, answer `exchange` (NULL:
 * no client). ERR_NOT_FOUND; ERR_STATE: a part of another job, which err names; ERR_IO, ERR_FORMAT,
 * ERR_MEMORY. if_revision 0: any. */
NODISCARD int deletion_run(struct coordinator *coordinator, enum delete_kind kind, const char *id,
                           int64_t if_revision, struct http_exchange *exchange,
                           const struct turn_extra *extra, struct err *err);

#endif
