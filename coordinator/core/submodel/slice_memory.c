#include "coordinator/core/submodel/slice_memory.h"

#include <string.h>

#include "coordinator/core/placement/pool.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/state.h"
#include "libtrain/memory/memory.h"

/* ---- its model ---- */

static void copy_unit(struct slice_model *slice, size_t index, const struct unit *unit)
{
    struct unit *copy = &slice->unit[index];
    const size_t left = MODEL_OPS_MAX - slice->op_count;
    *copy = *unit;
    copy->op = slice->op + slice->op_count;
    copy->op_count = unit->op_count < left ? unit->op_count : left; /* slim_derive rejects more */
    memcpy(copy->op, unit->op, copy->op_count * sizeof(unit->op[0]));
    slice->op_count += copy->op_count;
}

static void add_unit(void *arg, size_t index, const struct unit *unit, const struct unit_cost *cost)
{
    struct op op[MODEL_UNIT_OPS_MAX];
    const struct unit own = slice_loads_unit(unit, op);
    (void)cost;
    copy_unit(arg, index, &own);
}

static int make_model(const struct slim_split *split, size_t group, struct slice_model *slice,
                      struct err *err)
{
    slice->model = *split->target;
    slice->model.unit = slice->unit;
    slice->model.classes = split->group[group].classes + 1;
    slice->op_count = 0;
    for (size_t u = 0; u < split->stem; u++) {
        copy_unit(slice, u, &split->target->unit[u]);
        slice->unit[u].frozen = true;
    }
    return slim_visit(split, group, add_unit, slice, err);
}

static int find_growth(const struct core *core, const struct slim_split *split, size_t group,
                       enum conv2d_backend backend, struct memory_growth *out, struct err *err)
{
    const struct planning *planning = core->planning;
    const struct job_spec *spec = &planning->spec;
    const struct memory_request request = {.end = split->target->unit_count,
                                           .micro_batch =
                                               (size_t)(spec->batch / spec->micro_batches),
                                           .recompute = spec->recompute,
                                           .backend = backend,
                                           .scratch = planning->arena};
    int rc = make_model(split, group, core->slice, err);
    if (rc) {
        return rc;
    }
    if (memory_of_range(&core->slice->model, &spec->optimizer, &request, out, NULL) == 0) {
        out->base += pool_snapshots(planning, out->snapshot);
    } else {
        *out = (struct memory_growth){.base = UINT64_MAX};
    }
    return 0;
}

/* ---- on devices ---- */

/* A device has one thread at least. UINT64_MAX: more than is possible. */
static uint64_t bytes_with(const struct planning *planning, size_t device, uint64_t base,
                           uint64_t per_thread)
{
    uint64_t more, bytes;
    return __builtin_mul_overflow(per_thread, pool_threads(planning, device) - 1, &more) ||
                   __builtin_add_overflow(base, more, &bytes)
               ? UINT64_MAX
               : bytes;
}

int slice_memory_list(const struct slice_loads *loads, enum conv2d_backend backend, size_t count,
                      struct slice_memory *out, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct slim_group group[2];
        struct memory_growth growth;
        const struct slim_split split = slice_loads_split(loads, i, count, group, &out->width[i]);
        rc = find_growth(loads->core, &split, 0, backend, &growth, err);
        out->bytes[i] = growth.base;
        out->per_thread[i] = growth.per_thread;
    }
    out->count = rc ? 0 : count;
    return rc;
}

/* Linear between two known widths. Usually memory grows faster than the width, so a line is above
 * it. Where the kernels change with the width it may be below: the slices of a division are checked
 * again. */
double slice_memory_width(const struct slice_memory *memory, const struct planning *planning,
                          size_t device)
{
    const uint64_t cap = planning->device[device].cap_bytes;
    uint64_t low = 0;
    for (size_t i = 0; i < memory->count; i++) {
        const uint64_t high = bytes_with(planning, device, memory->bytes[i], memory->per_thread[i]);
        if (high > cap && i == 0) {
            return 0;
        }
        if (high > cap) {
            const double below = memory->width[i - 1];
            const double part = (double)(cap - low) / (double)(high - low);
            return below + part * (memory->width[i] - below);
        }
        low = high;
    }
    return 1;
}

int slice_memory_fits(struct core *core, const struct slice_place *place, bool *out,
                      struct err *err)
{
    const struct planning_device *device = &core->planning->device[place->device];
    struct memory_growth growth;
    int rc = find_growth(core, place->split, place->group, conv2d_backend_of(device->numeric_class),
                         &growth, err);
    *out = rc == 0 && bytes_with(core->planning, place->device, growth.base, growth.per_thread) <=
                          device->cap_bytes;
    return rc;
}
