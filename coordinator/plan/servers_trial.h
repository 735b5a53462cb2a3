/* servers_trial.h: a parameter server's layout with the best shares for it, and the memory of a
 * search. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_SERVERS_TRIAL_H
#define COORDINATOR_PLAN_SERVERS_TRIAL_H

#include "coordinator/plan/servers_step.h"
#include "coordinator/plan/shares.h"

#define SERVERS_TRIAL_NONE SIZE_MAX
#define SERVERS_POOL_MAX (2 * SERVERS_MAX)
/* A change that gains less is a rounding. */
#define SERVERS_ROUNDING 1e-12

/* step_seconds is INFINITY if there are no shares. */
struct servers_trial {
    struct servers_layout layout;
    struct reduce_range share[SERVERS_STAGES_MAX];
    struct servers_total total;
};

/* Whether shares fit on a worker. */
enum servers_fit { SERVERS_FIT_ALWAYS, SERVERS_FIT_NEVER, SERVERS_FIT_SOME };

/* A device by its rank: the least key is first. */
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
    double asked; /* times of shares so far, and of workers: the work of the search */
    struct shares_scratch *shares;
    const struct servers_problem *problem;
    size_t wanted; /* number of servers that is searched for; 0: any */
    bool found;    /* an earlier part of the search has a plan */
    struct servers_ranked by_speed[SERVERS_DEVICES_MAX], by_rate[SERVERS_DEVICES_MAX];
    size_t worker_count, server_count; /* of the two lists: devices that may */
    struct servers_times times;
    enum servers_fit fit[SERVERS_STAGES_MAX]; /* by worker of the trial */
    struct servers_trial trial, best, of_count[SERVERS_MAX + 1];
};

/* Return whether the list holds the device. */
bool servers_trial_has(const size_t *list, size_t count, size_t device);
/* Return the stage of a device with that share. sums: of each server. */
struct servers_stage servers_trial_stage(const struct servers_layout *layout, size_t device,
                                         struct reduce_range share, size_t micro_batches,
                                         size_t sums);
/* Return the sums of a step that a server gets: one for each block of each worker. */
size_t servers_trial_sums(const struct servers_scratch *scratch, const struct servers_trial *trial);
/* Return whether the search, which has this plan or none, has done as much as it may. */
bool servers_trial_spent(const struct servers_scratch *scratch, const struct servers_trial *plan);
/* Return whether every stage of the trial fits on its device. */
bool servers_trial_fits(const struct servers_scratch *scratch, const struct servers_trial *trial);
/* Let the times use the links of the layout's servers. */
void servers_trial_set_links(struct servers_scratch *scratch, const struct servers_layout *layout);
/* Return whether a is faster than b, by more than a share `gain` of it. */
bool servers_trial_faster(const struct servers_trial *a, const struct servers_trial *b,
                          double gain);
/* Return the devices of a layout. */
size_t servers_trial_devices(const struct servers_layout *layout);
/* Find the shares and the step of scratch->trial, whose layout is set; its servers are of the pool.
 * Without a worker the others' links are faster, so workers without a share leave and the rest is
 * shared anew; not those without which the plan had too few devices. needed: a device among the
 * workers that must have a share, or SERVERS_TRIAL_NONE. Slower workers than `limit` count as no
 * answer. */
void servers_trial_run(struct servers_scratch *scratch, size_t needed, double limit);

#endif
