/* faults.h: faults drawn by the seed: the rate of lost calls, the machines that die, freeze or lose
 * the network, and deaths of the coordinator in the middle of a commit. One thread. */
#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H

#include "tests/sim/agent.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/world.h"

struct faults {
    bool on;
    bool any;                          /* something can go wrong at all in this seed */
    bool outages;                      /* only the coordinator goes away: it costs nothing */
    bool drifts;                       /* only speeds change: no device is blamed for it */
    int64_t end_us;                    /* from then on nothing does */
    int64_t crash_before, crash_after; /* in a million commits */
    bool restores;                     /* its backup is put back before it starts next */
    uint64_t crash_commit; /* for stories: the commit, counted from 1, at which it dies; 0: none */
    enum crash_point crash_point; /* of it */
    bool some_left;               /* all devices but the first `left` stay away from now on */
    size_t left;
    int64_t restart_us_max; /* how long a dead process stays dead at most */
};

int faults_new(struct world *world, struct err *err);
void faults_free(struct world *world);
/* Draw everything, and begin. */
void faults_begin(struct world *world);
/* Everything is healed and started again. */
void faults_heal(struct world *world);
/* All devices but the first ones lose power for good. */
void faults_leave(struct world *world, size_t left);
/* Asked at each commit. */
enum crash_point faults_crash_point(struct world *world);
/* The coordinator has died: when does it come back? */
void faults_restart_coordinator(struct world *world);

/* ---- single faults, also for stories ---- */
void faults_kill_device(struct world *world, size_t index, int64_t back_us);
void faults_power_off(struct world *world, size_t index, int64_t back_us);
void faults_freeze(struct world *world, int actor, int64_t us);
void faults_cut(struct world *world, int from, int to, bool cut);
void faults_kill_coordinator(struct world *world, int64_t back_us);
/* LOCAL_NONE: it works again. */
void faults_local(struct world *world, size_t index, enum local_fault fault);

#endif
