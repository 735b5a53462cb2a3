/* pipeline_net.h: stages joined by a network that loses bodies and answers, and repeats both. For
 * the tests of core/pipeline. */
#ifndef TESTS_UNIT_AGENT_CORE_PIPELINE_NET_H
#define TESTS_UNIT_AGENT_CORE_PIPELINE_NET_H

#include "agent/core/pipeline.h"
#include "base/rng.h"
#include "tests/support/test.h"

enum { STAGES_OF_NET = 5, MICRO_OF_NET = 6, QUEUE_OF_NET = 64 };

struct packet {
    struct transfer transfer;
    size_t output;
    uint64_t payload;
    struct round_mark round;
    bool mark;
};

/* One direction of one border: a sender that repeats the head of its queue until it hears a yes. */
struct wire {
    struct packet queue[QUEUE_OF_NET];
    size_t head, count;
    struct packet stale; /* an earlier packet that the network may deliver once more */
    bool has_stale;
};

struct stage_of_net {
    struct pipeline *pipeline;
    struct pipeline_config config;
    uint64_t slot[TRANSFER_LANES][MICRO_OF_NET], kept[MICRO_OF_NET];
    uint64_t total;
    uint64_t state;        /* a digest of everything that formed it */
    uint64_t gathered;     /* gradients of the step */
    uint64_t tested;       /* digest of the evaluations */
    unsigned snapshot[24]; /* of each version: for which rounds it was taken */
    struct wire forward, backward;
    struct pipeline_task task; /* begun, ends at a later turn */
    bool busy, stopped;
};

struct net {
    struct stage_of_net stage[STAGES_OF_NET];
    size_t count;
    struct rng_stream random;
    uint64_t draws;
};

uint64_t draw(struct net *net, uint64_t bound);
uint64_t mix(uint64_t a, uint64_t b);
/* strict: bit i: the order of work of stage i. */
void start(struct net *net, const struct pipeline_config *config, const size_t *in_flight,
           unsigned strict, const uint64_t *states);
/* Limits that never rise along the pipeline and are 1 at its end. */
void draw_limits(struct net *net, size_t *in_flight);
/* Plays until every stage stopped; a stop is asked at turn `stop_turn`. Returns the version, the
 * same for all. */
int64_t play(struct net *net, uint64_t stop_turn);
void tear_down(struct net *net, uint64_t *states);

#endif
