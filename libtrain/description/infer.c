#include "libtrain/description/infer.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "libtrain/model/op_traits.h"

#define SHAPE_FORMAT "%" PRIu32 " x %" PRIu32 " x %" PRIu32
#define SHAPE_ARGUMENTS(s) (s).h, (s).w, (s).c

bool infer_shape_fits(struct shape shape)
{
    uint64_t area = (uint64_t)shape.h * shape.w;
    return area > 0 && shape.c > 0 && area <= MODEL_ELEMENTS_MAX &&
           area * shape.c <= MODEL_ELEMENTS_MAX;
}

static bool is_vector(struct shape shape)
{
    return shape.h == 1 && shape.w == 1;
}

static int add_tensor(struct op *op, const char *suffix, enum tensor_role role, const uint32_t *dim,
                      size_t rank, struct err *err)
{
    ASSERT(op->tensor_count < MODEL_OP_TENSORS_MAX);
    struct op_tensor *tensor = &op->tensor[op->tensor_count];
    *tensor = (struct op_tensor){.suffix = suffix, .role = role, .rank = rank, .elements = 1};
    for (size_t i = 0; i < rank; i++) {
        tensor->dim[i] = dim[i];
        if (__builtin_mul_overflow(tensor->elements, dim[i], &tensor->elements) ||
            tensor->elements > MODEL_ELEMENTS_MAX) {
            return err_set(err, ERR_INVALID, "its %s has more than %u elements", suffix,
                           MODEL_ELEMENTS_MAX);
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

/* One dimension of a window that moves over its input. */
struct slide {
    uint32_t size, kernel, stride, padding;
    bool ceil_mode;
};

static bool slide_fits(const struct slide *s)
{
    return s->size + 2 * s->padding >= s->kernel;
}

/* Number of window positions. In ceil mode a partial window at the end counts if it does not start
 * after the input: PyTorch's rule. */
static uint32_t slide_count(const struct slide *s)
{
    uint32_t way = s->size + 2 * s->padding - s->kernel;
    uint32_t count = way / s->stride + 1;
    bool rest =
        way % s->stride != 0 && (uint64_t)count * s->stride < (uint64_t)s->size + s->padding;
    return count + (s->ceil_mode && rest);
}

static int check_padding(const struct slide *s, uint32_t padding_max, struct err *err)
{
    if (s->padding <= padding_max) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "padding %" PRIu32 " is too large for kernel %" PRIu32 "; at most %" PRIu32,
                   s->padding, s->kernel, padding_max);
}

/* Set out.h and out.w of an op with a window; padding_max for its height and width. */
static int slide_window(struct op *op, struct extent padding_max, struct err *err)
{
    const struct slide h = {op->in.h, op->kernel.h, op->stride.h, op->padding.h, op->ceil_mode};
    const struct slide w = {op->in.w, op->kernel.w, op->stride.w, op->padding.w, op->ceil_mode};
    int rc = check_padding(&h, padding_max.h, err);
    rc = rc ? rc : check_padding(&w, padding_max.w, err);
    if (rc) {
        return rc;
    }
    if (!slide_fits(&h) || !slide_fits(&w)) {
        char across[16] = "";
        if (op->padding.w != op->padding.h) {
            (void)snprintf(across, sizeof(across), " x %" PRIu32, op->padding.w);
        }
        return err_set(err, ERR_INVALID,
                       "a window of %" PRIu32 " x %" PRIu32
                       " does not fit its input of " SHAPE_FORMAT " with padding %" PRIu32 "%s",
                       op->kernel.h, op->kernel.w, SHAPE_ARGUMENTS(op->in), op->padding.h, across);
    }
    op->out.h = slide_count(&h);
    op->out.w = slide_count(&w);
    return 0;
}

static int infer_conv2d(struct op *op, const struct tensor_form *input, struct err *err)
{
    if (op->in.c % op->groups != 0 || op->out.c % op->groups != 0) {
        return err_set(err, ERR_INVALID,
                       "groups %" PRIu32 " must divide its %" PRIu32 " channels and %" PRIu32
                       " filters",
                       op->groups, op->in.c, op->out.c);
    }
    if (tensor_form_reordered(*input)) {
        return err_set(err, ERR_INVALID, "takes no flattened input; put it before the flatten");
    }
    int rc = slide_window(op, (struct extent){op->kernel.h - 1, op->kernel.w - 1}, err);
    if (rc) {
        return rc;
    }
    const uint32_t dim[] = {op->out.c, op->in.c / op->groups, op->kernel.h, op->kernel.w};
    return add_weight_and_bias(op, dim, 4, err);
}

/* A sequence is T x 1 x C: T positions of C channels. A vector is a sequence of one position. */
static int check_positions(const struct op *op, struct err *err)
{
    if (op->in.w != 1) {
        return err_set(err, ERR_INVALID, "takes a sequence of T x 1 x C, not " SHAPE_FORMAT,
                       SHAPE_ARGUMENTS(op->in));
    }
    if (op->in.h > MODEL_POSITIONS_MAX) {
        return err_set(err, ERR_INVALID, "%" PRIu32 " positions; at most %d", op->in.h,
                       MODEL_POSITIONS_MAX);
    }
    return 0;
}

static int infer_linear(struct op *op, const struct tensor_form *input, struct err *err)
{
    if (op->in.w != 1) {
        return err_set(err, ERR_INVALID,
                       "takes a vector or a sequence, not " SHAPE_FORMAT
                       "; put a flatten or global_avg_pool before it",
                       SHAPE_ARGUMENTS(op->in));
    }
    int rc = check_positions(op, err);
    if (rc) {
        return rc;
    }
    op->flat_from = is_vector(op->in) ? input->flat : (struct shape){1, 1, op->in.c};
    op->out.h = op->in.h;
    op->out.w = 1;
    const uint32_t dim[] = {op->out.c, op->in.c};
    return add_weight_and_bias(op, dim, 2, err);
}

static int refuse_flattened(const struct tensor_form *input, struct err *err)
{
    return tensor_form_reordered(*input)
               ? err_set(err, ERR_INVALID,
                         "takes no flattened input; put it before the flatten or after the linear")
               : 0;
}

static int infer_batch_norm(struct op *op, const struct tensor_form *input, struct err *err)
{
    int refused = refuse_flattened(input, err);
    if (refused) {
        return refused;
    }
    static const char *const suffix[] = {"weight", "bias", "running_mean", "running_var"};
    op->out = op->in;
    for (size_t i = 0; i < 4; i++) {
        int rc =
            add_tensor(op, suffix[i], i < 2 ? TENSOR_PARAMETER : TENSOR_BUFFER, &op->in.c, 1, err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int infer_layer_norm(struct op *op, const struct tensor_form *input, struct err *err)
{
    op->out = op->in;
    op->bias = true;
    int rc = refuse_flattened(input, err);
    return rc ? rc : add_weight_and_bias(op, &op->in.c, 1, err);
}

static int infer_embedding(struct op *op, const struct tensor_form *input, struct err *err)
{
    if (!input->stored || op->in.c != 1) {
        return err_set(err, ERR_INVALID,
                       "takes the model's input of T x 1 x 1 token numbers and nothing else");
    }
    int rc = check_positions(op, err);
    op->out.h = op->in.h;
    op->out.w = 1;
    const uint32_t dim[] = {op->rows, op->out.c};
    return rc ? rc : add_tensor(op, "weight", TENSOR_PARAMETER, dim, 2, err);
}

static int infer_positions(struct op *op, const struct tensor_form *input, struct err *err)
{
    op->out = op->in;
    int rc = refuse_flattened(input, err);
    rc = rc ? rc : check_positions(op, err);
    const uint32_t dim[] = {op->in.h, op->in.c};
    return rc ? rc : add_tensor(op, "weight", TENSOR_PARAMETER, dim, 2, err);
}

static int infer_attention(struct op *op, const struct tensor_form *input, struct err *err)
{
    int rc = refuse_flattened(input, err);
    rc = rc ? rc : check_positions(op, err);
    if (rc) {
        return rc;
    }
    op->out = (struct shape){op->in.h, 1, op->in.c / 3};
    if (op->in.c % 3 != 0 || op->out.c % op->heads != 0) {
        return err_set(
            err, ERR_INVALID,
            "takes 3 x C channels, C for each of q, k and v and a multiple of its %" PRIu32
            " heads, not %" PRIu32,
            op->heads, op->in.c);
    }
    return 0;
}

static int infer_pool(struct op *op, struct err *err)
{
    op->out.c = op->in.c;
    return slide_window(op, (struct extent){op->kernel.h / 2, op->kernel.w / 2}, err);
}

/* A vector whose order of elements differs from PyTorch's can only be added, and only to vectors of
 * the same order. Otherwise PyTorch would pair other elements. */
static int check_order(const struct op *op, const struct tensor_form *input, struct err *err)
{
    for (size_t i = 0; i < op->input_count; i++) {
        bool same = op->type == OP_ADD && shape_equal(input[i].flat, input[0].flat);
        if (tensor_form_reordered(input[i]) && !same) {
            return err_set(err, ERR_INVALID,
                           "a flattened vector cannot be joined with another one");
        }
    }
    return 0;
}

static int infer_add(struct op *op, const struct tensor_form *input, struct err *err)
{
    op->out = op->in;
    for (size_t i = 1; i < op->input_count; i++) {
        if (!shape_equal(input[i].shape, op->in)) {
            return err_set(err, ERR_INVALID,
                           "body gives " SHAPE_FORMAT ", shortcut " SHAPE_FORMAT
                           "; they must agree",
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
                           "branch 0 gives " SHAPE_FORMAT ", branch %zu " SHAPE_FORMAT
                           "; height and width must agree",
                           SHAPE_ARGUMENTS(op->in), i, SHAPE_ARGUMENTS(input[i].shape));
        }
        op->out.c += input[i].shape.c;
    }
    return check_order(op, input, err);
}

static int infer_select(struct op *op, const struct tensor_form *input, struct err *err)
{
    op->out.h = op->in.h;
    op->out.w = op->in.w;
    if (op->first >= op->in.c || op->out.c > op->in.c - op->first) {
        return err_set(err, ERR_INVALID,
                       "%" PRIu32 " channels from channel %" PRIu32
                       " exceed its input of " SHAPE_FORMAT,
                       op->out.c, op->first, SHAPE_ARGUMENTS(op->in));
    }
    return refuse_flattened(input, err);
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
    case OP_DROPOUT:
    case OP_GELU:
    case OP_SILU: op->out = op->in; return 0;
    case OP_LAYER_NORM: return infer_layer_norm(op, input, err);
    case OP_EMBEDDING: return infer_embedding(op, input, err);
    case OP_POSITIONS: return infer_positions(op, input, err);
    case OP_ATTENTION: return infer_attention(op, input, err);
    case OP_SELECT: return infer_select(op, input, err);
    case OP_ADD: return infer_add(op, input, err);
    case OP_CONCAT: return infer_concat(op, input, err);
    }
    return err_set(err, ERR_INVALID, "is not a known op");
}

/* Ops that keep the place of each element of a vector also keep the order of the vector. */
static struct shape flat_of_output(const struct op *op, const struct tensor_form *input)
{
    const bool keeps = is_vector(op->in) && !op_traits(op->type)->new_channels;
    if (op->type == OP_FLATTEN && !is_vector(op->in)) {
        return op->in;
    }
    return keeps ? input->flat : (struct shape){1, 1, op->out.c};
}

int infer_op(struct op *op, const struct tensor_form *input, struct tensor_form *output,
             struct err *err)
{
    ASSERT(op->input_count >= 1 && op->input_count <= MODEL_OP_INPUTS_MAX);
    op->in = input[0].shape;
    int rc = infer_by_type(op, input, err);
    if (rc) {
        return rc;
    }
    if (!infer_shape_fits(op->out)) {
        return err_set(err, ERR_INVALID, "gives " SHAPE_FORMAT ", more than %u elements",
                       SHAPE_ARGUMENTS(op->out), MODEL_ELEMENTS_MAX);
    }
    *output = (struct tensor_form){.shape = op->out, .flat = flat_of_output(op, input)};
    return 0;
}
