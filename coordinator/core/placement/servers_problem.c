#include "coordinator/core/placement/servers_problem.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/pages.h"
#include "coordinator/core/placement/pool.h"
#include "coordinator/core/placement/servers_memory.h"
#include "coordinator/core/state/planning_servers.h"
#include "coordinator/plan/servers_play.h"
#include "libtrain/model/layers.h"
#include "libtrain/schedule/link.h"

_Static_assert(STAGES_MAX <= SERVERS_STAGES_MAX && PLANNING_DEVICES_MAX <= SERVERS_DEVICES_MAX &&
                   UNITS_MAX <= SERVERS_UNITS_MAX && PLANNING_TIMES_MAX <= PLANNING_UNIT_TIMES_MAX,
               "every plan can be made");

_Static_assert(sizeof(struct servers_answer) <= SOLUTION_OWN_MAX, "a solution holds the answer");

/* Work of timing a share, in the unit of PARTITION_WORK_MAX. */
#define SHARE_WORK 8.0
/* Adding a sum to another reads both and writes one. */
#define ADD_PASSES 3

int servers_problem_scratch_new(void **out, struct err *err)
{
    struct planning_servers *servers = pages_new(1, sizeof(*servers));
    if (!servers) {
        return err_set(err, ERR_MEMORY, "out of memory for a question about servers");
    }
    *out = servers;
    return servers_scratch_new(SEGMENTS_LAYERS_MAX, &servers->scratch, err);
}

void servers_problem_scratch_free(void *arg)
{
    struct planning_servers *servers = arg;
    servers_scratch_free(&servers->scratch);
    pages_free(servers);
}

/* ---- layers ---- */

/* Add the operations of a unit by layer. Ops before its first layer belong to the preceding layer,
 * or to the first layer of the model. */
static void add_unit(struct planning *planning, size_t unit, size_t *layer)
{
    struct planning_servers *servers = planning_servers(planning);
    const struct unit *of = &planning->model->unit[unit];
    const size_t first_part = servers->part_count;
    struct op_cost op[MODEL_UNIT_OPS_MAX];
    double forward = 0, backward = 0;
    cost_count_ops(of, unit > model_first_trained(planning->model), op);
    for (size_t k = 0; k < of->op_count; k++) {
        *layer += layers_begins(of, k);
        const size_t at = *layer > 0 ? *layer - 1 : 0;
        struct layer_part *part = &servers->part[servers->part_count];
        if (servers->part_count == first_part || part[-1].layer != at) {
            *part = (struct layer_part){.layer = at, .unit = unit};
            servers->part_count++;
        } else {
            part--;
        }
        part->forward += op[k].forward_flops;
        part->backward += op[k].backward_flops;
        forward += op[k].forward_flops;
        backward += op[k].backward_flops;
    }
    for (size_t i = first_part; i < servers->part_count; i++) {
        const double equal = 1.0 / (double)(servers->part_count - first_part);
        struct layer_part *part = &servers->part[i];
        part->forward = forward > 0 ? part->forward / forward : equal;
        part->backward = backward > 0 ? part->backward / backward : equal;
    }
}

static int take_layers(struct planning *planning, struct err *err)
{
    struct planning_servers *servers = planning_servers(planning);
    const struct model *model = planning->model;
    static const size_t most = SEGMENTS_LAYERS_MAX;
    const struct model_layer *layer = servers->layer;
    const size_t count = layers_list(model, 0, model->unit_count, servers->layer, most);
    if (count < 1 || count > most) {
        return err_set(err, ERR_INVALID,
                       "the model has %zu layers with trained parameters; parameter_server needs 1 "
                       "to %zu",
                       count, most);
    }
    cost_count(model, planning->cost);
    servers->layer_count = count;
    for (size_t l = 0; l < count; l++) {
        servers->layer_unit[l] = layer[l].unit;
        servers->layer_bytes[l] = (double)(layer[l].floats * sizeof(float));
    }
    servers->part_count = servers->trained_before[0] = 0;
    for (size_t u = 0, layers = 0; u < model->unit_count; u++) {
        add_unit(planning, u, &layers);
        servers->trained_before[u + 1] =
            servers->trained_before[u] + planning->cost[u].trained_bytes;
    }
    return 0;
}

/* ---- devices ---- */

/* Keep only the fastest devices if the model is large, because the memory for times is limited. */
static void limit_pool(struct planning *planning)
{
    const size_t most = PLANNING_LAYER_TIMES_MAX / planning_servers(planning)->layer_count;
    while (planning->pool_count > most) {
        size_t slowest = 0;
        for (size_t i = 1; i < planning->pool_count; i++) {
            const double speed = planning->device[planning->pool[i]].gemm_gflops;
            slowest = speed < planning->device[planning->pool[slowest]].gemm_gflops ? i : slowest;
        }
        memmove(&planning->pool[slowest], &planning->pool[slowest + 1],
                (--planning->pool_count - slowest) * sizeof(planning->pool[0]));
    }
}

/* Take the times of a device of the pool, which do not include the stops of its processor. */
static void take_times(struct planning *planning, size_t at, const double *forward,
                       const double *backward)
{
    struct planning_servers *servers = planning_servers(planning);
    const size_t units = planning->model->unit_count, layers = servers->layer_count;
    const struct planning_device *device = &planning->device[planning->pool[at]];
    const double *update = &planning->update_seconds[planning->pool[at] * units];
    const double passes = (double)optimizer_update_passes(&planning->spec.optimizer);
    double *to_forward = &servers->forward_seconds[at * layers];
    double *to_backward = &servers->backward_seconds[at * layers];
    memset(to_forward, 0, layers * sizeof(to_forward[0]));
    memset(to_backward, 0, layers * sizeof(to_backward[0]));
    to_forward[0] = device->overhead_seconds / device->processor_share;
    for (size_t i = 0; i < servers->part_count; i++) {
        const struct layer_part *part = &servers->part[i];
        to_forward[part->layer] += part->forward * forward[part->unit] / device->processor_share;
        to_backward[part->layer] += part->backward * backward[part->unit] / device->processor_share;
    }
    for (size_t u = 0; u < units; u++) {
        servers->update_seconds[at * units + u] = update[u] / device->processor_share;
        servers->add_seconds[at * units + u] =
            ADD_PASSES / passes * update[u] / device->processor_share;
    }
    servers->bytes_per_second[at] =
        device->has_link ? device->link.bytes_per_second : LINK_BYTES_PER_SECOND;
    servers->may_serve[at] = device->may_serve;
    servers->may_work[at] = device->may_work;
}

static void take_devices(struct planning *planning, bool expected)
{
    const size_t units = planning->model->unit_count;
    for (size_t i = 0; i < planning->pool_count; i++) {
        const size_t row = planning->pool[i] * units;
        take_times(
            planning, i,
            (expected ? planning->expected_forward_seconds : planning->forward_seconds) + row,
            (expected ? planning->expected_backward_seconds : planning->backward_seconds) + row);
    }
}

/* ---- the problem ---- */

static void take_options(struct planning *planning, struct servers_problem *out)
{
    static const enum servers_shares shares[] = {
        [SHARES_SPEED] = SERVERS_SPEED, [SHARES_EQUAL] = SERVERS_EQUAL};
    const struct server_options *options = &planning->spec.parameter_server;
    out->automatic = options->transfers == TRANSFERS_AUTO;
    out->transfers =
        out->automatic ? SEGMENTS_OPTIMAL : (enum segments_transfers)options->transfers;
    out->segment_bytes = (double)options->segment_bytes;
    out->shares = options->share_count > 0 ? SERVERS_GIVEN : shares[options->shares];
    out->share = planning_servers(planning)->share;
    out->share_count = options->share_count;
    for (size_t i = 0; i < options->share_count; i++) {
        planning_servers(planning)->share[i] = (size_t)options->share[i];
    }
}

static void state_problem(struct planning *planning, bool expected)
{
    static const struct link_sums none;
    struct planning_servers *servers = planning_servers(planning);
    pool_take(planning);
    take_devices(planning, expected);
    servers->problem = (struct servers_problem){
        .unit_count = planning->model->unit_count,
        .device_count = planning->pool_count,
        .layer_count = servers->layer_count,
        .micro_batches = (size_t)planning->spec.micro_batches,
        .layer_unit = servers->layer_unit,
        .layer_bytes = servers->layer_bytes,
        .forward_seconds = servers->forward_seconds,
        .backward_seconds = servers->backward_seconds,
        .update_seconds = servers->update_seconds,
        .add_seconds = servers->add_seconds,
        .bytes_per_second = servers->bytes_per_second,
        .usual_link = link_estimate(&none),
        .pair = planning->pair,
        .pair_count = pool_links(planning),
        .may_serve = servers->may_serve,
        .may_work = servers->may_work,
        .memory_cap_bytes = planning->pool_cap_bytes,
        .stage_memory = servers_memory,
        .arg = planning,
        .clips_norm = planning->spec.optimizer.clip_norm > 0,
        .cancelled = planning->cancelled,
    };
    take_options(planning, &servers->problem);
}

static void take_backend(struct planning *planning, enum conv2d_backend backend)
{
    planning->stamp += planning->backend != backend;
    planning->backend = backend;
}

/* ---- given servers ---- */

static size_t pool_find(const struct planning *planning, const struct device_id *id)
{
    size_t i = 0;
    while (i < planning->pool_count &&
           !id_equal(planning->device[planning->pool[i]].id.text, id->text)) {
        i++;
    }
    return i;
}

/* Take the servers that the job names. */
static int take_places(struct planning *planning, struct err *err)
{
    const struct server_options *options = &planning->spec.parameter_server;
    struct planning_servers *servers = planning_servers(planning);
    const char *role = planning->shortage.role;
    for (size_t s = 0; s < options->place_count; s++) {
        servers->server_device[s] = pool_find(planning, &options->place[s].device);
        servers->server_end[s] = (size_t)options->place[s].end;
        if (servers->server_device[s] == planning->pool_count) {
            return role[0] != '\0'
                       ? err_set(err, ERR_STATE, "waits for its servers: %.180s", role)
                       : err_set(err, ERR_STATE, "server '%s' is not available to this job",
                                 options->place[s].device.text);
        }
    }
    servers->problem.server_count = options->place_count;
    return 0;
}

/* Take the servers of the request: its first devices, in their order. */
static int take_ends(struct planning *planning, const struct problem_request *request,
                     struct err *err)
{
    struct planning_servers *servers = planning_servers(planning);
    if (!request->in_order) {
        return err_set(
            err, ERR_INVALID,
            "/cuts: boundaries of servers need /devices; or request a number of servers");
    }
    if (request->end_count > SERVERS_MAX) {
        return err_set(err, ERR_INVALID, "/cuts: %zu servers, at most %d", request->end_count,
                       SERVERS_MAX);
    }
    for (size_t s = 0; s < request->end_count; s++) {
        servers->server_device[s] = s;
        servers->server_end[s] = request->end[s];
    }
    servers->problem.server_count = request->end_count;
    return 0;
}

static int take_servers(struct planning *planning, const struct problem_request *request,
                        struct err *err)
{
    const struct server_options *options = &planning->spec.parameter_server;
    struct planning_servers *servers = planning_servers(planning);
    struct servers_problem *problem = &servers->problem;
    problem->stages_min = request->stages_min;
    problem->stages_max = request->stages_max;
    problem->server_count = request->servers > 0 ? request->servers : (size_t)options->servers;
    if (!request->end && (request->servers > 0 || options->place_count == 0)) {
        return 0;
    }
    problem->server_device = servers->server_device;
    problem->server_end = servers->server_end;
    return request->end ? take_ends(planning, request, err) : take_places(planning, err);
}

/* Check that there are as many devices of each kind as the request and the job need. */
static int check_roles(const struct planning *planning, struct err *err)
{
    const struct servers_problem *problem = &planning_servers(planning)->problem;
    const size_t shares = problem->shares == SERVERS_GIVEN ? problem->share_count : 1;
    const char *missing = planning->shortage.role;
    struct {
        const char *what;
        size_t wanted, there;
    } role[] = {{"server", problem->server_count > 0 ? problem->server_count : 1, 0},
                {"worker", shares, 0}};
    for (size_t i = 0; i < planning->pool_count; i++) {
        role[0].there += planning_servers(planning)->may_serve[i];
        role[1].there += planning_servers(planning)->may_work[i];
    }
    for (size_t i = 0; i < 2; i++) {
        if (role[i].there < role[i].wanted) {
            return err_set(err, ERR_STATE, "waits for %zu %s%s, of which %zu are available%s%.150s",
                           role[i].wanted, role[i].what, role[i].wanted == 1 ? "" : "s",
                           role[i].there, missing[0] != '\0' ? ": " : "", missing);
        }
    }
    return 0;
}

/* ---- the answer ---- */

/* A lower bound of the step: the fastest devices that may work share the work without transfers. */
static double least_seconds(const struct planning *planning)
{
    const struct servers_problem *problem = &planning_servers(planning)->problem;
    double rate = 0;
    for (size_t d = 0; d < problem->device_count; d++) {
        double seconds = 0;
        for (size_t l = 0; l < problem->layer_count; l++) {
            const size_t at = d * problem->layer_count + l;
            seconds += problem->forward_seconds[at] + problem->backward_seconds[at];
        }
        rate += problem->may_work[d] && seconds > 0 ? 1 / seconds : 0;
    }
    return rate > 0 ? (double)problem->micro_batches / rate : 0;
}

/* Convert devices of the problem to candidates. */
static void take_answer(struct planning *planning)
{
    struct solution *out = &planning->solution;
    struct servers_plan *plan = &planning_servers(planning)->answer.plan;
    out->stage_count = plan->stage_count;
    out->step_seconds = plan->step_seconds;
    for (size_t s = 0; s < out->stage_count; s++) {
        out->chosen[s] = planning->pool[plan->stage[s].device];
        plan->stage[s].device = out->chosen[s];
    }
}

/* Time the stages of a request. The pool has their devices in the order of the stages. */
static int play(struct planning *planning, const struct problem_request *request, struct err *err)
{
    struct servers_stage stage[STAGES_MAX];
    for (size_t s = 0; s < request->stages_max; s++) {
        const struct plan_stage *given = &request->given[s];
        stage[s] =
            (struct servers_stage){.device = s,
                                   .first = (size_t)given->first,
                                   .end = (size_t)given->end,
                                   .share = {(size_t)given->share_first, (size_t)given->share_end}};
    }
    return servers_play(&planning_servers(planning)->problem, planning_servers(planning)->scratch,
                        stage, request->stages_max, &planning_servers(planning)->answer.plan, err);
}

static int search(struct planning *planning, const struct problem_request *request, struct err *err)
{
    struct planning_servers *servers = planning_servers(planning);
    int rc = take_servers(planning, request, err);
    rc = rc ? rc : check_roles(planning, err);
    if (rc) {
        return rc;
    }
    servers->problem.work_max = planning->work_max * request->work_share / SHARE_WORK;
    rc = servers_solve(&servers->problem, servers->scratch,
                       &planning_servers(planning)->answer.plan, err);
    const double work = servers_scratch_work(servers->scratch);
    planning->work += SHARE_WORK * work;
    planning->hasty = planning->hasty || work >= servers->problem.work_max;
    return rc;
}

/* Whether the stage fits on a device of the pool that may run it. *least: the least bytes that it
 * needs; *most: the most bytes of such a device. */
static bool fits(struct planning *planning, struct servers_stage stage, const bool *may,
                 uint64_t *least, uint64_t *most)
{
    bool fits = false;
    *least = UINT64_MAX;
    *most = 0;
    for (size_t i = 0; i < planning->pool_count; i++) {
        stage.device = i;
        const uint64_t bytes = servers_memory(planning, &stage);
        const uint64_t cap = planning->pool_cap_bytes[i];
        fits = fits || (may[i] && bytes <= cap);
        *least = bytes < *least ? bytes : *least;
        *most = may[i] && cap > *most ? cap : *most;
    }
    return fits;
}

/* Explain the lack of memory: a step needs a worker with memory for the whole model, and a server
 * for each unit. */
static int explain_memory(struct planning *planning, struct err *err)
{
    const struct planning_servers *servers = planning_servers(planning);
    const struct servers_stage worker = {.share = {0, 1}};
    uint64_t least, most;
    if (!fits(planning, worker, servers->may_work, &least, &most)) {
        return err_set(err, ERR_MEMORY,
                       "the whole model does not fit on any worker: it needs %" PRIu64
                       " bytes, at most %" PRIu64 " are available",
                       least, most);
    }
    for (size_t u = 0; u < planning->model->unit_count; u++) {
        const struct servers_stage unit = {.first = u, .end = u + 1, .sums = 1};
        if (!fits(planning, unit, servers->may_serve, &least, &most)) {
            return err_set(err, ERR_MEMORY,
                           "unit '%s' does not fit on any server: it needs %" PRIu64
                           " bytes, at most %" PRIu64 " are available",
                           planning->model->unit[u].name, least, most);
        }
    }
    return ERR_MEMORY;
}

int servers_problem_solve(struct planning *planning, const struct problem_request *request,
                          struct err *err)
{
    int rc = take_layers(planning, err);
    if (rc) {
        return rc;
    }
    take_backend(planning, pool_backend(planning));
    limit_pool(planning);
    state_problem(planning, false);
    rc = request->given ? play(planning, request, err) : search(planning, request, err);
    if (rc == 0) {
        const double least = least_seconds(planning);
        take_answer(planning);
        struct servers_answer *answer = &planning_servers(planning)->answer;
        answer->gap = least > 0 ? planning->solution.step_seconds / least - 1 : 0;
        memcpy(planning->solution.own, answer, sizeof(*answer));
    }
    return rc == ERR_MEMORY ? explain_memory(planning, err) : rc;
}

void servers_problem_resume(struct planning *planning)
{
    const struct planning_device *first = &planning->device[planning->solution.chosen[0]];
    struct servers_answer *answer = &planning_servers(planning)->answer;
    memcpy(answer, planning->solution.own, sizeof(*answer));
    take_backend(planning, conv2d_backend_of(first->numeric_class));
}

/* Time a step of the solution. The pool has its devices in the order of its stages. */
static void play_solution(struct planning *planning, struct servers_plan *out)
{
    struct planning_servers *servers = planning_servers(planning);
    struct servers_stage stage[STAGES_MAX];
    struct err err = {0};
    for (size_t s = 0; s < planning->solution.stage_count; s++) {
        stage[s] = servers->answer.plan.stage[s];
        stage[s].device = s;
    }
    const int rc = servers_play(&servers->problem, servers->scratch, stage,
                                planning->solution.stage_count, out, &err);
    ASSERT(rc == 0); /* the search has found this plan, so it is valid */
}

void servers_problem_expect(struct planning *planning)
{
    struct solution *solution = &planning->solution;
    struct planning_servers *servers = planning_servers(planning);
    planning->pool_count = solution->stage_count;
    memcpy(planning->pool, solution->chosen, solution->stage_count * sizeof(planning->pool[0]));
    state_problem(planning, true);
    servers->problem.memory_cap_bytes = NULL; /* the solution fits */
    play_solution(planning, &servers->answer.plan);
    take_answer(planning);
}

double servers_problem_seconds(struct planning *planning, enum segments_transfers transfers)
{
    struct planning_servers *servers = planning_servers(planning);
    struct servers_plan plan;
    servers->problem.automatic = false;
    servers->problem.transfers = transfers;
    play_solution(planning, &plan);
    return plan.step_seconds;
}
