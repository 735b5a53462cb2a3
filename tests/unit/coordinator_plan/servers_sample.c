#include "tests/unit/coordinator_plan/servers_sample.h"

#include <math.h>
#include <string.h>

#include "coordinator/plan/servers_place.h"
#include "tests/support/test.h"

#define NEAR 1e-9

static uint64_t sample_memory(void *arg, const struct servers_stage *stage)
{
    const struct servers_sample *sample = arg;
    double all = 0, kept = 0;
    for (size_t l = 0; l < sample->problem.layer_count; l++) {
        const size_t unit = sample->layer_unit[l];
        all += sample->layer_bytes[l];
        kept += unit >= stage->first && unit < stage->end ? sample->layer_bytes[l] : 0;
    }
    return (uint64_t)(all * (double)stage->buffers + kept * (2 + (double)stage->sums));
}

void servers_sample_init(struct servers_sample *sample, size_t units, size_t devices,
                         size_t micro_batches)
{
    memset(sample, 0, sizeof(*sample));
    sample->problem = (struct servers_problem){
        .unit_count = units,
        .device_count = devices,
        .layer_count = units,
        .micro_batches = micro_batches,
        .layer_unit = sample->layer_unit,
        .layer_bytes = sample->layer_bytes,
        .forward_seconds = sample->forward,
        .backward_seconds = sample->backward,
        .update_seconds = sample->update,
        .add_seconds = sample->add,
        .bytes_per_second = sample->rate,
        .usual_link = {.latency_seconds = 0, .bytes_per_second = 1e9},
        .pair = sample->pair,
        .may_serve = sample->may_serve,
        .may_work = sample->may_work,
        .memory_cap_bytes = sample->cap,
        .stage_memory = sample_memory,
        .arg = sample,
        .stages_max = devices,
    };
    for (size_t l = 0; l < units; l++) {
        sample->layer_unit[l] = l;
        sample->layer_bytes[l] = 100;
    }
    for (size_t i = 0; i < devices * units; i++) {
        sample->forward[i] = 1;
        sample->backward[i] = 2;
    }
    for (size_t d = 0; d < devices; d++) {
        sample->rate[d] = 1000;
        sample->cap[d] = UINT64_MAX;
        sample->may_serve[d] = sample->may_work[d] = true;
    }
}

static void draw_layers(struct servers_sample *sample, struct draws *draws, bool largest)
{
    struct servers_problem *problem = &sample->problem;
    problem->layer_count = 0;
    for (size_t u = 0; u < problem->unit_count; u++) {
        const size_t room = SERVERS_SAMPLE_LAYERS - problem->layer_count;
        const size_t layers = room > problem->unit_count - u ? draw_below(draws, 3) : 1;
        for (size_t i = 0; i < layers || (problem->layer_count == 0 && i == 0); i++) {
            sample->layer_unit[problem->layer_count++] = u;
        }
    }
    for (size_t l = 0; l < problem->layer_count; l++) {
        sample->layer_bytes[l] = floor(exp(draw_uniform(draws, 2, largest ? 6 : 8)));
    }
}

static void draw_devices(struct servers_sample *sample, struct draws *draws)
{
    const struct servers_problem *problem = &sample->problem;
    double total = 0;
    for (size_t l = 0; l < problem->layer_count; l++) {
        total += sample->layer_bytes[l];
    }
    const bool tight = draw_below(draws, 4) == 0;
    for (size_t d = 0; d < problem->device_count; d++) {
        const double slow = exp(draw_uniform(draws, 0, 2));
        for (size_t l = 0; l < problem->layer_count; l++) {
            const size_t at = d * problem->layer_count + l;
            sample->forward[at] = slow * draw_uniform(draws, 0.1, 1);
            sample->backward[at] = 2 * slow * draw_uniform(draws, 0.1, 1);
        }
        for (size_t u = 0; u < problem->unit_count; u++) {
            const size_t at = d * problem->unit_count + u;
            sample->update[at] = slow * draw_uniform(draws, 0, 0.1);
            sample->add[at] = slow * draw_uniform(draws, 0, 0.05);
        }
        sample->rate[d] = total / exp(draw_uniform(draws, -1, 3));
        sample->cap[d] = tight ? (uint64_t)(total * draw_uniform(draws, 0.5, 8)) : UINT64_MAX;
    }
}

void servers_sample_draw(struct servers_sample *sample, struct draws *draws, bool largest)
{
    const size_t units =
        largest ? SERVERS_SAMPLE_UNITS : 1 + draw_below(draws, SERVERS_SAMPLE_UNITS);
    const size_t devices =
        largest ? SERVERS_SAMPLE_DEVICES : 1 + draw_below(draws, SERVERS_SAMPLE_DEVICES);
    const size_t micro_batches = largest ? SERVERS_SAMPLE_MICRO_BATCHES
                                         : 1 + draw_below(draws, SERVERS_SAMPLE_MICRO_BATCHES);
    servers_sample_init(sample, units, devices, micro_batches);
    struct servers_problem *problem = &sample->problem;
    draw_layers(sample, draws, largest);
    draw_devices(sample, draws);
    problem->usual_link.latency_seconds = draw_uniform(draws, 0, draw_below(draws, 2) ? 2 : 0.1);
    for (size_t a = 0; a < devices; a++) {
        for (size_t b = a + 1; b < devices; b++) {
            if (draw_below(draws, 3) == 0) {
                sample->pair[problem->pair_count++] = (struct partition_pair){
                    .a = a,
                    .b = b,
                    .link = {.latency_seconds = draw_uniform(draws, 0, 2),
                             .bytes_per_second = sample->rate[a] * draw_uniform(draws, 0.2, 2)}};
            }
        }
    }
    problem->clips_norm = draw_below(draws, 2) == 0;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= NEAR * (fabs(a) + fabs(b)) + 1e-300;
}

void servers_sample_check(const struct servers_sample *sample, const struct servers_plan *plan)
{
    const struct servers_problem *problem = &sample->problem;
    size_t unit = 0, computed = 0;
    double slowest = 0;
    bool taken[SERVERS_SAMPLE_DEVICES] = {false};
    for (size_t i = 0; i < plan->stage_count; i++) {
        const struct servers_stage *stage = &plan->stage[i];
        const struct servers_work *work = &plan->work[i];
        const size_t share = stage->share.end - stage->share.first;
        assert_false(taken[stage->device]);
        taken[stage->device] = true;
        assert_int_equal(i<plan->server_count, stage->end> stage->first);
        if (i < plan->server_count) {
            assert_int_equal(stage->first, unit);
            assert_true(problem->may_serve[stage->device]);
            unit = stage->end;
        }
        assert_true(share > 0 || i < plan->server_count);
        assert_true(share == 0 || problem->may_work[stage->device]);
        computed += share;
        const double seconds = work->pull_seconds + work->middle_seconds + work->push_seconds;
        assert_int_equal(seconds > 0, share > 0);
        slowest = seconds > slowest ? seconds : slowest;
        assert_true(plan->memory_bytes[i] <= sample->cap[stage->device]);
    }
    assert_int_equal(unit, problem->unit_count);
    assert_int_equal(computed, problem->micro_batches);
    assert_true(plan->stage_count <= problem->stages_max);
    assert_true(is_near(slowest, plan->workers_seconds));
    const double step = plan->workers_seconds + plan->commit_seconds;
    assert_true(is_near(plan->step_seconds, step > plan->link_seconds ? step : plan->link_seconds));
    for (size_t i = 0; i < plan->idle_count; i++) {
        assert_true(plan->idle[i].step_seconds_with >= plan->step_seconds * (1 - NEAR) ||
                    plan->transfers == SEGMENTS_GREEDY);
        for (size_t s = 0; s < plan->stage_count; s++) {
            assert_true(plan->stage[s].device != plan->idle[i].device ||
                        plan->stage[s].share.first == plan->stage[s].share.end);
        }
    }
}

/* ---- brute force ---- */

struct search {
    const struct servers_sample *sample;
    struct servers_layout layout;
    struct servers_transfers transfers;
    struct link_speed link[SERVERS_SAMPLE_DEVICES][SERVERS_SAMPLE_DEVICES];
    struct servers_times times;
    double best;
    size_t plans;
    struct reduce_range share[SERVERS_SAMPLE_DEVICES]; /* by worker of the layout */
    double seconds[SERVERS_SAMPLE_DEVICES][SERVERS_SAMPLE_MICRO_BATCHES + 1]
                  [SERVERS_SAMPLE_MICRO_BATCHES + 1];
};

static bool fits(const struct search *search)
{
    const struct servers_problem *problem = &search->sample->problem;
    const struct servers_layout *layout = &search->layout;
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    size_t sums = 0;
    for (size_t w = 0; w < layout->worker_count; w++) {
        sums += reduce_blocks(problem->micro_batches, search->share[w], block);
    }
    for (size_t d = 0; d < problem->device_count; d++) {
        struct servers_stage stage = {.device = d};
        for (size_t w = 0; w < layout->worker_count; w++) {
            if (layout->worker[w] == d) {
                stage.share = search->share[w];
                stage.buffers = reduce_waiting_max(problem->micro_batches, stage.share);
            }
        }
        for (size_t s = 0; s < layout->server_count; s++) {
            if (layout->server[s] == d) {
                stage.first = s == 0 ? 0 : layout->end[s - 1];
                stage.end = layout->end[s];
                stage.sums = sums;
            }
        }
        if (!servers_place_fits(problem, &stage)) {
            return false;
        }
    }
    return true;
}

/* Give the micro-batches from `first` on to the workers that have none, in every order. */
static void try_shares(struct search *search, size_t left, size_t first, double slowest)
{
    const size_t count = search->sample->problem.micro_batches;
    if (left == 0) {
        const double step = servers_step_total(&search->times, search->share).step_seconds;
        search->plans++;
        search->best = step < search->best && fits(search) ? step : search->best;
        return;
    }
    for (size_t w = 0; w < search->layout.worker_count; w++) {
        if (search->share[w].end > search->share[w].first) {
            continue;
        }
        for (size_t end = left == 1 ? count : first + 1; end + left <= count + 1; end++) {
            const double own = search->seconds[w][first][end];
            const double seconds = own > slowest ? own : slowest;
            search->share[w] = (struct reduce_range){first, end};
            if (seconds < search->best) {
                try_shares(search, left - 1, end, seconds);
            } else {
                search->plans++;
            }
        }
        search->share[w] = (struct reduce_range){0, 0};
    }
}

static void try_workers(struct search *search)
{
    const struct servers_problem *problem = &search->sample->problem;
    for (unsigned chosen = 1; chosen < 1u << problem->device_count; chosen++) {
        struct servers_layout *layout = &search->layout;
        bool may = true;
        layout->worker_count = 0;
        for (size_t d = 0; d < problem->device_count; d++) {
            may = may && (!(chosen >> d & 1) || problem->may_work[d]);
            if (chosen >> d & 1) {
                layout->worker[layout->worker_count++] = d;
            }
        }
        if (!may || layout->worker_count > problem->micro_batches) {
            continue;
        }
        servers_step_times(problem, layout, &search->transfers, &search->times);
        for (size_t w = 0; w < layout->worker_count; w++) {
            for (size_t a = 0; a < problem->micro_batches; a++) {
                for (size_t b = a + 1; b <= problem->micro_batches; b++) {
                    search->seconds[w][a][b] =
                        servers_step_share(&search->times, w, (struct reduce_range){a, b}, NULL);
                }
            }
        }
        try_shares(search, layout->worker_count, 0, 0);
    }
}

static void try_servers(struct search *search, size_t first)
{
    const struct servers_problem *problem = &search->sample->problem;
    struct servers_layout *layout = &search->layout;
    if (first == problem->unit_count) {
        for (size_t s = 0; s < layout->server_count; s++) {
            search->transfers.link_of[s] = search->link[layout->server[s]];
        }
        try_workers(search);
        return;
    }
    for (size_t d = 0; d < problem->device_count; d++) {
        bool may = problem->may_serve[d];
        for (size_t s = 0; s < layout->server_count; s++) {
            may = may && layout->server[s] != d;
        }
        for (size_t end = first + 1; may && end <= problem->unit_count; end++) {
            layout->server[layout->server_count] = d;
            layout->end[layout->server_count++] = end;
            try_servers(search, end); /* at most as deep as there are devices */
            layout->server_count--;
        }
    }
}

double servers_sample_brute_force(const struct servers_sample *sample, size_t *plans)
{
    static struct search search;
    size_t server[SERVERS_SAMPLE_LAYERS], end[SERVERS_SAMPLE_LAYERS];
    struct err err = {0};
    search = (struct search){.sample = sample, .best = INFINITY};
    search.layout.transfers = sample->problem.transfers;
    for (size_t d = 0; d < sample->problem.device_count; d++) {
        servers_step_links(&sample->problem, d, search.link[d]);
    }
    search.transfers.server = server;
    search.transfers.end = end;
    assert_ok(segments_scratch_new(SERVERS_SAMPLE_LAYERS, &search.transfers.segments, &err), &err);
    try_servers(&search, 0);
    segments_scratch_free(&search.transfers.segments);
    *plans += search.plans;
    return search.best;
}
