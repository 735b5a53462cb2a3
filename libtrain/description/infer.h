/* infer.h: the output of an op from its inputs: shape, order of a flattened vector, the tensors
 * that the op owns, and the rules that its numbers obey. Private to libtrain/description. Pure; any
 * thread. */
#ifndef LIBTRAIN_DESCRIPTION_INFER_H
#define LIBTRAIN_DESCRIPTION_INFER_H

#include <stdbool.h>

#include "base/err.h"
#include "libtrain/model/model.h"

/* The shape of a tensor between ops. */
struct tensor_form {
    struct shape shape;
    struct shape flat; /* of a vector: the H x W x C it was flattened from; 1 x 1 x C if it was not
                          flattened */
    bool stored;       /* the model's input: stored numbers, times its scale */
};

/* The form of a tensor that was not flattened. */
static inline struct tensor_form tensor_form_plain(struct shape shape)
{
    return (struct tensor_form){.shape = shape, .flat = {1, 1, shape.c}};
}

/* Whether the elements of the vector are in another order than PyTorch's, which flattens C, H,
 * W. */
static inline bool tensor_form_reordered(struct tensor_form form)
{
    return (uint64_t)form.flat.h * form.flat.w > 1 && form.flat.c > 1;
}

/* At least one element and at most MODEL_ELEMENTS_MAX. */
bool infer_shape_fits(struct shape shape);

/* Complete *op: in, out, flat_from and the tensors. Its type and numbers are set; out.c holds the
 * stated channels of a convolution or linear. input[op->input_count]: the forms of its inputs;
 * *output: out. ERR_INVALID says which rule is broken. */
NODISCARD int infer_op(struct op *op, const struct tensor_form *input, struct tensor_form *output,
                       struct err *err);

#endif
