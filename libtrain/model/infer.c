#include "libtrain/model/infer.h"

#include <inttypes.h>

#include "base/assert.h"

#define SHAPE_FORMAT "%" PRIu32 " x %" PRIu32 " x %" PRIu32
#define SHAPE_ARGUMENTS(s) (s).h, (s).w, (s).c

bool infer_shape_fits(struct shape shape)
{
    uint64_t area = (uint64_t)shape.h * shape.w;
    return area > 0 && shape.c > 0 && area <= MODEL_ELEMENTS_MAX && area * shape.c <= MODEL_ELEMENTS_MAX;
}

static bool is_vector(struct shape shape)
{
    return shape.h == 1 && shape.w == 1;
}

static int add_tensor(struct op *op, const char *suffix, enum tensor_role role, const uint32_t *dim, size_t rank,
                      struct err *err)
{
    ASSERT(op->tensor_count < MODEL_OP_TENSORS_MAX);
    struct op_tensor *tensor = &op->tensor[op->tensor_count];
    *tensor = (struct op_tensor){.suffix = suffix, .role = role, .rank = rank, .elements = 1};
    for (size_t i = 0; i < rank; i++) {
        tensor->dim[i] = dim[i];
        if (__builtin_mul_overflow(tensor->elements, dim[i], &tensor->elements) ||
            tensor->elements > MODEL_ELEMENTS_MAX) {
            return err_set(err, ERR_INVALID, "its %s has more than %u elements", suffix, MODEL_ELEMENTS_MAX);
        }
    }
    op->tensor_count++;
    return 0;
}

static int add_weight_and_bias(struct op *op, const uint32_t *dim, size_t rank, struct err *err)
{
    int rc = add_tensor(op, "weight", TENSOR_PARAMETER, dim, rank, err);
    return rc || !op->bias ? rc : add_tensor(op, "bias", TENSOR_PARAMETER, dim, 1, err);
}

/* Set out.h and out.w of an op with a window. */
static int slide_window(struct op *op, uint32_t padding_max, struct err *err)
{
    if (op->padding > padding_max) {
        return err_set(err, ERR_INVALID, "padding %" PRIu32 " is too large for kernel %" PRIu32 "; at most %" PRIu32,
                       op->padding, op->kernel, padding_max);
    }
    uint32_t h = op->in.h + 2 * op->padding;
    uint32_t w = op->in.w + 2 * op->padding;
    if (h < op->kernel || w < op->kernel) {
        return err_set(err, ERR_INVALID,
                       "a window of %" PRIu32 " x %" PRIu32 " does not fit its input of " SHAPE_FORMAT
                       " with padding %" PRIu32,
                       op->kernel, op->kernel, SHAPE_ARGUMENTS(op->in), op->padding);
    }
    op->out.h = (h - op->kernel) / op->stride + 1;
    op->out.w = (w - op->kernel) / op->stride + 1;
    return 0;
}

static int infer_conv2d(struct op *op, const struct tensor_form *input, struct err *err)
{
    if (op->in.c % op->groups != 0 || op->out.c % op->groups != 0) {
        return err_set(err, ERR_INVALID,
                       "groups %" PRIu32 " must divide its %" PRIu32 " channels and %" PRIu32 " filters", op->groups,
                       op->in.c, op->out.c);
    }
    if (tensor_form_reordered(*input)) {
        return err_set(err, ERR_INVALID, "takes no flattened input; put it before the flatten");
    }
    int rc = slide_window(op, op->kernel - 1, err);
    if (rc) {
        return rc;
    }
    const uint32_t dim[] = {op->out.c, op->in.c / op->groups, op->kernel, op->kernel};
    return add_weight_and_bias(op, dim, 4, err);
}

static int infer_linear(struct op *op, const struct tensor_form *input, struct err *err)
{
    if (!is_vector(op->in)) {
        return err_set(err, ERR_INVALID,
                       "takes a vector, not " SHAPE_FORMAT "; put a flatten or global_avg_pool before it",
                       SHAPE_ARGUMENTS(op->in));
    }
    op->flat_from = input->flat;
    op->out.h = op->out.w = 1;
    const uint32_t dim[] = {op->out.c, op->in.c};
    return add_weight_and_bias(op, dim, 2, err);
}

static int infer_batch_norm(struct op *op, const struct tensor_form *input, struct err *err)
{
    if (tensor_form_reordered(*input)) {
        return err_set(err, ERR_INVALID, "takes no flattened input; put it before the flatten or behind the linear");
    }
    static const char *const suffix[] = {"weight", "bias", "running_mean", "running_var"};
    op->out = op->in;
    for (size_t i = 0; i < 4; i++) {
        int rc = add_tensor(op, suffix[i], i < 2 ? TENSOR_PARAMETER : TENSOR_BUFFER, &op->in.c, 1, err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int infer_pool(struct op *op, struct err *err)
{
    op->out.c = op->in.c;
    return slide_window(op, op->kernel / 2, err);
}

/* Vectors may be added or concatenated only where both have one order of elements: PyTorch's would differ. */
static int check_order(const struct op *op, const struct tensor_form *input, struct err *err)
{
    for (size_t i = 0; i < op->input_count; i++) {
        bool same = op->type == OP_ADD && shape_equal(input[i].flat, input[0].flat);
        if (tensor_form_reordered(input[i]) && !same) {
            return err_set(err, ERR_INVALID, "a flattened vector cannot be joined with another one");
        }
    }
    return 0;
}

static int infer_add(struct op *op, const struct tensor_form *input, struct err *err)
{
    op->out = op->in;
    for (size_t i = 1; i < op->input_count; i++) {
        if (!shape_equal(input[i].shape, op->in)) {
            return err_set(err, ERR_INVALID, "body gives " SHAPE_FORMAT ", shortcut " SHAPE_FORMAT "; they must agree",
                           SHAPE_ARGUMENTS(op->in), SHAPE_ARGUMENTS(input[i].shape));
        }
    }
    return check_order(op, input, err);
}

static int infer_concat(struct op *op, const struct tensor_form *input, struct err *err)
{
    op->out = op->in;
    for (size_t i = 1; i < op->input_count; i++) {
        if (input[i].shape.h != op->in.h || input[i].shape.w != op->in.w) {
            return err_set(err, ERR_INVALID,
                           "branch 0 gives " SHAPE_FORMAT ", branch %zu " SHAPE_FORMAT "; height and width must agree",
                           SHAPE_ARGUMENTS(op->in), i, SHAPE_ARGUMENTS(input[i].shape));
        }
        op->out.c += input[i].shape.c;
    }
    return check_order(op, input, err);
}

/* Sets op->out, op->flat_from and the tensors by type. */
static int infer_by_type(struct op *op, const struct tensor_form *input, struct err *err)
{
    switch (op->type) {
    case OP_CONV2D: return infer_conv2d(op, input, err);
    case OP_LINEAR: return infer_linear(op, input, err);
    case OP_BATCH_NORM: return infer_batch_norm(op, input, err);
    case OP_MAX_POOL:
    case OP_AVG_POOL: return infer_pool(op, err);
    case OP_GLOBAL_AVG_POOL: op->out = (struct shape){1, 1, op->in.c}; return 0;
    case OP_FLATTEN: op->out = (struct shape){1, 1, (uint32_t)shape_elements(op->in)}; return 0;
    case OP_RELU:
    case OP_RELU6:
    case OP_DROPOUT: op->out = op->in; return 0;
    case OP_ADD: return infer_add(op, input, err);
    case OP_CONCAT: return infer_concat(op, input, err);
    }
    return err_set(err, ERR_INVALID, "is not a known op");
}

/* Ops that keep each element of a vector in its place hand the order on. */
static struct shape flat_of_output(const struct op *op, const struct tensor_form *input)
{
    bool mixes = op->type == OP_CONV2D || op->type == OP_LINEAR || op->type == OP_CONCAT;
    if (op->type == OP_FLATTEN && !is_vector(op->in)) {
        return op->in;
    }
    return is_vector(op->in) && !mixes ? input->flat : (struct shape){1, 1, op->out.c};
}

int infer_op(struct op *op, const struct tensor_form *input, struct tensor_form *output, struct err *err)
{
    ASSERT(op->input_count >= 1 && op->input_count <= MODEL_OP_INPUTS_MAX);
    op->in = input[0].shape;
    int rc = infer_by_type(op, input, err);
    if (rc) {
        return rc;
    }
    if (!infer_shape_fits(op->out)) {
        return err_set(err, ERR_INVALID, "gives " SHAPE_FORMAT ", more than %u elements", SHAPE_ARGUMENTS(op->out),
                       MODEL_ELEMENTS_MAX);
    }
    *output = (struct tensor_form){op->out, flat_of_output(op, input)};
    return 0;
}
