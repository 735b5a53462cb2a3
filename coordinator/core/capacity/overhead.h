/* overhead.h: the time of a device's steps that units and waits do not explain: HTTP and copies, by
 * micro-batch and by byte. */
#ifndef COORDINATOR_CORE_CAPACITY_OVERHEAD_H
#define COORDINATOR_CORE_CAPACITY_OVERHEAD_H

struct core;
struct device_slot;

/* Sums of a least-squares fit: the time of a stage per micro-batch beyond that of its units, as a
 * line over the bytes of its boundary tensors. */
struct overhead_sums {
    double count, bytes, bytes_squared, seconds, bytes_seconds;
};

/* Time of a stage per micro-batch beyond that of its units. */
struct overhead {
    double seconds, seconds_per_byte; /* of boundary tensors */
};

/* Take the seconds per micro-batch that the units of a stage did not explain; bytes: of its
 * boundary tensors. */
void overhead_take(struct core *core, const struct device_slot *device, double seconds,
                   double bytes);

/* Return the time of a stage that its units do not explain. */
struct overhead overhead_of(const struct core *core, const struct device_slot *device);

#endif
