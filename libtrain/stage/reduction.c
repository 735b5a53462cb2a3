#include "libtrain/stage/reduction.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/backend/denormal.h"
#include "libtrain/optim/gradient.h"

int reduction_check(const struct train_stage_config *config, struct err *err)
{
    if (config->reduction == REDUCTION_IN_PLACE) {
        return 0;
    }
    if (config->versions > 1) {
        return err_set(err, ERR_INVALID, "a stage that adds by the tree keeps one version");
    }
    if (config->micro_batches > REDUCE_COUNT_MAX) {
        return err_set(err, ERR_INVALID, "%zu micro-batches: the tree adds at most %d",
                       config->micro_batches, REDUCE_COUNT_MAX);
    }
    if (config->share.first > config->share.end || config->share.end > config->micro_batches) {
        return err_set(err, ERR_INVALID, "micro-batches %zu to %zu of %zu", config->share.first,
                       config->share.end, config->micro_batches);
    }
    return 0;
}

void reduction_init(struct train_stage *stage)
{
    stage->sums = (struct reduce_sums){
        .count = stage->config.micro_batches, .sum = stage->sum, .capacity = REDUCE_BLOCKS_MAX};
}

/* ---- gradients ---- */

/* Buffer 0 is the buffer that holds the gradient without a tree. The other buffers follow the
 * transposed scratch. */
static float *buffer_at(const struct train_stage *stage, size_t buffer)
{
    const struct arena *arena = stage->arena;
    return buffer == 0 ? stage->gradients
                       : stage->gradients + arena->turn_floats + buffer * arena->trained_floats;
}

static size_t free_buffer(const struct train_stage *stage)
{
    uint32_t used = 0;
    size_t buffer = 0;
    for (size_t i = 0; i < stage->sums.waiting; i++) {
        used |= UINT32_C(1) << stage->sum[i].buffer;
    }
    while (used >> buffer & 1) {
        buffer++;
    }
    return buffer;
}

static bool is_step(const struct train_stage *stage, struct reduce_range range)
{
    return range.first == 0 && range.end == stage->sums.count;
}

/* Whether the node is a block of the share: this stage does not add it to any other node. */
static bool is_block(const struct train_stage *stage, struct reduce_range range)
{
    const struct reduce_range *share = &stage->config.share;
    struct reduce_range sibling;
    if (is_step(stage, range)) {
        return true;
    }
    const struct reduce_range parent = reduce_parent(stage->sums.count, range, &sibling);
    return parent.first < share->first || parent.end > share->end;
}

void reduction_open(struct train_stage *stage, size_t micro_batch)
{
    const struct reduce_range *share = &stage->config.share;
    struct reduce_sum sum = {{micro_batch, micro_batch + 1}, stage->gradient_buffer};
    struct stage_addition *addition = &stage->addition;
    ASSERT(micro_batch >= share->first && micro_batch < share->end);
    *addition = (struct stage_addition){0};
    if (stage->layer_count == 0) {
        return;
    }
    while (reduce_put(&stage->sums, &sum, &addition->buffer[addition->count])) {
        addition->count++;
    }
    addition->step = is_step(stage, sum.range);
    addition->block = is_block(stage, sum.range);
}

void reduction_add(struct train_stage *stage, size_t layer)
{
    const struct stage_addition *addition = &stage->addition;
    const struct train_layer *at = &stage->layer[layer];
    for (size_t i = 0; i < addition->count; i++) {
        gradient_add(&stage->compute, at->count, buffer_at(stage, addition->buffer[i]) + at->first,
                     stage->gradient + at->first);
    }
    if (addition->block && stage->config.summed) {
        stage->config.summed(stage->config.summed_arg, stage->gradient, layer);
    }
}

void reduction_close(struct train_stage *stage)
{
    stage->summed = stage->addition.step;
    if (!stage->summed && stage->layer_count > 0) {
        stage->gradient_buffer = free_buffer(stage);
        ASSERT(stage->gradient_buffer <=
               reduce_waiting_max(stage->sums.count, stage->config.share));
        stage->gradient = buffer_at(stage, stage->gradient_buffer);
        memset(stage->gradient, 0, (size_t)stage->arena->trained_floats * sizeof(float));
    }
}

void reduction_discard(struct train_stage *stage)
{
    stage->sums.waiting = 0;
    stage->summed = false;
}

/* ---- shares ---- */

/* Find a block of the share. When the share is computed, the waiting sums are its blocks. */
static struct reduce_sum *find_block(struct train_stage *stage, struct reduce_range block)
{
    for (size_t i = 0; i < stage->sums.waiting; i++) {
        struct reduce_sum *sum = &stage->sum[i];
        if (sum->range.first == block.first && sum->range.end == block.end) {
            return sum;
        }
    }
    return NULL;
}

const float *train_block(struct train_stage *stage, struct reduce_range block)
{
    if (is_step(stage, block)) {
        return stage->summed ? stage->gradient : NULL;
    }
    const struct reduce_sum *sum = find_block(stage, block);
    return sum ? buffer_at(stage, sum->buffer) : NULL;
}

void train_block_release(struct train_stage *stage, struct reduce_range block)
{
    if (is_step(stage, block)) {
        ASSERT(stage->summed);
        stage->summed = false;
        memset(stage->gradient, 0, (size_t)stage->arena->trained_floats * sizeof(float));
        return;
    }
    struct reduce_sum *sum = find_block(stage, block);
    ASSERT(sum);
    *sum = stage->sum[--stage->sums.waiting];
}

float *train_gradient(struct train_stage *stage)
{
    return stage->gradient;
}

void train_add(const struct train_stage *stage, size_t count, const float *block, float *sum)
{
    uint64_t mode = denormal_flush();
    gradient_add(&stage->compute, count, block, sum);
    denormal_restore(mode);
}

/* ---- statistics of batch-norm ---- */

float *reduction_statistics(const struct train_stage *stage, size_t micro_batch)
{
    const struct reduce_range *share = &stage->config.share;
    const size_t before = share->first < share->end ? share->first : 0;
    return stage->running + (micro_batch - before) * (size_t)stage->arena->buffer_floats;
}

/* Return the next buffer of a trained unit, from *op and *tensor on, or NULL if none is left. */
static const struct op_tensor *next_buffer(const struct arena *arena, size_t *op, size_t *tensor)
{
    for (; *op < arena->op_count; (*op)++, *tensor = 0) {
        const struct arena_op *plan = &arena->op[*op];
        for (; !plan->frozen && *tensor < plan->op->tensor_count; (*tensor)++) {
            if (plan->op->tensor[*tensor].role != TENSOR_PARAMETER) {
                return &plan->op->tensor[*tensor];
            }
        }
    }
    return NULL;
}

float *reduction_begin(const struct train_stage *stage, size_t micro_batch)
{
    const struct arena *arena = stage->arena;
    float *statistics = reduction_statistics(stage, micro_batch);
    const struct op_tensor *buffer;
    if (arena->buffer_floats == 0) {
        return statistics;
    }
    memcpy(statistics, stage->buffer, (size_t)arena->buffer_floats * sizeof(float));
    for (size_t g = 0, t = 0; (buffer = next_buffer(arena, &g, &t)) != NULL; t++) {
        memset(statistics + arena->op[g].tensor[t], 0, buffer->elements * sizeof(float));
    }
    return statistics;
}

int reduction_check_statistics(const struct train_stage *stage, size_t micro_batch, struct err *err)
{
    const struct arena *arena = stage->arena;
    const float *statistics = reduction_statistics(stage, micro_batch);
    const struct op_tensor *buffer;
    for (size_t g = 0, t = 0; (buffer = next_buffer(arena, &g, &t)) != NULL; t++) {
        const float *value = statistics + arena->op[g].tensor[t];
        for (size_t i = 0; i < buffer->elements; i++) {
            if (!isfinite(value[i])) {
                return err_set(err, ERR_DIVERGED, "a statistic of '%s' is not finite",
                               arena->op[g].op->name);
            }
        }
    }
    return 0;
}

void reduction_apply(struct train_stage *stage)
{
    const struct arena *arena = stage->arena;
    const struct op_tensor *buffer;
    for (size_t g = 0, t = 0; (buffer = next_buffer(arena, &g, &t)) != NULL; t++) {
        const double kept = 1.0 - arena->op[g].op->momentum;
        for (size_t i = 0; i < buffer->elements; i++) {
            const size_t at = (size_t)arena->op[g].tensor[t] + i;
            double value = stage->buffer[at];
            for (size_t m = 0; m < stage->config.micro_batches; m++) {
                value = kept * value + (double)reduction_statistics(stage, m)[at];
            }
            stage->buffer[at] = (float)value;
        }
    }
}

float *train_statistics(struct train_stage *stage, size_t micro_batch)
{
    return reduction_statistics(stage, micro_batch);
}

float *train_running(struct train_stage *stage)
{
    return stage->buffer;
}

void train_statistics_of(const struct train_stage *stage, size_t unit, size_t *first, size_t *end)
{
    const struct arena *arena = stage->arena;
    *first = *end = 0;
    for (size_t g = 0; g < arena->op_count; g++) {
        const struct arena_op *plan = &arena->op[g];
        for (size_t t = 0; plan->unit == unit && !plan->frozen && t < plan->op->tensor_count; t++) {
            const struct op_tensor *tensor = &plan->op->tensor[t];
            const size_t from = (size_t)plan->tensor[t], to = from + tensor->elements;
            if (tensor->role != TENSOR_PARAMETER) {
                *first = *end == 0 ? from : *first;
                *end = to;
            }
        }
    }
}
