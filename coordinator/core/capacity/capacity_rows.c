#include "coordinator/core/capacity/capacity_rows.h"

#include <math.h>
#include <string.h>

#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

static const size_t fixed_offsets[] = {
    offsetof(struct device_capacity, level),
    offsetof(struct device_capacity, flops_per_second),
    offsetof(struct device_capacity, bytes_per_second),
    offsetof(struct device_capacity, probe_offset),
    offsetof(struct device_capacity, ran),
    offsetof(struct device_capacity, update_seconds_per_byte),
    offsetof(struct device_capacity, learned),
    offsetof(struct device_capacity, overhead.count),
    offsetof(struct device_capacity, overhead.bytes),
    offsetof(struct device_capacity, overhead.bytes_squared),
    offsetof(struct device_capacity, overhead.seconds),
    offsetof(struct device_capacity, overhead.bytes_seconds),
    offsetof(struct device_capacity, share.value),
};
_Static_assert(sizeof(fixed_offsets) / sizeof(fixed_offsets[0]) == CAPACITY_FIXED,
               "a row has every number");

void capacity_rows_write(const struct core *core, const struct device_slot *slot,
                         struct capacity_row *out)
{
    static const struct device_capacity none;
    const struct device_capacity *device = slot ? capacity_of(core, slot) : &none;
    const struct latency_fit *fit = slot ? device->fit : core->capacity->fleet;
    size_t at = 0;
    out->device = slot ? slot->device.id : (struct device_id){0};
    out->wall_ms = core->wall_ms;
    for (; at < CAPACITY_FIXED; at++) {
        memcpy(&out->number[at], (const char *)device + fixed_offsets[at], sizeof(double));
    }
    for (size_t pass = 0; pass < UNIT_PASSES; pass++) {
        memcpy(&out->number[at], fit[pass].information, sizeof(fit[pass].information));
        at += LATENCY_PACKED;
        memcpy(&out->number[at], fit[pass].weighted, sizeof(fit[pass].weighted));
        at += LATENCY_FEATURES;
    }
}

bool capacity_rows_write_unit(const struct core *core, const struct device_slot *slot,
                              const struct unit_work *work, struct unit_row *out)
{
    const struct unit_value *value =
        capacity_value(core->capacity, capacity_of(core, slot)->key, work->shape);
    if (value) {
        *out = (struct unit_row){.device = slot->device.id,
                                 .shape = (int64_t)value->shape,
                                 .wall_ms = core->wall_ms - (core->now_ms - value->measured_ms),
                                 .forward_seconds = value->seconds[UNIT_FORWARD],
                                 .backward_seconds = value->seconds[UNIT_BACKWARD]};
    }
    return value != NULL;
}

static bool read_fits(const struct capacity *capacity, const double *number,
                      struct latency_fit *fit)
{
    bool valid = true;
    for (size_t pass = 0; pass < UNIT_PASSES; pass++) {
        memcpy(fit[pass].information, number, sizeof(fit[pass].information));
        number += LATENCY_PACKED;
        memcpy(fit[pass].weighted, number, sizeof(fit[pass].weighted));
        number += LATENCY_FEATURES;
        valid = valid && latency_valid(&capacity->shipped[pass], &fit[pass]);
    }
    return valid;
}

static bool is_sane(const struct device_capacity *device)
{
    bool sane = fabs(device->level) <= CAPACITY_LEVEL_MAX &&
                fabs(device->probe_offset) <= 4 * CAPACITY_LEVEL_MAX;
    for (size_t i = 0; i < CAPACITY_FIXED; i++) {
        double number;
        memcpy(&number, (const char *)device + fixed_offsets[i], sizeof(number));
        sane = sane && isfinite(number);
    }
    return sane && share_valid(device->share.value) &&
           device->flops_per_second >= CAPACITY_FLOPS_MIN &&
           device->bytes_per_second >= CAPACITY_BYTES_MIN;
}

void capacity_rows_restore(struct core *core, const struct capacity_row *row)
{
    struct latency_fit fit[UNIT_PASSES];
    struct capacity *capacity = core->capacity;
    if (!read_fits(capacity, row->number + CAPACITY_FIXED, fit)) {
        return;
    }
    if (row->device.text[0] == '\0') {
        memcpy(capacity->fleet, fit, sizeof(fit));
        for (enum unit_pass pass = 0; pass < UNIT_PASSES; pass++) {
            capacity_follow_fleet(capacity, pass);
        }
        return;
    }
    const struct device_slot *slot = slots_device(core, row->device.text);
    struct device_capacity device = {0};
    for (size_t i = 0; i < CAPACITY_FIXED; i++) {
        memcpy((char *)&device + fixed_offsets[i], &row->number[i], sizeof(double));
    }
    if (slot && is_sane(&device)) {
        device.key = capacity_key(row->device.text);
        share_begin(&device.share, device.share.value);
        memcpy(device.fit, fit, sizeof(fit));
        *capacity_of(core, slot) = device;
    }
}

void capacity_rows_restore_unit(struct core *core, const struct unit_row *row)
{
    const uint64_t key = capacity_key(row->device.text);
    const int64_t age_ms = core->wall_ms > row->wall_ms ? core->wall_ms - row->wall_ms : 0;
    const bool valid = row->forward_seconds > 0 && row->forward_seconds < CAPACITY_SECONDS_MAX &&
                       row->backward_seconds >= 0 && row->backward_seconds < CAPACITY_SECONDS_MAX;
    if (valid && row->shape != 0) {
        *capacity_place(core->capacity, key, (uint64_t)row->shape) =
            (struct unit_value){.device = key,
                                .shape = (uint64_t)row->shape,
                                .seconds = {row->forward_seconds, row->backward_seconds},
                                .measured_ms = core->now_ms - age_ms};
        const struct device_slot *device = slots_device(core, row->device.text);
        if (device) {
            donor_note(core->capacity, table_slot(&core->devices, device), (uint64_t)row->shape);
        }
    }
}
