/* A job on given devices as a problem of coordinator/plan: times, boundary tensors, links and
 * memory. */
#include "coordinator/core/problem.h"

#include "coordinator/core/profile.h"
#include "coordinator/core/state.h"
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
    return planning->device_count > 0 ? conv2d_backend_of(planning->device[0]->device.numeric_class)
                                      : CONV2D_BACKEND_OWN;
}

static struct memory_request request_of(const struct planning *planning, size_t first, size_t end)
{
    const struct job_spec *spec = planning->spec;
    return (struct memory_request){.first = first,
                                   .end = end,
                                   .micro_batch = (size_t)(spec->batch / spec->micro_batches),
                                   .in_flight = 1,
                                   .threads = 1,
                                   .recompute = planning->recompute,
                                   .backend = planning->backend,
                                   .scratch = planning->scratch};
}

static uint64_t snapshots_more(const struct planning *planning, uint64_t snapshot)
{
    bool replicates = planning->spec->neighbor_every > 0 || planning->spec->center_every > 0;
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
        if (memory_of_range(planning->model, &planning->spec->optimizer, &request, &range->bytes,
                            NULL) == 0) {
            range->bytes.base += snapshots_more(planning, range->bytes.snapshot);
        } else {
            range->bytes = (struct memory_growth){.base = UINT64_MAX};
        }
    }
    return &range->bytes;
}

static size_t threads_of(const struct planning *planning, size_t device)
{
    int64_t threads = planning->device[device]->device.probe.threads;
    return threads < 1                             ? 1
           : threads > (int64_t)MEMORY_THREADS_MAX ? MEMORY_THREADS_MAX
                                                   : (size_t)threads;
}

static uint64_t stage_memory(void *arg, size_t device, size_t first, size_t end, size_t in_flight)
{
    struct planning *planning = arg;
    const struct memory_growth *range = range_bytes(planning, first, end);
    uint64_t more_threads = threads_of(planning, device) - 1;
    uint64_t by_thread, by_flight, bytes;
    if (__builtin_mul_overflow(range->per_thread, more_threads, &by_thread) ||
        __builtin_mul_overflow(range->per_micro_batch, in_flight - 1, &by_flight) ||
        __builtin_add_overflow(range->base, by_thread, &bytes) ||
        __builtin_add_overflow(bytes, by_flight, &bytes)) {
        return UINT64_MAX;
    }
    return bytes;
}

struct plan_memory problem_memory(const struct planning *planning, size_t device)
{
    size_t first = device == 0 ? 0 : planning->plan.end[device - 1];
    struct memory_request request = request_of(planning, first, planning->plan.end[device]);
    struct memory_bytes bytes;
    request.in_flight = planning->plan.in_flight[device];
    request.threads = threads_of(planning, device);
    if (memory_of_stage(planning->model, &planning->spec->optimizer, &request, &bytes, NULL) != 0) {
        return (struct plan_memory){0};
    }
    return (struct plan_memory){
        .parameters_bytes = (int64_t)bytes.parameters,
        .gradients_bytes = (int64_t)bytes.gradients,
        .optimizer_bytes = (int64_t)bytes.optimizer,
        .activations_bytes = (int64_t)bytes.activations,
        .workspace_bytes = (int64_t)(bytes.workspace + bytes.packed),
        .borders_bytes = (int64_t)bytes.borders,
        .snapshots_bytes = (int64_t)(bytes.snapshot + snapshots_more(planning, bytes.snapshot))};
}

static uint64_t cap_bytes(const struct device_slot *device, const struct job_slot *job)
{
    int64_t bytes = device->device.probe.free_memory_bytes;
    for (size_t i = 0; job && i < job->charges.cap_count; i++) {
        bool same = id_equal(job->charges.cap[i].device.text, device->device.id.text);
        bytes = same && job->charges.cap[i].bytes < bytes ? job->charges.cap[i].bytes : bytes;
    }
    return bytes > 0 ? (uint64_t)bytes : 0;
}

int problem_solve(struct core *core, const struct job_slot *job, const size_t *end, struct err *err)
{
    struct planning *planning = core->planning;
    const struct model *model = planning->model;
    uint64_t samples = (uint64_t)(planning->spec->batch / planning->spec->micro_batches);
    if (planning->backend != backend_of(planning)) {
        planning->backend = backend_of(planning);
        planning->stamp++;
    }
    cost_count(model, planning->cost);
    profile_times(planning, job);
    for (size_t u = 0; u < model->unit_count; u++) {
        planning->border_bytes[u] = planning->cost[u].output_bytes * samples;
        planning->unit_name[u] = model->unit[u].name;
    }
    for (size_t d = 0; d < planning->device_count; d++) {
        planning->cap_bytes[d] = cap_bytes(planning->device[d], planning->caps ? job : NULL);
        planning->device_name[d] = planning->device[d]->device.name;
        if (d + 1 < planning->device_count) {
            planning->link[d] = profile_link(planning->device[d], planning->device[d + 1]);
        }
    }
    const struct partition_problem problem = {
        .unit_count = model->unit_count,
        .device_count = planning->device_count,
        .forward_seconds = planning->forward_seconds,
        .backward_seconds = planning->backward_seconds,
        .update_seconds = planning->update_seconds,
        .border_bytes = planning->border_bytes,
        .link = planning->link,
        .memory_cap_bytes = planning->cap_bytes,
        .stage_memory = stage_memory,
        .arg = planning,
        .memory_work = &planning->memory_work,
        .micro_batches = (size_t)planning->spec->micro_batches,
        .clips_norm = planning->spec->optimizer.clip_norm > 0,
        .first_fit = planning->first_fit,
        .unit_name = planning->unit_name,
        .device_name = planning->device_name,
    };
    int rc = end ? partition_evaluate(&problem, end, &planning->plan, err)
                 : partition_solve(&problem, &planning->plan, err);
    planning->work += rc == 0 ? planning->plan.work : 0;
    return rc;
}
