/* capacity.h: how fast devices compute. It keeps the measured times of units by device and shape,
 * for all jobs together. From the measurements of a device and of all devices it predicts units
 * that the device never ran. It also keeps the time of steps that units do not explain.
 * docs/adr/0074.
 *
 * A device has a level, the logarithm of its present slowness. Values are relative to the level:
 * when the running units get slower by a factor, all values get slower by it at once. The weight of
 * a value halves in CAPACITY_HALF_LIFE_MS, in favour of the prediction. */
#ifndef COORDINATOR_CORE_CAPACITY_CAPACITY_H
#define COORDINATOR_CORE_CAPACITY_CAPACITY_H

#include "coordinator/core/capacity/donor.h"
#include "coordinator/core/capacity/overhead.h"
#include "coordinator/core/capacity/share.h"
#include "coordinator/core/capacity_row.h"
#include "coordinator/core/core.h"
#include "coordinator/core/state/unit_work.h"

struct device_slot;

#define CAPACITY_VALUES_MAX (1u << 16) /* of all devices; a new value replaces the oldest of 8 */
#define CAPACITY_HALF_LIFE_MS (10 * 60 * 1000)
/* Bounds of valid reports: of the level, of a unit's time, of the rates of a probe. */
#define CAPACITY_LEVEL_MAX 12.0
#define CAPACITY_SECONDS_MAX 1e6
#define CAPACITY_FLOPS_MIN 1e6
#define CAPACITY_BYTES_MIN 1e6

/* A measured unit of a shape on a device. */
struct unit_value {
    uint64_t device, shape;      /* 0: free */
    double seconds[UNIT_PASSES]; /* per micro-batch, at level 0; backward 0: no backward pass */
    int64_t measured_ms;
};

struct device_capacity {
    uint64_t key;                   /* of the device's id; 0: nothing is known */
    double level;                   /* logarithm: 0 at its first probe, above when slower */
    double flops_per_second;        /* of its first probe while it ran; fits are relative to it */
    double bytes_per_second;        /* the same */
    double probe_offset;            /* the level minus the slowness that a probe shows */
    double ran;                     /* 1: units ran since that probe */
    double update_seconds_per_byte; /* of trained parameters, at level 0; 0: not measured */
    double learned;                 /* measurements in the fits; 0: only the probe is known */
    struct overhead_sums overhead;  /* at level 0 */
    struct share share;             /* of its processor; other times do not include the stops */
    struct latency_fit fit[UNIT_PASSES];
    int64_t learned_ms, stored_ms;
    int64_t probed_ms; /* when the newest probe of an idle time was taken */
    bool probed;
    bool solved; /* `mean` is the solution of the fits */
    double mean[UNIT_PASSES][LATENCY_FEATURES];
};

struct capacity {
    struct latency_start
        start[UNIT_PASSES]; /* for devices without measurements: its mean follows `fleet` */
    struct latency_start shipped[UNIT_PASSES];  /* for the first device of an installation */
    struct latency_fit fleet[UNIT_PASSES];      /* of all devices together */
    double mean[UNIT_PASSES][LATENCY_FEATURES]; /* of `fleet` */
    struct unit_value *value;                   /* [CAPACITY_VALUES_MAX] */
    struct device_capacity *device;             /* [devices_max] by slot */
    struct donor *donor;                        /* [DONORS_MAX] */
    struct unit_work *work;                     /* [UNITS_MAX], scratch */
    struct unit_cost *cost;                     /* [UNITS_MAX], scratch */
    struct measured_units measured;             /* the object of ACTION_MEASURED */
    struct capacity_change change;              /* the object of ACTION_CAPACITY */
    uint64_t refused;                           /* rows of heartbeats with impossible values */
};

/* Reserve the memory; ERR_MEMORY. */
NODISCARD int capacity_new(size_t devices_max, struct capacity **out, struct err *err);
void capacity_free(struct capacity **capacity);

/* ---- what devices report ---- */

/* Begin the capacity of a new device, or take the probe of a device that enrols again. */
void capacity_enrolled(struct core *core, const struct device_slot *device);
/* Take a probe of an idle device. */
struct capacity_probe {
    double flops_per_second, bytes_per_second; /* including the stops */
    double processor_share;                    /* 0: unknown */
};
void capacity_probed(struct core *core, const struct device_slot *device,
                     const struct capacity_probe *probe);
/* Take measured seconds[count][UNIT_PASSES] of units; 0 forward: not measured. */
void capacity_ran(struct core *core, const struct device_slot *device, const struct unit_work *work,
                  const double (*seconds)[UNIT_PASSES], size_t count);
/* Take the seconds of a stage's update. */
void capacity_updated(struct core *core, const struct device_slot *device, double seconds,
                      double trained_bytes);

/* ---- work of units ---- */

/* Compute the work of the units [first, end) for a job's micro-batch. work[unit_count]: out, by the
 * unit's index. */
void capacity_work(const struct core *core, const struct model *model, const struct job_spec *spec,
                   enum conv2d_backend backend, size_t first, size_t end, struct unit_work *work);
/* ---- for the rows and the expected times ---- */

/* Return the hash that stands for a device; never 0. */
uint64_t capacity_key(const char *device_id);
struct device_capacity *capacity_of(const struct core *core, const struct device_slot *device);
/* Return the value of a unit, or NULL. */
const struct unit_value *capacity_value(const struct capacity *capacity, uint64_t device,
                                        uint64_t shape);
/* Return the same, or the place for a new value: that of the oldest value of its set. */
struct unit_value *capacity_place(const struct capacity *capacity, uint64_t device, uint64_t shape);
/* Begin the capacity of a device of which only a probe is known. */
void capacity_begin(const struct capacity *capacity, uint64_t key,
                    const struct capacity_probe *probe, struct device_capacity *out);
/* Return the seconds of a unit by the cost model, at level 0. */
double capacity_base_seconds(const struct device_capacity *capacity, const struct unit_work *work,
                             enum unit_pass pass);
/* Set the start values of devices without measurements to the fit of all devices. */
void capacity_follow_fleet(struct capacity *capacity, enum unit_pass pass);

#endif
