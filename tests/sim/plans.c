/* plans.c: searches for plans, as coordinator/content/planner makes them: one at a time on a thread
 * that takes its time, lost when the coordinator dies. */
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/placement/placement.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/trace.h"

#define SHORT_US (2 * MS)
#define LONG_US SECOND
#define LONG_PER_MILLION 200000 /* of the searches */

static void arrive(struct world *world, void *arg, int64_t number)
{
    struct coordinator *coordinator = world->coordinator;
    (void)arg;
    ASSERT(coordinator->inbox_count < INBOX_MAX);
    coordinator->inbox[coordinator->inbox_count++] =
        (struct inbox_item){.planned = (uint64_t)number};
    coordinator_poke(world);
}

void coordinator_plan(struct world *world, uint64_t question)
{
    struct coordinator *coordinator = world->coordinator;
    if (coordinator->plan_question != 0) {
        coordinator->plan_next = question;
        return;
    }
    if (!core_planning(coordinator->core, question, coordinator->planning)) {
        return;
    }
    coordinator->plan_question = question;
    coordinator->plan_err = (struct err){0};
    coordinator->plan_code =
        placement_solve(coordinator->planning, &coordinator->planned, &coordinator->plan_err);
    const bool is_long = world_chance(world, DRAW_COORDINATOR, LONG_PER_MILLION);
    const int64_t took_us =
        world_draw(world, DRAW_COORDINATOR, SHORT_US / 10, is_long ? LONG_US : SHORT_US);
    world_at(world, ACTOR_COORDINATOR, world->now_us + took_us, arrive, NULL, (int64_t)question);
}

void coordinator_planned(struct world *world, struct event *event)
{
    struct coordinator *coordinator = world->coordinator;
    *event = (struct event){.type = EVENT_PLANNED,
                            .planned = {.question = coordinator->plan_question,
                                        .planned = &coordinator->planned,
                                        .code = coordinator->plan_code}};
    memcpy(event->planned.message, coordinator->plan_err.text, MESSAGE_SIZE - 1);
}

void coordinator_plan_next(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    const uint64_t next = coordinator->plan_next;
    coordinator->plan_question = coordinator->plan_next = 0;
    if (next != 0) {
        coordinator_plan(world, next);
    }
}
