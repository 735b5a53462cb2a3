#include "tests/sim/speeds.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tests/sim/digest.h"
#include "tests/sim/trace.h"

#define SALT 0x73706565 /* of numbers of no draw: what else a seed does stays the same */
#define SPEED_SEEDS 3   /* every third seed has units, devices and links of unequal speed */
#define ALONE_SEEDS 12  /* in every twelfth nothing else changes */
#define CHANGES_MOST 5
#define CHANGE_US_MAX (60 * SECOND)
#define BETWEEN_US_MAX (40 * SECOND)
#define QUOTA_PERIOD_US (100 * MS)
#define NOISE_PERIOD_US SECOND

enum change { CHANGE_SLOW, CHANGE_NOISE, CHANGE_QUOTA, CHANGE_LINK, CHANGE_KINDS };

static uint64_t bits_of(const struct world *world, int64_t number)
{
    return digest_mix(digest_mix(world->seed, SALT), (uint64_t)number);
}

static void be_usual(struct world *world, size_t index)
{
    world->speeds->device[index].slowdown = world->speeds->device[index].quota = 100;
    world->speeds->device[index].noise = 0;
    for (size_t other = 0; other < SIM_DEVICES_MAX; other++) {
        world->speeds->link_share[index][other] = world->speeds->link_share[other][index] = 1;
    }
}

int speeds_new(struct world *world, struct err *err)
{
    world->speeds = calloc(1, sizeof(*world->speeds));
    for (size_t i = 0; world->speeds && i < SIM_DEVICES_MAX; i++) {
        be_usual(world, i);
    }
    return world->speeds ? 0 : err_set(err, ERR_MEMORY, "speeds");
}

void speeds_free(struct world *world)
{
    free(world->speeds);
    world->speeds = NULL;
}

/* ---- single changes ---- */

void speeds_slow(struct world *world, size_t index, int64_t percent)
{
    TRACE(world, world->agent[index]->actor, "takes %" PRId64 " %% of its time", percent);
    world->speeds->device[index].slowdown = percent;
}

void speeds_disturb(struct world *world, size_t index, int64_t percent)
{
    TRACE(world, world->agent[index]->actor, "is disturbed by %" PRId64 " %%", percent);
    world->speeds->device[index].noise = percent;
}

void speeds_limit(struct world *world, size_t index, int64_t percent)
{
    TRACE(world, world->agent[index]->actor, "has %" PRId64 " %% of a processor", percent);
    world->speeds->device[index].quota = percent;
}

void speeds_narrow(struct world *world, size_t index, double share)
{
    TRACE(world, world->agent[index]->actor, "its links have %g of their rate", share);
    for (size_t other = 0; other < world->agent_count; other++) {
        world->speeds->link_share[index][other] = share;
        world->speeds->link_share[other][index] = share;
    }
}

/* ---- changes of a seed ---- */

static void pass(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    be_usual(world, (size_t)number);
}

/* A device that is slow gets no slower: more than twelve times the usual time is a stall. */
static bool is_slow(const struct world *world, size_t index)
{
    return world->speeds->device[index].slowdown > 100 || world->speeds->device[index].quota < 100;
}

static void change(struct world *world, void *arg, int64_t number)
{
    static const int64_t slowdowns[] = {130, 200, 500, 1200};
    const uint64_t bits = bits_of(world, number);
    const size_t index = (size_t)(bits % world->agent_count);
    const uint64_t degree = bits / 64;
    const enum change kind = (enum change)(bits / 8 % CHANGE_KINDS);
    (void)arg;
    if (!world->speeds->on ||
        ((kind == CHANGE_SLOW || kind == CHANGE_QUOTA) && is_slow(world, index))) {
        return;
    }
    switch (kind) {
    case CHANGE_SLOW: speeds_slow(world, index, slowdowns[degree % 4]); break;
    case CHANGE_NOISE: speeds_disturb(world, index, 20 + (int64_t)(degree % 20)); break;
    case CHANGE_QUOTA: speeds_limit(world, index, 10 + (int64_t)(degree % 60)); break;
    case CHANGE_LINK: speeds_narrow(world, index, 0.1); break;
    case CHANGE_KINDS: break;
    }
    world_at(world, ACTOR_NONE, world->now_us + (int64_t)(bits / 8192 % CHANGE_US_MAX), pass, NULL,
             (int64_t)index);
}

bool speeds_alone(const struct world *world)
{
    return bits_of(world, 0) % ALONE_SEEDS == 0;
}

void speeds_begin(struct world *world)
{
    static const double rates[] = {0, 1e8, 2e7};
    struct speeds *speeds = world->speeds;
    const uint64_t bits = bits_of(world, 0);
    if (bits % SPEED_SEEDS != 0) {
        return;
    }
    speeds->on = true;
    speeds->link_bytes_per_second = rates[bits / 16 % 3];
    const int64_t count = 1 + (int64_t)(bits / 64 % CHANGES_MOST);
    for (int64_t i = 1; i <= count; i++) {
        speeds->end_us += (int64_t)(bits_of(world, -i) % BETWEEN_US_MAX);
        world_at(world, ACTOR_NONE, speeds->end_us, change, NULL, i);
    }
    speeds->end_us += CHANGE_US_MAX;
}

void speeds_heal(struct world *world)
{
    for (size_t i = 0; i < world->agent_count; i++) {
        be_usual(world, i);
    }
}

/* ---- what they come to ---- */

int64_t speeds_unit_us(const struct world *world, const struct agent *agent,
                       const struct model *model, size_t unit, int64_t usual_us)
{
    if (!world->speeds->on) {
        return usual_us;
    }
    const struct unit *of = &model->unit[unit];
    const uint64_t kind = of->op_count > 0 ? (uint64_t)of->op[0].type : 0;
    const uint64_t length = digest_mix(of->op_count, unit) % 85; /* of the unit */
    const uint64_t skill = digest_mix(bits_of(world, 0), agent->index * 64 + kind) % 60;
    return usual_us * (int64_t)(40 + length) / 100 * (int64_t)(70 + skill) / 100;
}

/* A thread under a quota stops when it has used its share of a period. */
static int64_t under_quota_us(int64_t now_us, int64_t us, int64_t quota)
{
    const int64_t share_us = QUOTA_PERIOD_US * quota / 100;
    const int64_t into_us = now_us % QUOTA_PERIOD_US;
    const int64_t left_us = into_us < share_us ? share_us - into_us : 0;
    if (us <= left_us) {
        return us;
    }
    const int64_t rest_us = us - left_us;
    return QUOTA_PERIOD_US - into_us + (rest_us - 1) / share_us * QUOTA_PERIOD_US +
           (rest_us - 1) % share_us + 1;
}

int64_t speeds_running_us(const struct world *world, const struct agent *agent, int64_t us)
{
    const struct speeds *speeds = world->speeds;
    const int64_t noise = speeds->device[agent->index].noise;
    int64_t took_us = us * speeds->device[agent->index].slowdown / 100;
    if (noise > 0) {
        const uint64_t slot = (uint64_t)(world->now_us / NOISE_PERIOD_US) * 64 + agent->index;
        const int64_t off = (int64_t)(digest_mix(bits_of(world, 0), slot) % (2 * (uint64_t)noise));
        took_us = took_us * (100 - noise + off) / 100;
    }
    return took_us;
}

int64_t speeds_elapsed_us(const struct world *world, const struct agent *agent, int64_t running_us)
{
    const int64_t quota = world->speeds->device[agent->index].quota;
    return quota < 100 ? under_quota_us(world->now_us, running_us, quota) : running_us;
}

/* A probe that fits into one period of a quota sees less of it. */
double speeds_share(const struct world *world, const struct agent *agent)
{
    const struct speeds *speeds = world->speeds;
    const double quota = (double)speeds->device[agent->index].quota / 100;
    const uint64_t moment = digest_mix(bits_of(world, 0), (uint64_t)world->now_us) % 100;
    return quota + (1 - quota) * (double)moment / 100;
}

double speeds_probe(const struct world *world, const struct agent *agent)
{
    return 100 / (double)world->speeds->device[agent->index].slowdown;
}

void speeds_carry(const struct world *world, struct call *call, double bytes)
{
    const struct speeds *speeds = world->speeds;
    if (!(speeds->link_bytes_per_second > 0) || call->from < ACTOR_DEVICE ||
        call->to < ACTOR_DEVICE) {
        return;
    }
    const double share = speeds->link_share[call->from - ACTOR_DEVICE][call->to - ACTOR_DEVICE];
    call->transfer_us = (int64_t)(bytes / (speeds->link_bytes_per_second * share) * 1e6);
    call->body_us += call->transfer_us;
}
