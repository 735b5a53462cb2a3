/* servers_trial.h: a layout of a parameter server with its best shares, and the memory of a search.
 * For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_SERVERS_TRIAL_H
#define COORDINATOR_PLAN_SERVERS_TRIAL_H

#include "coordinator/plan/servers_step.h"
#include "coordinator/plan/shares.h"

#define SERVERS_TRIAL_NONE SIZE_MAX
#define SERVERS_POOL_MAX (2 * SERVERS_MAX)
/* A smaller gain is rounding. */
#define SERVERS_ROUNDING 1e-12

/* step_seconds is INFINITY if there are no shares. */
struct servers_trial {
    struct servers_layout layout;
    struct reduce_range share[SERVERS_STAGES_MAX];
    struct servers_total total;
};

/* Whether shares fit on a worker. */
enum servers_fit { SERVERS_FIT_ALWAYS, SERVERS_FIT_NEVER, SERVERS_FIT_SOME };

/* A device with its sort key, the lowest first. */
struct servers_ranked {
    double key;
    size_t device;
};

struct servers_scratch {
    size_t layers;
    struct servers_transfers transfers;
    /* Devices that the search tries as servers, and their links. */
    size_t pool[SERVERS_POOL_MAX], pool_count;
    struct link_speed pool_link[SERVERS_POOL_MAX][SERVERS_DEVICES_MAX];
    size_t grain; /* of shares (shares.h) */
    double asked; /* work of the search: timed shares so far, and timed workers */
    struct shares_scratch *shares;
    const struct servers_problem *problem;
    size_t wanted; /* number of servers to search for; 0: any */
    bool found;    /* an earlier part of the search has a plan */
    struct servers_ranked by_speed[SERVERS_DEVICES_MAX], by_rate[SERVERS_DEVICES_MAX];
    size_t worker_count, server_count; /* of the two lists: devices that may work, that may serve */
    struct servers_times times;
    enum servers_fit fit[SERVERS_STAGES_MAX]; /* by worker of the trial */
    struct servers_trial trial, best, of_count[SERVERS_MAX + 1];
};

/* Return whether the list holds the device. */
bool servers_trial_has(const size_t *list, size_t count, size_t device);
/* Return the stage of a device with a share. sums: contributions to each server in a step. */
struct servers_stage servers_trial_stage(const struct servers_layout *layout, size_t device,
                                         struct reduce_range share, size_t micro_batches,
                                         size_t sums);
/* Return the number of sums that a server gets in a step: one for each block of each worker. */
size_t servers_trial_sums(const struct servers_scratch *scratch, const struct servers_trial *trial);
/* Return whether the search has used up its work. plan: its plan so far, which may be none. */
bool servers_trial_spent(const struct servers_scratch *scratch, const struct servers_trial *plan);
/* Return whether every stage of the trial fits on its device. */
bool servers_trial_fits(const struct servers_scratch *scratch, const struct servers_trial *trial);
/* Set the links of the layout's servers for the times. */
void servers_trial_set_links(struct servers_scratch *scratch, const struct servers_layout *layout);
/* Return whether a is faster than b by more than the share `gain`. */
bool servers_trial_faster(const struct servers_trial *a, const struct servers_trial *b,
                          double gain);
/* Return the number of devices of a layout. */
size_t servers_trial_devices(const struct servers_layout *layout);
/* Find the shares and the step of scratch->trial, whose layout is set, with servers of the pool.
 * Workers without a share are removed, because the links of the others are then faster, and the
 * shares are computed again. A worker without a share stays if the plan would otherwise have too
 * few devices. needed: a worker that must have a share, or SERVERS_TRIAL_NONE. If a worker takes
 * longer than `limit`, there is no answer. */
void servers_trial_run(struct servers_scratch *scratch, size_t needed, double limit);

#endif
