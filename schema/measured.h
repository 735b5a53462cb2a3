/* measured.h: measured times of units and links as the API shows them (GET
 * /v1/devices/{id}/measurements, GET /v1/links). Wire form by the records below. */
#ifndef SCHEMA_MEASURED_H
#define SCHEMA_MEASURED_H

#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"

#define MEASURED_CURSOR_SIZE 64

/* Mean times of a unit over a minute or, in the older history, over an hour. */
struct measured_unit {
    int64_t wall_ms;
    struct job_id job;
    int64_t unit;
    double forward_seconds, backward_seconds;
};

struct measured_unit_list {
    struct measured_unit item[LIST_LIMIT_MAX];
    size_t item_count;
    char next_cursor[MEASURED_CURSOR_SIZE]; /* "": the last page */
};
extern const struct record measured_unit_list_record;

/* The transfers of one kind and codec in one direction. */
struct measured_link {
    struct device_id from, to;
    int kind; /* enum link_kind */
    char codec[16];
    double transfers; /* count in which older transfers fade */
    double mean_seconds, mean_bytes;
    double latency_seconds, bytes_per_second; /* as estimated from them */
    int64_t wall_ms;                          /* of the last report */
};

struct measured_link_list {
    struct measured_link item[LIST_LIMIT_MAX];
    size_t item_count;
    char next_cursor[MEASURED_CURSOR_SIZE]; /* "": the last page */
};
extern const struct record measured_link_list_record;

#endif
