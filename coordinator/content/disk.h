/* disk.h: watches the free space of the state directory's disk. While less than --min-free is free,
 * rounds to the center pause and users' requests create no rows. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_DISK_H
#define COORDINATOR_CONTENT_DISK_H

#include "base/err.h"

struct coordinator;

/* Measure the free space, and feed EVENT_DISK when it crosses --min-free. Call it when a blob
 * begins and once a minute. */
void disk_look(struct coordinator *coordinator);
/* Check that the disk has room for the rows of a user's request; else ERR_FULL. */
NODISCARD int disk_check_rows(const struct coordinator *coordinator, struct err *err);

#endif
