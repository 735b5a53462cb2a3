/* A pipeline on given devices as a problem of coordinator/plan: times, boundary tensors, links and
 * memory. */
#include "coordinator/core/placement/problem.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/core/placement/codecs.h"
#include "coordinator/core/placement/pool.h"
#include "coordinator/core/state/planning.h"
#include "libtrain/memory/memory.h"
#include "libtrain/schedule/link.h"
#include "schema/job_check.h"

_Static_assert(STAGES_MAX <= PARTITION_STAGES_MAX &&
                   PLANNING_DEVICES_MAX <= PARTITION_DEVICES_MAX &&
                   UNITS_MAX <= PARTITION_UNITS_MAX,
               "every plan can be made");
_Static_assert(MODEL_UNITS_MAX <= UNITS_MAX, "every model can be planned");
_Static_assert(sizeof(struct partition_plan) <= SOLUTION_OWN_MAX, "a solution holds the plan");

struct problem_scratch {
    struct partition_scratch *search;
    struct partition_plan plan; /* of the solution */
};

int problem_scratch_new(void **out, struct err *err)
{
    struct problem_scratch *scratch = calloc(1, sizeof(*scratch));
    if (!scratch) {
        return err_set(err, ERR_MEMORY, "out of memory for a question about a pipeline");
    }
    *out = scratch;
    return partition_scratch_new(&scratch->search, err);
}

void problem_scratch_free(void *arg)
{
    struct problem_scratch *scratch = arg;
    partition_scratch_free(&scratch->search);
    free(scratch);
}

static struct problem_scratch *scratch_of(const struct planning *planning)
{
    return planning->scratch[STRATEGY_PIPELINE];
}

const struct partition_plan *problem_plan(const struct planning *planning)
{
    return &scratch_of(planning)->plan;
}

/* Work of one op in the plan of a stage's memory, in the unit of PARTITION_MEMORY_WORK_MAX. */
#define MEMORY_WORK 0.7

static struct memory_request request_of(const struct planning *planning, size_t first, size_t end)
{
    const struct job_spec *spec = &planning->spec;
    const enum codec codec = planning->widest; /* a link to an old agent needs less */
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

/* Cache the memory of each range of units: the planner asks for the same range many times. A base
 * of UINT64_MAX: more memory than is possible. */
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
            range->bytes.base +=
                pool_snapshots(planning, range->bytes.snapshot) + planning->mix_bytes;
        } else {
            range->bytes = (struct memory_growth){.base = UINT64_MAX};
        }
    }
    return &range->bytes;
}

static uint64_t stage_memory(void *arg, size_t device, size_t first, size_t end, size_t in_flight,
                             size_t stage_count)
{
    struct planning *planning = arg;
    const struct memory_growth *range = range_bytes(planning, first, end);
    uint64_t more_threads = planning->pool_threads[device] - 1;
    const size_t more_versions = job_versions(&planning->spec, stage_count, in_flight) - 1;
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
    const struct partition_plan *plan = problem_plan(planning);
    size_t first = stage == 0 ? 0 : plan->end[stage - 1];
    struct memory_request request = request_of(planning, first, plan->end[stage]);
    struct memory_bytes bytes;
    request.in_flight = plan->in_flight[stage];
    request.threads = pool_threads(planning, planning->solution.chosen[stage]);
    request.versions = job_versions(&planning->spec, plan->stage_count, request.in_flight);
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
        .snapshots_bytes = (int64_t)(bytes.snapshot + pool_snapshots(planning, bytes.snapshot) +
                                     planning->mix_bytes)};
}

uint64_t problem_state_bytes(struct planning *planning, size_t stage)
{
    const struct partition_plan *plan = problem_plan(planning);
    size_t first = stage == 0 ? 0 : plan->end[stage - 1];
    return range_bytes(planning, first, plan->end[stage])->snapshot;
}

/* ---- the problem ---- */

/* Write the present stages with indices of the pool. Return their count. */
static size_t take_present(struct planning *planning)
{
    const struct replan_request *present =
        planning->has_present ? &planning->present : &planning->stay;
    if (!present->has_cuts || present->device_count == 0) {
        return 0;
    }
    for (size_t s = 0; s < present->device_count; s++) {
        const size_t d = planning_find(planning, present->device[s].text);
        const size_t at = d < planning->device_count ? planning->pool_of[d] : 0;
        planning->present_device[s] = at > 0 ? at - 1 : SIZE_MAX;
        planning->present_end[s] =
            s < present->cut_count ? (size_t)present->cut[s] : planning->model->unit_count;
    }
    return present->device_count;
}

static void take_units(struct planning *planning)
{
    const struct model *model = planning->model;
    uint64_t samples = (uint64_t)(planning->spec.batch / planning->spec.micro_batches);
    cost_count(model, planning->cost);
    for (size_t u = 0; u < model->unit_count; u++) {
        planning->border_bytes[u] = planning->cost[u].output_bytes * samples;
        planning->state_bytes[u] = planning->cost[u].parameter_bytes;
        planning->unit_name[u] = model->unit[u].name;
    }
}

/* Write the codecs of the search. Return their count. */
static size_t take_codecs(struct planning *planning, bool coded)
{
    const bool is_auto = planning->spec.compression == COMPRESSION_AUTO;
    const enum codec named = codecs_wanted(&planning->spec);
    const size_t count = is_auto && coded ? CODECS_AUTO : named != CODEC_NONE ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        planning->codec[i] = codecs_cost(is_auto ? codecs_auto[i] : named);
    }
    return count;
}

/* If one candidate has an old agent, all stages use the greedy order. */
static enum partition_order order_of(const struct planning *planning)
{
    bool strict = true;
    for (size_t i = 0; i < planning->pool_count; i++) {
        strict = strict && planning->device[planning->pool[i]].strict;
    }
    return strict ? PARTITION_EITHER : PARTITION_GREEDY;
}

static struct partition_problem problem_of(struct planning *planning,
                                           const struct problem_request *request, bool coded)
{
    static const struct link_sums none;
    take_units(planning);
    pool_take(planning);
    return (struct partition_problem){
        .unit_count = planning->model->unit_count,
        .device_count = planning->pool_count,
        .stages_min = request->stages_min,
        .stages_max = request->stages_max,
        .row = planning->pool,
        .forward_seconds = planning->forward_seconds,
        .backward_seconds = planning->backward_seconds,
        .update_seconds = planning->update_seconds,
        .processor_share = planning->pool_share,
        .overhead_seconds = planning->pool_overhead,
        .overhead_seconds_per_byte = planning->pool_overhead_per_byte,
        .border_bytes = planning->border_bytes,
        .state_bytes = planning->state_bytes,
        .usual_link = link_estimate(&none),
        .pair = planning->pair,
        .pair_count = pool_links(planning),
        .codec = planning->codec,
        .codec_count = take_codecs(planning, coded),
        .codec_gain = CODECS_AUTO_GAIN,
        .memory_cap_bytes = planning->pool_cap_bytes,
        .memory_class = planning->pool_threads,
        .stage_memory = stage_memory,
        .arg = planning,
        .work_max = planning->work_max * request->work_share,
        .memory_work = &planning->memory_work,
        .memory_work_max = planning->memory_max,
        .micro_batches = (size_t)planning->spec.micro_batches,
        .clips_norm = planning->spec.optimizer.clip_norm > 0,
        .order = order_of(planning),
        .async = planning->spec.pipeline == JOB_ASYNC,
        .one_version = planning->spec.vertical_sync,
        .first_fit = planning->first_fit,
        .in_order = request->in_order,
        .end = request->end,
        .end_count = request->end_count,
        .present_device = planning->present_device,
        .present_end = planning->present_end,
        .present_count = take_present(planning),
        .cancelled = planning->cancelled,
        .unit_name = planning->unit_name,
        .device_name = planning->device_name,
    };
}

/* The memory of stages is cached for one codec. */
static void set_widest(struct planning *planning, enum codec codec)
{
    planning->stamp += planning->widest != codec;
    planning->widest = codec;
}

/* The memory of stages is cached for one backend, that of the pool. */
static void set_backend(struct planning *planning)
{
    planning->stamp += planning->backend != pool_backend(planning);
    planning->backend = pool_backend(planning);
}

/* Run one search. coded: the planner chooses codecs. */
static int solve(struct planning *planning, const struct problem_request *request, bool coded,
                 struct err *err)
{
    set_backend(planning);
    set_widest(planning, coded ? codecs_auto[1] : codecs_wanted(&planning->spec));
    planning->problem = problem_of(planning, request, coded);
    struct solution *out = &planning->solution;
    struct partition_plan *plan = &scratch_of(planning)->plan;
    int rc = partition_solve(&planning->problem, scratch_of(planning)->search, plan, err);
    if (rc != 0) {
        return rc;
    }
    planning->work += plan->work;
    out->stage_count = plan->stage_count;
    out->step_seconds = plan->step_seconds;
    for (size_t s = 0; s < out->stage_count; s++) {
        out->chosen[s] = planning->pool[plan->device[s]];
    }
    memcpy(out->own, plan, sizeof(*plan));
    return 0;
}

/* Keep the devices of the pool that have codecs. false: a stage would have no device. */
static bool keep_coding(struct planning *planning, const struct problem_request *request)
{
    size_t count = 0;
    for (size_t i = 0; i < planning->pool_count; i++) {
        const size_t d = planning->pool[i];
        if (planning->device[d].codecs != CODECS_NO) {
            planning->pool[count++] = d;
        } else if (request->in_order) {
            return false;
        }
    }
    planning->pool_count = count;
    return count >= 2 && count >= request->stages_min;
}

/* Use codecs, among the devices that have them, if the plan is then faster by CODECS_AUTO_GAIN. The
 * last search must be that of the answer, for problem_left_out. */
static int solve_auto(struct planning *planning, const struct problem_request *request,
                      struct err *err)
{
    struct problem_request share = *request;
    share.work_share /= 3;
    int rc = solve(planning, &share, false, err);
    if (rc != 0) {
        return rc;
    }
    const double plain_seconds = planning->solution.step_seconds;
    const size_t plain_count = planning->pool_count;
    size_t *plain = planning->uncoded_pool;
    memcpy(plain, planning->pool, plain_count * sizeof(plain[0]));
    struct err failure = {0};
    if (keep_coding(planning, request) && solve(planning, &share, true, &failure) == 0 &&
        planning->solution.step_seconds * (1 + CODECS_AUTO_GAIN) < plain_seconds) {
        return 0;
    }
    memcpy(planning->pool, plain, plain_count * sizeof(plain[0]));
    planning->pool_count = plain_count;
    return solve(planning, &share, false, err);
}

int problem_solve(struct planning *planning, const struct problem_request *request, struct err *err)
{
    const bool is_auto = planning->spec.compression == COMPRESSION_AUTO && planning->codes;
    return is_auto ? solve_auto(planning, request, err) : solve(planning, request, false, err);
}

void problem_left_out(struct planning *planning)
{
    planning->left_out_count = partition_left_out(&planning->problem, scratch_of(planning)->search,
                                                  &scratch_of(planning)->plan, planning->left_out);
}

void problem_expect(struct planning *planning)
{
    struct partition_plan plan = *problem_plan(planning);
    const struct problem_request request = {.in_order = true};
    bool coded = false;
    planning->pool_count = plan.stage_count;
    for (size_t s = 0; s < plan.stage_count; s++) {
        planning->pool[s] = planning->solution.chosen[s];
        plan.device[s] = s;
        coded = coded || plan.codec[s] > 0;
    }
    planning->problem = problem_of(planning, &request, coded);
    planning->problem.forward_seconds = planning->expected_forward_seconds;
    planning->problem.backward_seconds = planning->expected_backward_seconds;
    for (size_t s = 0; s < plan.stage_count; s++) {
        planning->pool_cap_bytes[s] = UINT64_MAX; /* the present plan fits */
    }
    partition_play(&planning->problem, scratch_of(planning)->search, &plan);
    memcpy(plan.device, problem_plan(planning)->device, sizeof(plan.device));
    scratch_of(planning)->plan = plan;
}

static enum codec codec_of(const struct planning *planning, size_t stage)
{
    const bool is_auto = planning->spec.compression == COMPRESSION_AUTO;
    return codecs_of_link(is_auto ? codecs_auto[problem_plan(planning)->codec[stage]]
                                  : codecs_wanted(&planning->spec),
                          planning->device[planning->solution.chosen[stage]].codecs,
                          planning->device[planning->solution.chosen[stage + 1]].codecs);
}

struct plan_link problem_link(const struct planning *planning, size_t stage)
{
    const struct partition_plan *plan = problem_plan(planning);
    const enum codec codec = codec_of(planning, stage);
    const uint64_t values = planning->border_bytes[plan->end[stage] - 1] / sizeof(float);
    const double bytes = (double)codec_bytes(codec, values);
    return (struct plan_link){.codec = (int)codec,
                              .bytes = (int64_t)bytes,
                              .predicted_seconds = plan->link[stage].latency_seconds +
                                                   bytes / plan->link[stage].bytes_per_second};
}

struct plan_bottleneck problem_bottleneck(const struct planning *planning)
{
    const struct partition_plan *plan = problem_plan(planning);
    struct plan_bottleneck most = {.part = PART_STAGE, .busy = plan->busy[0]};
    for (size_t s = 1; s < plan->stage_count; s++) {
        if (plan->link_busy[s - 1] > most.busy) {
            most = (struct plan_bottleneck){PART_LINK, (int64_t)s - 1, plan->link_busy[s - 1]};
        }
        if (plan->busy[s] > most.busy) {
            most = (struct plan_bottleneck){PART_STAGE, (int64_t)s, plan->busy[s]};
        }
    }
    return most;
}

void problem_continue(struct planning *planning)
{
    struct partition_plan *plan = &scratch_of(planning)->plan;
    bool coded = false;
    memcpy(plan, planning->solution.own, sizeof(*plan));
    for (size_t s = 0; s + 1 < plan->stage_count; s++) {
        coded = coded || plan->codec[s] > 0;
    }
    set_widest(planning, coded ? codecs_auto[1] : codecs_wanted(&planning->spec));
}

void problem_fit_alone(struct planning *planning, bool *fits)
{
    planning->stamp++;
    planning->caps = false;
    planning->recompute = planning->spec.recompute;
    set_widest(planning, codecs_wanted(&planning->spec));
    for (size_t d = 0; d < planning->device_count; d++) {
        planning->pool[0] = d;
        planning->pool_count = 1;
        pool_take(planning);
        set_backend(planning);
        fits[d] = stage_memory(planning, 0, 0, planning->model->unit_count, 1, 1) <=
                  planning->pool_cap_bytes[0];
    }
}
