/* slice_loads.h: the load of a training sample in a group's slice: operations, or seconds on a
 * device. The seconds are measured for units of these shapes or, without measurements, predicted.
 * Narrow layers compute fewer operations per second than wide ones, by a factor that depends on the
 * device. */
#ifndef COORDINATOR_CORE_SUBMODEL_SLICE_LOADS_H
#define COORDINATOR_CORE_SUBMODEL_SLICE_LOADS_H

#include "coordinator/core/core.h"
#include "coordinator/core/submodel/class_groups.h"
#include "libtrain/model/slim.h"

struct plan_question;

/* A group on a device of core->planning, whose model is the target. */
struct slice_place {
    const struct slim_split *split;
    size_t group, device;
    /* Measured seconds of another slice on the device, divided by its predicted ones. The seconds
     * of this slice are then the predicted ones times this ratio. 0: not known */
    double ratio;
};
/* Return a unit of a slice with the kernels that its devices choose. op: out, its ops. */
struct unit slice_loads_unit(const struct unit *unit, struct op op[MODEL_UNIT_OPS_MAX]);
/* Write the expected seconds of a sample. question: of a user, or NULL. Overwrites
 * core->capacity->work. ERR_INVALID as slim_check. */
NODISCARD int slice_loads_sample(const struct core *core, const struct plan_question *question,
                                 const struct slice_place *place, double *out, struct err *err);

/* Slices of a target of any width. */
struct slice_loads {
    const struct core *core; /* NULL: operations */
    const struct plan_question *question;
    const struct model *target;
    const double *ratio;  /* by device, as in slice_place; NULL if operations are counted */
    size_t stem, classes; /* classes: of a group, about */
    double width_min;
};
/* Return the slice of the i-th of `count` widths, from the least to one, each greater by the same
 * factor: group 0 of the division. width: out. */
struct slim_split slice_loads_split(const struct slice_loads *loads, size_t i, size_t count,
                                    struct slim_group group[2], double *width);
/* List the loads of these widths. device: of core->planning, unless operations are counted.
 * ERR_INVALID as slim_check. */
NODISCARD int slice_loads_list(const struct slice_loads *loads, size_t device, size_t count,
                               struct slice_cost *out, struct err *err);

#endif
