/* world.h: virtual time and the actors that live in it: an event queue, processes that crash,
 * freeze and have clocks of their own, random numbers by purpose. Everything that happens is a
 * function of one seed. One thread. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

#define SIM_DEVICES_MAX 32
#define SIM_DEVICES_DRAWN 6 /* of a seed at most */
#define SIM_JOBS_MAX 8
#define ACTOR_COORDINATOR 0
#define ACTOR_USER 1
#define ACTOR_DEVICE 2 /* the first of them */
#define ACTORS_MAX (ACTOR_DEVICE + SIM_DEVICES_MAX)
#define ACTOR_NONE (-1)
#define MODELS_COUNT_MAX 4
#define MODEL_UNITS_COUNT_MAX 32

#define MS INT64_C(1000) /* microseconds */
#define SECOND INT64_C(1000000)

struct call;
struct model;
struct world;
typedef void (*event_fn)(struct world *world, void *arg, int64_t number);

/* A process. Its events of an earlier life never come. */
struct actor {
    bool up;          /* the process runs */
    bool powered;     /* the machine does: a dead process on it refuses, a dead machine is silent */
    int64_t life;     /* rises with each start and each end */
    int64_t thaw_us;  /* frozen until then: nothing of it happens */
    int64_t ahead_us; /* of its monotonic clock */
    int64_t wall_ms;  /* its wall clock at virtual time 0 */
    uint64_t faults;  /* that have struck it */
    const char *label; /* in the trace */
};

/* What random numbers are for: one stream each, so that a new draw of one kind leaves the others as
 * they were. */
enum draw {
    DRAW_SCENARIO,
    DRAW_NET,
    DRAW_FAULTS,
    DRAW_COORDINATOR,
    DRAW_DEVICE,
    DRAW_USER,
    DRAW_COUNT
};

struct event_item {
    int64_t at_us;
    uint64_t order;
    int actor; /* whose life it depends on, or ACTOR_NONE */
    int64_t life;
    event_fn run;
    void *arg;
    int64_t number;
    struct call *call; /* a reference, or NULL */
};

/* The models that jobs may train; parsed once, shared by all worlds. */
struct models {
    struct model *item[MODELS_COUNT_MAX];
    struct model *tuned[MODELS_COUNT_MAX]; /* the same, with the kernels that devices measure */
    int64_t unit_bytes[MODELS_COUNT_MAX][MODEL_UNITS_COUNT_MAX]; /* of a snapshot */
    size_t count;
};

struct trace;
struct net;
struct coordinator;
struct agent;
struct users;
struct faults;
struct speeds;
struct operators;
struct check;

struct world {
    int64_t now_us;
    uint64_t seed;
    struct rng_stream stream[DRAW_COUNT];
    uint64_t drawn[DRAW_COUNT];
    struct event_item *queue; /* a heap */
    size_t queue_count, queue_capacity;
    uint64_t events;     /* made so far */
    uint64_t events_max; /* more are a circle, see world_circles */
    struct actor actor[ACTORS_MAX];
    const struct models *models;
    struct trace *trace; /* NULL: no trace is kept */
    struct net *net;
    struct coordinator *coordinator;
    struct agent *agent[SIM_DEVICES_MAX];
    size_t agent_count;
    struct users *users;
    struct faults *faults;
    struct speeds *speeds;
    struct operators *operators;
    struct check *check;
};

void world_init(struct world *world, uint64_t seed);
void world_done(struct world *world);

/* Run `run(world, arg, number)` at at_us, unless the actor's life has ended by then; while it is
 * frozen, wait. The call, if any, is held until then and handed as arg. */
void world_at(struct world *world, int actor, int64_t at_us, event_fn run, void *arg,
              int64_t number);
void world_at_call(struct world *world, int actor, int64_t at_us, event_fn run, struct call *call);
/* The next event. false: there is none before until_us; the time is until_us then. */
bool world_step(struct world *world, int64_t until_us);
/* Whether there were more events than events_max and the time that has passed explain. */
bool world_circles(const struct world *world);

/* The clocks of an actor. */
int64_t world_now_ms(const struct world *world, int actor);
int64_t world_wall_ms(const struct world *world, int actor);
/* When its clock will show that. INT64_MAX for never. */
int64_t world_when_us(const struct world *world, int actor, int64_t deadline_ms);

void world_start(struct world *world, int actor);
void world_end(struct world *world, int actor);

/* Uniform in [low, high]. */
int64_t world_draw(struct world *world, enum draw draw, int64_t low, int64_t high);
/* With this probability in a million. */
bool world_chance(struct world *world, enum draw draw, int64_t per_million);

#endif
