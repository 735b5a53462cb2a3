/* disk.h: how full the disk of the state directory is. While less than --min-free is free, rounds
 * to the center pause and users' requests create no rows. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_DISK_H
#define COORDINATOR_CONTENT_DISK_H

#include "base/err.h"

struct coordinator;

/* Measure the free space; feed EVENT_DISK when it crosses --min-free. Called where blobs begin and
 * once a minute. */
void disk_look(struct coordinator *coordinator);
/* ERR_FULL: the disk has no room for rows that a user's request creates. */
NODISCARD int disk_check_rows(const struct coordinator *coordinator, struct err *err);

#endif
