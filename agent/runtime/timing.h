/* timing.h: how long a stage's work takes: recent times of forward and backward per micro-batch and
 * of updates, outliers trimmed, split over the units of the stage. libtrain has no clock, so a
 * unit's share follows the predicted cost on this device (the larger of arithmetic and memory
 * traffic, by the probe's rates). Senders measure their transfers by the same windows. Guarded by
 * its owner. */
#ifndef AGENT_RUNTIME_TIMING_H
#define AGENT_RUNTIME_TIMING_H

#include <stddef.h>

#include "base/err.h"
#include "libtrain/model/model.h"
#include "libtrain/model/recipe.h"
#include "schema/device.h"
#include "schema/heartbeat.h"

#define TIMING_WINDOW 32
#define TIMING_CLIP 4

enum timing_kind { TIMING_FORWARD, TIMING_BACKWARD, TIMING_UPDATE, TIMING_KINDS };

struct timing_window {
    double seconds[TIMING_WINDOW];
    size_t next, count;
};

struct timing {
    struct timing_window window[TIMING_KINDS];
};

void timing_window_add(struct timing_window *window, double seconds);
/* The mean, with each value clipped to TIMING_CLIP medians: frequent slowness counts in full, a
 * single stall does not. 0 before the first. */
double timing_window_clipped_mean(const struct timing_window *window);
void timing_add(struct timing *timing, enum timing_kind kind, double seconds);
/* The mean without the upper and lower quarter; 0 before the first. */
double timing_mean(const struct timing *timing, enum timing_kind kind);

/* Shares of the units [first, end): share[i] of unit first + i, each kind sums to 1. The
 * recompute pass belongs to the backward. */
struct timing_share {
    double forward, backward;
};
NODISCARD int timing_shares(const struct model *model, size_t first, size_t end,
                            enum recompute recompute, const struct device_probe *probe,
                            struct timing_share *share, struct err *err);

#endif
