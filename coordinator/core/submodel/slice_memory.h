/* slice_memory.h: the memory that groups' slices need on devices, from their models, which are made
 * without an allocation. Plan and allocation are one calculation, except with kernels of oneDNN
 * (libtrain/memory/memory.h). */
#ifndef COORDINATOR_CORE_SUBMODEL_SLICE_MEMORY_H
#define COORDINATOR_CORE_SUBMODEL_SLICE_MEMORY_H

#include "coordinator/core/submodel/slice_loads.h"
#include "libtrain/kernels/conv2d_kernel.h"

/* The model of one slice. Used as scratch: core->slice. */
struct slice_model {
    struct model model;
    struct unit unit[MODEL_UNITS_MAX];
    struct op op[MODEL_OPS_MAX];
    size_t op_count;
};

/* The memory of slices by width, the least first. */
struct slice_memory {
    double width[SLICE_WIDTHS_MAX];
    uint64_t bytes[SLICE_WIDTHS_MAX];      /* with one thread; UINT64_MAX: more than is possible */
    uint64_t per_thread[SLICE_WIDTHS_MAX]; /* of each further thread */
    size_t count;
};

/* List the memory of the widths of slice_loads_list on devices with this backend, as jobs of
 * core->planning's spec. Overwrites core->slice. ERR_INVALID as slim_check. */
NODISCARD int slice_memory_list(const struct slice_loads *loads, enum conv2d_backend backend,
                                size_t count, struct slice_memory *out, struct err *err);
/* Return about the greatest width of a slice that fits on the device of core->planning. 0: none
 * fits; 1: all do. */
double slice_memory_width(const struct slice_memory *memory, const struct planning *planning,
                          size_t device);
/* Write whether the slice of a group fits on its device. Overwrites core->slice. ERR_INVALID as
 * slim_check. */
NODISCARD int slice_memory_fits(struct core *core, const struct slice_place *place, bool *out,
                                struct err *err);

#endif
