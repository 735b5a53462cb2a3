#include "coordinator/core/placement/candidates.h"

#include <math.h>
#include <string.h>

#include "coordinator/core/capacity/profile.h"
#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/placement/assumed.h"
#include "coordinator/core/placement/shortage.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"
#include "libtrain/model/cost.h"

/* Whether the device works for another job, or an earlier job of this scheduler pass reserves it.
 */
static bool is_busy(const struct core *core, const struct placement_request *request,
                    const struct device_slot *device)
{
    return (device->job && device->job != request->job) ||
           (core->in_pass && device->reserved == core->pass);
}

bool candidates_has(const struct core *core, const struct placement_request *request,
                    const struct device_slot *device)
{
    const struct job_spec *spec = request->spec;
    if (request->question && !assumed_has(request->question, &device->device.id)) {
        return false;
    }
    if (!matching_labels(spec, &device->device) || !matching_class(spec, &device->device) ||
        !matching_protocol(request, &device->device) || !matching_data(request, &device->device) ||
        !matching_kernels(request, &device->device)) {
        return false;
    }
    if (request->candidates == CANDIDATES_KNOWN) {
        return true;
    }
    if (!device_ready(device) || device_absent(&request->without, device) ||
        avoidance_has(core, request->job, device, request->avoid)) {
        return false;
    }
    return request->candidates == CANDIDATES_ONLINE || !is_busy(core, request, device);
}

size_t candidates_list(struct core *core, const struct placement_request *request)
{
    core->candidate_count = 0;
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = slots_device_at(core, i);
        if (candidates_has(core, request, device)) {
            core->candidate[core->candidate_count++] = device;
        }
    }
    return core->candidate_count;
}

/* The memory of the device that plans may use: the free memory when it was idle, less the memory
 * that other programs have taken since. It always suffices for the stage that the device runs. */
static uint64_t memory_of(const struct device_slot *device)
{
    const int64_t idle = device->device.probe.free_memory_bytes;
    const struct job_slot *job = device->job;
    uint64_t bytes = idle > 0 ? (uint64_t)idle : 0;
    if (job && device->free_bytes > 0 && states_plan_has(&job->plan, device)) {
        const uint64_t own = (uint64_t)job->plan.stage[device->stage].memory_bytes;
        const uint64_t now = own + (uint64_t)device->free_bytes;
        bytes = now < bytes ? now : bytes;
    }
    return bytes;
}

static bool is_place(const struct server_options *servers, const struct device_slot *device)
{
    bool found = false;
    for (size_t i = 0; i < servers->place_count; i++) {
        found = found || id_equal(servers->place[i].device.text, device->device.id.text);
    }
    return found;
}

struct candidates_sum candidates_there(const struct core *core,
                                       const struct placement_request *request)
{
    const struct job_spec *spec = request->spec;
    struct candidates_sum sum = {0};
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        if (candidates_has(core, request, device)) {
            const uint64_t bytes = memory_of(device);
            const bool works = matching_workers(spec, &device->device);
            sum.count++;
            sum.servers += matching_servers(spec, &device->device);
            sum.workers += works;
            sum.places += is_place(&spec->parameter_server, device);
            sum.bytes += bytes;
            sum.most_bytes = works && bytes > sum.most_bytes ? bytes : sum.most_bytes;
        }
    }
    return sum;
}

bool candidates_suffice(const struct job_spec *spec, const struct candidates_sum *there)
{
    const struct server_options *servers = &spec->parameter_server;
    return there->count >= (size_t)spec->devices_min && there->servers > 0 &&
           there->servers >= (size_t)servers->servers && there->workers > 0 &&
           there->workers >= servers->share_count && there->places == servers->place_count;
}

/* ---- as values ---- */

/* The present devices of the job come first, so that its stages may stay. */
static double rank(const struct placement_request *request, const struct device_slot *device)
{
    return request->job && device->job == request->job ? INFINITY
           : request->candidates == CANDIDATES_KNOWN   ? (double)memory_of(device)
                                                       : device->device.probe.gemm_gflops;
}

static size_t count_above(const struct core *core, double limit)
{
    size_t count = 0;
    for (size_t i = 0; i < core->candidate_count; i++) {
        count += core->candidate_rank[i] > limit;
    }
    return count;
}

/* Keep the best candidates, in the order of ids. */
static void keep_best(struct core *core, const struct placement_request *request, size_t most)
{
    double low = -1, high = 1e18;
    size_t kept = 0;
    if (core->candidate_count <= most) {
        return;
    }
    for (size_t i = 0; i < core->candidate_count; i++) {
        core->candidate_rank[i] = rank(request, core->candidate[i]);
    }
    /* Few enough are above `high`, too many above `low`. */
    for (int i = 0; i < 100; i++) {
        double middle = low + (high - low) / 2;
        if (count_above(core, middle) > most) {
            low = middle;
        } else {
            high = middle;
        }
    }
    size_t equal = most - count_above(core, high);
    for (size_t i = 0; i < core->candidate_count; i++) {
        bool above = core->candidate_rank[i] > high;
        bool last = !above && equal > 0 && core->candidate_rank[i] > low;
        equal -= last;
        if (above || last) {
            core->candidate[kept++] = core->candidate[i];
        }
    }
    core->candidate_count = kept;
}

/* Limit the bytes of a device that ran out of memory before. */
static uint64_t cap_bytes(const struct device_slot *device, const struct job_slot *job,
                          uint64_t bytes)
{
    for (size_t i = 0; job && i < job->charges.cap_count; i++) {
        bool same = id_equal(job->charges.cap[i].device.text, device->device.id.text);
        int64_t cap = job->charges.cap[i].bytes > 0 ? job->charges.cap[i].bytes : 0;
        bytes = same && (uint64_t)cap < bytes ? (uint64_t)cap : bytes;
    }
    return bytes;
}

static void fill_device(const struct core *core, const struct placement_request *request,
                        const struct device_slot *device, struct planning_device *out)
{
    const struct job_slot *job = request->job;
    const struct device_probe *probe = &device->device.probe;
    out->id = device->device.id;
    memcpy(out->name, device->device.name, sizeof(out->name));
    memcpy(out->numeric_class, device->device.numeric_class, sizeof(out->numeric_class));
    out->gemm_gflops = probe->gemm_gflops;
    out->memory_bytes = memory_of(device);
    out->cap_bytes = cap_bytes(device, job, out->memory_bytes);
    out->threads = probe->threads > 1 ? (size_t)probe->threads : 1;
    out->codecs = codecs_of_device(&device->device);
    out->may_serve = matching_servers(request->spec, &device->device);
    out->may_work = matching_workers(request->spec, &device->device);
    out->strict = matching_strict_order(&device->device);
    out->busy = is_busy(core, request, device);
    out->avoided = job && avoidance_has(core, job, device, AVOID_ALL);
    out->failed = job && avoidance_has(core, job, device, AVOID_FAILURES);
    if (request->question && request->question->has_devices) {
        out->busy = out->avoided = out->failed = false;
    }
}

static uint64_t mix_bytes(const struct core *core, const struct placement_request *request)
{
    const struct job_slot *job = request->job;
    const struct parent_slot *parent =
        job && job->job.part == JOB_GROUP ? slots_parent(core, job->job.parent.text) : NULL;
    const size_t groups = parent ? parent->parent.gossip.member_count : request->groups;
    return groups > 0 ? mix_memory(groups, cost_state_bytes(request->model)) : 0;
}

void candidates_fill(struct core *core, const struct placement_request *request,
                     struct planning *planning)
{
    struct placement_request all = *request;
    all.avoid = AVOID_NONE;
    (void)candidates_list(core, &all);
    size_t most = PLANNING_TIMES_MAX / request->model->unit_count;
    most = most < PLANNING_DEVICES_MAX ? most : PLANNING_DEVICES_MAX;
    keep_best(core, &all, most - assumed_count(request->question));
    planning->spec = *request->spec;
    planning->spec.model.description = planning->spec.kernels = NULL;
    planning->strategy = strategy_of((enum job_strategy)request->spec->strategy);
    planning->model = request->model;
    text_set(planning->numeric_class, sizeof(planning->numeric_class), "%s",
             request->job ? request->job->job.numeric_class : "");
    planning->is_new = !request->job;
    planning->mix_bytes = mix_bytes(core, request);
    planning->is_active = request->job && states_plan_active(request->job);
    planning->attempt_count = 0;
    planning->has_present = false;
    planning->present_coded =
        request->job && request->job->has_plan && codecs_in_plan(&request->job->plan);
    planning->work_max = PARTITION_WORK_MAX;
    planning->memory_max = PARTITION_MEMORY_WORK_MAX;
    shortage_look(core, request, &planning->shortage);
    planning->device_count = core->candidate_count;
    for (size_t d = 0; d < core->candidate_count; d++) {
        fill_device(core, request, core->candidate[d], &planning->device[d]);
    }
    profile_times(core, request->is_change ? request->job : NULL, planning);
    if (request->question) {
        assumed_fill(core, request->question, planning);
    }
}
