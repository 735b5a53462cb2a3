#include "coordinator/core/capacity/capacity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elementary.h"
#include "base/pages.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

#define WAYS 8 /* places in the set of a value */
#define SECONDS_MIN 1e-9

/* A unit that runs is learned once at first and then every LEARN_MS, so that in all it counts
 * about as two measurements: the deviation of a unit from the regression is its own and does not
 * average out. KEEP halves the weight of what was learned in CAPACITY_HALF_LIFE_MS. */
#define LEARN_MS 30000
#define KEEP 0.966
#define REPEAT_WEIGHT (2 * (1 - KEEP))
/* Weight of a unit of one device in the fit of all devices: it says less about other devices. */
#define FLEET_WEIGHT 0.2
#define FLEET_KEEP 0.999
/* Distance of the probes of an installation from those of the prior: standard deviation of a
 * logarithm. */
#define FLEET_SD 3.0
/* A unit this many deviations off counts as one at that distance: it may fit a cache. */
#define SURPRISE_MAX 3.0

/* Smallest difference of logarithms above the noise of a probe: two rates in 0.2 s on a share of a
 * processor, beside other programs, range over a factor of two. */
#define PROBE_NOISE 0.5
#define PROBE_GAIN 0.5

/* ---- memory ---- */

int capacity_new(size_t devices_max, struct capacity **out, struct err *err)
{
    AUTO(capacity_free) struct capacity *capacity = calloc(1, sizeof(*capacity));
    if (capacity) {
        capacity->value = pages_new(CAPACITY_VALUES_MAX, sizeof(capacity->value[0]));
        capacity->device = calloc(devices_max, sizeof(capacity->device[0]));
        capacity->donor = calloc(DONORS_MAX, sizeof(capacity->donor[0]));
        capacity->work = calloc(UNITS_MAX, sizeof(capacity->work[0]));
        capacity->cost = calloc(UNITS_MAX, sizeof(capacity->cost[0]));
    }
    if (!capacity || !capacity->value || !capacity->device || !capacity->donor || !capacity->work ||
        !capacity->cost) {
        return err_set(err, ERR_MEMORY, "out of memory for the capacities of devices");
    }
    for (size_t pass = 0; pass < UNIT_PASSES; pass++) {
        if (!latency_begin(&latency_priors[pass], &capacity->shipped[pass])) {
            return err_set(err, ERR_INVALID, "the prior of the latency predictor is damaged");
        }
        struct latency_prior wide = latency_priors[pass];
        wide.covariance[0] += FLEET_SD * FLEET_SD;
        capacity->start[pass] = capacity->shipped[pass];
        (void)latency_begin(&wide, &capacity->shipped[pass]);
        latency_reset(&capacity->shipped[pass], &capacity->fleet[pass]);
        memcpy(capacity->mean[pass], wide.mean, sizeof(wide.mean));
    }
    *out = capacity;
    capacity = NULL;
    return 0;
}

void capacity_free(struct capacity **pointer)
{
    struct capacity *capacity = *pointer;
    if (capacity) {
        pages_free(capacity->value);
        free(capacity->device);
        free(capacity->donor);
        free(capacity->work);
        free(capacity->cost);
        free(capacity);
        *pointer = NULL;
    }
}

uint64_t core_measurements_refused(const struct core *core)
{
    return core->capacity->refused;
}

/* ---- values by device and shape ---- */

uint64_t capacity_key(const char *id)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *id; id++) {
        hash = (hash ^ (unsigned char)*id) * 0x100000001b3u;
    }
    return hash != 0 ? hash : 1;
}

/* The value, or the place for it: that of the oldest of its set. */
struct unit_value *capacity_place(const struct capacity *capacity, uint64_t device, uint64_t shape)
{
    uint64_t set = (device ^ (shape * 0x9e3779b97f4a7c15u));
    set = (set ^ (set >> 31)) % (CAPACITY_VALUES_MAX / WAYS);
    struct unit_value *oldest = &capacity->value[set * WAYS];
    for (size_t i = 0; i < WAYS; i++) {
        struct unit_value *value = &capacity->value[set * WAYS + i];
        if (value->device == device && value->shape == shape) {
            return value;
        }
        bool is_older = value->device == 0 || value->measured_ms < oldest->measured_ms;
        oldest = oldest->device != 0 && is_older ? value : oldest;
    }
    return oldest;
}

const struct unit_value *capacity_value(const struct capacity *capacity, uint64_t device,
                                        uint64_t shape)
{
    const struct unit_value *value = capacity_place(capacity, device, shape);
    return device != 0 && value->device == device && value->shape == shape ? value : NULL;
}

/* ---- devices ---- */

struct device_capacity *capacity_of(const struct core *core, const struct device_slot *device)
{
    return &core->capacity->device[table_slot(&core->devices, device)];
}

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

/* The part of the time for which a probe ran. */
static double running_share(const struct capacity_probe *probe)
{
    return probe->processor_share > 0 ? clamp(probe->processor_share, SHARE_MIN, 1) : 1;
}

static double slowness_of(const struct device_capacity *capacity,
                          const struct capacity_probe *probe)
{
    return (elementary_log(capacity->flops_per_second / probe->flops_per_second) +
            elementary_log(capacity->bytes_per_second / probe->bytes_per_second)) /
               2 +
           elementary_log(running_share(probe));
}

/* Consecutive probes show how the speed of the device changes; their noise averages out. A probe
 * after other work counts only if it differs clearly, because units and matrix products do not have
 * the same speed. */
static void take_probe(struct device_capacity *capacity, const struct capacity_probe *probe)
{
    const double slowness = slowness_of(capacity, probe);
    const double change = slowness + capacity->probe_offset - capacity->level;
    if (fabs(change) > PROBE_NOISE) {
        capacity->level += change;
    } else if (capacity->ran == 0) {
        capacity->level += PROBE_GAIN * change;
    } else {
        capacity->probe_offset = capacity->level - slowness;
    }
    capacity->level = clamp(capacity->level, -CAPACITY_LEVEL_MAX, CAPACITY_LEVEL_MAX);
    capacity->ran = 0;
    share_probed(&capacity->share, probe->processor_share);
}

void capacity_begin(const struct capacity *capacity, uint64_t key,
                    const struct capacity_probe *probe, struct device_capacity *out)
{
    const double share = running_share(probe);
    *out = (struct device_capacity){.key = key,
                                    .flops_per_second = probe->flops_per_second / share,
                                    .bytes_per_second = probe->bytes_per_second / share};
    share_begin(&out->share, probe->processor_share);
    for (size_t pass = 0; pass < UNIT_PASSES; pass++) {
        latency_reset(&capacity->start[pass], &out->fit[pass]);
    }
}

void capacity_enrolled(struct core *core, const struct device_slot *device)
{
    const struct device_probe *enrolled = &device->device.probe;
    const struct capacity_probe probe = {
        .flops_per_second = fmax(enrolled->gemm_gflops * 1e9, CAPACITY_FLOPS_MIN),
        .bytes_per_second = fmax(enrolled->memory_bytes_per_second, CAPACITY_BYTES_MIN),
        .processor_share = enrolled->processor_share};
    struct device_capacity *capacity = capacity_of(core, device);
    const uint64_t key = capacity_key(device->device.id.text);
    if (capacity->key == key) {
        if (!(probe.processor_share > 0)) {
            share_begin(&capacity->share, 0); /* an old agent: its times contain the stops */
        }
        take_probe(capacity, &probe);
        return;
    }
    capacity_begin(core->capacity, key, &probe, capacity);
}

void capacity_probed(struct core *core, const struct device_slot *device,
                     const struct capacity_probe *probe)
{
    struct device_capacity *capacity = capacity_of(core, device);
    if (capacity->key != 0 && probe->flops_per_second >= CAPACITY_FLOPS_MIN &&
        probe->bytes_per_second >= CAPACITY_BYTES_MIN) {
        take_probe(capacity, probe);
    }
}

/* ---- learning ---- */

double capacity_base_seconds(const struct device_capacity *capacity, const struct unit_work *work,
                             enum unit_pass pass)
{
    return fmax(
        unit_work_seconds(work, pass, capacity->flops_per_second, capacity->bytes_per_second),
        SECONDS_MIN);
}

static bool learn_weighted(const struct latency_start *start, double keep, double weight,
                           const double *features, double logarithm, struct latency_fit *fit)
{
    const double root = sqrt(weight);
    double scaled[LATENCY_FEATURES];
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        scaled[i] = root * features[i];
    }
    return latency_learn(start, keep, scaled, root * logarithm, fit);
}

/* Devices without measurements start from the fit of all devices. */
void capacity_follow_fleet(struct capacity *capacity, enum unit_pass pass)
{
    struct latency_vector vector;
    if (latency_solve(&capacity->shipped[pass], &capacity->fleet[pass], &vector)) {
        latency_move(vector.mean, &capacity->start[pass]);
        memcpy(capacity->mean[pass], vector.mean, sizeof(vector.mean));
    }
}

/* The first measurement of a unit: all devices learn from it, and a device without earlier
 * measurements starts from it. */
static void learn_new(struct core *core, struct device_capacity *device, enum unit_pass pass,
                      const double *features, double logarithm)
{
    struct capacity *capacity = core->capacity;
    struct latency_vector vector;
    (void)learn_weighted(&capacity->shipped[pass], FLEET_KEEP, FLEET_WEIGHT, features, logarithm,
                         &capacity->fleet[pass]);
    capacity_follow_fleet(capacity, pass);
    if (device->learned == 0) {
        latency_reset(&capacity->start[pass], &device->fit[pass]);
    }
    if (latency_solve(&capacity->start[pass], &device->fit[pass], &vector)) {
        const struct latency_answer expected = latency_predict(&vector, features);
        logarithm = clamp(logarithm, expected.mean - SURPRISE_MAX * expected.sd,
                          expected.mean + SURPRISE_MAX * expected.sd);
        (void)latency_learn(&capacity->start[pass], 1, features, logarithm, &device->fit[pass]);
    }
}

/* Learn the times of a unit. is_new: it has no value yet. */
static void learn_unit(struct core *core, struct device_capacity *device,
                       const struct unit_work *work, const double *seconds, bool is_new,
                       double keep)
{
    struct capacity *capacity = core->capacity;
    for (enum unit_pass pass = 0; pass < UNIT_PASSES; pass++) {
        if (!(seconds[pass] > 0)) {
            continue;
        }
        const double own =
            seconds[pass] - (pass == UNIT_BACKWARD ? work->again : 0) * seconds[UNIT_FORWARD];
        if (!(own > 0)) {
            continue;
        }
        const double logarithm =
            elementary_log(own / capacity_base_seconds(device, work, pass)) - device->level;
        if (!(fabs(logarithm) <= LATENCY_TARGET_MAX)) {
            capacity->refused++;
        } else if (is_new) {
            learn_new(core, device, pass, work->features[pass], logarithm);
        } else {
            (void)learn_weighted(&capacity->start[pass], keep, REPEAT_WEIGHT, work->features[pass],
                                 logarithm, &device->fit[pass]);
        }
    }
    device->learned += is_new ? 1 : 0;
}

/* The common change of the units that were measured before, as a logarithm. */
static double change_of(const struct capacity *capacity, const struct device_capacity *device,
                        const struct unit_work *work, const double (*seconds)[UNIT_PASSES],
                        size_t count)
{
    double before = 0, now = 0;
    for (size_t u = 0; u < count; u++) {
        const struct unit_value *value = capacity_value(capacity, device->key, work[u].shape);
        if (value && seconds[u][UNIT_FORWARD] > 0) {
            before += value->seconds[UNIT_FORWARD] + value->seconds[UNIT_BACKWARD];
            now += seconds[u][UNIT_FORWARD] + seconds[u][UNIT_BACKWARD];
        }
    }
    return before > 0 && now > 0 ? elementary_log(now / before) - device->level : 0;
}

void capacity_ran(struct core *core, const struct device_slot *slot, const struct unit_work *work,
                  const double (*seconds)[UNIT_PASSES], size_t count)
{
    struct capacity *capacity = core->capacity;
    struct device_capacity *device = capacity_of(core, slot);
    const bool due = core->now_ms - device->learned_ms >= LEARN_MS;
    const double keep = 1 - (1 - KEEP) / (double)(count > 0 ? count : 1);
    if (device->key == 0) {
        return;
    }
    const double change = change_of(capacity, device, work, seconds, count);
    device->level = clamp(device->level + change, -CAPACITY_LEVEL_MAX, CAPACITY_LEVEL_MAX);
    const double factor = elementary_exp(-device->level);
    for (size_t u = 0; u < count; u++) {
        if (!(seconds[u][UNIT_FORWARD] > 0)) {
            continue;
        }
        struct unit_value *value = capacity_place(capacity, device->key, work[u].shape);
        const bool is_new = value->device != device->key || value->shape != work[u].shape;
        if (is_new || due) {
            learn_unit(core, device, &work[u], seconds[u], is_new, keep);
            device->solved = false;
        }
        donor_note(capacity, table_slot(&core->devices, slot), work[u].shape);
        *value = (struct unit_value){
            .device = device->key,
            .shape = work[u].shape,
            .seconds = {seconds[u][UNIT_FORWARD] * factor, seconds[u][UNIT_BACKWARD] * factor},
            .measured_ms = core->now_ms};
    }
    device->learned_ms = due ? core->now_ms : device->learned_ms;
    device->ran = 1;
}

void capacity_updated(struct core *core, const struct device_slot *slot, double seconds,
                      double trained_bytes)
{
    struct device_capacity *device = capacity_of(core, slot);
    device->update_seconds_per_byte =
        trained_bytes > 0 ? seconds / trained_bytes * elementary_exp(-device->level) : 0;
}

/* ---- work of units ---- */

void capacity_work(const struct core *core, const struct model *model, const struct job_spec *spec,
                   enum conv2d_backend backend, size_t first, size_t end, struct unit_work *work)
{
    struct unit_cost *cost = core->capacity->cost;
    cost_count(model, cost);
    const struct unit_setting setting = {.model = model,
                                         .cost = cost,
                                         .samples = spec->batch / spec->micro_batches,
                                         .recompute = (enum recompute)spec->recompute,
                                         .backend = backend};
    for (size_t u = first; u < end; u++) {
        unit_work_of(&setting, u, &work[u]);
    }
}
