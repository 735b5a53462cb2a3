/* timing.h: how long a stage's work and its transfers take: recent times of forward and backward
 * per micro-batch, of updates and of tensors on their way, outliers trimmed; and what a heartbeat
 * says of them. Pure; guarded by its owner. */
#ifndef AGENT_CORE_TIMING_H
#define AGENT_CORE_TIMING_H

#include <stddef.h>

#include "agent/core/pipeline.h"
#include "schema/heartbeat.h"

#define TIMING_WINDOW 32
#define TIMING_CLIP 4

enum timing_kind { TIMING_FORWARD, TIMING_BACKWARD, TIMING_UPDATE, TIMING_KINDS };

struct timing_window {
    double seconds[TIMING_WINDOW];
    size_t next, count;
};

void timing_window_add(struct timing_window *window, double seconds);
/* The mean, with each value clipped to TIMING_CLIP medians: frequent slowness counts in full, a
 * single stall does not. 0 before the first. */
double timing_window_clipped_mean(const struct timing_window *window);

/* ---- the work of a stage ---- */

struct timing {
    struct timing_window window[TIMING_KINDS];
    double sum_seconds; /* of the step's sum of squares: it counts as part of the update */
};

/* A task has taken so long. */
void timing_add(struct timing *timing, enum pipeline_work work, double seconds);
/* The mean without the upper and lower quarter; 0 before the first. */
double timing_mean(const struct timing *timing, enum timing_kind kind);

/* Of one unit in the times of its stage; each kind sums to 1. */
struct timing_share {
    double forward, backward;
};
/* Report the seconds of the units [first, end) and of an update. share[i]: of unit first + i. */
void timing_report(const struct timing *timing, const struct timing_share *share, size_t first,
                   size_t end, struct heartbeat *out);

/* ---- the link to a neighbour ---- */

struct timing_link {
    struct link_report report; /* its seconds are filled in when it is reported */
    struct timing_window transfer;
};

/* A tensor of that size was delivered. */
void timing_link_add(struct timing_link *link, double bytes, double seconds);
/* Report the transfers since the last report, if there were any. */
void timing_link_report(struct timing_link *link, struct heartbeat *out);

#endif
