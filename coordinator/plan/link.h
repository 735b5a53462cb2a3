/* link.h: estimates latency and bandwidth of a link from its transfers. Mathematics only: sums in,
 * estimate out. Pure. Why the estimator is more than a least-squares line: docs/adr/0028. */
#ifndef COORDINATOR_PLAN_LINK_H
#define COORDINATOR_PLAN_LINK_H

#include "coordinator/plan/partition.h"

/* Over the transfers that were seen: enough for a line through them. */
struct link_sums {
    double count, seconds, bytes, bytes_squared, bytes_seconds;
};

/* Of a link never measured, and what measurements are held against. */
#define LINK_LATENCY_SECONDS 0.0005
#define LINK_BYTES_PER_SECOND 100e6
/* Predictions stay finite whatever is reported. */
#define LINK_LATENCY_SECONDS_MAX 3600.0
#define LINK_BYTES_PER_SECOND_MAX 1e11
#define LINK_BYTES_PER_SECOND_MIN 1.0
/* So many transfers are remembered: older ones fade, and a link that changed is seen. */
#define LINK_COUNT_MAX 65536.0

/* `more` is finite and not negative. */
void link_add(struct link_sums *sums, const struct link_sums *more);
/* A transfer of the mean size takes the mean time by it (within the bounds above), so the bandwidth
 * is never below the mean rate: only how that time is shared between latency and bandwidth is
 * estimated. */
struct partition_link link_estimate(const struct link_sums *sums);

#endif
