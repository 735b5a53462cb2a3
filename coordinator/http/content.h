/* content.h: a blob as the body of an answer, whole or by Range. Workers read it in pieces, so that
 * the loop never waits for the disk. */
#ifndef COORDINATOR_HTTP_CONTENT_H
#define COORDINATOR_HTTP_CONTENT_H

#include "coordinator/coordinator.h"

/* Answer with the blob. file_name (for Content-Disposition) may be NULL. */
void content_serve(struct coordinator *coordinator, struct http_exchange *exchange,
                   const char *sha256, const char *file_name);

#endif
