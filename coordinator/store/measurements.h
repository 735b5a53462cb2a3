/* measurements.h: stores the measured speeds of devices and links, and their history, as rows of
 * state.db. Rows wait in memory for the next state_flush, like telemetry. The loop's thread. */
#ifndef COORDINATOR_STORE_MEASUREMENTS_H
#define COORDINATOR_STORE_MEASUREMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct state_store;

#define MEASUREMENT_NUMBERS_MAX 1024

/* The measured numbers of a device. */
struct state_capacity {
    const char *device;
    int64_t wall_ms;
    const double *number;
    size_t number_count; /* up to MEASUREMENT_NUMBERS_MAX */
};

struct state_unit_time {
    const char *device;
    int64_t shape, wall_ms;
    double forward_seconds, backward_seconds;
};

struct state_link_time {
    const char *sender, *receiver, *codec;
    int64_t kind, wall_ms;
    double count, seconds, bytes, bytes_squared, bytes_seconds;
};

/* The times of a unit in a minute or an hour of the history. */
struct state_measurement {
    const char *device, *job;
    int64_t wall_ms, unit;
    double forward_seconds, backward_seconds;
};

/* Put a row, which replaces the row with the same key. ERR_LIMIT: too many rows wait;
 * state_put_measurement then drops the row without an error. */
NODISCARD int state_put_capacity(struct state_store *store, const struct state_capacity *row,
                                 struct err *err);
NODISCARD int state_put_unit_time(struct state_store *store, const struct state_unit_time *row,
                                  struct err *err);
NODISCARD int state_put_link_time(struct state_store *store, const struct state_link_time *row,
                                  struct err *err);
/* Add a row to the history, which keeps the last row of each minute and the first of each hour. */
NODISCARD int state_put_measurement(struct state_store *store, const struct state_measurement *row,
                                    struct err *err);
/* Drop the minutes of the history before minutes_from_ms, the hours and the unit times before
 * hours_from_ms, and rows written after their device was deleted. */
NODISCARD int state_trim_measurements(struct state_store *store, int64_t minutes_from_ms,
                                      int64_t hours_from_ms, struct err *err);

/* Visit all rows. Texts and numbers are borrowed for the call; visit returns false to stop. */
typedef bool (*state_capacity_fn)(void *arg, const struct state_capacity *row);
typedef bool (*state_unit_time_fn)(void *arg, const struct state_unit_time *row);
typedef bool (*state_link_time_fn)(void *arg, const struct state_link_time *row);
typedef bool (*state_measurement_fn)(void *arg, const struct state_measurement *row);
NODISCARD int state_capacities(struct state_store *store, state_capacity_fn visit, void *arg,
                               struct err *err);
/* Visit unit times, the oldest first. */
NODISCARD int state_unit_times(struct state_store *store, state_unit_time_fn visit, void *arg,
                               struct err *err);
/* Visit link times. device: only those from it and to it; NULL: all. */
NODISCARD int state_link_times(struct state_store *store, const char *device,
                               state_link_time_fn visit, void *arg, struct err *err);
/* Visit at most `limit` rows of a device's history: the hours, then the minutes after them, in the
 * order of time, job and unit, from after the row `after`. job NULL, unit -1: any. */
NODISCARD int state_measurements(struct state_store *store, const char *device, const char *job,
                                 int64_t unit, const struct state_measurement *after, size_t limit,
                                 state_measurement_fn visit, void *arg, struct err *err);

#endif
