/* party.h: a stage of the tiny job that two workers and a server train, as the other stages see it,
 * over loopback: a listener, its member and the clients of the others. For the tests of
 * agent/parameter_server. */
#ifndef TESTS_UNIT_AGENT_PARAMETER_SERVER_PARTY_H
#define TESTS_UNIT_AGENT_PARAMETER_SERVER_PARTY_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/parameter_server/member.h"
#include "agent/parameter_server/message_kind.h"
#include "agent/parameter_server/routes.h"
#include "agent/peer/server.h"
#include "net/http_client.h"
#include "schema/assignment.h"

#define PARTY_JOB "job_00000000000000000000000001"
#define PARTY_GENERATION 4
#define PARTY_STAGES 3 /* a server of all units; workers of the micro-batches [0, 2) and [2, 4) */
#define PARTY_LAYERS 4
/* The stage of a caller that has a ticket and no place in the plan. */
#define PARTY_STRANGER PARTY_STAGES

extern const char *const party_ticket[PARTY_STAGES + 1];

/* The assignment of a stage; to be freed. peer_ms: a pull is parked for half of it. */
struct assignment_run *party_run(size_t stage, int64_t peer_ms);
/* A member of it at version 0, which runs. The first units are frozen, as many as the job names.
 * room_fd as in struct work_config. */
struct member *party_member(const struct assignment_run *run, int room_fd);

/* Stage 0. */
struct party {
    struct assignment_run *run;
    struct access *access;
    struct peer_routes routes;
    struct peer_server *server;
    struct member *member;
    struct http_client *client;
    char url[URL_SIZE];
    struct buf reply; /* to the last call */
    /* its compute thread */
    pthread_t thread;
    bool computes;
    atomic_bool ended;
    double loss; /* of the last step */
    int rc;
    struct err err;
};
void party_open(struct party *party, int64_t peer_ms);
void party_compute(struct party *party); /* start its compute thread */
void party_wait(struct party *party);    /* until that has ended: rc, err */
void party_close(struct party *party);

/* Each call returns the status. */
int party_call(struct party *party, size_t from, const char *method, const char *path,
               const void *header, size_t header_size, const void *data, size_t data_size);
int party_get(struct party *party, size_t from, const char *path);
/* PUT the message with `data`, of the size that the server expects. */
int party_put(struct party *party, const struct exchange_message *message, const void *data);
/* The sum of the only block of a worker, for layers [first, end); `done` where it belongs. */
struct exchange_message party_sum(size_t worker, int64_t step, size_t first, size_t end);
/* Send the head of a request with a body of that size, and read nothing: a connection, to be
 * closed. */
int party_send(const struct party *party, size_t from, const char *method, const char *path,
               size_t size);
/* The same of a GET without a body, and once more on its connection. */
int party_ask(const struct party *party, size_t from, const char *path);
void party_ask_again(int fd, size_t from, const char *path);

extern const float party_zeros[8192];
/* The floats of the first unit's statistics. No other unit has any. */
size_t party_statistics(struct member *member);

#endif
