/* groups.h: groups of the tiny job that mix, each with its listener, over loopback, and a
 * coordinator that takes their averages. The test is their compute thread. For the tests of
 * agent/gossip. */
#ifndef TESTS_UNIT_AGENT_GOSSIP_GROUPS_H
#define TESTS_UNIT_AGENT_GOSSIP_GROUPS_H

#include <pthread.h>

#include "agent/gossip/mix_routes.h"
#include "agent/gossip/mixer.h"
#include "agent/peer/server.h"
#include "agent/peer/ways.h"
#include "agent/runtime/trouble.h"
#include "base/buf.h"
#include "libtrain/train.h"
#include "tests/unit/net/serve.h"

#define GROUPS_JOB_GENERATION 4 /* of the job of every group */
#define GROUPS_GENERATION 2     /* of every group */
#define GROUPS_STEP_LEFT_MS 20000
#define GROUPS_TICKET "ticket-of-a-group"

struct group {
    struct groups *groups;
    struct assignment_run *run;
    struct access *access;
    struct peer_routes routes;
    struct peer_server *server;
    struct ways *ways;
    struct troubles *troubles;
    struct device_id device;
    struct work *work;
    struct mixer *mixer;
    struct train_state state; /* of its stage */
    char url[URL_SIZE];
};

struct groups {
    struct group item[GROUPS_MAX];
    size_t count;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a group has news, or the coordinator has an average */
    struct serve coordinator;
    int status; /* that averages are answered with */
    /* the last average that came */
    size_t averages;
    struct buf file;
    char sha256[80], query[1024];
};

void groups_open(struct groups *groups, size_t count);
/* The same, with the assignments changed by `adjust` first. */
void groups_open_with(struct groups *groups, size_t count,
                      void (*adjust)(struct assignment_run *run));
void groups_close(struct groups *groups);
/* Cancel a group and wait for its threads. */
void group_cancel(struct group *group);

/* An order of a match between groups; the sources are filled in by group_order. */
struct mix_order groups_order(int kind, int64_t counter, double alpha);
/* The group hears of the order; sources[count]: which groups. */
void group_order(struct group *group, struct mix_order order, const size_t *sources, size_t count);
/* The same, of sources as they are. */
void group_take(struct group *group, const struct mix_order *order);
void group_forget_orders(struct group *group);

/* Fill its state with draws. */
void group_draw(struct group *group, uint64_t seed);
size_t group_floats(const struct group *group);
/* Copy its state: parameters, then statistics. */
float *group_copy(const struct group *group); /* to be freed */
/* What the compute thread does after a step. */
void group_boundary(struct group *group, int64_t version);

struct heartbeat *group_report(struct group *group); /* to be freed */
/* Wait until the newest match of the place has that state; fails after 20 s. */
void group_wait(struct group *group, enum mixing_place place, int state);
/* Wait until so many averages came. */
void groups_wait_averages(struct groups *groups, size_t count);

/* state += alpha (peer - copy), by the two rules. */
void group_move(const struct group *group, double alpha, const float *copy, const float *peer,
                float *state);
void group_expect(const struct group *group, const float *expected);
/* For groups_open_with: the learning rate tells the step that it is of. */
void groups_tell_step(struct assignment_run *run);
int64_t groups_rate_step(const struct mixer *mixer);

#endif
