#include "tests/sim/operators.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/event.h"
#include "tests/sim/agent.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/digest.h"
#include "tests/sim/faults.h"
#include "tests/sim/trace.h"
#include "tests/sim/users.h"

#define SALT 0x6f706572 /* of numbers of no draw: what else a seed does stays the same */
#define WORK_SEEDS 4    /* they work in every fourth seed */
#define OLD_SEEDS 6     /* every sixth seed has agents of protocol 1 */
#define DEEDS_MOST 4
#define LOOK_US (300 * MS)
#define BEGIN_US_MAX (30 * SECOND)
#define DRAIN_US_MAX (40 * SECOND)
#define OFF_US_MAX (20 * SECOND)
#define LEAVING_US_MAX (20 * SECOND) /* from its word until it is gone */

enum deed { DEED_DRAIN, DEED_SWITCH_OFF, DEED_LEAVE, DEED_UPGRADE, DEEDS };

static uint64_t bits_of(const struct world *world, int64_t number)
{
    return digest_mix(digest_mix(world->seed, SALT), (uint64_t)number);
}

int operators_new(struct world *world, struct err *err)
{
    world->operators = calloc(1, sizeof(*world->operators));
    return world->operators ? 0 : err_set(err, ERR_MEMORY, "operators");
}

void operators_free(struct world *world)
{
    free(world->operators);
    world->operators = NULL;
}

/* ---- drains ---- */

static const struct device *row_of(const struct world *world, size_t index)
{
    const struct rows *rows = &world->coordinator->rows;
    for (size_t i = 0; i < rows->device_count; i++) {
        if (strcmp(rows->device[i].name, world->agent[index]->name) == 0) {
            return &rows->device[i];
        }
    }
    return NULL;
}

static void answered(struct world *world, struct call *call)
{
    world->operators->asking[call->number] = false;
}

void operators_ask(struct world *world, size_t index, bool drain)
{
    const struct device *row = row_of(world, index);
    ASSERT(row);
    const struct event event = {
        .type = EVENT_DEVICE_VERB,
        .device_verb = {.device = row->id, .verb = drain ? DEVICE_DRAIN : DEVICE_UNDRAIN}};
    TRACE(world, ACTOR_USER, "%s %s", drain ? "drains" : "undrains", world->agent[index]->name);
    world->operators->asking[index] = true;
    users_send(world, &event, answered, NULL)->number = (int64_t)index;
}

/* Until each device is as it shall be: a call may be lost, a backup put back. */
static void look(struct world *world, void *arg, int64_t number)
{
    struct operators *operators = world->operators;
    (void)arg;
    (void)number;
    for (size_t i = 0; i < world->agent_count; i++) {
        const struct device *row = row_of(world, i);
        if (row && row->draining != operators->drains[i] && !operators->asking[i]) {
            operators_ask(world, i, operators->drains[i]);
        }
        if (row && row->drained && operators->switches[i]) {
            operators->switches[i] = false;
            faults_power_off(world, i, (int64_t)(bits_of(world, 64) % OFF_US_MAX));
        }
    }
    world_at(world, ACTOR_USER, world->now_us + LOOK_US, look, NULL, 0);
}

static void undrain(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    world->operators->drains[number] = world->operators->switches[number] = false;
}

/* ---- single deeds ---- */

static void go(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    if (world->agent[number]->leaving) {
        faults_kill_device(world, (size_t)number,
                           (int64_t)(bits_of(world, 65) % OFF_US_MAX)); /* it returns and stays */
    }
}

/* An agent that ends for a new version of its program does not announce it. */
static void upgrade(struct world *world, size_t index, int protocol)
{
    struct agent *agent = world->agent[index];
    if (agent->protocol != protocol) {
        agent->protocol = protocol;
        TRACE(world, agent->actor, "will speak protocol %d", protocol);
        world->faults->outages = world->faults->drifts = false; /* a restart is a failure */
        faults_kill_device(world, index, SECOND);
    }
}

static void do_deed(struct world *world, void *arg, int64_t number)
{
    const uint64_t bits = bits_of(world, number);
    const size_t index = (size_t)(bits % world->agent_count);
    struct agent *agent = world->agent[index];
    const bool harmless = !world->faults->any;
    (void)arg;
    if (!world->operators->at_work) {
        return;
    }
    const enum deed deed = (enum deed)(bits / 8 % DEEDS);
    switch (deed) {
    case DEED_SWITCH_OFF:
    case DEED_DRAIN:
        if (deed == DEED_SWITCH_OFF) {
            world->operators->switches[index] = !harmless;
        }
        world->operators->drains[index] = true;
        world_at(world, ACTOR_NONE, world->now_us + (int64_t)(bits / 64 % DRAIN_US_MAX), undrain,
                 NULL, (int64_t)index);
        break;
    case DEED_LEAVE:
        if (!harmless && agent->session && !agent->leaving && agent->protocol > 1) {
            agent_leave(world, agent);
            world_at(world, agent->actor, world->now_us + (int64_t)(bits / 64 % LEAVING_US_MAX), go,
                     NULL, (int64_t)index);
        }
        break;
    case DEED_UPGRADE:
        if (!harmless) {
            upgrade(world, index, bits / 64 % 3 == 0 ? 1 : PROTOCOL_VERSION);
        }
        break;
    case DEEDS: break;
    }
}

/* ---- all of it ---- */

void operators_install(struct world *world)
{
    const uint64_t bits = bits_of(world, 0);
    for (size_t i = 0; bits % OLD_SEEDS == 1 && i < world->agent_count; i++) {
        world->agent[i]->protocol = bits >> (8 + i) & 1 ? 1 : PROTOCOL_VERSION;
    }
}

void operators_begin(struct world *world)
{
    const uint64_t bits = bits_of(world, 0);
    world_at(world, ACTOR_USER, world->now_us, look, NULL, 0);
    if (bits % WORK_SEEDS != 0) {
        return;
    }
    world->operators->at_work = true;
    const int64_t count = 1 + (int64_t)(bits / 16 % DEEDS_MOST);
    for (int64_t i = 1; i <= count; i++) {
        world_at(world, ACTOR_NONE, (int64_t)(bits_of(world, -i) % BEGIN_US_MAX), do_deed, NULL, i);
    }
}

void operators_end(struct world *world)
{
    world->operators->at_work = false;
    for (size_t i = 0; i < world->agent_count; i++) {
        undrain(world, NULL, (int64_t)i);
        go(world, NULL, (int64_t)i);
        upgrade(world, i, PROTOCOL_VERSION);
    }
}
