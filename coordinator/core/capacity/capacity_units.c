#include "coordinator/core/capacity/capacity_units.h"

#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "coordinator/core/capacity/capacity.h"
#include "coordinator/core/state/state.h"

/* Predictions that differ by more than a factor of 20 from those for all devices are
 * extrapolations. */
#define CORRECTION_MAX 3.0
#define FRESH_MS 30000 /* a value this young is the present time on the device */
#define SD_MAX 0.7     /* of a logarithm: with more, a plan would be useless */
/* Part of a unit's deviation from the regression that other devices share, measured with
 * bench/predictor.py. */
#define DONOR_SHARE 0.5
/* Part of an old deviation of the device itself that remains. */
#define OWN_SHARE 0.9
#define LN2 0.6931471805599453
#define VALUE_SD 0.05 /* of a measured value's logarithm, at one half-life */

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

/* Combine the value and the prediction by their inverse variances. The variance of the value is 0
 * while the unit runs and then grows with 2^age - 1. */
static struct latency_answer combine(const struct core *core, const struct unit_value *value,
                                     double logarithm, struct latency_answer predicted)
{
    const double age_ms = (double)(core->now_ms - value->measured_ms);
    const double halvings = clamp((age_ms - FRESH_MS) / CAPACITY_HALF_LIFE_MS, 0, 60);
    const double grown = VALUE_SD * VALUE_SD * (elementary_exp(halvings * LN2) - 1);
    const double variance = predicted.sd * predicted.sd;
    const double share = variance / (variance + grown);
    return (struct latency_answer){
        .mean = share < 1 ? share * logarithm + (1 - share) * predicted.mean : logarithm,
        .sd = fmax(sqrt(share * grown), VALUE_SD)};
}

/* Solve for the vectors of a device, or (NULL) for those of devices without measurements. */
static void solve_device(const struct capacity *capacity, const struct device_capacity *device,
                         struct latency_vector *out)
{
    for (size_t pass = 0; pass < UNIT_PASSES; pass++) {
        struct latency_fit fit;
        latency_reset(&capacity->start[pass], &fit);
        if (!device || device->learned == 0 ||
            !latency_solve(&capacity->start[pass], &device->fit[pass], &out[pass])) {
            (void)latency_solve(&capacity->start[pass], &fit, &out[pass]);
        }
    }
}

/* The expected value of a unit by a vector's mean[LATENCY_FEATURES]. */
static double mean_of(const double *mean, const struct unit_work *work, enum unit_pass pass)
{
    double sum = 0;
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        sum += mean[i] * work->features[pass][i];
    }
    return clamp(sum, -LATENCY_TARGET_MAX, LATENCY_TARGET_MAX);
}

/* Correct the prediction by the device that measured the unit last, the donor. The correction is
 * the deviation of the measured time from the donor's own regression, so that the speed of the
 * donor as a whole does not count. If the donor is the device itself, most of an old deviation
 * remains, because the units of a device differ permanently from its regression. */
static void ask_donor(const struct core *core, const struct device_capacity *device,
                      const struct unit_work *work, enum unit_pass pass,
                      struct latency_answer *answer)
{
    const struct capacity *capacity = core->capacity;
    const size_t slot = donor_find(capacity, work->shape);
    struct device_capacity *donor = slot < SIZE_MAX ? &capacity->device[slot] : NULL;
    const struct unit_value *value =
        donor ? capacity_value(capacity, donor->key, work->shape) : NULL;
    if (!value) {
        return;
    }
    const double again = pass == UNIT_BACKWARD ? work->again * value->seconds[UNIT_FORWARD] : 0;
    if (!(value->seconds[pass] > again)) {
        return;
    }
    if (!donor->solved) {
        struct latency_vector vector[UNIT_PASSES];
        solve_device(capacity, donor, vector);
        for (size_t p = 0; p < UNIT_PASSES; p++) {
            memcpy(donor->mean[p], vector[p].mean, sizeof(donor->mean[p]));
        }
        donor->solved = true;
    }
    const double there =
        elementary_log((value->seconds[pass] - again) / capacity_base_seconds(donor, work, pass));
    const double usual = mean_of(donor->mean[pass], work, pass);
    const double noise_sd = capacity->start[pass].noise_sd;
    answer->mean = donor == device ? usual + OWN_SHARE * (there - usual)
                                   : answer->mean + DONOR_SHARE * (there - usual);
    answer->sd =
        sqrt(answer->sd * answer->sd - (1 - DONOR_SHARE * DONOR_SHARE) * noise_sd * noise_sd);
}

double capacity_ratio(const struct core *core, const struct device_slot *slot,
                      const struct device_slot *other, const struct unit_work *work,
                      enum unit_pass pass)
{
    const struct device_capacity *a = capacity_of(core, slot), *b = capacity_of(core, other);
    return capacity_base_seconds(a, work, pass) / capacity_base_seconds(b, work, pass) *
           elementary_exp(a->level - b->level);
}

/* learned: the device whose regression counts; NULL: that of all devices. */
static void predict_units(const struct core *core, const struct device_capacity *device,
                          const struct device_capacity *learned, const struct unit_work *work,
                          size_t count, double update_passes, struct capacity_unit *out)
{
    struct latency_vector vector[UNIT_PASSES];
    solve_device(core->capacity, learned, vector);
    const double factor = elementary_exp(device->level);
    for (size_t u = 0; u < count; u++) {
        const struct unit_value *value = capacity_value(core->capacity, device->key, work[u].shape);
        double forward_seconds = 0; /* as predicted, at level 0 */
        out[u] = (struct capacity_unit){0};
        for (enum unit_pass pass = 0; pass < UNIT_PASSES; pass++) {
            if (work[u].bytes[pass] == 0 && work[u].flops[pass] == 0) {
                continue; /* no backward */
            }
            struct latency_answer answer = latency_predict(&vector[pass], work[u].features[pass]);
            const double usual = mean_of(core->capacity->mean[pass], &work[u], pass);
            answer.mean = clamp(answer.mean, usual - CORRECTION_MAX, usual + CORRECTION_MAX);
            ask_donor(core, device, &work[u], pass, &answer);
            answer.mean += elementary_log(capacity_base_seconds(device, &work[u], pass));
            if (pass == UNIT_BACKWARD && work[u].again > 0) {
                answer.mean =
                    elementary_log(elementary_exp(answer.mean) + work[u].again * forward_seconds);
            }
            forward_seconds = elementary_exp(answer.mean);
            answer.sd = fmin(answer.sd, SD_MAX);
            if (value && value->seconds[pass] > 0) {
                const double predicted_sd = answer.sd;
                answer = combine(core, value, elementary_log(value->seconds[pass]), answer);
                out[u].measured = answer.sd < predicted_sd * 0.7071067811865476;
            }
            out[u].seconds[pass] =
                clamp(elementary_exp(answer.mean) * factor, 0, CAPACITY_SECONDS_MAX);
            out[u].sd_seconds[pass] = out[u].seconds[pass] * (elementary_exp(answer.sd) - 1);
        }
        const double per_byte = device->update_seconds_per_byte > 0
                                    ? device->update_seconds_per_byte
                                    : update_passes / device->bytes_per_second;
        out[u].update_seconds = per_byte * work[u].trained_bytes * factor;
    }
}

void capacity_units(const struct core *core, const struct device_slot *device,
                    const struct unit_work *work, size_t count, double update_passes,
                    struct capacity_unit *out)
{
    const struct device_capacity *capacity = capacity_of(core, device);
    predict_units(core, capacity, capacity, work, count, update_passes, out);
}

void capacity_fleet_units(const struct core *core, const struct device_slot *device,
                          const struct unit_work *work, size_t count, double update_passes,
                          struct capacity_unit *out)
{
    predict_units(core, capacity_of(core, device), NULL, work, count, update_passes, out);
}

void capacity_probed_units(const struct core *core, double flops_per_second,
                           double bytes_per_second, const struct unit_work *work, size_t count,
                           double update_passes, struct capacity_unit *out)
{
    struct device_capacity device;
    const struct capacity_probe probe = {.flops_per_second = flops_per_second,
                                         .bytes_per_second = bytes_per_second};
    capacity_begin(core->capacity, 0, &probe, &device);
    predict_units(core, &device, NULL, work, count, update_passes, out);
}
