/* slim.h: divides a model by channels into narrower models that train apart. All groups share the
 * complete first `stem` units. After them each group gets a range of the channels of every tensor,
 * and its last linear layer gets an output for each of its classes and one for "other". A group's
 * model has the units and tensor names of the target (a `select` has no number, models.md). The
 * slices and the stem make one dense model again (state/harvest.h).
 *
 * Source: our own derivation of the idea of Chen & Qin, "Exploring Decentralized Collaboration in
 * Heterogeneous Edge Training" (SEC 2020), of which only the abstract was available.
 *
 * Ranges. Of R channels, group k gets [floor(R A_k), floor(R A_k+1)), where A accumulates the
 * widths; all limits but R are rounded down to a multiple of 4 if a group would have 16 or more. A
 * concatenation is divided branch by branch. An input of conv2d or linear is the group's channels
 * of it, or all of it before the first division. Ops that work channel by channel (batch_norm,
 * depthwise conv2d) and joins with divided tensors read the group's channels of such an undivided
 * input through a `select`. conv2d of one group, linear, batch_norm, activations, pools, flatten,
 * dropout, residuals and branches are supported.
 *
 * Used by the coordinator (its core too: only slim_derive allocates), libtrain/state and tests.
 * Pure; any thread. */
#ifndef LIBTRAIN_MODEL_SLIM_H
#define LIBTRAIN_MODEL_SLIM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/model/cost.h"
#include "libtrain/model/model.h"

#define SLIM_GROUPS_MAX 32 /* 16 of each replica */
#define SLIM_CHANNELS_MIN 4
#define SLIM_WIDTH_TOLERANCE 1e-4 /* of the sum of the widths */

struct slim_group {
    uint32_t classes; /* own classes, from 1 to those of the target; the group's model has one
                         output more */
    double width;     /* share of the channels, above 0 to 1; those of all groups add up to 1 */
};

/* A division. All pointers are borrowed. */
struct slim_split {
    const struct model *target;
    size_t stem; /* units [0, stem) are shared, 1 to unit_count - 2 */
    const struct slim_group *group;
    size_t group_count; /* 1 to SLIM_GROUPS_MAX */
};

/* Check that the target can be divided in this way. ERR_INVALID names the group ("group 2: ...") or
 * the unit ("unit 'block1': ..."): an unsupported op, too few channels for a group, a frozen unit
 * after the stem, or a last unit that does not end with a linear with bias. */
NODISCARD int slim_check(const struct slim_split *split, struct err *err);
/* The same. *group (always written): the group that would have too few channels, or group_count if
 * the error is not about a group. */
NODISCARD int slim_check_group(const struct slim_split *split, size_t *group, struct err *err);
/* Check the target without groups: *least is the number of channels of its narrowest divided
 * tensor, so at most *least / SLIM_CHANNELS_MIN groups of equal width are possible. ERR_INVALID as
 * slim_check. */
NODISCARD int slim_least_channels(const struct model *target, size_t stem, uint32_t *least,
                                  struct err *err);

/* Make the model of a group: the target's name with "-slice" appended, a frozen stem, the group's
 * slice, `classes` + 1 outputs of which the last one is "other", no class names, and kernels by
 * shape after the stem. description_write_slice (description.h) gives its text, with kernels. The
 * caller frees *out. ERR_INVALID as slim_check; ERR_MEMORY. */
NODISCARD int slim_derive(const struct slim_split *split, size_t group, struct model **out,
                          struct err *err);

/* Receives a unit of a group's slice with its cost (cost.h), both valid for the call. */
typedef void (*slim_unit_fn)(void *arg, size_t index, const struct unit *unit,
                             const struct unit_cost *cost);
/* Visit the units after the stem of a group's model. Allocates nothing. ERR_INVALID as slim_check.
 */
NODISCARD int slim_visit(const struct slim_split *split, size_t group, slim_unit_fn visit,
                         void *arg, struct err *err);

/* Operations per sample (cost.h), a multiply-add counting 2, and bytes of the group's model. */
struct slim_cost {
    double stem_flops;        /* forward; a frozen stem has no backward */
    double forward_flops;     /* of the slice */
    double backward_flops;    /* of the slice; no gradient of the stem's output */
    uint64_t parameter_bytes; /* of stem and slice, float32 */
    uint64_t trained_bytes;   /* of the slice */
};
/* Compute the cost of a group's model. Allocates nothing. ERR_INVALID as slim_check. */
NODISCARD int slim_cost(const struct slim_split *split, size_t group, struct slim_cost *out,
                        struct err *err);
/* Return the load of a training sample as planned: stem + 3 x slice, forward. The backward of a
 * slice is slightly cheaper than twice its forward. */
static inline double slim_load(const struct slim_cost *cost)
{
    return cost->stem_flops + 3 * cost->forward_flops;
}

#endif
