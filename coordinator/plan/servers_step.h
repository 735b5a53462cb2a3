/* servers_step.h: predicts the step of a parameter server from its servers and workers. For
 * coordinator/plan/ and its tests. Pure. */
#ifndef COORDINATOR_PLAN_SERVERS_STEP_H
#define COORDINATOR_PLAN_SERVERS_STEP_H

#include "coordinator/plan/servers.h"

/* Servers in the order of their units, and the devices that compute. */
struct servers_layout {
    enum segments_transfers transfers;
    size_t server_count, worker_count;
    size_t server[SERVERS_MAX], end[SERVERS_MAX]; /* one past the last unit of each server */
    size_t worker[SERVERS_STAGES_MAX];
};

/* One worker's transfers of the layers: arrays for segments.h. */
struct servers_transfers {
    /* By server of the layout: its links to all devices, of servers_step_links. */
    const struct link_speed *link_of[SERVERS_MAX];
    size_t *server, *end; /* [layer_count] */
    struct segments_link link[SERVERS_MAX];
    struct segments_scratch *segments;
};

/* The times of a layout. */
struct servers_times {
    const struct servers_problem *problem;
    const struct servers_layout *layout;
    struct servers_transfers *transfers;
    double each_seconds[SERVERS_STAGES_MAX];  /* by worker: forward and backward of a micro-batch */
    double pull_seconds[SERVERS_STAGES_MAX];  /* by worker: until its first forward pass ends */
    double push_seconds[SERVERS_STAGES_MAX];  /* by worker: of a backward pass with a free link */
    double least_seconds[SERVERS_STAGES_MAX]; /* by worker: of a share of one micro-batch */
    size_t pull_segments[SERVERS_STAGES_MAX], push_segments[SERVERS_STAGES_MAX];
};

/* Find the links of a server to all devices, without the transfers of others. Each has the lowest
 * rate on its way.
 *
 *     link  out: [device_count] */
void servers_step_links(const struct servers_problem *problem, size_t server,
                        struct link_speed *link);
/* Return the trained bytes of the units [first, end). */
double servers_step_bytes(const struct servers_problem *problem, size_t first, size_t end);

/* Compute the times of a layout; problem, layout and transfers are borrowed. The workers on other
 * devices share a server's link: they begin together and need the servers in the same order. */
void servers_step_times(const struct servers_problem *problem, const struct servers_layout *layout,
                        struct servers_transfers *transfers, struct servers_times *out);
/* Return the seconds of a worker from its first request until its last push is answered, for a
 * share that is not empty. *left, which may be NULL: the part in which the pushes of earlier blocks
 * keep the link busy after its last backward pass has begun. */
double servers_step_share(const struct servers_times *times, size_t worker,
                          struct reduce_range share, double *left);
/* Return the seconds of a worker's last backward pass with its push, on a link that is busy with
 * earlier blocks for the first `left` of them. */
double servers_step_push(const struct servers_times *times, size_t worker, double left);

/* As in struct servers_plan. */
struct servers_total {
    double step_seconds, workers_seconds, commit_seconds, link_seconds;
    size_t busiest_link;
};
/* Return the times of the whole step. share[worker_count]: the share of each worker, possibly
 * empty. */
struct servers_total servers_step_total(const struct servers_times *times,
                                        const struct reduce_range *share);

#endif
