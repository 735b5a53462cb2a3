/* A job gets the fastest devices of one numeric class, because mixed classes make training inexact.
 * Several classes are used only if no single one has enough memory. */
#include "coordinator/core/placement.h"

#include <string.h>

#include "coordinator/core/avoidance.h"
#include "coordinator/core/device.h"
#include "coordinator/core/matching.h"
#include "coordinator/core/problem.h"
#include "coordinator/core/shortage.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "coordinator/core/states.h"
#include "libtrain/kernels/kernel_table.h"

#define BLOB_HEADER_BYTES 16384 /* of a unit's blob, at most */
#define CLASSES_MAX 16          /* numeric classes that are compared */

static bool is_candidate(const struct core *core, const struct placement_request *request,
                         const struct device_slot *device)
{
    const struct job_spec *spec = request->spec;
    if (!matching_labels(spec, &device->device) || !matching_class(spec, &device->device) ||
        !matching_kernels(request, &device->device)) {
        return false;
    }
    if (request->candidates == CANDIDATES_KNOWN) {
        return true;
    }
    if (device_absent(&request->without, device) ||
        avoidance_has(core, request->job, device, request->avoid)) {
        return false;
    }
    if (request->candidates == CANDIDATES_ONLINE) {
        return device_ready(device);
    }
    bool is_free = !device->job || device->job == request->job;
    return device_ready(device) && is_free && !(core->in_pass && device->reserved == core->pass);
}

size_t placement_count(struct core *core, const struct placement_request *request)
{
    core->candidate_count = 0;
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = slots_device_at(core, i);
        if (is_candidate(core, request, device)) {
            core->candidate[core->candidate_count++] = device;
        }
    }
    return core->candidate_count;
}

size_t placement_there(const struct core *core, const struct placement_request *request,
                       uint64_t *bytes)
{
    size_t count = 0;
    *bytes = 0;
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        if (is_candidate(core, request, device)) {
            int64_t free_bytes = device->device.probe.free_memory_bytes;
            *bytes += free_bytes > 0 ? (uint64_t)free_bytes : 0;
            count++;
        }
    }
    return count;
}

/* ---- choosing ---- */

static double merit(const struct placement_request *request, const struct device_slot *device)
{
    return request->candidates == CANDIDATES_KNOWN ? (double)device->device.probe.free_memory_bytes
                                                   : device->device.probe.gemm_gflops;
}

/* The best candidates of a numeric class (NULL: of any), best first, ties in the order of ids. */
static size_t choose_best(const struct core *core, const struct placement_request *request,
                          const char *numeric_class, size_t most, struct device_slot **chosen)
{
    size_t count = 0;
    for (size_t i = 0; i < core->candidate_count; i++) {
        struct device_slot *device = core->candidate[i];
        if (numeric_class && strcmp(device->device.numeric_class, numeric_class) != 0) {
            continue;
        }
        size_t at = count;
        while (at > 0 && merit(request, chosen[at - 1]) < merit(request, device)) {
            at--;
        }
        if (at == most) {
            continue;
        }
        count = count < most ? count + 1 : most;
        for (size_t k = count - 1; k > at; k--) {
            chosen[k] = chosen[k - 1];
        }
        chosen[at] = device;
    }
    return count;
}

static double total_merit(const struct placement_request *request,
                          struct device_slot *const *chosen, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += merit(request, chosen[i]);
    }
    return sum;
}

/* The class that can do the job fastest; the job's own as long as it can do it at all. NULL: none
 * has enough devices. */
static const char *choose_class(const struct core *core, const struct placement_request *request,
                                size_t least, size_t most)
{
    const char *seen[CLASSES_MAX], *best = NULL;
    size_t seen_count = 0;
    double best_merit = -1;
    for (size_t i = 0; i < core->candidate_count && seen_count < CLASSES_MAX; i++) {
        const char *numeric_class = core->candidate[i]->device.numeric_class;
        size_t known = 0;
        while (known < seen_count && strcmp(seen[known], numeric_class) != 0) {
            known++;
        }
        if (known < seen_count) {
            continue;
        }
        seen[seen_count++] = numeric_class;
        struct device_slot *chosen[STAGES_MAX];
        size_t count = choose_best(core, request, numeric_class, most, chosen);
        double sum = total_merit(request, chosen, count);
        if (count < least) {
            continue;
        }
        if (request->job && strcmp(request->job->job.numeric_class, numeric_class) == 0) {
            return numeric_class;
        }
        if (sum > best_merit) {
            best = numeric_class;
            best_merit = sum;
        }
    }
    return best;
}

/* The order of the stages is the order of ids. */
static void set_devices(struct planning *planning, struct device_slot *const *chosen, size_t count)
{
    planning->device_count = count;
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        while (at > 0 &&
               strcmp(planning->device[at - 1]->device.id.text, chosen[i]->device.id.text) > 0) {
            planning->device[at] = planning->device[at - 1];
            at--;
        }
        planning->device[at] = chosen[i];
    }
}

static void leave_out_smallest(struct planning *planning)
{
    size_t smallest = 0;
    for (size_t i = 1; i < planning->device_count; i++) {
        if (planning->cap_bytes[i] <
            planning->cap_bytes[smallest]) { /* as of the attempt that failed */
            smallest = i;
        }
    }
    planning->device_count--;
    for (size_t i = smallest; i < planning->device_count; i++) {
        planning->device[i] = planning->device[i + 1];
    }
}

/* Every stage has at least one unit, so a device too small for any unit prevents every plan. The
 * smallest devices are left out until the model fits. */
static int solve_with_fewer(struct core *core, const struct placement_request *request,
                            size_t least, struct err *err)
{
    struct planning *planning = core->planning;
    int rc = problem_solve(core, request->job, NULL, err);
    while (rc == ERR_MEMORY && planning->device_count > least) {
        leave_out_smallest(planning);
        struct err fewer = {0};
        rc = problem_solve(core, request->job, NULL, &fewer);
    }
    return rc;
}

/* ---- requested plans ---- */

static int requested_devices(struct core *core, const struct placement_request *request,
                             struct err *err)
{
    const struct replan_request *wanted = request->wanted;
    struct planning *planning = core->planning;
    planning->device_count = wanted->device_count;
    for (size_t i = 0; i < wanted->device_count; i++) {
        struct device_slot *device = slots_device(core, wanted->device[i].text);
        if (!device) {
            return err_set(err, ERR_INVALID, "/devices/%zu: unknown device '%s'", i,
                           wanted->device[i].text);
        }
        if (!is_candidate(core, request, device)) {
            return err_set(err, ERR_STATE, "device '%s' is not available to this job",
                           device->device.name);
        }
        planning->device[i] = device;
    }
    return 0;
}

/* A waiting job shows what it waits for; a running one rejects the request. */
static int too_many_stages(const struct core *core, const struct placement_request *request,
                           size_t there, struct err *err)
{
    size_t cuts = request->wanted->cut_count;
    if (!request->job || !states_plan_active(request->job)) {
        return shortage_explain(core, request, cuts + 1, there, err);
    }
    return err_set(
        err, ERR_STATE, "%zu stage boundar%s %zu stages; %zu device%s available to this job", cuts,
        cuts == 1 ? "y makes" : "ies make", cuts + 1, there, there == 1 ? " is" : "s are");
}

static int place_requested(struct core *core, const struct placement_request *request,
                           struct err *err)
{
    const struct replan_request *wanted = request->wanted;
    struct planning *planning = core->planning;
    size_t units = request->model->unit_count,
           count = wanted->has_cuts ? wanted->cut_count + 1 : wanted->device_count;
    size_t end[STAGES_MAX];
    size_t least = (size_t)request->spec->devices_min, most = (size_t)request->spec->devices_max;
    const char *where = wanted->has_cuts ? "/cuts" : "/devices";
    if (count > units || count > STAGES_MAX) {
        return err_set(err, ERR_INVALID, "%s: %zu stages, but the model has %zu unit%s", where,
                       count, units, units == 1 ? "" : "s");
    }
    if (count < least || count > most) {
        return err_set(err, ERR_INVALID, "%s: %zu stage%s, but the job requests %zu to %zu devices",
                       where, count, count == 1 ? "" : "s", least, most);
    }
    if (wanted->device_count > 0) {
        int rc = requested_devices(core, request, err);
        if (rc != 0) {
            return rc;
        }
    } else {
        const char *numeric_class = choose_class(core, request, count, count);
        struct device_slot *chosen[STAGES_MAX];
        size_t found = choose_best(core, request, numeric_class, count, chosen);
        if (found < count) {
            return too_many_stages(core, request, found, err);
        }
        set_devices(planning, chosen, count);
    }
    if (!wanted->has_cuts) {
        return problem_solve(core, request->job, NULL, err);
    }
    for (size_t i = 0; i < wanted->cut_count; i++) {
        end[i] = (size_t)wanted->cut[i];
    }
    end[wanted->cut_count] = units;
    return problem_solve(core, request->job, end, err);
}

const struct replan_request *placement_first_request(const struct job_spec *spec,
                                                     int64_t generation, struct replan_request *out)
{
    if (spec->cut_count == 0 || generation > 0) {
        return NULL;
    }
    memset(out, 0, sizeof(*out));
    memcpy(out->cut, spec->cut, sizeof(out->cut));
    out->cut_count = spec->cut_count;
    out->has_cuts = true;
    return out;
}

static int choose(struct core *core, const struct placement_request *request,
                  enum recompute recompute, struct err *err)
{
    struct planning *planning = core->planning;
    planning->stamp++;
    planning->memory_work = 0;
    planning->recompute = recompute;
    planning->spec = request->spec;
    planning->model = request->model;
    planning->first_fit = request->candidates == CANDIDATES_KNOWN;
    planning->caps = request->avoid != AVOID_NONE;
    size_t there = placement_count(core, request);
    if (request->wanted && (request->wanted->has_cuts || request->wanted->device_count > 0)) {
        return place_requested(core, request, err);
    }
    size_t least = (size_t)request->spec->devices_min, most = (size_t)request->spec->devices_max;
    most = most < request->model->unit_count ? most : request->model->unit_count;
    most = most < STAGES_MAX ? most : STAGES_MAX;
    if (there < least) {
        return shortage_explain(core, request, least, there, err);
    }
    if (least > most) {
        return err_set(err, ERR_INVALID, "%zu devices, but the model has %zu units", least,
                       request->model->unit_count);
    }
    struct device_slot *chosen[STAGES_MAX];
    const char *numeric_class =
        request->candidates == CANDIDATES_KNOWN ? NULL : choose_class(core, request, least, most);
    size_t count = choose_best(core, request, numeric_class, most, chosen);
    set_devices(planning, chosen, count);
    int rc = solve_with_fewer(core, request, least, err);
    if (rc == ERR_MEMORY && numeric_class) {
        /* One class is not enough: better inexact than not at all. */
        struct err mixed = {0};
        count = choose_best(core, request, NULL, most, chosen);
        set_devices(planning, chosen, count);
        rc = solve_with_fewer(core, request, least, &mixed);
    }
    return rc;
}

int placement_choose(struct core *core, const struct placement_request *request, struct err *err)
{
    int rc = choose(core, request, request->spec->recompute, err);
    if (rc == ERR_MEMORY && !request->job && request->spec->recompute == RECOMPUTE_NONE) {
        struct err again = {0};
        bool fits = choose(core, request, RECOMPUTE_UNIT, &again) == 0;
        rc = fits ? err_wrap(err, "it fits with \"recompute\": \"unit\"") : rc;
    }
    return rc;
}

bool placement_one_class(const struct planning *planning)
{
    for (size_t i = 1; i < planning->device_count; i++) {
        if (strcmp(planning->device[i]->device.numeric_class,
                   planning->device[0]->device.numeric_class) != 0) {
            return false;
        }
    }
    return true;
}

static uint64_t stage_state(const struct planning *planning, size_t device)
{
    size_t first = device == 0 ? 0 : planning->plan.end[device - 1];
    return planning->stage_bytes[first][planning->plan.end[device]].bytes.snapshot;
}

/* Two versions of the stage before it in the ring, with the metadata of the blobs, as far as there
 * is memory. */
static uint64_t replica_bytes(const struct planning *planning, size_t device)
{
    size_t count = planning->device_count;
    uint64_t used = planning->plan.memory_bytes[device], cap = planning->cap_bytes[device];
    if (count < 2 || planning->spec->neighbor_every == 0 || used >= cap) {
        return 0;
    }
    size_t before = (device + count - 1) % count;
    size_t first = before == 0 ? 0 : planning->plan.end[before - 1];
    uint64_t headers = (planning->plan.end[before] - first) * BLOB_HEADER_BYTES;
    uint64_t wanted = 2 * (stage_state(planning, before) + headers);
    return wanted < cap - used ? wanted : cap - used;
}

uint64_t placement_state_bytes(const struct planning *planning)
{
    uint64_t bytes = 0;
    for (size_t d = 0; d < planning->device_count; d++) {
        bytes += stage_state(planning, d);
    }
    return bytes;
}

void placement_as_request(const struct plan *plan, struct replan_request *out)
{
    memset(out, 0, sizeof(*out));
    out->has_cuts = true;
    for (size_t s = 0; s < plan->stage_count; s++) {
        out->device[out->device_count++] = plan->stage[s].device;
        if (s + 1 < plan->stage_count) {
            out->cut[out->cut_count++] = plan->stage[s].end;
        }
    }
}

void placement_fill(const struct planning *planning, struct plan *plan)
{
    const struct partition_plan *found = &planning->plan;
    size_t units = planning->model->unit_count, first = 0;
    plan->stage_count = planning->device_count;
    plan->predicted_step_seconds = found->step_seconds;
    plan->predicted_efficiency =
        found->step_seconds > 0 ? found->bound_seconds / found->step_seconds : 0;
    for (size_t d = 0; d < planning->device_count; d++) {
        struct plan_stage *stage = &plan->stage[d];
        *stage = (struct plan_stage){
            .device = planning->device[d]->device.id,
            .first = (int64_t)first,
            .end = (int64_t)found->end[d],
            .in_flight = (int64_t)found->in_flight[d],
            .memory_bytes = (int64_t)(found->memory_bytes[d] + replica_bytes(planning, d)),
            .replica_bytes = (int64_t)replica_bytes(planning, d),
            .memory = problem_memory(planning, d),
            .predicted_busy = found->busy[d],
        };
        stage->memory.replicas_bytes = stage->replica_bytes;
        for (size_t u = first; u < found->end[d]; u++) {
            stage->predicted_forward_seconds += planning->forward_seconds[d * units + u];
            stage->predicted_backward_seconds += planning->backward_seconds[d * units + u];
        }
        first = found->end[d];
    }
}
