/* unit_upload.h: PUT of one unit's state into the center by the device that runs it. The loop's thread only. */
#ifndef COORDINATOR_HTTP_UNIT_UPLOAD_H
#define COORDINATOR_HTTP_UNIT_UPLOAD_H

#include <stdbool.h>

struct coordinator;

/* Whether a blob of this hash is on its way into the center: it must not be deleted before the core has heard of it. */
bool unit_upload_under_way(const struct coordinator *coordinator, const char *sha256);

#endif
