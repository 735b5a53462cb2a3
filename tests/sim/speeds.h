/* speeds.h: how fast devices compute and links carry, and how that changes: units and devices of
 * unequal kinds, throttling, other programs, CPU quotas, slow links. A seed without them has units
 * of equal length and links without limit. One thread. */
#ifndef TESTS_SIM_SPEEDS_H
#define TESTS_SIM_SPEEDS_H

#include "libtrain/model/model.h"
#include "tests/sim/agent.h"
#include "tests/sim/net.h"
#include "tests/sim/world.h"

struct speeds {
    bool on;
    int64_t end_us;                                      /* of the last change */
    double link_bytes_per_second;                        /* 0: without limit */
    double link_share[SIM_DEVICES_MAX][SIM_DEVICES_MAX]; /* of that */
    struct {
        int64_t slowdown, noise, quota; /* per cent; 100, 0, 100: as usual */
    } device[SIM_DEVICES_MAX];
};

int speeds_new(struct world *world, struct err *err);
void speeds_free(struct world *world);
/* Whether only speeds change in this seed. */
bool speeds_alone(const struct world *world);
/* Draw the speeds of the seed and their changes, and begin. */
void speeds_begin(struct world *world);
/* Every device and link is as usual again. */
void speeds_heal(struct world *world);

/* The time of a unit's forward pass on a device whose slowness is 100, relative to usual_us. */
int64_t speeds_unit_us(const struct world *world, const struct agent *agent,
                       const struct model *model, size_t unit, int64_t usual_us);
/* How long work of that much time runs if it begins now, and how long it takes, with the stops of a
 * quota. */
int64_t speeds_running_us(const struct world *world, const struct agent *agent, int64_t us);
int64_t speeds_elapsed_us(const struct world *world, const struct agent *agent, int64_t running_us);
/* The share of its processor that a short probe has. */
double speeds_share(const struct world *world, const struct agent *agent);
/* What it measures while it runs, relative to the device's usual speed. */
double speeds_probe(const struct world *world, const struct agent *agent);
/* The body of a call between devices, or of its answer, takes the time of so many bytes. */
void speeds_carry(const struct world *world, struct call *call, double bytes);

/* ---- single changes, also for stories ---- */
/* percent: of the usual time of its work; 100: as usual. */
void speeds_slow(struct world *world, size_t index, int64_t percent);
/* Each second is faster or slower by up to so many per cent. */
void speeds_disturb(struct world *world, size_t index, int64_t percent);
/* So many per cent of each 100 ms; 100: all. */
void speeds_limit(struct world *world, size_t index, int64_t percent);
/* The link to every other device, in both directions, has this share of its rate. */
void speeds_narrow(struct world *world, size_t index, double share);

#endif
