/* cost.h: operations and bytes of each unit, from the description alone. For the planner and for
 * answers about models. Pure. */
#ifndef LIBTRAIN_MODEL_COST_H
#define LIBTRAIN_MODEL_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/model.h"

struct unit_cost {
    double forward_flops;  /* per sample; a multiply-add counts 2 */
    double backward_flops; /* per sample; data and weight gradients, as far as this unit or one
                              before it is trained */
    double forward_bytes;  /* per sample: activations read and written */
    double backward_bytes;
    double again_flops; /* per sample: the recompute pass of RECOMPUTE_UNIT */
    double again_bytes;
    uint64_t parameter_bytes;  /* float32 */
    uint64_t trained_bytes;    /* trained parameters: all, or none in a frozen unit */
    uint64_t buffer_bytes;     /* batch-norm statistics */
    uint64_t activation_bytes; /* per sample, kept from forward to backward by the unit that
                                  computes it (the last unit: with the loss's gradient); without the
                                  statistics of a whole micro-batch */
    uint64_t output_bytes;     /* per sample: the float32 tensor at its output boundary */
};

struct op_cost {
    double forward_flops, backward_flops; /* as of a unit */
};

/* Compute the cost of every unit. cost[model->unit_count]: out. */
void cost_count(const struct model *model, struct unit_cost *cost);
/* Return the bytes of the parameters and running statistics of a model: those of a copy that groups
 * exchange. */
uint64_t cost_state_bytes(const struct model *model);
/* Compute the cost of one unit except activation_bytes, which depends on the unit after it.
 * hands_back: some unit before it is trained. input_size: bytes of an element of its input. */
void cost_count_unit(const struct unit *unit, bool hands_back, size_t input_size,
                     struct unit_cost *cost);
/* Compute the operations of each op of a unit, which add up to the unit's.
 *
 *     cost  out: [op_count] */
void cost_count_ops(const struct unit *unit, bool hands_back, struct op_cost *cost);

#endif
