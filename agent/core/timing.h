/* timing.h: recent times of a stage's work and transfers: passes of each unit, updates, waits of a
 * step, and transfers of tensors; and their report in a heartbeat. Pure; guarded by its owner.
 *
 * A window covers the newest 5 seconds or 8 samples, whichever is longer. It is kept as sums over
 * slices of half a second, so its size does not depend on the rate; a longer sample is a slice of
 * its own. The mean of a slice is clipped to TIMING_CLIP medians of all slices, so that a single
 * stall hardly shows and recurring slowness is not hidden. Work and stops are measured separately:
 * a unit takes equally long in a stage that always works and in one that mostly waits, but a CPU
 * quota stops only the former (docs/adr/0073, 0087). */
#ifndef AGENT_CORE_TIMING_H
#define AGENT_CORE_TIMING_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/heartbeat.h"

#define TIMING_SECONDS 5.0
#define TIMING_SAMPLES 8
#define TIMING_SLICE_SECONDS 0.5
/* Of the slices that begin within TIMING_SECONDS, every second one may be a long sample of its own.
 * Add the slice that began before that window, and a new one. */
#define TIMING_SLICES 24
#define TIMING_CLIP 4

/* ---- the work of a stage ---- */

/* The times of a window. Its sums, [TIMING_SLICES][width], are stored outside. */
struct timing_track {
    struct {
        double began_seconds;
        double count; /* samples */
    } slice[TIMING_SLICES];
    size_t oldest, slices;
    bool warm; /* the first sample, which touches its memory for the first time, was replaced */
};

/* Where the time of a step goes. */
enum timing_share {
    TIMING_STEP,
    TIMING_COMPUTE,
    TIMING_INPUT,    /* waits for an activation, or for parameters */
    TIMING_GRADIENT, /* waits for a gradient, a sum of gradients or a number derived from them */
    TIMING_ROOM,     /* waits until an outgoing tensor has left its buffer */
    TIMING_SHARES    /* counts as none: the stage has no order to work */
};

enum timing_work {
    TIMING_FORWARD,
    TIMING_BACKWARD,
    TIMING_SUM,    /* of the squares of gradients */
    TIMING_UPDATE, /* a step ends with it */
    TIMING_NEXT,   /* a step ends without an update here: other devices make it */
    TIMING_EVALUATE,
    TIMING_OTHER,
};

/* Values of a pass that follow those of its units. A window of passes shows a changed quota sooner
 * than a window of steps. */
enum timing_pass {
    TIMING_PASS_STOPPED,
    TIMING_PASS_WHOLE, /* running time plus stops */
    TIMING_PASS_SHARES
};
#define TIMING_PASS_VALUES (UNITS_MAX + TIMING_PASS_SHARES)

struct timing {
    size_t units; /* of the stage */
    struct timing_track forward, backward, update, step;
    double forward_sum[TIMING_SLICES * TIMING_PASS_VALUES]; /* units, then enum timing_pass */
    double backward_sum[TIMING_SLICES * TIMING_PASS_VALUES];
    double update_sum[TIMING_SLICES];
    double step_sum[TIMING_SLICES * TIMING_SHARES];
    double pass[TIMING_PASS_SHARES]; /* of sums and updates since the last pass, for the next */
    double sum_seconds;              /* of the step's sum of squares; part of the update */
    double share[TIMING_SHARES];     /* of the present step so far */
    double step_began_seconds;
    bool in_step; /* step_began_seconds is known: an update has ended, and no evaluation since */
    bool fresh;   /* something was added since the last report */
};

/* units: of the stage, at most UNITS_MAX. *timing is all zero. */
void timing_begin(struct timing *timing, size_t units);

/* A finished task. */
struct timing_task {
    enum timing_work work;
    double began_seconds, ended_seconds; /* by the caller's clock */
    double seconds;                      /* of its work */
    double stopped_seconds;     /* stops in it or before it, by other programs or a quota */
    const double *unit_seconds; /* FORWARD, BACKWARD: [units] */
    double scale;               /* by which unit_seconds are multiplied */
};
void timing_add(struct timing *timing, const struct timing_task *task);
/* Add a time without a task to that share. */
void timing_wait(struct timing *timing, enum timing_share share, double seconds);
/* Report the seconds of each unit, numbered from `first`, of an update and of a step, unless
 * nothing was added since the last report. */
void timing_report(struct timing *timing, size_t first, struct heartbeat *out);

/* ---- the link to a neighbour ---- */

#define TIMING_WINDOW 32

struct timing_window {
    double seconds[TIMING_WINDOW];
    size_t next, count;
};

void timing_window_add(struct timing_window *window, double seconds);
/* Return the mean, with each value clipped to TIMING_CLIP medians, so that frequent slowness counts
 * in full and a single stall does not. 0 before the first value. */
double timing_window_clipped_mean(const struct timing_window *window);

struct timing_link {
    struct link_report report; /* its seconds are filled in when it is reported */
    struct timing_window transfer;
};

/* Add the delivery of a tensor of that size. */
void timing_link_add(struct timing_link *link, double bytes, double seconds);
/* Report the transfers since the last report, if there were any. */
void timing_link_report(struct timing_link *link, struct heartbeat *out);

/* ---- transfers of every size ---- */

/* Sums by device and kind since the last report. */
struct timing_transfers {
    struct link_report row[LINK_REPORTS_MAX];
    size_t count;
};

/* Add a transfer of that many bytes to or from the device. It is dropped when all rows are
 * taken. */
void timing_transfer_add(struct timing_transfers *transfers, enum link_kind kind,
                         const struct device_id *device, double bytes, double seconds);
/* Report and forget the sums, as far as the heartbeat has room. */
void timing_transfers_report(struct timing_transfers *transfers, struct heartbeat *out);

#endif
