/* onednn.h: the one door to oneDNN, an optional library (PACELINE_ONEDNN): passes of convolutions
 * on a fixed number of samples, prepared once and computed on the calling thread alone. Which
 * layouts the library wants for its tensors is asked, never assumed; tensors come and go as
 * everywhere in libtrain (NHWC, weights as in ops/conv2d.h) and are reordered where it wants
 * others. Used by libtrain/ops. After onednn_pass_bind our side allocates nothing (the library
 * makes a small table of arguments at every call).
 *
 * Bits depend on shape, pass, kernel and what onednn_describe says, not on threads: the library's
 * own threading is switched off on every thread that comes here.
 *
 * Threads: passes are made, bound and freed by one thread; then each worker (pool.h) computes at
 * the same time as the others, with objects of its own. */
#ifndef LIBTRAIN_BACKEND_ONEDNN_H
#define LIBTRAIN_BACKEND_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "libtrain/kernels/workspace.h"

/* Whether the library is in this build. */
bool onednn_built(void);
/* "/onednn-2.6.3-AVX512_CORE-48+1024k": library, version, ISA and the caches that its blocking
 * follows; "" without. */
void onednn_describe(char *out, size_t size);

/* Engine and streams, one of them for each worker. */
struct onednn;
/* ERR_INVALID where the library is not in this build. */
NODISCARD int onednn_new(size_t workers, struct onednn **out, struct err *err);
void onednn_free(struct onednn **library);

struct onednn_pass;
struct onednn_request {
    enum conv2d_kernel kernel; /* one of oneDNN's */
    enum conv2d_pass pass;
    const struct conv2d_shape *shape; /* N: samples of a call */
    bool bias;                        /* forward adds one */
};
/* ERR_INVALID where the library has no such kernel for the shape on this CPU. `library` must
 * outlive the pass. */
NODISCARD int onednn_pass_new(struct onednn *library, const struct onednn_request *request,
                              struct onednn_pass **out, struct err *err);
void onednn_pass_free(struct onednn_pass **pass);

/* Bytes of the weights (or a sum of their gradient) as the library wants them, and of each worker's
 * scratch: multiples of WORKSPACE_ALIGNMENT. */
size_t onednn_pass_weight_bytes(const struct onednn_pass *pass);
size_t onednn_pass_worker_bytes(const struct onednn_pass *pass);

/* Say where the memory lies, for good: weights [weight_count][onednn_pass_weight_bytes], and worker
 * 0's scratch, with that of the next one worker_stride bytes behind it. All aligned to
 * WORKSPACE_ALIGNMENT. */
NODISCARD int onednn_pass_bind(struct onednn_pass *pass, unsigned char *weights,
                               size_t weight_count, unsigned char *scratch, size_t worker_stride,
                               struct err *err);

/* Forward and backward to the input: bring the weights into the bound memory. Worker 0 only. */
void onednn_pack(const struct onednn_pass *pass, const float *weight);
/* y [N][OH][OW][O], overwritten. bias [O] where the request said so. No overlap. */
void onednn_forward(const struct onednn_pass *pass, size_t worker, const float *x,
                    const float *bias, float *y);
/* dx [N][H][W][C], overwritten, or added to. No overlap. */
void onednn_backward_data(const struct onednn_pass *pass, size_t worker, const float *dy, float *dx,
                          bool accumulate);
/* Overwrites sum number `sum` of the bound weights with the gradient over these N samples. */
void onednn_backward_weights(const struct onednn_pass *pass, size_t worker, const float *x,
                             const float *dy, size_t sum);
/* dweight += sum 0. Worker 0 only. */
void onednn_add_weights(const struct onednn_pass *pass, float *dweight);

#endif
