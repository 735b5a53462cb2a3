/* share.h: the part of the time for which a device has its processor when it always has work. For
 * the rest, a quota or other programs stop it. A few milliseconds of work after a wait are hardly
 * ever stopped, so a stage with little work does not show the share. An upper bound is about the
 * part that the device had while it worked; a lower bound is the part of its steps in which it ran.
 * Pure. docs/adr/0087. */
#ifndef COORDINATOR_CORE_CAPACITY_SHARE_H
#define COORDINATOR_CORE_CAPACITY_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* All zero before share_begin. */
struct share {
    double value;   /* in [SHARE_MIN, 1] */
    double seen;    /* the same without forgetting: only measurements change it */
    double granted; /* stage_load.granted at the last change of the share by it; below 0: not
                       measured in this plan */
    uint64_t plan;  /* that plan */
    int64_t measured_ms;
};

#define SHARE_MIN 1e-3

/* The processor time in the steps of a stage. */
struct stage_load {
    uint64_t plan;  /* capacity_key of its id */
    double granted; /* part of its work's time in which it was not stopped; below 0: unknown */
    double used;    /* part of its steps in which it ran; the same */
};

/* probed: as of device_probe; 0: unknown. */
void share_begin(struct share *share, double probed);
void share_probed(struct share *share, double probed);
void share_ran(struct share *share, const struct stage_load *load, int64_t now_ms);
/* Return whether a stored value is valid. */
bool share_valid(double value);

#endif
