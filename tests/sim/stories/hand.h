/* hand.h: generations of the strategy parameter_server without a coordinator: plans, assignments
 * and orders are made by hand, drawn by a seed, so that plans occur which no planner makes. Devices
 * and network are those of the simulator, with its checks. One thread. */
#ifndef TESTS_SIM_STORIES_HAND_H
#define TESTS_SIM_STORIES_HAND_H

#include "tests/sim/agent.h"
#include "tests/sim/check.h"
#include "tests/sim/faults.h"
#include "tests/sim/servers.h"
#include "tests/sim/sim.h"
#include "tests/sim/users.h"
#include "tests/support/test.h"

#define HAND_DEVICES_MAX 6
#define HAND_NONE SIZE_MAX

/* How a generation ends. */
enum hand_ending { HAND_END, HAND_STOP, HAND_LOSS, HAND_CRASH, HAND_ENDINGS };

struct hand {
    struct world world;
    struct models models;
    struct user_job *job;
    struct job_id id;
    struct rng_stream random;
    uint64_t draws;
    int64_t generation, serial;
    int64_t version;          /* that the next generation starts from */
    struct early_stop judged; /* up to there */

    /* The present plan. */
    struct plan_id plan;
    size_t count, servers;
    size_t device[HAND_DEVICES_MAX]; /* by stage */
    struct assigned_stage stage[HAND_DEVICES_MAX];
    bool prepared[HAND_DEVICES_MAX], stopped[HAND_DEVICES_MAX]; /* by device */
    bool failed;
    size_t lost; /* the device without units that died; HAND_NONE */
};

/* trace: NULL, or borrowed. */
struct hand *hand_new(uint64_t seed, struct trace *trace);
void hand_free(struct hand *hand);
uint64_t hand_draw(struct hand *hand, uint64_t bound);
/* One generation, from the version on; false: the job has ended. */
bool hand_play(struct hand *hand, enum hand_ending ending);

/* ---- hand_plan.c ---- */
bool hand_is_up(const struct hand *hand, size_t device);
/* Any plan of devices that are up, as assignments allow. */
void hand_draw_plan(struct hand *hand);
/* Tell all devices what they do, and whom they let in. */
void hand_assign(struct hand *hand);

#endif
