#include "coordinator/turn/measured_rows.h"

#include "base/log.h"
#include "coordinator/store/measurements.h"

static void report_dropped(const char *device, int rc, const struct err *err)
{
    if (rc) {
        log_warn("measurement_dropped", "device=%s error=%s", device, log_quote(err->text).text);
    }
}

void measured_rows_put(struct state_store *state, const struct measured_units *units)
{
    struct err err = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < units->unit_count; i++) {
        const struct unit_seconds *unit = &units->unit[i];
        const struct state_measurement row = {.device = units->device.text,
                                              .job = units->job.text,
                                              .wall_ms = units->wall_ms,
                                              .unit = unit->unit,
                                              .forward_seconds = unit->forward_seconds,
                                              .backward_seconds = unit->backward_seconds};
        rc = state_put_measurement(state, &row, &err);
    }
    report_dropped(units->device.text, rc, &err);
}

static int put_numbers(struct state_store *state, const struct capacity_row *row, struct err *err)
{
    const struct state_capacity capacity = {.device = row->device.text,
                                            .wall_ms = row->wall_ms,
                                            .number = row->number,
                                            .number_count = CAPACITY_NUMBERS};
    return state_put_capacity(state, &capacity, err);
}

void measured_rows_put_capacity(struct state_store *state, const struct capacity_change *change)
{
    struct err err = {0};
    int rc = put_numbers(state, &change->device, &err);
    rc = rc ? rc : put_numbers(state, &change->fleet, &err);
    for (size_t i = 0; rc == 0 && i < change->unit_count; i++) {
        const struct unit_row *unit = &change->unit[i];
        const struct state_unit_time row = {.device = unit->device.text,
                                            .shape = unit->shape,
                                            .wall_ms = unit->wall_ms,
                                            .forward_seconds = unit->forward_seconds,
                                            .backward_seconds = unit->backward_seconds};
        rc = state_put_unit_time(state, &row, &err);
    }
    for (size_t i = 0; rc == 0 && i < change->link_count; i++) {
        const struct link_row *link = &change->link[i];
        const struct state_link_time row = {.sender = link->from.text,
                                            .receiver = link->to.text,
                                            .codec = link->codec,
                                            .kind = link->kind,
                                            .wall_ms = link->wall_ms,
                                            .count = link->sums.count,
                                            .seconds = link->sums.seconds,
                                            .bytes = link->sums.bytes,
                                            .bytes_squared = link->sums.bytes_squared,
                                            .bytes_seconds = link->sums.bytes_seconds};
        rc = state_put_link_time(state, &row, &err);
    }
    report_dropped(change->device.device.text, rc, &err);
}
