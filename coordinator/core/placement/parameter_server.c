#include "coordinator/core/placement/parameter_server.h"

#include <string.h>

#include "coordinator/core/placement/peers.h"
#include "coordinator/core/placement/servers_memory.h"
#include "coordinator/core/placement/servers_problem.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/planning_servers.h"
#include "coordinator/core/state/state.h"
#include "schema/stage_role.h"

static bool works(const struct plan_stage *stage)
{
    return stage->share_first < stage->share_end;
}

/* ---- the plan ---- */

static bool has(const struct servers_plan *plan, size_t device)
{
    size_t s = 0;
    while (s < plan->stage_count && plan->stage[s].device != device) {
        s++;
    }
    return s < plan->stage_count;
}

static void leave_out(struct planning *planning)
{
    static const enum partition_reason reasons[] = {[SERVERS_SLOWER] = PARTITION_SLOWER,
                                                    [SERVERS_NO_MEMORY] = PARTITION_NO_MEMORY,
                                                    [SERVERS_STAGES_FULL] = PARTITION_STAGES_FULL};
    const struct servers_plan *plan = &planning_servers(planning)->answer.plan;
    planning->left_out_count = 0;
    for (size_t i = 0; i < plan->idle_count; i++) {
        const struct servers_idle *idle = &plan->idle[i];
        if (!has(plan, planning->pool[idle->device])) { /* a server without a share is not idle */
            planning->left_out[planning->left_out_count++] =
                (struct partition_left_out){.device = idle->device,
                                            .reason = reasons[idle->reason],
                                            .step_seconds_with = idle->step_seconds_with};
        }
    }
}

/* The seconds of a micro-batch on the device of a stage. */
static void predict(const struct planning *planning, size_t s, struct plan_stage *out)
{
    const size_t units = planning->model->unit_count;
    const size_t row = planning->solution.chosen[s] * units;
    for (size_t u = 0; u < units && works(out); u++) {
        out->predicted_forward_seconds += planning->expected_forward_seconds[row + u];
        out->predicted_backward_seconds += planning->expected_backward_seconds[row + u];
    }
}

static double update_seconds(const struct planning *planning, size_t s)
{
    const struct servers_stage *stage = &planning_servers(planning)->answer.plan.stage[s];
    const size_t row = planning->solution.chosen[s] * planning->model->unit_count;
    double seconds = 0;
    for (size_t u = stage->first; u < stage->end; u++) {
        seconds += planning->update_seconds[row + u];
    }
    return seconds;
}

static int64_t sum_of(const struct plan_memory *memory)
{
    return memory->parameters_bytes + memory->gradients_bytes + memory->optimizer_bytes +
           memory->activations_bytes + memory->workspace_bytes + memory->borders_bytes +
           memory->snapshots_bytes;
}

static void fill_stage(const struct planning *planning, size_t s, struct plan_stage *out)
{
    const struct servers_plan *found = &planning_servers(planning)->answer.plan;
    const struct servers_stage *stage = &found->stage[s];
    const struct servers_work *work = &found->work[s];
    *out = (struct plan_stage){
        .first = (int64_t)stage->first,
        .end = (int64_t)stage->end,
        .in_flight = 1,
        .share_first = (int64_t)stage->share.first,
        .share_end = (int64_t)stage->share.end,
        .predicted_pull_seconds = work->pull_seconds,
        .predicted_push_seconds = work->push_seconds,
        .pull_segments = (int64_t)work->pull_segments,
        .push_segments = (int64_t)work->push_segments,
        .memory = servers_memory_parts(planning, stage, planning->solution.chosen[s]),
    };
    out->memory_bytes = sum_of(&out->memory);
    predict(planning, s, out);
    const double each = out->predicted_forward_seconds + out->predicted_backward_seconds;
    const double busy =
        (double)(out->share_end - out->share_first) * each + update_seconds(planning, s);
    out->predicted_busy = found->step_seconds > 0 ? busy / found->step_seconds : 0;
}

static struct plan_bottleneck bottleneck_of(const struct planned *planned,
                                            const struct servers_plan *found)
{
    const double link = found->step_seconds > 0 ? found->link_seconds / found->step_seconds : 0;
    struct plan_bottleneck most = {PART_LINK, (int64_t)found->busiest_link, link};
    for (size_t s = 0; s < found->stage_count; s++) {
        if (planned->stage[s].predicted_busy >= most.busy) {
            most =
                (struct plan_bottleneck){PART_STAGE, (int64_t)s, planned->stage[s].predicted_busy};
        }
    }
    return most;
}

/* The seconds of a step without transfers whose work is shared in proportion to speed. */
static double fluid_seconds(const struct planned *planned, int64_t micro_batches)
{
    double rate = 0;
    for (size_t s = 0; s < planned->stage_count; s++) {
        const struct plan_stage *stage = &planned->stage[s];
        const double each = stage->predicted_forward_seconds + stage->predicted_backward_seconds;
        rate += each > 0 ? 1 / each : 0;
    }
    return rate > 0 ? (double)micro_batches / rate : 0;
}

static void fill_transfers(struct planning *planning, struct planned_transfers *out)
{
    out->chosen = planning_servers(planning)->answer.plan.transfers;
    out->optimal_seconds = servers_problem_seconds(planning, SEGMENTS_OPTIMAL);
    out->whole_seconds = servers_problem_seconds(planning, SEGMENTS_WHOLE);
    out->layer_seconds = servers_problem_seconds(planning, SEGMENTS_LAYER);
    out->layer_window_seconds = servers_problem_seconds(planning, SEGMENTS_LAYER_WINDOW);
}

static void fill_plan(struct planning *planning, struct planned *out)
{
    const struct servers_plan *found = &planning_servers(planning)->answer.plan;
    servers_problem_expect(planning);
    out->gap = planning_servers(planning)->answer.gap;
    out->expected_seconds = found->step_seconds;
    for (size_t s = 0; s < found->stage_count; s++) {
        fill_stage(planning, s, &out->stage[s]);
    }
    out->efficiency = found->step_seconds > 0
                          ? fluid_seconds(out, planning->spec.micro_batches) / found->step_seconds
                          : 0;
    out->bottleneck = bottleneck_of(out, found);
    if (!planning->at_once) { /* only forecasts need them, and other threads search for those */
        fill_transfers(planning, &out->transfers);
    }
}

static uint64_t state_bytes(struct planning *planning, size_t stage)
{
    return servers_memory_state(planning, &planning_servers(planning)->answer.plan.stage[stage]);
}

/* Whether the shares are contiguous and begin at 0. */
static bool shares_fit(const struct plan *plan)
{
    int64_t end = 0, most = 0;
    for (bool found = true; found;) {
        found = false;
        for (size_t s = 0; s < plan->stage_count && !found; s++) {
            found = works(&plan->stage[s]) && plan->stage[s].share_first == end;
            end = found ? plan->stage[s].share_end : end;
        }
    }
    for (size_t s = 0; s < plan->stage_count; s++) {
        most = plan->stage[s].share_end > most ? plan->stage[s].share_end : most;
    }
    return end > 0 && end == most;
}

/* Servers come first, and every other stage works. */
static bool plan_fits(const struct plan *plan, size_t unit_count)
{
    const size_t servers = keepers_count(plan);
    for (size_t s = 0; s < plan->stage_count; s++) {
        if (keepers_has(&plan->stage[s]) != (s < servers) ||
            (s >= servers && !works(&plan->stage[s]))) {
            return false;
        }
    }
    return servers <= SERVERS_MAX && keepers_cover(plan, unit_count) && shares_fit(plan);
}

/* ---- what stages do ---- */

static struct stage_work work(const struct stage_list *stages, size_t stage)
{
    const struct plan_stage *own = &stages->stage[stage];
    int64_t units = 0;
    for (size_t s = 0; s < stages->count; s++) {
        units = stages->stage[s].end > units ? stages->stage[s].end : units;
    }
    return works(own) ? (struct stage_work){0, units, own->share_end - own->share_first}
                      : (struct stage_work){0, 0, 0};
}

static struct stage_role role(const struct plan_stage *stages, size_t stage)
{
    return (struct stage_role){
        .index = stage, .serves = keepers_has(&stages[stage]), .works = works(&stages[stage])};
}

static bool calls(const struct plan_stage *stages, bool clips_norm, size_t from, size_t to)
{
    return stage_role_calls(role(stages, from), role(stages, to), clips_norm);
}

static bool talk(const struct stage_list *stages, size_t a, size_t b)
{
    return calls(stages->stage, true, a, b) || calls(stages->stage, true, b, a);
}

/* Workers on other devices begin and end their pulls at the same time. With transfers `stream`,
 * which `auto` may choose, a worker pulls from all servers at once. */
static struct link_users link_users(const struct job_slot *job, size_t from, size_t to)
{
    const struct plan *plan = &job->plan;
    const int transfers = job->job.spec.parameter_server.transfers;
    const bool streams = transfers == (int)SEGMENTS_STREAM || transfers == TRANSFERS_AUTO;
    const size_t window = transfers == (int)SEGMENTS_LAYER_WINDOW ? SEGMENTS_WINDOW : 1;
    size_t workers = 0, servers = 0;
    if (from == to || !works(&plan->stage[from]) || !keepers_has(&plan->stage[to])) {
        return (struct link_users){1, 1};
    }
    for (size_t s = 0; s < plan->stage_count; s++) {
        workers += s != to && works(&plan->stage[s]);
        servers += s != from && keepers_has(&plan->stage[s]);
    }
    return (struct link_users){streams ? servers : window, workers * window};
}

/* The work of a lost worker is discarded; the servers have every unit of each version. */
static bool survives(const struct plan *plan, size_t stage)
{
    return !keepers_has(&plan->stage[stage]);
}

/* At least one worker has the whole model; in addition, the servers keep every unit. */
static void least_memory(const struct job_slot *job, const struct memory_request *whole,
                         struct strategy_memory *out)
{
    const struct optimizer *optimizer = &job->job.spec.optimizer;
    struct memory_request kept = *whole;
    struct memory_bytes of_worker, of_servers;
    kept.tree = (size_t)job->job.spec.micro_batches;
    struct memory_request worker = kept;
    worker.share = (struct reduce_range){0, 1};
    worker.worker = true;
    *out = (struct strategy_memory){UINT64_MAX, UINT64_MAX};
    if (memory_of_stage(job->model, optimizer, &kept, &of_servers, NULL) == 0 &&
        memory_of_stage(job->model, optimizer, &worker, &of_worker, NULL) == 0) {
        out->all_bytes = of_servers.total + of_worker.total;
        out->one_bytes = of_worker.total;
    }
}

static void preview(const struct planned *planned, struct job_preview *out)
{
    out->gap = planned->gap;
    out->bottleneck = planned->bottleneck;
    for (size_t s = 0; s < planned->stage_count; s++) {
        const struct plan_stage *from = &planned->stage[s];
        struct preview_stage *stage = &out->stage[s];
        stage->in_flight = from->in_flight;
        stage->share_first = from->share_first;
        stage->share_end = from->share_end;
        stage->predicted_pull_seconds = from->predicted_pull_seconds;
        stage->predicted_push_seconds = from->predicted_push_seconds;
        stage->pull_segments = from->pull_segments;
        stage->push_segments = from->push_segments;
    }
}

/* ---- the assignment ---- */

static void fill_assignment(const struct core *core, const struct device_slot *device,
                            struct assignment *out)
{
    const struct job_slot *job = device->job;
    const struct plan *plan = &job->plan;
    const bool clips_norm = job->job.spec.optimizer.clip_norm > 0;
    struct assignment_run *run = &out->run;
    run->in_flight = 1;
    run->stages_listed = plan->stage_count;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stage[s];
        struct assigned_stage *listed = &run->stage[s];
        *listed = (struct assigned_stage){.first = stage->first,
                                          .end = stage->end,
                                          .share_first = stage->share_first,
                                          .share_end = stage->share_end};
        if (calls(plan->stage, clips_norm, device->stage, s)) {
            peers_fill(core, job, s, CODEC_NONE, &listed->peer);
        }
        listed->peer.device = stage->device;
        if (calls(plan->stage, clips_norm, s, device->stage)) {
            peers_allow(core, job, &stage->device, out);
        }
    }
}

static size_t list_peers(struct assignment_run *run, struct peer *out[STRATEGY_PEERS_MAX])
{
    size_t count = 0;
    for (size_t s = 0; s < run->stages_listed; s++) {
        if (run->stage[s].peer.url[0] != '\0') {
            out[count++] = &run->stage[s].peer;
        }
    }
    return count;
}

const struct strategy parameter_server_strategy = {
    .strategy = STRATEGY_PARAMETER_SERVER,
    .takes_shares = true,
    .scratch_new = servers_problem_scratch_new,
    .scratch_free = servers_problem_scratch_free,
    .solve = servers_problem_solve,
    .leave_out = leave_out,
    .resume = servers_problem_resume,
    .fill_plan = fill_plan,
    .state_bytes = state_bytes,
    .plan_fits = plan_fits,
    .work = work,
    .talk = talk,
    .link_users = link_users,
    .survives = survives,
    .least_memory = least_memory,
    .preview = preview,
    .fill_assignment = fill_assignment,
    .peers = list_peers,
};
