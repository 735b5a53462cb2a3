#include "libtrain/stage/stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/stage/kernels.h"
#include "libtrain/stage/layers.h"
#include "libtrain/stage/reduction.h"
#include "libtrain/stage/versions.h"

/* Allocate one arena, aligned for vectors, of exactly the planned size. The size is a multiple of
 * the alignment. It is 0 for the arenas that a stage without parameters does not need. */
static int allocate(uint64_t bytes, bool zero, const char *what, void *out_pointer, struct err *err)
{
    if (bytes == 0) {
        return 0;
    }
    void *memory = aligned_alloc(WORKSPACE_ALIGNMENT, (size_t)bytes);
    if (!memory) {
        return err_set(err, ERR_MEMORY, "out of memory for %" PRIu64 " bytes of %s", bytes, what);
    }
    if (zero) {
        memset(memory, 0, (size_t)bytes);
    }
    memcpy(out_pointer, &memory, sizeof(memory));
    return 0;
}

static int allocate_arenas(struct train_stage *stage, struct err *err)
{
    const struct memory_bytes *bytes = &stage->bytes;
    if (bytes->total > SIZE_MAX / 2) {
        return err_set(err, ERR_MEMORY,
                       "the stage needs %" PRIu64 " bytes, more than a process can address here",
                       bytes->total);
    }
    int rc = allocate(bytes->parameters, true, "parameters", &stage->parameter, err);
    rc = rc ? rc : allocate(bytes->stashed, true, "stashed parameters", &stage->stashed, err);
    rc = rc ? rc : allocate(bytes->gradients, true, "gradients", &stage->gradients, err);
    rc =
        rc ? rc : allocate(bytes->optimizer, true, "optimizer state", &stage->optimizer_state, err);
    rc = rc ? rc : allocate(bytes->activations, false, "activations", &stage->activation, err);
    rc = rc ? rc : allocate(bytes->workspace, false, "workspace", &stage->workspace, err);
    rc = rc ? rc : allocate(bytes->packed, false, "packed weights", &stage->packed, err);
    if (rc) {
        return rc;
    }
    const struct arena *arena = stage->arena;
    stage->gradient = stage->gradients;
    if (arena->buffer_floats > 0) {
        stage->buffer = stage->parameter + arena->parameter_floats;
        stage->running = stage->buffer + arena->buffer_floats;
    }
    stage->compute = (struct compute){
        .pool = stage->config.pool,
        .shared = stage->workspace + arena->tensor_bytes,
        .worker = stage->workspace + arena->tensor_bytes + arena->shared_bytes,
        .worker_bytes = (size_t)arena->worker_bytes,
    };
    return 0;
}

static int describe_units(struct train_stage *stage, struct err *err)
{
    const struct train_stage_config *config = &stage->config;
    size_t count = config->end - config->first;
    stage->slot = calloc(config->in_flight + 1, sizeof(stage->slot[0]));
    stage->layout = calloc(count, sizeof(void *));
    stage->first_op = calloc(count + 1, sizeof(stage->first_op[0]));
    if (!stage->slot || !stage->layout || !stage->first_op) {
        return err_set(err, ERR_MEMORY, "out of memory for a stage of %zu units", count);
    }
    for (size_t i = 0; i < count; i++) {
        size_t unit = config->first + i;
        stage->first_op[i + 1] = stage->first_op[i] + config->model->unit[unit].op_count;
        int rc = state_layout_new(config->model, unit, &config->optimizer, &stage->layout[i], err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

int train_stage_new(const struct train_stage_config *config, struct train_stage **out,
                    struct err *err)
{
    if (config->micro_batches < 1) {
        return err_set(err, ERR_INVALID, "a step has at least one micro-batch");
    }
    struct train_stage *stage AUTO(train_stage_free) = calloc(1, sizeof(*stage));
    if (!stage) {
        return err_set(err, ERR_MEMORY, "out of memory for a stage");
    }
    stage->config = *config;
    stage->config.versions = config->versions > 0 ? config->versions : 1;
    const bool tree = config->reduction == REDUCTION_TREE;
    const struct memory_request request = {
        .first = config->first,
        .end = config->end,
        .micro_batch = config->micro_batch,
        .in_flight = config->in_flight > 0 ? config->in_flight : 1,
        .versions = config->versions,
        .tree = tree ? config->micro_batches : 0,
        .share = tree ? config->share : (struct reduce_range){0, 0},
        .worker = config->worker,
        .threads = pool_threads(config->pool),
        .recompute = config->recompute,
        .backend = train_backend(),
    };
    int rc = reduction_check(&stage->config, err);
    rc = rc ? rc : memory_of_stage(config->model, &config->optimizer, &request, &stage->bytes, err);
    if (config->in_flight == 0) {
        stage->bytes.activations = 0;
    }
    const struct arena_request range = {.first = config->first,
                                        .end = config->end,
                                        .micro_batch = config->micro_batch,
                                        .recompute = config->recompute,
                                        .backend = train_backend()};
    rc = rc ? rc : arena_new(config->model, &range, &stage->arena, err);
    rc = rc ? rc : kernels_prepare(stage, err);
    rc = rc ? rc : describe_units(stage, err);
    rc = rc ? rc : allocate_arenas(stage, err);
    rc = rc ? rc : layers_init(stage, err);
    rc = rc ? rc : versions_init(stage, err);
    rc = rc ? rc : kernels_bind(stage, err);
    if (rc) {
        return rc;
    }
    reduction_init(stage);
    *out = stage;
    stage = NULL;
    return 0;
}

void train_stage_free(struct train_stage **stage_pointer)
{
    struct train_stage *stage = *stage_pointer;
    if (!stage) {
        return;
    }
    for (size_t i = 0; stage->layout && i < stage->config.end - stage->config.first; i++) {
        state_layout_free(&stage->layout[i]);
    }
    kernels_free(stage);
    free(stage->packed);
    free(stage->layout);
    free(stage->first_op);
    free(stage->slot);
    free(stage->workspace);
    free(stage->activation);
    free(stage->optimizer_state);
    free(stage->gradients);
    free(stage->op_layer);
    free(stage->layer);
    free(stage->averaged);
    free(stage->ring);
    free(stage->stashed);
    free(stage->parameter);
    arena_free(&stage->arena);
    free(stage);
    *stage_pointer = NULL;
}
