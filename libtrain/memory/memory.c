#include "libtrain/memory/memory.h"

#include "libtrain/memory/arena.h"

/* Compute a * b + c. Return false if it does not fit. */
static bool multiply_add(uint64_t a, uint64_t b, uint64_t c, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out) && !__builtin_add_overflow(*out, c, out);
}

static uint64_t state_bytes(const struct model *model, const struct memory_request *request,
                            size_t optimizer_arrays)
{
    uint64_t bytes = 0;
    for (size_t u = request->first; u < request->end; u++) {
        const struct unit *unit = &model->unit[u];
        for (size_t k = 0; k < unit->op_count; k++) {
            for (size_t t = 0; t < unit->op[k].tensor_count; t++) {
                const struct op_tensor *tensor = &unit->op[k].tensor[t];
                size_t copies =
                    1 + (tensor->role == TENSOR_PARAMETER && !unit->frozen ? optimizer_arrays : 0);
                bytes += (uint64_t)tensor->elements * copies * sizeof(float);
            }
        }
    }
    return bytes;
}

/* Add the bytes of a sender's and a receiver's coder. */
static bool coder_bytes(enum codec codec, uint64_t values, uint64_t *bytes)
{
    return multiply_add(codec_memory(codec, values), 2, *bytes, bytes);
}

/* Bytes of receive slots and send buffers. Activations enter and gradients leave at the input
 * boundary. At the output boundary, activations leave and gradients enter. Stage 0 holds stored
 * samples, the last stage holds labels. */
static bool border_bytes(const struct model *model, const struct memory_request *request,
                         uint64_t *out)
{
    uint64_t samples = request->micro_batch;
    uint64_t buffers = request->in_flight + MEMORY_SEND_BUFFERS;
    uint64_t input = shape_elements(model->unit[request->first].in);
    uint64_t bytes = 0;
    bool fits = true;
    if (request->first == 0) {
        fits = multiply_add(input * dtype_size(model->input_dtype) * samples, request->in_flight,
                            bytes, &bytes);
    } else {
        fits = multiply_add(input * sizeof(float) * samples, buffers, bytes, &bytes) &&
               coder_bytes(request->codec[MEMORY_INPUT], input * samples, &bytes);
    }
    if (request->end < model->unit_count) {
        uint64_t output = shape_elements(model->unit[request->end - 1].out);
        fits = fits && multiply_add(output * sizeof(float) * samples, buffers, bytes, &bytes) &&
               coder_bytes(request->codec[MEMORY_OUTPUT], output * samples, &bytes);
    } else {
        fits = fits && multiply_add(sizeof(int32_t) * model->positions * samples,
                                    request->in_flight, bytes, &bytes);
    }
    *out = bytes;
    return fits;
}

/* Return the number of statistics arrays with a tree: one for each of the device's own
 * micro-batches, or one for each micro-batch that other devices send it. */
static uint64_t statistics_of(const struct memory_request *request)
{
    const size_t own = request->share.end - request->share.first;
    return own > 0 ? own : request->tree;
}

/* The bytes of a range's plan with the request's threads and micro-batches in flight. */
static int sum_up(const struct arena *arena, const struct optimizer *optimizer,
                  const struct memory_request *request, struct memory_bytes *out, struct err *err)
{
    size_t arrays = optimizer_state_arrays(optimizer);
    struct memory_bytes bytes = {
        .optimizer = request->worker ? 0 : arena->trained_floats * arrays * sizeof(float),
        .packed = arena->packed_bytes,
        .snapshot = request->worker ? 0 : state_bytes(arena->model, request, arrays),
    };
    const uint64_t running = request->versions > 1 ? request->in_flight
                             : request->tree > 0   ? statistics_of(request)
                                                   : 1;
    const uint64_t gradients = 1 + reduce_waiting_max(request->tree, request->share);
    const uint64_t stashed = request->versions > 1 ? request->versions - 1 : 0;
    bool fits = multiply_add(arena->buffer_floats * sizeof(float), 1 + running,
                             arena->parameter_floats * sizeof(float), &bytes.parameters) &&
                multiply_add(arena->trained_floats * sizeof(float), gradients,
                             arena->turn_floats * sizeof(float), &bytes.gradients) &&
                multiply_add(arena->trained_floats * sizeof(float), stashed, 0, &bytes.stashed) &&
                multiply_add(arena->slot_bytes, request->in_flight, 0, &bytes.activations) &&
                multiply_add(arena->worker_bytes, request->threads,
                             arena->tensor_bytes + arena->shared_bytes, &bytes.workspace) &&
                border_bytes(arena->model, request, &bytes.borders);
    const uint64_t parts[] = {bytes.parameters, bytes.stashed,     bytes.gradients,
                              bytes.optimizer,  bytes.activations, bytes.workspace,
                              bytes.packed,     bytes.borders,     bytes.snapshot};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        fits = fits && multiply_add(parts[i], 1, bytes.total, &bytes.total);
    }
    if (!fits) {
        return err_set(
            err, ERR_LIMIT,
            "units %zu to %zu with %zu samples and %zu micro-batches need more than 2^64 bytes",
            request->first, request->end, request->micro_batch, request->in_flight);
    }
    *out = bytes;
    return 0;
}

static int plan_range(const struct model *model, const struct memory_request *request,
                      struct arena **out, struct err *err)
{
    const struct arena_request range = {.first = request->first,
                                        .end = request->end,
                                        .micro_batch = request->micro_batch,
                                        .recompute = request->recompute,
                                        .backend = request->backend,
                                        .scratch = request->scratch};
    return arena_new(model, &range, out, err);
}

int memory_of_stage(const struct model *model, const struct optimizer *optimizer,
                    const struct memory_request *request, struct memory_bytes *out, struct err *err)
{
    if (request->in_flight < 1 || request->in_flight > MEMORY_IN_FLIGHT_MAX) {
        return err_set(err, ERR_INVALID, "%zu micro-batches in flight: expected 1 to %u",
                       request->in_flight, MEMORY_IN_FLIGHT_MAX);
    }
    if (request->versions > MEMORY_IN_FLIGHT_MAX) {
        return err_set(err, ERR_INVALID, "%zu versions of the parameters: expected 1 to %u",
                       request->versions, MEMORY_IN_FLIGHT_MAX);
    }
    if (request->tree > REDUCE_COUNT_MAX || request->share.first > request->share.end ||
        request->share.end > request->tree) {
        return err_set(err, ERR_INVALID, "micro-batches %zu to %zu of %zu, expected at most %d",
                       request->share.first, request->share.end, request->tree, REDUCE_COUNT_MAX);
    }
    if (request->worker && request->share.first == request->share.end) {
        return err_set(err, ERR_INVALID, "a worker computes a share of the micro-batches");
    }
    if (request->tree > 0 && request->versions > 1) {
        return err_set(err, ERR_INVALID, "a stage that adds by the tree keeps one version");
    }
    if (request->threads < 1 || request->threads > MEMORY_THREADS_MAX) {
        return err_set(err, ERR_INVALID, "%zu compute threads: expected 1 to %u", request->threads,
                       MEMORY_THREADS_MAX);
    }
    ARENA_AUTO struct arena *arena = NULL;
    int rc = plan_range(model, request, &arena, err);
    return rc ? rc : sum_up(arena, optimizer, request, out, err);
}

/* The sum is linear in the threads, the micro-batches in flight and the versions. With several
 * versions, buffers grow with the micro-batches in flight too. */
int memory_of_range(const struct model *model, const struct optimizer *optimizer,
                    const struct memory_request *request, struct memory_growth *out,
                    struct err *err)
{
    struct memory_request one = *request;
    one.in_flight = one.threads = one.versions = 1;
    struct memory_request thread = one, micro_batch = one, version = one;
    thread.threads++;
    micro_batch.in_flight++;
    version.versions += request->tree == 0;
    struct memory_bytes base, by_thread, by_micro_batch, by_version;
    ARENA_AUTO struct arena *arena = NULL;
    int rc = plan_range(model, request, &arena, err);
    rc = rc ? rc : sum_up(arena, optimizer, &one, &base, err);
    rc = rc ? rc : sum_up(arena, optimizer, &thread, &by_thread, err);
    rc = rc ? rc : sum_up(arena, optimizer, &micro_batch, &by_micro_batch, err);
    rc = rc ? rc : sum_up(arena, optimizer, &version, &by_version, err);
    if (rc) {
        return rc;
    }
    const uint64_t buffers = request->versions > 1 ? arena->buffer_floats * sizeof(float) : 0;
    *out = (struct memory_growth){.base = base.total,
                                  .per_thread = by_thread.total - base.total,
                                  .per_micro_batch = by_micro_batch.total - base.total + buffers,
                                  .per_version = by_version.total - base.total,
                                  .snapshot = base.snapshot};
    return 0;
}
