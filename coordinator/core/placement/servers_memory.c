#include "coordinator/core/placement/servers_memory.h"

#include "coordinator/core/placement/pool.h"
#include "coordinator/core/state/planning_servers.h"

#define MEMORY_WORK 0.7 /* work of one op of a stage; unit: PARTITION_MEMORY_WORK_MAX */

static struct memory_request request_of(const struct planning *planning, size_t first, size_t end)
{
    const struct job_spec *spec = &planning->spec;
    return (struct memory_request){.first = first,
                                   .end = end,
                                   .micro_batch = (size_t)(spec->batch / spec->micro_batches),
                                   .in_flight = 1,
                                   .versions = 1,
                                   .tree = (size_t)spec->micro_batches,
                                   .threads = 1,
                                   .recompute = planning->recompute,
                                   .backend = planning->backend,
                                   .scratch = planning->arena};
}

static struct memory_request worker_request(const struct planning *planning,
                                            struct reduce_range share)
{
    struct memory_request request = request_of(planning, 0, planning->model->unit_count);
    request.share = share;
    request.worker = true;
    return request;
}

static void count_work(struct planning *planning, size_t first, size_t end)
{
    for (size_t u = first; u < end; u++) {
        planning->memory_work += MEMORY_WORK * (double)planning->model->unit[u].op_count;
    }
}

/* value + count * bytes; UINT64_MAX: overflow. */
static uint64_t add(uint64_t value, uint64_t count, uint64_t bytes)
{
    uint64_t product, sum;
    return __builtin_mul_overflow(count, bytes, &product) ||
                   __builtin_add_overflow(value, product, &sum)
               ? UINT64_MAX
               : sum;
}

/* ---- kept units ---- */

static void plan_kept(struct planning *planning, size_t first, size_t end,
                      struct memory_growth *out)
{
    const struct memory_request request = request_of(planning, first, end);
    count_work(planning, first, end);
    if (memory_of_range(planning->model, &planning->spec.optimizer, &request, out, NULL) == 0) {
        out->base += pool_snapshots(planning, out->snapshot);
    } else {
        *out = (struct memory_growth){.base = UINT64_MAX};
    }
}

/* Count each unit as a stage of its own: an upper bound. */
static void add_kept(struct planning *planning, size_t first, size_t end, struct memory_growth *out)
{
    *out = (struct memory_growth){0};
    for (size_t u = first; u < end; u++) {
        struct stage_bytes *unit = &planning->stage_bytes[u][u + 1];
        if (unit->stamp != planning->stamp) {
            unit->stamp = planning->stamp;
            plan_kept(planning, u, u + 1, &unit->bytes);
        }
        out->base = add(out->base, 1, unit->bytes.base);
        out->per_thread = add(out->per_thread, 1, unit->bytes.per_thread);
        out->snapshot += unit->bytes.snapshot;
    }
}

/* Cache the memory of each range of units: the planner asks for the same range many times. Large
 * models have more ranges than the time allows. */
static const struct memory_growth *kept_bytes(struct planning *planning,
                                              const struct servers_stage *stage)
{
    struct stage_bytes *range = &planning->stage_bytes[stage->first][stage->end];
    if (range->stamp != planning->stamp) {
        range->stamp = planning->stamp;
        if (planning->memory_work < planning->memory_max || stage->first + 1 == stage->end) {
            plan_kept(planning, stage->first, stage->end, &range->bytes);
        } else {
            add_kept(planning, stage->first, stage->end, &range->bytes);
        }
    }
    return &range->bytes;
}

/* The number of gradient sums that wait at once, beside the one that becomes the gradient. */
static uint64_t more_sums(const struct servers_stage *stage)
{
    return stage->sums > 0 ? stage->sums - 1 : 0;
}

static uint64_t trained_bytes(const struct planning *planning, const struct servers_stage *stage)
{
    const uint64_t *before = planning_servers(planning)->trained_before;
    return before[stage->end] - before[stage->first];
}

/* ---- all units ---- */

/* The growth of a worker's memory follows from two shares of a long step. */
static void measure_worker(struct planning *planning, struct worker_bytes *out)
{
    const size_t most = REDUCE_COUNT_MAX;
    const struct reduce_range one = {0, 1}, all = {0, most};
    struct memory_request request = worker_request(planning, one), longer = request, whole;
    struct memory_bytes least, small, large;
    struct memory_growth growth;
    const struct optimizer *optimizer = &planning->spec.optimizer;
    longer.tree = most;
    whole = longer;
    whole.share = all;
    for (size_t i = 0; i < 4; i++) {
        count_work(planning, 0, planning->model->unit_count);
    }
    if (memory_of_stage(planning->model, optimizer, &request, &least, NULL) != 0 ||
        memory_of_stage(planning->model, optimizer, &longer, &small, NULL) != 0 ||
        memory_of_stage(planning->model, optimizer, &whole, &large, NULL) != 0 ||
        memory_of_range(planning->model, optimizer, &request, &growth, NULL) != 0) {
        *out = (struct worker_bytes){.base = UINT64_MAX, .stamp = planning->stamp};
        return;
    }
    const size_t buffers = reduce_waiting_max(most, all) - reduce_waiting_max(most, one);
    *out = (struct worker_bytes){
        .base = least.total,
        .per_thread = growth.per_thread,
        .per_buffer = (large.gradients - small.gradients) / buffers,
        .per_micro_batch = (large.parameters - small.parameters) / (most - 1),
        .buffers = reduce_waiting_max((size_t)planning->spec.micro_batches, one),
        .stamp = planning->stamp,
    };
}

static uint64_t share_bytes(struct planning *planning, const struct servers_stage *stage,
                            size_t threads)
{
    struct worker_bytes *worker = &planning_servers(planning)->worker;
    if (worker->stamp != planning->stamp) {
        measure_worker(planning, worker);
    }
    const size_t count = stage->share.end - stage->share.first;
    const size_t more = stage->buffers > worker->buffers ? stage->buffers - worker->buffers : 0;
    uint64_t bytes = add(worker->base, threads - 1, worker->per_thread);
    bytes = add(bytes, more, worker->per_buffer);
    return add(bytes, count - 1, worker->per_micro_batch);
}

/* ---- a stage ---- */

uint64_t servers_memory(void *arg, const struct servers_stage *stage)
{
    struct planning *planning = arg;
    const size_t threads = (size_t)planning->pool_threads[stage->device];
    uint64_t bytes = 0;
    if (stage->first < stage->end) {
        const struct memory_growth *kept = kept_bytes(planning, stage);
        bytes = add(kept->base, threads - 1, kept->per_thread);
        bytes = add(bytes, more_sums(stage), trained_bytes(planning, stage));
    }
    return stage->share.first < stage->share.end
               ? add(bytes, 1, share_bytes(planning, stage, threads))
               : bytes;
}

static void add_parts(const struct planning *planning, const struct memory_request *request,
                      struct plan_memory *out)
{
    struct memory_bytes bytes;
    if (memory_of_stage(planning->model, &planning->spec.optimizer, request, &bytes, NULL) != 0) {
        return;
    }
    out->parameters_bytes += (int64_t)bytes.parameters;
    out->gradients_bytes += (int64_t)bytes.gradients;
    out->optimizer_bytes += (int64_t)bytes.optimizer;
    out->activations_bytes += (int64_t)bytes.activations;
    out->workspace_bytes += (int64_t)(bytes.workspace + bytes.packed);
    out->borders_bytes += (int64_t)bytes.borders;
    out->snapshots_bytes += (int64_t)(bytes.snapshot + pool_snapshots(planning, bytes.snapshot));
}

struct plan_memory servers_memory_parts(const struct planning *planning,
                                        const struct servers_stage *stage, size_t candidate)
{
    struct plan_memory out = {0};
    if (stage->first < stage->end) {
        struct memory_request kept = request_of(planning, stage->first, stage->end);
        kept.threads = pool_threads(planning, candidate);
        add_parts(planning, &kept, &out);
        out.gradients_bytes += (int64_t)(more_sums(stage) * trained_bytes(planning, stage));
    }
    if (stage->share.first < stage->share.end) {
        struct memory_request worker = worker_request(planning, stage->share);
        worker.threads = pool_threads(planning, candidate);
        add_parts(planning, &worker, &out);
    }
    return out;
}

uint64_t servers_memory_state(struct planning *planning, const struct servers_stage *stage)
{
    return stage->first < stage->end ? kept_bytes(planning, stage)->snapshot : 0;
}
