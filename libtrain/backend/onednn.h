/* onednn.h: passes of convolutions by oneDNN, an optional library (PACELINE_ONEDNN) that only this
 * room sees. A pass has a fixed number of samples; it is prepared once and computes on the calling
 * thread alone. The library chooses its layouts. Inputs and outputs have the layouts of libtrain
 * (NHWC, weights as in ops/conv2d.h) and are reordered if necessary. Used by libtrain/ops. After
 * onednn_pass_bind our code allocates nothing (the library makes a small table of arguments per
 * call).
 *
 * Bits depend on shape, pass, kernel and the text of onednn_describe, not on threads: the library's
 * own threading is switched off on every calling thread.
 *
 * Threads: one thread creates, binds and frees passes; then the workers (pool.h) compute at the
 * same time, each with objects of its own. */
#ifndef LIBTRAIN_BACKEND_ONEDNN_H
#define LIBTRAIN_BACKEND_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "libtrain/kernels/workspace.h"

/* Whether the library is in this build. */
bool onednn_built(void);
/* Write library, version, ISA and the caches that its blocking follows:
 * "/onednn-2.6.3-AVX512_CORE-48+1024k"; "" in builds without it. */
void onednn_describe(char *out, size_t size);

/* Engine and streams, one stream for each worker. */
struct onednn;
/* ERR_INVALID if the library is not in this build. */
NODISCARD int onednn_new(size_t workers, struct onednn **out, struct err *err);
void onednn_free(struct onednn **library);

struct onednn_pass;
struct onednn_request {
    enum conv2d_kernel kernel; /* one of oneDNN's */
    enum conv2d_pass pass;
    const struct conv2d_shape *shape; /* N: samples of a call */
    bool bias;                        /* forward adds one */
};
/* ERR_INVALID if the library has no such kernel for the shape on this CPU. `library` must outlive
 * the pass. */
NODISCARD int onednn_pass_new(struct onednn *library, const struct onednn_request *request,
                              struct onednn_pass **out, struct err *err);
void onednn_pass_free(struct onednn_pass **pass);

/* Bytes of the weights (or of a sum of their gradient) in the library's layout, and of each
 * worker's scratch: multiples of WORKSPACE_ALIGNMENT. */
size_t onednn_pass_weight_bytes(const struct onednn_pass *pass);
size_t onednn_pass_worker_bytes(const struct onednn_pass *pass);

/* Bind the pass to its memory, once: weights [weight_count][onednn_pass_weight_bytes], and the
 * workers' scratch, worker_stride bytes apart from worker 0's on. All aligned to
 * WORKSPACE_ALIGNMENT. */
NODISCARD int onednn_pass_bind(struct onednn_pass *pass, unsigned char *weights,
                               size_t weight_count, unsigned char *scratch, size_t worker_stride,
                               struct err *err);

/* Copy the weights into the bound memory, for forward and backward_data. Worker 0 only. */
void onednn_pack(const struct onednn_pass *pass, const float *weight);
/* Overwrites y [N][OH][OW][O]. bias [O] if the request has one. No overlap. */
void onednn_forward(const struct onednn_pass *pass, size_t worker, const float *x,
                    const float *bias, float *y);
/* Overwrites dx [N][H][W][C], or accumulates. No overlap. */
void onednn_backward_data(const struct onednn_pass *pass, size_t worker, const float *dy, float *dx,
                          bool accumulate);
/* Overwrites sum `sum` of the bound weights with the gradient over these N samples. */
void onednn_backward_weights(const struct onednn_pass *pass, size_t worker, const float *x,
                             const float *dy, size_t sum);
/* dweight += sum 0. Worker 0 only. */
void onednn_add_weights(const struct onednn_pass *pass, float *dweight);

#endif
