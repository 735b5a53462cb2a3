/* side.h: a device as its peers see it, over loopback: a listener with one of two stages of the
 * tiny job after it, and the client of a neighbour that has its ticket. For the tests of
 * agent/peer. */
#ifndef TESTS_UNIT_AGENT_SIDE_H
#define TESTS_UNIT_AGENT_SIDE_H

#include "agent/peer/message.h"
#include "agent/copies/snapshot_routes.h"
#include "agent/peer/server.h"
#include "agent/runtime/trouble.h"
#include "tests/unit/agent/tiny.h"

#define SIDE_JOB "job_00000000000000000000000001"
#define SIDE_GENERATION 4
#define SIDE_TICKET "ticket-of-a-friend"
#define SIDE_BORDER 2 /* the first unit of stage 1 */
#define SIDE_REPLICA_BYTES 4096

struct side {
    struct access *access;
    struct snapshot_store *snapshots;
    struct peer_routes routes;
    struct peer_server *server;
    struct troubles *troubles;
    struct stage *stage;
    struct http_client *client; /* a neighbour's */
    char url[URL_SIZE];
    char reply[4096]; /* to the last call */
};

/* directory: of the snapshots, or NULL. */
void side_open(struct side *device, size_t stage, const char *directory);
/* The link between the stages has a codec. */
void side_open_coded(struct side *device, size_t stage, enum codec codec);
void side_close(struct side *device);

/* Each returns the status. */
int side_call(struct side *device, const char *method, const char *path, const char *ticket,
              const void *header, size_t header_size, const void *data, size_t data_size);
int side_get(struct side *device, const char *path, const char *ticket);
/* PUT a tensor; its header may be that of another number of samples. */
int side_put_tensor(struct side *device, const char *kind, int64_t step, size_t micro_batch,
                    size_t samples);
/* Begin a PUT and send half of its body: a connection, to be closed. */
int side_put_half(const struct side *device, const char *path, size_t body_size);

/* The data of sent tensors. */
extern const float side_values[4 * 8 * 8 * 4 + 1];

#endif
