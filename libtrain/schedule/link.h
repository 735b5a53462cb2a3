/* link.h: estimates latency and bandwidth of a link from its transfers, for planners and for
 * agents. Pure: sums in, estimate out. docs/adr/0028 says why a least-squares line is not enough.
 */
#ifndef LIBTRAIN_SCHEDULE_LINK_H
#define LIBTRAIN_SCHEDULE_LINK_H

#include <stdbool.h>

/* A link between two devices: seconds until the answer = latency + bytes / bandwidth, separately
 * for each direction. */
struct link_speed {
    double latency_seconds;
    double bytes_per_second; /* > 0 */
};

/* Sums over the transfers, sufficient for a least-squares line. */
struct link_sums {
    double count, seconds, bytes, bytes_squared, bytes_seconds;
};

/* The link without measurements, and the prior of the estimate. */
#define LINK_LATENCY_SECONDS 0.0005
#define LINK_BYTES_PER_SECOND 100e6
/* Bounds of the estimate: predictions stay finite. */
#define LINK_LATENCY_SECONDS_MAX 3600.0
#define LINK_BYTES_PER_SECOND_MAX 1e11
#define LINK_BYTES_PER_SECOND_MIN 1.0
/* Weight of all remembered transfers. Older ones fade, so the estimate follows a changed link. */
#define LINK_COUNT_MAX 65536.0

/* Add sums, which must be finite and not negative. */
void link_add(struct link_sums *sums, const struct link_sums *more);
/* Return whether there are enough transfers to estimate the link: two, or the faded weight of two
 * reports of one transfer each. */
bool link_is_known(const struct link_sums *sums);
/* Return the estimated link, or the usual one if the link is not known. By the estimate a transfer
 * of the mean size takes the mean time (within the bounds), so the bandwidth is never below the
 * mean rate. Only the shares of latency and bandwidth in that time are estimated. */
struct link_speed link_estimate(const struct link_sums *sums);
/* Return the seconds of a transfer of `bytes` bytes. */
double link_transfer_seconds(struct link_speed link, double bytes);
/* Return a link with the latency and the bandwidth of the slower one. */
struct link_speed link_slower(struct link_speed a, struct link_speed b);
/* Return the link of bytes that pass through two links in series. A relay forwards bytes as they
 * arrive, so the latencies add up and the slower bandwidth counts. */
struct link_speed link_in_series(struct link_speed a, struct link_speed b);

#endif
