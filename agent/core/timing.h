/* timing.h: how long a stage's work and its transfers take: recent times of each unit's passes, of
 * updates, of what a step waited for, and of tensors on their way; and what a heartbeat says of
 * them. Pure; guarded by its owner.
 *
 * A window covers the newest 5 seconds or 8 samples, whichever is longer. It is kept as sums over
 * slices of half a second, so its size does not depend on the rate; a longer sample is a slice of
 * its own. The mean of a slice counts as at most TIMING_CLIP medians of all slices: a single stall
 * hardly shows, and nothing that recurs is hidden. Work and stops are apart: a unit takes equally
 * long in a stage that always works and in one that mostly waits, but a CPU quota stops only the
 * first (docs/adr/0073, 0087). */
#ifndef AGENT_CORE_TIMING_H
#define AGENT_CORE_TIMING_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/heartbeat.h"

#define TIMING_SECONDS 5.0
#define TIMING_SAMPLES 8
#define TIMING_SLICE_SECONDS 0.5
/* Of those that begin within TIMING_SECONDS each second one may be a sample of its own; the one
 * that began before, and a new one. */
#define TIMING_SLICES 24
#define TIMING_CLIP 4

/* ---- the work of a stage ---- */

/* The times of a window. The sums, [TIMING_SLICES][width], are beside it. */
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
    TIMING_INPUT,    /* it waits for an activation, or for parameters */
    TIMING_GRADIENT, /* for a gradient, a sum of gradients or a number that follows from them */
    TIMING_ROOM,     /* until what goes out has left its buffer */
    TIMING_SHARES    /* in none: it is not to work */
};

enum timing_work {
    TIMING_FORWARD,
    TIMING_BACKWARD,
    TIMING_SUM,    /* of the squares of gradients */
    TIMING_UPDATE, /* a step ends with it */
    TIMING_NEXT,   /* a step ends here without an update: others make it */
    TIMING_EVALUATE,
    TIMING_OTHER,
};

/* Of a pass, after its units. A window of passes shows sooner than one of steps how a quota has
 * changed. */
enum timing_pass {
    TIMING_PASS_STOPPED,
    TIMING_PASS_WHOLE, /* running and stopped */
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
    double pass[TIMING_PASS_SHARES]; /* of sums and updates since the last one: part of the next */
    double sum_seconds;          /* of the step's sum of squares: it counts as part of the update */
    double share[TIMING_SHARES]; /* of the present step so far */
    double step_began_seconds;
    bool in_step; /* step_began_seconds is known: an update has ended, and no evaluation since */
    bool fresh;   /* something was added since the last report */
};

/* units: of the stage, at most UNITS_MAX. *timing is all zero. */
void timing_begin(struct timing *timing, size_t units);

/* A task that has ended. */
struct timing_task {
    enum timing_work work;
    double began_seconds, ended_seconds; /* by the caller's clock */
    double seconds;                      /* of its work */
    double stopped_seconds; /* in it or before it: other programs or a quota had the processor */
    const double *unit_seconds; /* FORWARD, BACKWARD: [units] */
    double scale;               /* by which unit_seconds are multiplied */
};
void timing_add(struct timing *timing, const struct timing_task *task);
/* The stage had no task for so long: it counts as that share. */
void timing_wait(struct timing *timing, enum timing_share share, double seconds);
/* Report the seconds of the units from `first` on, of an update and of a step, unless nothing was
 * added since the last report. */
void timing_report(struct timing *timing, size_t first, struct heartbeat *out);

/* ---- the link to a neighbour ---- */

#define TIMING_WINDOW 32

struct timing_window {
    double seconds[TIMING_WINDOW];
    size_t next, count;
};

void timing_window_add(struct timing_window *window, double seconds);
/* The mean, with each value clipped to TIMING_CLIP medians: frequent slowness counts in full, a
 * single stall does not. 0 before the first. */
double timing_window_clipped_mean(const struct timing_window *window);

struct timing_link {
    struct link_report report; /* its seconds are filled in when it is reported */
    struct timing_window transfer;
};

/* A tensor of that size was delivered. */
void timing_link_add(struct timing_link *link, double bytes, double seconds);
/* Report the transfers since the last report, if there were any. */
void timing_link_report(struct timing_link *link, struct heartbeat *out);

/* ---- transfers of every size ---- */

/* Sums by device and kind since the last report. */
struct timing_transfers {
    struct link_report row[LINK_REPORTS_MAX];
    size_t count;
};

/* That many bytes went to the device, or came from it. Dropped when all rows are taken. */
void timing_transfer_add(struct timing_transfers *transfers, enum link_kind kind,
                         const struct device_id *device, double bytes, double seconds);
/* Report and forget them, as far as the heartbeat has room. */
void timing_transfers_report(struct timing_transfers *transfers, struct heartbeat *out);

#endif
