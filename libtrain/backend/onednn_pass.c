#include <dnnl.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/size.h"
#include "libtrain/backend/onednn.h"
#include "libtrain/backend/onednn_library.h"

/* The tensors of a pass. IN: the first activation that it reads (x or dy). OUT: the other
 * activation (y, dx, or dy if the pass reads both). WEIGHTS: the weights or their gradient. */
enum { IN, OUT, WEIGHTS, TENSORS };

/* A primitive and its scratch, one memory object per worker. */
struct step {
    dnnl_primitive_t primitive; /* NULL: not needed */
    dnnl_memory_desc_t scratch;
    dnnl_memory_t *scratch_memory; /* [workers] */
};

struct tensor {
    int argument;              /* argument number in the convolution */
    dnnl_memory_desc_t plain;  /* our layout */
    dnnl_memory_desc_t wanted; /* the library's layout */
    bool same;
    size_t offset;       /* of the wanted layout in a worker's scratch */
    dnnl_memory_t *at;   /* [workers] our layout; each call sets the address */
    dnnl_memory_t *copy; /* wanted layout; [workers], in scratch; WEIGHTS: [weight_count] */
    size_t at_count, copy_count;
    struct step
        reorder; /* for tensors that are read: plain to wanted; for written ones: wanted to plain */
    struct step accumulate; /* adds wanted to plain: dx, or the gradient of the weights */
};

struct onednn_pass {
    struct onednn *library;
    enum conv2d_pass pass;
    struct tensor tensor[TENSORS];
    dnnl_memory_desc_t bias;
    bool has_bias;
    dnnl_memory_t *bias_memory; /* [workers] */
    struct step convolution;
    size_t scratch_offset, worker_bytes;
};

/* ---- descriptions of tensors ---- */

static dnnl_status_t describe_activation(dnnl_memory_desc_t *out, size_t N, size_t C, size_t H,
                                         size_t W, dnnl_format_tag_t tag)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)N, (dnnl_dim_t)C, (dnnl_dim_t)H, (dnnl_dim_t)W};
    return dnnl_memory_desc_init_by_tag(out, 4, dims, dnnl_f32, tag);
}

/* Describe the weights in our layout or, if `any`, in one that the library chooses. Several groups
 * are the first dimension. */
static dnnl_status_t describe_weights(dnnl_memory_desc_t *out, const struct conv2d_shape *s,
                                      bool any)
{
    bool depthwise = conv2d_is_depthwise(s);
    dnnl_dim_t G = (dnnl_dim_t)s->G, O = (dnnl_dim_t)s->O / G, C = (dnnl_dim_t)s->C / G;
    dnnl_dim_t KH = (dnnl_dim_t)s->KH, KW = (dnnl_dim_t)s->KW;
    dnnl_dim_t pixel = depthwise ? G : C; /* floats from one column of the kernel to the next */
    const dnnl_dims_t dims = {G, O, C, KH, KW};
    const dnnl_dims_t strides = {depthwise ? 1 : O * KH * KW * C, depthwise ? G : KH * KW * C, 1,
                                 KW * pixel, pixel};
    int skip = G > 1 ? 0 : 1;
    return any ? dnnl_memory_desc_init_by_tag(out, 5 - skip, dims + skip, dnnl_f32,
                                              dnnl_format_tag_any)
               : dnnl_memory_desc_init_by_strides(out, 5 - skip, dims + skip, dnnl_f32,
                                                  strides + skip);
}

/* ---- primitives ---- */

static dnnl_status_t create_attributes(dnnl_primitive_attr_t *out)
{
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    return status ? status
                  : dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
}

/* Takes `descriptor`. */
static dnnl_status_t create_step(struct step *step, dnnl_primitive_desc_t descriptor)
{
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(descriptor, dnnl_query_scratchpad_md, 0);
    step->scratch = *scratch;
    dnnl_status_t status = dnnl_primitive_create(&step->primitive, descriptor);
    (void)dnnl_primitive_desc_destroy(descriptor);
    return status;
}

static dnnl_status_t create_reorder(const struct onednn_pass *pass, const dnnl_memory_desc_t *from,
                                    const dnnl_memory_desc_t *to, bool accumulate, struct step *out)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t sum = NULL;
    dnnl_primitive_desc_t descriptor = NULL;
    dnnl_status_t status = create_attributes(&attributes);
    if (accumulate) {
        status = status ? status : dnnl_post_ops_create(&sum);
        status = status ? status : dnnl_post_ops_append_sum(sum, 1.0f);
        status = status ? status : dnnl_primitive_attr_set_post_ops(attributes, sum);
    }
    status = status ? status
                    : dnnl_reorder_primitive_desc_create(&descriptor, from, pass->library->engine,
                                                         to, pass->library->engine, attributes);
    status = status ? status : create_step(out, descriptor);
    (void)dnnl_post_ops_destroy(sum);
    (void)dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* The convolution's descriptor; other passes take the forward one as a hint. */
static dnnl_status_t create_descriptor(const struct onednn_pass *pass,
                                       const struct onednn_request *request,
                                       dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out)
{
    const struct conv2d_shape *s = request->shape;
    dnnl_alg_kind_t algorithm = request->kernel == CONV2D_ONEDNN_WINOGRAD
                                    ? dnnl_convolution_winograd
                                    : dnnl_convolution_direct;
    dnnl_format_tag_t tag = request->kernel == CONV2D_ONEDNN_NHWC ? dnnl_nhwc : dnnl_format_tag_any;
    const dnnl_dims_t strides = {(dnnl_dim_t)s->SH, (dnnl_dim_t)s->SW};
    const dnnl_dims_t padding = {(dnnl_dim_t)s->PH, (dnnl_dim_t)s->PW};
    /* Padding after the input; negative: rows and columns after the last window are not read. */
    const dnnl_dims_t after = {
        (dnnl_dim_t)((s->OH - 1) * s->SH + s->KH) - (dnnl_dim_t)(s->H + s->PH),
        (dnnl_dim_t)((s->OW - 1) * s->SW + s->KW) - (dnnl_dim_t)(s->W + s->PW)};
    dnnl_memory_desc_t x, y, weights;
    dnnl_convolution_desc_t convolution;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_engine_t engine = pass->library->engine;
    dnnl_status_t status = describe_activation(&x, s->N, s->C, s->H, s->W, tag);
    status = status ? status : describe_activation(&y, s->N, s->O, s->OH, s->OW, tag);
    status = status ? status : describe_weights(&weights, s, true);
    status = status ? status
                    : dnnl_convolution_forward_desc_init(
                          &convolution, dnnl_forward_training, algorithm, &x, &weights,
                          pass->has_bias ? &pass->bias : NULL, &y, strides, padding, after);
    status = status ? status
                    : dnnl_primitive_desc_create(&forward, &convolution, attributes, engine, NULL);
    if (status || request->pass == CONV2D_FORWARD) {
        *out = forward;
        return status;
    }
    if (request->pass == CONV2D_BACKWARD_DATA) {
        status = dnnl_convolution_backward_data_desc_init(&convolution, algorithm, &x, &weights, &y,
                                                          strides, padding, after);
    } else {
        status = dnnl_convolution_backward_weights_desc_init(&convolution, algorithm, &x, &weights,
                                                             NULL, &y, strides, padding, after);
    }
    status = status ? status
                    : dnnl_primitive_desc_create(out, &convolution, attributes, engine, forward);
    (void)dnnl_primitive_desc_destroy(forward);
    return status;
}

/* The role of each tensor in the convolution, and the query for its layout. */
static const struct {
    int argument;
    dnnl_query_t query;
} roles[CONV2D_PASSES][TENSORS] = {
    [CONV2D_FORWARD] = {{DNNL_ARG_SRC, dnnl_query_src_md},
                        {DNNL_ARG_DST, dnnl_query_dst_md},
                        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md}},
    [CONV2D_BACKWARD_DATA] = {{DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md},
                              {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md},
                              {DNNL_ARG_WEIGHTS, dnnl_query_weights_md}},
    [CONV2D_BACKWARD_WEIGHTS] = {{DNNL_ARG_SRC, dnnl_query_src_md},
                                 {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md},
                                 {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md}},
};

static dnnl_status_t describe_plain(struct onednn_pass *pass, const struct conv2d_shape *s)
{
    bool data = pass->pass == CONV2D_BACKWARD_DATA;
    struct tensor *input = &pass->tensor[data ? OUT : IN], *output = &pass->tensor[data ? IN : OUT];
    const dnnl_dims_t filters = {(dnnl_dim_t)s->O};
    dnnl_status_t status = describe_activation(&input->plain, s->N, s->C, s->H, s->W, dnnl_nhwc);
    status =
        status ? status : describe_activation(&output->plain, s->N, s->O, s->OH, s->OW, dnnl_nhwc);
    status = status ? status : describe_weights(&pass->tensor[WEIGHTS].plain, s, false);
    return status ? status
                  : dnnl_memory_desc_init_by_tag(&pass->bias, 1, filters, dnnl_f32, dnnl_x);
}

static dnnl_status_t create_reorders(struct onednn_pass *pass)
{
    struct tensor *in = &pass->tensor[IN], *out = &pass->tensor[OUT],
                  *weights = &pass->tensor[WEIGHTS];
    bool of_weights = pass->pass == CONV2D_BACKWARD_WEIGHTS;
    dnnl_status_t status = dnnl_success;
    if (!in->same) {
        status = create_reorder(pass, &in->plain, &in->wanted, false, &in->reorder);
    }
    if (of_weights && !status && !out->same) { /* dy is read, too */
        status = create_reorder(pass, &out->plain, &out->wanted, false, &out->reorder);
    } else if (!of_weights && !status && !out->same) {
        status = create_reorder(pass, &out->wanted, &out->plain, false, &out->reorder);
    }
    if (pass->pass == CONV2D_BACKWARD_DATA && !status) {
        status = create_reorder(pass, &out->wanted, &out->plain, true, &out->accumulate);
    }
    if (of_weights) {
        return status ? status
                      : create_reorder(pass, &weights->wanted, &weights->plain, true,
                                       &weights->accumulate);
    }
    return status
               ? status
               : create_reorder(pass, &weights->plain, &weights->wanted, false, &weights->reorder);
}

/* Lay out the copies and the scratch of the primitives one after the other. */
static void place(struct onednn_pass *pass)
{
    size_t offset = 0, most = 0;
    for (size_t t = IN; t <= OUT; t++) {
        struct tensor *tensor = &pass->tensor[t];
        tensor->offset = offset;
        /* An accumulated gradient is computed into a copy, whatever its layout. */
        bool copy = !tensor->same || (t == OUT && pass->pass == CONV2D_BACKWARD_DATA);
        offset +=
            copy ? size_align(dnnl_memory_desc_get_size(&tensor->wanted), WORKSPACE_ALIGNMENT) : 0;
    }
    const struct step *steps[1 + 2 * TENSORS] = {&pass->convolution};
    for (size_t t = 0; t < TENSORS; t++) {
        steps[1 + 2 * t] = &pass->tensor[t].reorder;
        steps[2 + 2 * t] = &pass->tensor[t].accumulate;
    }
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        size_t bytes = steps[i]->primitive ? dnnl_memory_desc_get_size(&steps[i]->scratch) : 0;
        most = bytes > most ? bytes : most;
    }
    pass->scratch_offset = offset;
    pass->worker_bytes = offset + size_align(most, WORKSPACE_ALIGNMENT);
}

static dnnl_status_t create_pass(struct onednn_pass *pass, const struct onednn_request *request)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t descriptor = NULL;
    dnnl_status_t status = describe_plain(pass, request->shape);
    status = status ? status : create_attributes(&attributes);
    status = status ? status : create_descriptor(pass, request, attributes, &descriptor);
    (void)dnnl_primitive_attr_destroy(attributes);
    if (status) {
        return status;
    }
    for (size_t t = 0; t < TENSORS; t++) {
        struct tensor *tensor = &pass->tensor[t];
        tensor->argument = roles[pass->pass][t].argument;
        tensor->wanted = *dnnl_primitive_desc_query_md(descriptor, roles[pass->pass][t].query, 0);
        tensor->same = dnnl_memory_desc_equal(&tensor->plain, &tensor->wanted) != 0;
    }
    status = create_step(&pass->convolution, descriptor);
    status = status ? status : create_reorders(pass);
    place(pass);
    return status;
}

int onednn_pass_new(struct onednn *library, const struct onednn_request *request,
                    struct onednn_pass **out, struct err *err)
{
    struct onednn_pass *pass AUTO(onednn_pass_free) = calloc(1, sizeof(*pass));
    if (!pass) {
        return err_set(err, ERR_MEMORY, "out of memory for a pass of oneDNN");
    }
    pass->library = library;
    pass->pass = request->pass;
    pass->has_bias = request->bias && request->pass == CONV2D_FORWARD;
    onednn_compute_alone();
    dnnl_status_t status = create_pass(pass, request);
    if (status == dnnl_unimplemented) {
        return err_set(err, ERR_INVALID, "'%s' does not do this shape on this CPU",
                       conv2d_kernel_names[request->kernel]);
    }
    if (status != dnnl_success) {
        return onednn_failed(status, conv2d_pass_names[request->pass], err);
    }
    *out = pass;
    pass = NULL;
    return 0;
}

static void free_memories(dnnl_memory_t **memory, size_t count)
{
    for (size_t i = 0; *memory && i < count; i++) {
        (void)dnnl_memory_destroy((*memory)[i]);
    }
    free(*memory);
    *memory = NULL;
}

static void free_step(struct step *step, size_t workers)
{
    free_memories(&step->scratch_memory, workers);
    (void)dnnl_primitive_destroy(step->primitive);
}

void onednn_pass_free(struct onednn_pass **pointer)
{
    struct onednn_pass *pass = *pointer;
    if (!pass) {
        return;
    }
    size_t workers = pass->library->workers;
    for (size_t t = 0; t < TENSORS; t++) {
        struct tensor *tensor = &pass->tensor[t];
        free_memories(&tensor->at, tensor->at_count);
        free_memories(&tensor->copy, tensor->copy_count);
        free_step(&tensor->reorder, workers);
        free_step(&tensor->accumulate, workers);
    }
    free_memories(&pass->bias_memory, workers);
    free_step(&pass->convolution, workers);
    free(pass);
    *pointer = NULL;
}

size_t onednn_pass_weight_bytes(const struct onednn_pass *pass)
{
    return size_align(dnnl_memory_desc_get_size(&pass->tensor[WEIGHTS].wanted),
                      WORKSPACE_ALIGNMENT);
}

size_t onednn_pass_worker_bytes(const struct onednn_pass *pass)
{
    return pass->worker_bytes;
}

/* ---- memory ---- */

/* Create `count` memory objects, `stride` bytes apart. first NULL: each call sets their address. */
static dnnl_status_t create_memories(const struct onednn_pass *pass,
                                     const dnnl_memory_desc_t *layout, unsigned char *first,
                                     size_t stride, size_t count, dnnl_memory_t **out)
{
    *out = calloc(count, sizeof(**out));
    dnnl_status_t status = *out ? dnnl_success : dnnl_out_of_memory;
    for (size_t i = 0; i < count && !status; i++) {
        status = dnnl_memory_create(&(*out)[i], layout, pass->library->engine,
                                    first ? first + i * stride : NULL);
    }
    return status;
}

static dnnl_status_t bind_step(const struct onednn_pass *pass, struct step *step,
                               unsigned char *scratch, size_t stride)
{
    return step->primitive ? create_memories(pass, &step->scratch, scratch + pass->scratch_offset,
                                             stride, pass->library->workers, &step->scratch_memory)
                           : dnnl_success;
}

int onednn_pass_bind(struct onednn_pass *pass, unsigned char *weights, size_t weight_count,
                     unsigned char *scratch, size_t worker_stride, struct err *err)
{
    size_t workers = pass->library->workers;
    ASSERT(worker_stride >= pass->worker_bytes && !pass->tensor[IN].at);
    onednn_compute_alone();
    dnnl_status_t status = bind_step(pass, &pass->convolution, scratch, worker_stride);
    for (size_t t = 0; t < TENSORS && !status; t++) {
        struct tensor *tensor = &pass->tensor[t];
        unsigned char *first = t == WEIGHTS ? weights : scratch + tensor->offset;
        size_t stride = t == WEIGHTS ? onednn_pass_weight_bytes(pass) : worker_stride;
        tensor->at_count = workers;
        tensor->copy_count = t == WEIGHTS ? weight_count : workers;
        status = create_memories(pass, &tensor->plain, NULL, 0, workers, &tensor->at);
        status = status ? status
                        : create_memories(pass, &tensor->wanted, first, stride, tensor->copy_count,
                                          &tensor->copy);
        status = status ? status : bind_step(pass, &tensor->reorder, scratch, worker_stride);
        status = status ? status : bind_step(pass, &tensor->accumulate, scratch, worker_stride);
    }
    if (pass->has_bias && !status) {
        status = create_memories(pass, &pass->bias, NULL, 0, workers, &pass->bias_memory);
    }
    return status ? onednn_failed(status, "memory", err) : 0;
}

/* ---- computing ---- */

/* Everything was created and checked before, so a failure here is a programming error. */
static void must(dnnl_status_t status)
{
    ASSERT(status == dnnl_success);
}

static void run_step(const struct onednn_pass *pass, const struct step *step, size_t worker,
                     dnnl_exec_arg_t *argument, size_t count)
{
    argument[count] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, step->scratch_memory[worker]};
    must(dnnl_primitive_execute(step->primitive, pass->library->stream[worker], (int)count + 1,
                                argument));
    must(dnnl_stream_wait(pass->library->stream[worker]));
}

static void run_reorder(const struct onednn_pass *pass, const struct step *step, size_t worker,
                        dnnl_memory_t from, dnnl_memory_t to)
{
    dnnl_exec_arg_t argument[3] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    run_step(pass, step, worker, argument, 2);
}

/* The worker's object for a tensor in our layout, set to this address. The library's objects have
 * no const. */
static dnnl_memory_t plain_at(const struct tensor *tensor, size_t worker, const float *address)
{
    must(dnnl_memory_set_data_handle(tensor->at[worker], (void *)(uintptr_t)address));
    return tensor->at[worker];
}

/* The tensor in the layout that the convolution reads. */
static dnnl_memory_t enter(const struct onednn_pass *pass, const struct tensor *tensor,
                           size_t worker, const float *address)
{
    dnnl_memory_t plain = plain_at(tensor, worker, address);
    if (tensor->same) {
        return plain;
    }
    run_reorder(pass, &tensor->reorder, worker, plain, tensor->copy[worker]);
    return tensor->copy[worker];
}

static void convolve(const struct onednn_pass *pass, size_t worker, dnnl_memory_t in,
                     dnnl_memory_t out, dnnl_memory_t weights, const float *bias)
{
    dnnl_exec_arg_t argument[TENSORS + 2] = {{pass->tensor[IN].argument, in},
                                             {pass->tensor[OUT].argument, out},
                                             {pass->tensor[WEIGHTS].argument, weights}};
    if (pass->has_bias) {
        must(dnnl_memory_set_data_handle(pass->bias_memory[worker], (void *)(uintptr_t)bias));
        argument[TENSORS] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, pass->bias_memory[worker]};
    }
    run_step(pass, &pass->convolution, worker, argument, TENSORS + (pass->has_bias ? 1 : 0));
}

void onednn_pack(const struct onednn_pass *pass, const float *weight)
{
    const struct tensor *weights = &pass->tensor[WEIGHTS];
    onednn_compute_alone();
    run_reorder(pass, &weights->reorder, 0, plain_at(weights, 0, weight), weights->copy[0]);
}

static void compute(const struct onednn_pass *pass, size_t worker, const float *from,
                    const float *bias, float *to, bool accumulate)
{
    const struct tensor *out = &pass->tensor[OUT];
    onednn_compute_alone();
    dnnl_memory_t in = enter(pass, &pass->tensor[IN], worker, from);
    dnnl_memory_t plain = plain_at(out, worker, to);
    bool direct = out->same && !accumulate;
    convolve(pass, worker, in, direct ? plain : out->copy[worker], pass->tensor[WEIGHTS].copy[0],
             bias);
    if (!direct) {
        run_reorder(pass, accumulate ? &out->accumulate : &out->reorder, worker, out->copy[worker],
                    plain);
    }
}

void onednn_forward(const struct onednn_pass *pass, size_t worker, const float *x,
                    const float *bias, float *y)
{
    compute(pass, worker, x, bias, y, false);
}

void onednn_backward_data(const struct onednn_pass *pass, size_t worker, const float *dy, float *dx,
                          bool accumulate)
{
    compute(pass, worker, dy, NULL, dx, accumulate);
}

void onednn_backward_weights(const struct onednn_pass *pass, size_t worker, const float *x,
                             const float *dy, size_t sum)
{
    const struct tensor *in = &pass->tensor[IN], *out = &pass->tensor[OUT];
    onednn_compute_alone();
    dnnl_memory_t from = enter(pass, in, worker, x);
    dnnl_memory_t gradient = enter(pass, out, worker, dy);
    convolve(pass, worker, from, gradient, pass->tensor[WEIGHTS].copy[sum], NULL);
}

void onednn_add_weights(const struct onednn_pass *pass, float *dweight)
{
    const struct tensor *weights = &pass->tensor[WEIGHTS];
    onednn_compute_alone();
    run_reorder(pass, &weights->accumulate, 0, weights->copy[0], plain_at(weights, 0, dweight));
}
