/* capacity_units.h: the expected times of units on a device, from measurements and predictions.
 * docs/adr/0074. */
#ifndef COORDINATOR_CORE_CAPACITY_CAPACITY_UNITS_H
#define COORDINATOR_CORE_CAPACITY_CAPACITY_UNITS_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/core/core.h"
#include "coordinator/core/state/unit_work.h"

struct device_slot;

/* The expected time of a unit on a device. */
struct capacity_unit {
    double seconds[UNIT_PASSES], sd_seconds[UNIT_PASSES];
    double update_seconds;
    bool measured; /* on this device, recently enough that it outweighs the prediction */
};

/* Fill out[count] for a device. update_passes: optimizer_update_passes. */
void capacity_units(const struct core *core, const struct device_slot *device,
                    const struct unit_work *work, size_t count, double update_passes,
                    struct capacity_unit *out);
/* The same by the regression that all devices taught, without the device's own. It compares devices
 * that ran different units. */
void capacity_fleet_units(const struct core *core, const struct device_slot *device,
                          const struct unit_work *work, size_t count, double update_passes,
                          struct capacity_unit *out);
/* The same for a device of which only a probe is known. */
void capacity_probed_units(const struct core *core, double flops_per_second,
                           double bytes_per_second, const struct unit_work *work, size_t count,
                           double update_passes, struct capacity_unit *out);
/* Return the time of a unit on the device divided by its time on the other device, estimated from
 * their probes and levels alone. */
double capacity_ratio(const struct core *core, const struct device_slot *device,
                      const struct device_slot *other, const struct unit_work *work,
                      enum unit_pass pass);

#endif
