/* capacity_row.h: the stored form of capacities, as plain data: numbers of devices, units and
 * links, and the history of measured units. Times are times of day, so that ages survive a restart.
 * Pure. */
#ifndef COORDINATOR_CORE_CAPACITY_ROW_H
#define COORDINATOR_CORE_CAPACITY_ROW_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/plan/latency.h"
#include "libtrain/schedule/link.h"
#include "schema/heartbeat.h"
#include "schema/id.h"
#include "schema/limits.h"

#define CAPACITY_FIXED 13 /* numbers beside the fits */
#define CAPACITY_NUMBERS (CAPACITY_FIXED + 2 * (LATENCY_PACKED + LATENCY_FEATURES))

/* A device; id "": all devices together. */
struct capacity_row {
    struct device_id device;
    int64_t wall_ms;
    double number[CAPACITY_NUMBERS];
};

/* The newest value of a unit of a shape on a device, relative to the device's level. */
struct unit_row {
    struct device_id device;
    int64_t shape;
    int64_t wall_ms;
    double forward_seconds, backward_seconds;
};

/* The transfers of one kind between two devices. */
struct link_row {
    struct device_id from, to;
    int kind; /* enum link_kind */
    char codec[16];
    int64_t wall_ms;
    struct link_sums sums;
};

/* The measurements of a device in one minute: a row of the history. */
struct measured_units {
    struct device_id device;
    struct job_id job;
    int64_t wall_ms;
    struct unit_seconds unit[UNITS_MAX];
    size_t unit_count;
};

/* Changes of a device's capacity since it was stored. */
struct capacity_change {
    struct capacity_row device, fleet;
    struct unit_row unit[UNITS_MAX];
    size_t unit_count;
    struct link_row link[LINK_REPORTS_MAX];
    size_t link_count;
};

/* The speeds of devices and links that an earlier life of the coordinator stored. */
struct restored_capacities {
    const struct capacity_row *device;
    size_t device_count;
    const struct unit_row *unit; /* the oldest first */
    size_t unit_count;
    const struct link_row *link;
    size_t link_count;
};

#endif
