/* The functions of onednn.h in builds without the library. */
#include "libtrain/backend/onednn.h"

#include "base/assert.h"

bool onednn_built(void)
{
    return false;
}

void onednn_describe(char *out, size_t size)
{
    ASSERT(size > 0);
    out[0] = '\0';
}

int onednn_new(size_t workers, struct onednn **out, struct err *err)
{
    (void)workers;
    (void)out;
    return err_set(err, ERR_INVALID, "kernels of oneDNN are not in this build");
}

void onednn_free(struct onednn **library)
{
    ASSERT(!*library);
}

/* Builds without the library have no passes, so these are never called. */

int onednn_pass_new(struct onednn *library, const struct onednn_request *request,
                    struct onednn_pass **out, struct err *err)
{
    (void)library;
    (void)request;
    (void)out;
    return err_set(err, ERR_INVALID, "kernels of oneDNN are not in this build");
}

void onednn_pass_free(struct onednn_pass **pass)
{
    ASSERT(!*pass);
}

size_t onednn_pass_weight_bytes(const struct onednn_pass *pass)
{
    ASSERT(!pass);
    return 0;
}

size_t onednn_pass_worker_bytes(const struct onednn_pass *pass)
{
    ASSERT(!pass);
    return 0;
}

int onednn_pass_bind(struct onednn_pass *pass, unsigned char *weights, size_t weight_count,
                     unsigned char *scratch, size_t worker_stride, struct err *err)
{
    (void)weights;
    (void)weight_count;
    (void)scratch;
    (void)worker_stride;
    (void)err;
    ASSERT(!pass);
    return 0;
}

void onednn_pack(const struct onednn_pass *pass, const float *weight)
{
    (void)weight;
    ASSERT(!pass);
}

void onednn_forward(const struct onednn_pass *pass, size_t worker, const float *x,
                    const float *bias, float *y)
{
    (void)worker;
    (void)x;
    (void)bias;
    (void)y;
    ASSERT(!pass);
}

void onednn_backward_data(const struct onednn_pass *pass, size_t worker, const float *dy, float *dx,
                          bool accumulate)
{
    (void)worker;
    (void)dy;
    (void)dx;
    (void)accumulate;
    ASSERT(!pass);
}

void onednn_backward_weights(const struct onednn_pass *pass, size_t worker, const float *x,
                             const float *dy, size_t sum)
{
    (void)worker;
    (void)x;
    (void)dy;
    (void)sum;
    ASSERT(!pass);
}

void onednn_add_weights(const struct onednn_pass *pass, float *dweight)
{
    (void)dweight;
    ASSERT(!pass);
}
