#include "tests/sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/net.h"

#define QUEUE_MAX 100000     /* far beyond what a few devices can have under way */
#define EVENTS_PER_SECOND 50 /* more than those of devices that wait for a slow one */
#define WALL_START_MS INT64_C(1700000000000)
#define MONOTONIC_START_US INT64_C(1000000000)

void world_init(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->seed = seed;
    for (uint64_t draw = 0; draw < DRAW_COUNT; draw++) {
        world->stream[draw] = rng_stream(seed, RNG_SIMULATION, draw, 0);
    }
    for (size_t i = 0; i < ACTORS_MAX; i++) {
        world->actor[i] = (struct actor){.powered = true,
                                         .ahead_us = MONOTONIC_START_US,
                                         .wall_ms = WALL_START_MS,
                                         .label = "?"};
    }
}

void world_done(struct world *world)
{
    for (size_t i = 0; i < world->queue_count; i++) {
        net_release(world, world->queue[i].call);
    }
    free(world->queue);
    world->queue = NULL;
    world->queue_count = 0;
}

/* ---- the heap ---- */

static bool before(const struct event_item *a, const struct event_item *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void sift_up(struct world *world, size_t at, struct event_item item)
{
    while (at > 0 && before(&item, &world->queue[(at - 1) / 2])) {
        world->queue[at] = world->queue[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->queue[at] = item;
}

static void push(struct world *world, struct event_item item)
{
    if (world->queue_count == world->queue_capacity) {
        const size_t capacity = world->queue_capacity ? 2 * world->queue_capacity : 256;
        struct event_item *queue = realloc(world->queue, capacity * sizeof(*queue));
        ASSERT(queue && capacity <= 2 * QUEUE_MAX);
        world->queue = queue;
        world->queue_capacity = capacity;
    }
    sift_up(world, world->queue_count++, item);
}

static struct event_item pop(struct world *world)
{
    const struct event_item first = world->queue[0];
    const struct event_item last = world->queue[--world->queue_count];
    size_t at = 0;
    for (size_t child = 1; child < world->queue_count; child = 2 * at + 1) {
        child += child + 1 < world->queue_count &&
                 before(&world->queue[child + 1], &world->queue[child]);
        if (!before(&world->queue[child], &last)) {
            break;
        }
        world->queue[at] = world->queue[child];
        at = child;
    }
    if (world->queue_count > 0) {
        world->queue[at] = last;
    }
    return first;
}

static void add(struct world *world, int actor, int64_t at_us, event_fn run, void *arg,
                int64_t number, struct call *call)
{
    push(world, (struct event_item){.at_us = at_us > world->now_us ? at_us : world->now_us,
                                    .order = world->events++,
                                    .actor = actor,
                                    .life = actor == ACTOR_NONE ? 0 : world->actor[actor].life,
                                    .run = run,
                                    .arg = arg,
                                    .number = number,
                                    .call = call});
}

void world_at(struct world *world, int actor, int64_t at_us, event_fn run, void *arg,
              int64_t number)
{
    add(world, actor, at_us, run, arg, number, NULL);
}

void world_at_call(struct world *world, int actor, int64_t at_us, event_fn run, struct call *call)
{
    net_hold(call);
    add(world, actor, at_us, run, call, 0, call);
}

bool world_step(struct world *world, int64_t until_us)
{
    if (world->queue_count == 0 || world->queue[0].at_us > until_us) {
        world->now_us = until_us > world->now_us ? until_us : world->now_us;
        return false;
    }
    struct event_item item = pop(world);
    world->now_us = item.at_us;
    const struct actor *actor = item.actor == ACTOR_NONE ? NULL : &world->actor[item.actor];
    if (actor && actor->life == item.life && actor->thaw_us > world->now_us) {
        item.at_us = actor->thaw_us; /* its order stays */
        push(world, item);
        return true;
    }
    if (!actor || actor->life == item.life) {
        item.run(world, item.arg, item.number);
    }
    net_release(world, item.call);
    return true;
}

bool world_circles(const struct world *world)
{
    return world->events >
           world->events_max + (uint64_t)(world->now_us / SECOND) * EVENTS_PER_SECOND;
}

/* ---- clocks and lives ---- */

int64_t world_now_ms(const struct world *world, int actor)
{
    return (world->now_us + world->actor[actor].ahead_us) / MS;
}

int64_t world_wall_ms(const struct world *world, int actor)
{
    return world->actor[actor].wall_ms + world->now_us / MS;
}

int64_t world_when_us(const struct world *world, int actor, int64_t deadline_ms)
{
    return deadline_ms == INT64_MAX ? INT64_MAX : deadline_ms * MS - world->actor[actor].ahead_us;
}

void world_start(struct world *world, int actor)
{
    world->actor[actor].up = true;
    world->actor[actor].life++;
    world->actor[actor].thaw_us = 0;
}

void world_end(struct world *world, int actor)
{
    world->actor[actor].up = false;
    world->actor[actor].life++;
    world->actor[actor].thaw_us = 0;
    net_reset(world, actor);
}

/* ---- chance ---- */

int64_t world_draw(struct world *world, enum draw draw, int64_t low, int64_t high)
{
    ASSERT(low <= high);
    return low + (int64_t)rng_below(&world->stream[draw], world->drawn[draw]++,
                                    (uint64_t)(high - low) + 1);
}

bool world_chance(struct world *world, enum draw draw, int64_t per_million)
{
    return per_million > 0 && world_draw(world, draw, 1, 1000000) <= per_million;
}
