#include "tests/sim/faults.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tests/sim/agent.h"
#include "tests/sim/digest.h"
#include "tests/sim/speeds.h"
#include "tests/sim/trace.h"

enum kind {
    FAULT_KILL,
    FAULT_POWER,
    FAULT_FREEZE,
    FAULT_SLOW,
    FAULT_CUT_PEERS,
    FAULT_CUT_CENTER,
    FAULT_CLOCK,
    FAULT_CENTER_KILL,
    FAULT_CENTER_STALL,
    FAULT_DISK,
    FAULT_BACKUP,
    FAULT_BLACKOUT,
    FAULT_CENTER_AWAY,
    FAULT_KINDS,
};

/* How many of a kind a seed has at most, and how many seeds in a hundred have it. */
static const struct {
    int64_t most, seeds;
} usual[FAULT_KINDS] = {
    [FAULT_KILL] = {12, 60},       [FAULT_POWER] = {6, 30},       [FAULT_FREEZE] = {8, 40},
    [FAULT_SLOW] = {4, 30},        [FAULT_CUT_PEERS] = {8, 30},   [FAULT_CUT_CENTER] = {6, 30},
    [FAULT_CLOCK] = {4, 20},       [FAULT_CENTER_KILL] = {8, 40}, [FAULT_CENTER_STALL] = {6, 30},
    [FAULT_DISK] = {2, 15},        [FAULT_BACKUP] = {6, 10},      [FAULT_BLACKOUT] = {2, 15},
    [FAULT_CENTER_AWAY] = {2, 20},
};

#define AWAY_US_MIN (7 * SECOND) /* longer than every wait of an agent, and than the lease */
#define AWAY_US_MAX (100 * SECOND)
#define OUTAGE_SEEDS 8 /* in every eighth seed nothing else goes wrong */
#define OUTAGES_MOST 4
#define SUBMITTED_US                                                                               \
    (12 * SECOND)         /* all jobs are: a user whose answer does not come submits once more */
#define OUTAGE_NUMBER 100 /* of the first; those of faults of single devices are lower */
#define OUTAGE_US_MAX (400 * SECOND)
#define FREEZE_US_MAX (200 * SECOND) /* its sockets keep what was sent to it meanwhile */

#define LOCAL_SEEDS 3 /* every third seed has faults of single devices */
#define LOCAL_MOST 4  /* at most this many faults */
#define LOCAL_DEVICES                                                                              \
    2 /* on at most this many devices: a fault of more devices is charged to the job */
#define LOCAL_US_MAX (100 * SECOND)

int faults_new(struct world *world, struct err *err)
{
    world->faults = calloc(1, sizeof(*world->faults));
    return world->faults ? 0 : err_set(err, ERR_MEMORY, "faults");
}

void faults_free(struct world *world)
{
    free(world->faults);
    world->faults = NULL;
}

/* ---- coming back ---- */

static void start_device(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    if (world->faults->some_left && number >= (int64_t)world->faults->left) {
        return;
    }
    world->actor[ACTOR_DEVICE + number].powered = true;
    agent_start(world, world->agent[number]);
}

static void start_coordinator(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    (void)number;
    if (!world->actor[ACTOR_COORDINATOR].up) {
        world->actor[ACTOR_COORDINATOR].powered = true;
        if (world->faults->restores) {
            world->faults->restores = false;
            coordinator_restore_backup(world);
        }
        coordinator_start(world);
    }
}

static int64_t pause_us(struct world *world, int64_t most_us)
{
    /* Short ones are as likely as long ones. */
    const int64_t scale = world_draw(world, DRAW_FAULTS, 0, 3);
    return MS + world_draw(world, DRAW_FAULTS, 0, most_us >> (2 * scale));
}

void faults_restart_coordinator(struct world *world)
{
    world_at(world, ACTOR_NONE, world->now_us + pause_us(world, world->faults->restart_us_max),
             start_coordinator, NULL, 0);
}

/* ---- single faults ---- */

void faults_kill_device(struct world *world, size_t index, int64_t back_us)
{
    world->actor[ACTOR_DEVICE + index].faults++;
    agent_crash(world, world->agent[index]);
    world_at(world, ACTOR_NONE, world->now_us + back_us, start_device, NULL, (int64_t)index);
}

void faults_power_off(struct world *world, size_t index, int64_t back_us)
{
    world->actor[ACTOR_DEVICE + index].powered = false;
    TRACE(world, ACTOR_DEVICE + (int)index, "loses power");
    faults_kill_device(world, index, back_us);
}

void faults_freeze(struct world *world, int actor, int64_t us)
{
    const int64_t thaw_us = world->now_us + us;
    struct actor *frozen = &world->actor[actor];
    TRACE(world, actor, "freezes for %" PRId64 " ms", us / MS);
    frozen->thaw_us = frozen->thaw_us > thaw_us ? frozen->thaw_us : thaw_us;
    frozen->faults++;
}

void faults_cut(struct world *world, int from, int to, bool cut)
{
    TRACE(world, ACTOR_NONE, "%s from %s to %s", cut ? "nothing passes" : "messages pass",
          world->actor[from].label, world->actor[to].label);
    world->net->cut[from][to] = cut;
    world->actor[from].faults++;
    world->actor[to].faults++;
}

void faults_kill_coordinator(struct world *world, int64_t back_us)
{
    TRACE(world, ACTOR_COORDINATOR, "dies");
    coordinator_crash(world);
    world_at(world, ACTOR_NONE, world->now_us + back_us, start_coordinator, NULL, 0);
}

static void join(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    const int from = (int)(number / ACTORS_MAX), to = (int)(number % ACTORS_MAX);
    if (world->net->cut[from][to]) {
        faults_cut(world, from, to, false);
    }
}

/* In both directions, or in one. */
static void cut(struct world *world, int a, int b)
{
    const int64_t ways = world_draw(world, DRAW_FAULTS, 1, 3);
    const int64_t until_us = world->now_us + pause_us(world, 30 * SECOND);
    if (ways & 1) {
        faults_cut(world, a, b, true);
        world_at(world, ACTOR_NONE, until_us, join, NULL, a * ACTORS_MAX + b);
    }
    if (ways & 2) {
        faults_cut(world, b, a, true);
        world_at(world, ACTOR_NONE, until_us, join, NULL, b * ACTORS_MAX + a);
    }
}

static void be_usual(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    world->agent[number]->slowness = world->agent[number]->usual_slowness;
}

static void slow_down(struct world *world, size_t index)
{
    struct agent *agent = world->agent[index];
    const int64_t factor = world_draw(world, DRAW_FAULTS, 2, 30);
    TRACE(world, agent->actor, "is %" PRId64 " times slower", factor);
    agent->slowness = agent->usual_slowness * factor;
    world->actor[agent->actor].faults++;
    world_at(world, ACTOR_NONE, world->now_us + pause_us(world, 20 * SECOND), be_usual, NULL,
             (int64_t)index);
}

static void free_disk(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    (void)number;
    world->coordinator->disk_full = false;
}

static void jump(struct world *world)
{
    const int actor =
        (int)world_draw(world, DRAW_FAULTS, 0, (int64_t)(ACTOR_DEVICE + world->agent_count) - 1);
    const int64_t ms = world_draw(world, DRAW_FAULTS, 1, 60000);
    TRACE(world, actor, "its clock jumps %" PRId64 " ms", ms);
    world->actor[actor].faults++;
    world->actor[actor].ahead_us += ms * MS;
    world->actor[actor].wall_ms += world_draw(world, DRAW_FAULTS, -100000, 100000);
    if (actor == ACTOR_COORDINATOR && world->actor[actor].up) {
        coordinator_poke(world);
    } else if (actor >= ACTOR_DEVICE) {
        agent_poke(world, agent_of(world, actor));
    }
}

/* Everybody loses power at once. */
static void black_out(struct world *world)
{
    const bool center = world_chance(world, DRAW_FAULTS, 600000);
    for (size_t i = 0; i < world->agent_count; i++) {
        faults_power_off(world, i, pause_us(world, world->faults->restart_us_max));
    }
    if (center) {
        world->actor[ACTOR_COORDINATOR].powered = false;
        faults_kill_coordinator(world, pause_us(world, world->faults->restart_us_max));
    }
}

static void strike(struct world *world, void *arg, int64_t number)
{
    const size_t agent = (size_t)world_draw(world, DRAW_FAULTS, 0, (int64_t)world->agent_count - 1);
    const size_t other = (size_t)world_draw(world, DRAW_FAULTS, 0, (int64_t)world->agent_count - 1);
    const int actor = ACTOR_DEVICE + (int)agent;
    const int64_t back_us = pause_us(world, world->faults->restart_us_max);
    (void)arg;
    if (!world->faults->on) {
        return;
    }
    switch ((enum kind)number) {
    case FAULT_KILL: faults_kill_device(world, agent, back_us); break;
    case FAULT_POWER: faults_power_off(world, agent, back_us); break;
    case FAULT_FREEZE: faults_freeze(world, actor, pause_us(world, 25 * SECOND)); break;
    case FAULT_SLOW: slow_down(world, agent); break;
    case FAULT_CUT_PEERS:
        if (agent != other) {
            cut(world, actor, ACTOR_DEVICE + (int)other);
        }
        break;
    case FAULT_CUT_CENTER: cut(world, actor, ACTOR_COORDINATOR); break;
    case FAULT_CLOCK: jump(world); break;
    case FAULT_CENTER_KILL: faults_kill_coordinator(world, back_us); break;
    case FAULT_CENTER_STALL:
        faults_freeze(world, ACTOR_COORDINATOR, pause_us(world, 15 * SECOND));
        break;
    case FAULT_DISK:
        TRACE(world, ACTOR_COORDINATOR, "has no disk left");
        world->coordinator->disk_full = true;
        world_at(world, ACTOR_NONE, world->now_us + pause_us(world, 30 * SECOND), free_disk, NULL,
                 0);
        break;
    case FAULT_BACKUP:
        if (!world->coordinator->backup) {
            TRACE(world, ACTOR_COORDINATOR, "is backed up");
            coordinator_backup(world);
        } else {
            world->faults->restores = true;
            faults_kill_coordinator(world, back_us);
        }
        break;
    case FAULT_BLACKOUT: black_out(world); break;
    case FAULT_CENTER_AWAY:
        faults_kill_coordinator(world, AWAY_US_MIN + pause_us(world, AWAY_US_MAX));
        break;
    case FAULT_KINDS: break;
    }
}

/* ---- single devices ---- */

void faults_local(struct world *world, size_t index, enum local_fault fault)
{
    static const char *const names[] = {[LOCAL_NONE] = "works again",
                                        [LOCAL_DISK_FULL] = "its disk is full",
                                        [LOCAL_DISK_HUNG] = "its disk hangs",
                                        [LOCAL_CACHE_WRONG] = "its cache is wrong",
                                        [LOCAL_MEMORY] = "has not enough memory"};
    struct agent *agent = world->agent[index];
    if (agent->local_fault != fault) {
        TRACE(world, agent->actor, "%s", names[fault]);
        agent->local_fault = fault;
        world->actor[agent->actor].faults++;
    }
}

static void heal_device(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    faults_local(world, (size_t)number, LOCAL_NONE);
}

/* Numbers of no draw, so that whatever else a seed does stays the same. */
static uint64_t local_bits(const struct world *world, int64_t number)
{
    return digest_mix(digest_mix(world->seed, (uint64_t)FAULT_KINDS), (uint64_t)number);
}

static void strike_device(struct world *world, void *arg, int64_t number)
{
    const uint64_t bits = local_bits(world, number);
    const size_t devices = world->agent_count < LOCAL_DEVICES ? world->agent_count : LOCAL_DEVICES;
    const size_t index = (size_t)(bits % devices);
    const enum local_fault fault =
        (enum local_fault)(LOCAL_NONE + 1 + bits / 8 % (LOCAL_FAULTS - 1));
    (void)arg;
    if (world->faults->on) {
        faults_local(world, index, fault);
        world_at(world, ACTOR_NONE, world->now_us + (int64_t)(bits / 64 % LOCAL_US_MAX),
                 heal_device, NULL, (int64_t)index);
    }
}

static void begin_local(struct world *world)
{
    const uint64_t bits = local_bits(world, 0);
    const int64_t count =
        bits % LOCAL_SEEDS == 0 ? 1 + (int64_t)(bits / LOCAL_SEEDS % LOCAL_MOST) : 0;
    for (int64_t i = 1; i <= count; i++) {
        const int64_t at_us = (int64_t)(local_bits(world, -i) % (uint64_t)world->faults->end_us);
        world_at(world, ACTOR_NONE, at_us, strike_device, NULL, i);
    }
}

/* ---- the coordinator alone ---- */

/* Short ones are as likely as long ones. */
static int64_t outage_us(const struct world *world, int64_t number)
{
    const uint64_t bits = local_bits(world, number);
    return AWAY_US_MIN + (int64_t)(bits / 8 % (OUTAGE_US_MAX >> (2 * (bits / 2 % 4))));
}

static void be_away(struct world *world, void *arg, int64_t number)
{
    const int64_t us = outage_us(world, number);
    (void)arg;
    if (local_bits(world, number) % 2 == 0) {
        faults_kill_coordinator(world, us);
    } else {
        faults_freeze(world, ACTOR_COORDINATOR, us < FREEZE_US_MAX ? us : FREEZE_US_MAX);
    }
}

/* One after the other. Of no draw. */
static bool begin_outages(struct world *world)
{
    struct faults *faults = world->faults;
    const uint64_t bits = digest_mix(digest_mix(world->seed, (uint64_t)FAULT_KINDS + 1), 0);
    if (bits % OUTAGE_SEEDS != 0) {
        return false;
    }
    const int64_t count = 1 + (int64_t)(bits / OUTAGE_SEEDS % OUTAGES_MOST);
    faults->any = false;
    faults->outages = true;
    faults->end_us = SUBMITTED_US;
    for (int64_t i = OUTAGE_NUMBER; i < OUTAGE_NUMBER + count; i++) {
        faults->end_us += (int64_t)(local_bits(world, -i) % (uint64_t)(10 * SECOND));
        world_at(world, ACTOR_NONE, faults->end_us, be_away, NULL, i);
        faults->end_us += outage_us(world, i);
    }
    return true;
}

/* ---- all of them ---- */

enum crash_point faults_crash_point(struct world *world)
{
    const struct faults *faults = world->faults;
    if (faults->crash_commit > 0 && world->coordinator->commits + 1 == faults->crash_commit &&
        world->coordinator->lives == 1) {
        return faults->crash_point;
    }
    if (!faults->on) {
        return CRASH_NOT;
    }
    if (world_chance(world, DRAW_FAULTS, faults->crash_before)) {
        return CRASH_BEFORE_COMMIT;
    }
    return world_chance(world, DRAW_FAULTS, faults->crash_after) ? CRASH_AFTER_COMMIT : CRASH_NOT;
}

static int64_t rate(struct world *world, int64_t seeds, int64_t most)
{
    const bool has = world_draw(world, DRAW_FAULTS, 1, 100) <= seeds;
    const int64_t drawn = world_draw(world, DRAW_FAULTS, 0, most);
    return has ? drawn : 0;
}

static void draw_net(struct world *world)
{
    struct net_rates *rates = &world->net->rates;
    rates->lose_request = rate(world, 20, 5000);
    rates->lose_answer = rate(world, 20, 5000);
    rates->break_request = rate(world, 30, 20000);
    rates->break_answer = rate(world, 30, 20000);
    rates->doubled = rate(world, 40, 50000);
    rates->slow = rate(world, 40, 50000);
    rates->slow_us = world_draw(world, DRAW_FAULTS, MS, 3 * SECOND);
}

void faults_begin(struct world *world)
{
    struct faults *faults = world->faults;
    struct net_rates *rates = &world->net->rates;
    rates->delay_us = world_draw(world, DRAW_FAULTS, 50, 2000);
    rates->jitter_us = world_draw(world, DRAW_FAULTS, 10, 5000);
    if (begin_outages(world)) {
        return;
    }
    if (speeds_alone(world)) {
        faults->drifts = true;
        faults->end_us = world->speeds->end_us;
        return;
    }
    faults->any = world_draw(world, DRAW_FAULTS, 1, 100) > 8;
    if (!faults->any) {
        return; /* a calm seed: nothing may fail at all */
    }
    faults->on = true;
    faults->end_us = world_draw(world, DRAW_FAULTS, 5 * SECOND, 60 * SECOND);
    faults->restart_us_max = world_draw(world, DRAW_FAULTS, 10 * MS, 25 * SECOND);
    faults->crash_before = rate(world, 25, 20000);
    faults->crash_after = rate(world, 25, 20000);
    draw_net(world);
    for (int64_t kind = 0; kind < FAULT_KINDS; kind++) {
        const int64_t count = rate(world, usual[kind].seeds, usual[kind].most);
        for (int64_t i = 0; i < count; i++) {
            world_at(world, ACTOR_NONE, world_draw(world, DRAW_FAULTS, 100 * MS, faults->end_us),
                     strike, NULL, kind);
        }
    }
    begin_local(world);
}

void faults_heal(struct world *world)
{
    const struct net_rates calm = {.delay_us = world->net->rates.delay_us,
                                   .jitter_us = world->net->rates.jitter_us};
    TRACE(world, ACTOR_NONE, "everything is healed");
    world->faults->on = false;
    world->net->rates = calm;
    world->coordinator->disk_full = false;
    for (int from = 0; from < ACTORS_MAX; from++) {
        world->actor[from].powered = true;
        world->actor[from].thaw_us = 0;
        for (int to = 0; to < ACTORS_MAX; to++) {
            world->net->cut[from][to] = false;
        }
    }
    speeds_heal(world);
    start_coordinator(world, NULL, 0);
    for (size_t i = 0; i < world->agent_count; i++) {
        be_usual(world, NULL, (int64_t)i);
        faults_local(world, i, LOCAL_NONE);
        agent_start(world, world->agent[i]);
    }
}

void faults_leave(struct world *world, size_t left)
{
    struct faults *faults = world->faults;
    faults->some_left = true;
    faults->left = left;
    faults->outages = faults->drifts = false; /* a device that is gone is a failure */
    for (size_t i = left; i < world->agent_count; i++) {
        faults_power_off(world, i, 0);
    }
}
