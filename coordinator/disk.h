/* disk.h: how full the disk of the state directory is, told to the core when that changes: below --min-free rounds to
 * the center pause. The loop's thread only. */
#ifndef COORDINATOR_DISK_H
#define COORDINATOR_DISK_H

struct coordinator;

/* Look now. Called where blobs begin and once a minute; feeds EVENT_DISK at a change. */
void disk_look(struct coordinator *coordinator);

#endif
