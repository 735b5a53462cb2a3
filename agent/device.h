/* device.h: the state of the device that all parts of its agent share. Filled by loop_open before
 * the first thread; constant afterwards, except `id`. */
#ifndef AGENT_DEVICE_H
#define AGENT_DEVICE_H

#include <stdatomic.h>

#include "agent/peer/access.h"
#include "agent/peer/parking.h"
#include "agent/peer/trust.h"
#include "agent/peer/ways.h"
#include "agent/copies/snapshot.h"
#include "agent/runtime/offers.h"
#include "libtrain/train.h"
#include "schema/device.h"
#include "schema/id.h"

struct device_context {
    const char *coordinator; /* URL without a slash at its end */
    const char *cache;       /* directory of data sets */
    char boot[ID_SIZE];
    struct device_id id; /* given at enrolment; a generation works on a copy */
    size_t threads;
    double slowdown;
    uint64_t memory_bytes; /* upper bound for training; 0: free memory */
    struct device_probe probe;
    struct offers *offers;     /* data sets that never leave the device */
    struct train_tuner *tuner; /* of one generation at a time */
    const struct trust *trust;
    struct ways *ways;       /* to other agents */
    struct parking *parking; /* for their calls through relays */
    struct access *access;
    struct snapshot_store *snapshots;
    struct disk_watch *disk;
    struct links *links;                /* transfers of snapshots */
    atomic_int_least64_t *replica_sent; /* bytes of snapshots sent since the start */
    int room_fd;                        /* of the peer server */
};

#endif
