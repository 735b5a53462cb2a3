/* A job on given devices as a problem of coordinator/plan: times, boundary tensors, links and
 * memory. */
#include "coordinator/core/problem.h"

#include <string.h>

#include "coordinator/core/codecs.h"
#include "coordinator/core/planning.h"
#include "libtrain/memory/memory.h"

_Static_assert(STAGES_MAX <= PARTITION_DEVICES_MAX && UNITS_MAX <= PARTITION_UNITS_MAX,
               "every plan can be made");
_Static_assert(MODEL_UNITS_MAX <= UNITS_MAX, "every model can be planned");

/* memory_of_stage counts one copy of the state; replication takes one while another is on its way
 * and a third is committed. */
#define SNAPSHOTS_MORE 2

/* Of one op in the plan of a stage's memory: PARTITION_MEMORY_WORK_MAX. */
#define MEMORY_WORK 0.7

/* A generation is of one numeric class, or of one that was not enough: any device speaks for all.
 */
static enum conv2d_backend backend_of(const struct planning *planning)
{
    return planning->chosen_count > 0
               ? conv2d_backend_of(planning->device[planning->chosen[0]].numeric_class)
               : CONV2D_BACKEND_OWN;
}

static struct memory_request request_of(const struct planning *planning, size_t first, size_t end)
{
    const struct job_spec *spec = &planning->spec;
    const enum codec codec = codecs_wanted(spec); /* a link to an old agent needs less */
    return (struct memory_request){.first = first,
                                   .end = end,
                                   .micro_batch = (size_t)(spec->batch / spec->micro_batches),
                                   .in_flight = 1,
                                   .versions = spec->pipeline == JOB_ASYNC ? 2 : 1,
                                   .threads = 1,
                                   .codec = {codec, codec},
                                   .recompute = planning->recompute,
                                   .backend = planning->backend,
                                   .scratch = planning->arena};
}

static uint64_t snapshots_more(const struct planning *planning, uint64_t snapshot)
{
    bool replicates = planning->spec.neighbor_every > 0 || planning->spec.center_every > 0;
    return replicates ? SNAPSHOTS_MORE * snapshot : 0;
}

/* One question a range: the planner asks for the same one many times. A base of UINT64_MAX: more
 * than can be. */
static const struct memory_growth *range_bytes(struct planning *planning, size_t first, size_t end)
{
    struct stage_bytes *range = &planning->stage_bytes[first][end];
    if (range->stamp != planning->stamp) {
        const struct memory_request request = request_of(planning, first, end);
        range->stamp = planning->stamp;
        for (size_t u = first; u < end; u++) {
            planning->memory_work += MEMORY_WORK * (double)planning->model->unit[u].op_count;
        }
        if (memory_of_range(planning->model, &planning->spec.optimizer, &request, &range->bytes,
                            NULL) == 0) {
            range->bytes.base += snapshots_more(planning, range->bytes.snapshot);
        } else {
            range->bytes = (struct memory_growth){.base = UINT64_MAX};
        }
    }
    return &range->bytes;
}

static size_t threads_of(const struct planning *planning, size_t stage)
{
    size_t threads = planning->device[planning->chosen[stage]].threads;
    return threads < MEMORY_THREADS_MAX ? threads : MEMORY_THREADS_MAX;
}

static uint64_t stage_memory(void *arg, size_t device, size_t first, size_t end, size_t in_flight)
{
    struct planning *planning = arg;
    const struct memory_growth *range = range_bytes(planning, first, end);
    uint64_t more_threads = threads_of(planning, device) - 1;
    const size_t more_versions =
        job_versions(&planning->spec, planning->chosen_count, in_flight) - 1;
    uint64_t by_thread, by_flight, by_version, bytes;
    if (__builtin_mul_overflow(range->per_thread, more_threads, &by_thread) ||
        __builtin_mul_overflow(range->per_micro_batch, in_flight - 1, &by_flight) ||
        __builtin_mul_overflow(range->per_version, more_versions, &by_version) ||
        __builtin_add_overflow(range->base, by_thread, &bytes) ||
        __builtin_add_overflow(bytes, by_flight, &bytes) ||
        __builtin_add_overflow(bytes, by_version, &bytes)) {
        return UINT64_MAX;
    }
    return bytes;
}

struct plan_memory problem_memory(const struct planning *planning, size_t stage)
{
    size_t first = stage == 0 ? 0 : planning->plan.end[stage - 1];
    struct memory_request request = request_of(planning, first, planning->plan.end[stage]);
    struct memory_bytes bytes;
    request.in_flight = planning->plan.in_flight[stage];
    request.threads = threads_of(planning, stage);
    request.versions = job_versions(&planning->spec, planning->chosen_count, request.in_flight);
    if (memory_of_stage(planning->model, &planning->spec.optimizer, &request, &bytes, NULL) != 0) {
        return (struct plan_memory){0};
    }
    return (struct plan_memory){
        .parameters_bytes = (int64_t)(bytes.parameters + bytes.stashed),
        .gradients_bytes = (int64_t)bytes.gradients,
        .optimizer_bytes = (int64_t)bytes.optimizer,
        .activations_bytes = (int64_t)bytes.activations,
        .workspace_bytes = (int64_t)(bytes.workspace + bytes.packed),
        .borders_bytes = (int64_t)bytes.borders,
        .snapshots_bytes = (int64_t)(bytes.snapshot + snapshots_more(planning, bytes.snapshot))};
}

/* The numbers of the chosen devices, in the order of the stages. */
static void take_chosen(struct planning *planning)
{
    size_t units = planning->model->unit_count;
    for (size_t s = 0; s < planning->chosen_count; s++) {
        size_t d = planning->chosen[s], row = units * sizeof(double);
        const struct planning_device *device = &planning->device[d];
        memcpy(&planning->forward[s * units], &planning->forward_seconds[d * units], row);
        memcpy(&planning->backward[s * units], &planning->backward_seconds[d * units], row);
        memcpy(&planning->update[s * units], &planning->update_seconds[d * units], row);
        planning->cap_bytes[s] = planning->caps ? device->cap_bytes : device->memory_bytes;
        planning->device_name[s] = device->name;
        if (s + 1 < planning->chosen_count) {
            planning->link[s] = planning_link(planning, d, planning->chosen[s + 1]);
        }
    }
}

int problem_solve(struct planning *planning, const size_t *end, struct err *err)
{
    const struct model *model = planning->model;
    uint64_t samples = (uint64_t)(planning->spec.batch / planning->spec.micro_batches);
    if (planning->backend != backend_of(planning)) {
        planning->backend = backend_of(planning);
        planning->stamp++;
    }
    cost_count(model, planning->cost);
    for (size_t u = 0; u < model->unit_count; u++) {
        planning->border_bytes[u] =
            codec_bytes(codecs_wanted(&planning->spec),
                        planning->cost[u].output_bytes / sizeof(float) * samples);
        planning->unit_name[u] = model->unit[u].name;
    }
    take_chosen(planning);
    const struct partition_problem problem = {
        .unit_count = model->unit_count,
        .device_count = planning->chosen_count,
        .forward_seconds = planning->forward,
        .backward_seconds = planning->backward,
        .update_seconds = planning->update,
        .border_bytes = planning->border_bytes,
        .link = planning->link,
        .memory_cap_bytes = planning->cap_bytes,
        .stage_memory = stage_memory,
        .arg = planning,
        .work_max = planning->work_max,
        .memory_work = &planning->memory_work,
        .memory_work_max = planning->memory_max,
        .micro_batches = (size_t)planning->spec.micro_batches,
        .clips_norm = planning->spec.optimizer.clip_norm > 0,
        .async = planning->spec.pipeline == JOB_ASYNC,
        .one_version = planning->spec.vertical_sync,
        .first_fit = planning->first_fit,
        .unit_name = planning->unit_name,
        .device_name = planning->device_name,
    };
    int rc = end ? partition_evaluate(&problem, end, &planning->plan, err)
                 : partition_solve(&problem, &planning->plan, err);
    planning->work += rc == 0 ? planning->plan.work : 0;
    return rc;
}
