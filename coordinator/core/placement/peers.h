/* peers.h: the other devices of an assignment: their addresses, their keys, and which of them may
 * call. */
#ifndef COORDINATOR_CORE_PLACEMENT_PEERS_H
#define COORDINATOR_CORE_PLACEMENT_PEERS_H

#include <stddef.h>

#include "libtrain/quant/codec.h"
#include "schema/assignment.h"

struct core;
struct device_slot;
struct job_slot;

/* Write the key of a device. Leave `out` unchanged if the device does not speak TLS. */
void peers_key(const struct device_slot *device, char out[SHA256_SIZE]);
/* Write the device of a stage as a peer to call, over a link with this codec. */
void peers_fill(const struct core *core, const struct job_slot *job, size_t stage, enum codec codec,
                struct peer *out);
/* Let a device of the job's plan call the device of the assignment. */
void peers_allow(const struct core *core, const struct job_slot *job,
                 const struct device_id *device, struct assignment *out);

#endif
