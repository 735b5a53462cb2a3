/* disk.h: how full the disk of the state directory is, told to the core when that changes: below
 * --min-free rounds to the center pause and users make no rows. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_DISK_H
#define COORDINATOR_CONTENT_DISK_H

#include <stdbool.h>

struct coordinator;
struct http_exchange;

/* Look now. Called where blobs begin and once a minute; feeds EVENT_DISK at a change. */
void disk_look(struct coordinator *coordinator);
/* Whether the disk has room for rows that a request makes; those that running jobs need are never
 * asked about. false when the problem disk_full was answered. */
bool disk_takes_rows(const struct coordinator *coordinator, struct http_exchange *exchange);

#endif
