#include "libtrain/stage/kernels.h"

#include <stdlib.h>

#include "libtrain/backend/onednn.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/ops/onednn_conv2d.h"

static bool is_onednn(const struct arena_op *op)
{
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        if (conv2d_kernel_is_onednn((enum conv2d_kernel)op->kernels.pass[pass])) {
            return true;
        }
    }
    return false;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Raise the planned sizes to the sizes that oneDNN needs. They are known only after its kernels are
 * created. */
static void raise_bytes(struct train_stage *stage, struct workspace_bytes most, uint64_t packed)
{
    struct arena *arena = stage->arena;
    struct memory_bytes *bytes = &stage->bytes;
    uint64_t shared = larger(arena->shared_bytes, most.shared) - arena->shared_bytes;
    uint64_t worker = larger(arena->worker_bytes, most.worker) - arena->worker_bytes;
    uint64_t workspace = shared + worker * pool_threads(stage->config.pool);
    arena->shared_bytes += shared;
    arena->worker_bytes += worker;
    bytes->workspace += workspace;
    bytes->total += workspace + packed - bytes->packed;
    bytes->packed = arena->packed_bytes = packed;
}

int kernels_prepare(struct train_stage *stage, struct err *err)
{
    struct arena *arena = stage->arena;
    stage->onednn_conv2d = calloc(arena->op_count, sizeof(struct onednn_conv2d *));
    if (!stage->onednn_conv2d) {
        return err_set(err, ERR_MEMORY, "out of memory for %zu ops", arena->op_count);
    }
    struct workspace_bytes most = {0};
    uint64_t packed = 0;
    for (size_t g = 0; g < arena->op_count; g++) {
        const struct op *op = arena->op[g].op;
        if (op->type != OP_CONV2D || !is_onednn(&arena->op[g])) {
            continue;
        }
        struct conv2d_shape shape = op_conv2d_shape(op, arena->micro_batch);
        int rc =
            stage->onednn ? 0 : onednn_new(pool_threads(stage->config.pool), &stage->onednn, err);
        rc = rc ? rc
                : onednn_conv2d_new(stage->onednn, &shape, arena->op[g].kernels, op->bias,
                                    &stage->onednn_conv2d[g], err);
        if (rc) {
            return err_wrap(err, "'%s'", op->name);
        }
        struct workspace_bytes bytes = onednn_conv2d_workspace(stage->onednn_conv2d[g]);
        most.shared = larger(most.shared, bytes.shared);
        most.worker = larger(most.worker, bytes.worker);
        packed += onednn_conv2d_packed_bytes(stage->onednn_conv2d[g]);
    }
    raise_bytes(stage, most, packed);
    return 0;
}

int kernels_bind(struct train_stage *stage, struct err *err)
{
    unsigned char *packed = stage->packed;
    for (size_t g = 0; g < stage->arena->op_count; g++) {
        struct onednn_conv2d *conv2d = stage->onednn_conv2d[g];
        int rc = conv2d ? onednn_conv2d_bind(conv2d, &stage->compute, packed, err) : 0;
        if (rc) {
            return err_wrap(err, "'%s'", stage->arena->op[g].op->name);
        }
        packed += conv2d ? onednn_conv2d_packed_bytes(conv2d) : 0;
    }
    return 0;
}

void kernels_free(struct train_stage *stage)
{
    for (size_t g = 0; stage->onednn_conv2d && g < stage->arena->op_count; g++) {
        onednn_conv2d_free(&stage->onednn_conv2d[g]);
    }
    free(stage->onednn_conv2d);
    onednn_free(&stage->onednn);
}
