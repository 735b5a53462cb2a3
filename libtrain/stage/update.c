/* The end of a step: sums of squares and clipping, the optimizer, or discarding the step.
 *
 * The sum of squares runs over the whole model in one fixed order, from its last unit to its first
 * across stages. Clipping thus gives the same bits for every partition (ADR 0036). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/backend/denormal.h"
#include "libtrain/optim/gradient.h"
#include "libtrain/optim/optimizer.h"
#include "libtrain/stage/reduction.h"
#include "libtrain/stage/stage.h"
#include "libtrain/stage/versions.h"

/* Report the first gradient that is not finite, in the order of units and ops. */
static int diverged(const struct train_stage *stage, struct err *err)
{
    const struct arena *arena = stage->arena;
    for (size_t g = 0; g < arena->op_count; g++) {
        const struct op *op = arena->op[g].op;
        for (size_t t = 0; t < op->tensor_count && !arena->op[g].frozen; t++) {
            const struct op_tensor *tensor = &op->tensor[t];
            if (tensor->role == TENSOR_PARAMETER &&
                !gradient_all_finite(&stage->compute, tensor->elements,
                                     stage->gradient + arena->op[g].tensor[t])) {
                return err_set(err, ERR_DIVERGED, "the gradient of '%s.%s' is not finite", op->name,
                               tensor->suffix);
            }
        }
    }
    return err_set(err, ERR_DIVERGED, "a gradient is not finite");
}

/* Offset, in floats, of the first trained parameter in the stage's unit `index` or after it. A
 * unit's parameters are contiguous, with the same distances in every stage. The padding between
 * them stays zero. */
static size_t parameters_from(const struct train_stage *stage, size_t index)
{
    const struct arena *arena = stage->arena;
    for (size_t g = stage->first_op[index]; g < arena->op_count; g++) {
        for (size_t t = 0; t < arena->op[g].op->tensor_count && !arena->op[g].frozen; t++) {
            if (arena->op[g].op->tensor[t].role == TENSOR_PARAMETER) {
                return (size_t)arena->op[g].tensor[t];
            }
        }
    }
    return (size_t)arena->trained_floats;
}

int train_sum_squares(struct train_stage *stage, double later, double *out, struct err *err)
{
    if (!isfinite(later) || later < 0) {
        return err_set(err, ERR_INVALID, "%g is not the sum of squares of gradients", later);
    }
    uint64_t mode = denormal_flush();
    double sum = later;
    int rc = 0;
    for (size_t i = stage->config.end - stage->config.first; i-- > 0;) {
        size_t begin = parameters_from(stage, i);
        size_t count = parameters_from(stage, i + 1) - begin;
        sum +=
            count > 0 ? gradient_sum_squares(&stage->compute, count, stage->gradient + begin) : 0.0;
    }
    /* The squares of finite floats have a finite sum in double. */
    if (!isfinite(sum)) {
        rc = diverged(stage, err);
    } else {
        *out = sum;
    }
    denormal_restore(mode);
    return rc;
}

int train_clip(struct train_stage *stage, double squares, struct err *err)
{
    double limit = stage->config.optimizer.clip_norm;
    size_t count = (size_t)stage->arena->trained_floats;
    ASSERT(limit > 0 && !stage->clipped);
    if (!isfinite(squares) || squares < 0) {
        return err_set(err, ERR_INVALID, "%g is not the sum of squares of gradients", squares);
    }
    float factor = gradient_norm_factor(limit, squares);
    uint64_t mode = denormal_flush();
    if (factor < 1.0f && count > 0) {
        gradient_scale(&stage->compute, count, factor, stage->gradient);
    }
    denormal_restore(mode);
    stage->clipped = true;
    return 0;
}

static void update_parameters(struct train_stage *stage, int64_t step, double learning_rate)
{
    size_t count = (size_t)stage->arena->trained_floats;
    struct optimizer_call call = {.optimizer = &stage->config.optimizer,
                                  .step = step,
                                  .rate = learning_rate,
                                  .count = count,
                                  .before = versions_latest(stage)->trained,
                                  .parameter = versions_next(stage)->trained,
                                  .gradient = stage->gradient};
    for (size_t array = 0; array < optimizer_state_arrays(call.optimizer); array++) {
        call.array[array] = stage->optimizer_state + array * count;
    }
    if (call.optimizer->clip_value > 0) {
        gradient_clip_value(&stage->compute, count, (float)call.optimizer->clip_value,
                            stage->gradient);
    }
    optimizer_update(&stage->compute, &call);
}

int train_update(struct train_stage *stage, int64_t step, double learning_rate, struct err *err)
{
    const struct arena *arena = stage->arena;
    size_t count = (size_t)arena->trained_floats;
    ASSERT(step >= 1 && stage->clipped == (stage->config.optimizer.clip_norm > 0));
    ASSERT(stage->sums.waiting == 0 && !stage->config.worker && !stage->forward.begun);
    uint64_t mode = denormal_flush();
    int rc = 0;
    if (count > 0 && !gradient_all_finite(&stage->compute, count, stage->gradient)) {
        rc = diverged(stage, err);
    } else if (count > 0) {
        update_parameters(stage, step, learning_rate);
    }
    if (rc == 0) {
        versions_advance(stage, step);
    }
    if (rc == 0 && stage->config.reduction == REDUCTION_TREE) {
        reduction_apply(stage);
    } else if (rc == 0 && arena->buffer_floats > 0) {
        memcpy(stage->buffer, versions_running(stage, step),
               (size_t)arena->buffer_floats * sizeof(float));
    }
    stage->clipped = false;
    stage->summed = false;
    denormal_restore(mode);
    return rc;
}

void train_discard(struct train_stage *stage)
{
    const struct arena *arena = stage->arena;
    stage->clipped = stage->forward.begun = false;
    reduction_discard(stage);
    if (arena->trained_floats > 0) {
        memset(stage->gradient, 0, (size_t)arena->trained_floats * sizeof(float));
    }
    if (arena->buffer_floats > 0) {
        memcpy(stage->running, stage->buffer, (size_t)arena->buffer_floats * sizeof(float));
    }
}
