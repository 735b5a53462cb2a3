#include "coordinator/plan/servers_trial.h"

#include <math.h>

#include "base/assert.h"
#include "coordinator/plan/servers_place.h"

#define WORKER_WORK 8 /* timing a worker's transfers takes as long as timing this many shares */

#define NO_PLAN_WORK 10 /* times the work of a search that has found no plan yet */

/* ---- stages ---- */

bool servers_trial_has(const size_t *list, size_t count, size_t device)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == device) {
            return true;
        }
    }
    return false;
}

struct servers_stage servers_trial_stage(const struct servers_layout *layout, size_t device,
                                         struct reduce_range share, size_t micro_batches,
                                         size_t sums)
{
    struct servers_stage stage = {.device = device, .share = share};
    for (size_t s = 0; s < layout->server_count; s++) {
        if (layout->server[s] == device) {
            stage.first = s == 0 ? 0 : layout->end[s - 1];
            stage.end = layout->end[s];
            stage.sums = sums;
        }
    }
    stage.buffers = reduce_waiting_max(micro_batches, share);
    return stage;
}

static enum servers_fit fit_of(const struct servers_scratch *scratch, size_t device)
{
    const struct servers_problem *problem = scratch->problem;
    const struct reduce_range one = {0, 1};
    struct servers_stage stage =
        servers_trial_stage(&scratch->trial.layout, device, one, problem->micro_batches, 1);
    if (!servers_place_fits(problem, &stage)) {
        return SERVERS_FIT_NEVER;
    }
    stage.buffers = REDUCE_BLOCKS_MAX;
    stage.share.end = problem->micro_batches;
    return servers_place_fits(problem, &stage) ? SERVERS_FIT_ALWAYS : SERVERS_FIT_SOME;
}

static double seconds_of(void *arg, size_t worker, struct reduce_range share)
{
    struct servers_scratch *scratch = arg;
    scratch->asked++;
    if (scratch->fit[worker] == SERVERS_FIT_SOME) {
        const struct servers_stage stage =
            servers_trial_stage(&scratch->trial.layout, scratch->trial.layout.worker[worker], share,
                                scratch->problem->micro_batches, 1);
        if (!servers_place_fits(scratch->problem, &stage)) {
            return INFINITY;
        }
    }
    return scratch->fit[worker] == SERVERS_FIT_NEVER
               ? INFINITY
               : servers_step_share(&scratch->times, worker, share, NULL);
}

/* Shares that do not depend on times, in the order of the workers. */
static double fixed_shares(struct servers_scratch *scratch)
{
    const struct servers_problem *problem = scratch->problem;
    const size_t workers = scratch->trial.layout.worker_count;
    double slowest = 0;
    for (size_t w = 0, first = 0; w < workers; w++) {
        const size_t more = w < problem->micro_batches % workers ? 1 : 0;
        const size_t count = problem->shares == SERVERS_GIVEN
                                 ? problem->share[w]
                                 : problem->micro_batches / workers + more;
        const struct reduce_range share = {first, first + count};
        const double seconds = seconds_of(scratch, w, share);
        scratch->trial.share[w] = share;
        slowest = seconds > slowest ? seconds : slowest;
        first = share.end;
    }
    return slowest;
}

static double find_shares(struct servers_scratch *scratch, size_t needed, double limit)
{
    const struct servers_layout *layout = &scratch->trial.layout;
    bool is_needed[SERVERS_STAGES_MAX];
    const bool scarce = servers_trial_devices(layout) <= scratch->problem->stages_min;
    for (size_t w = 0; w < layout->worker_count; w++) {
        is_needed[w] =
            layout->worker[w] == needed ||
            (scarce && !servers_trial_has(layout->server, layout->server_count, layout->worker[w]));
        scratch->fit[w] = fit_of(scratch, layout->worker[w]);
    }
    if (scratch->problem->shares != SERVERS_SPEED) {
        return fixed_shares(scratch);
    }
    const struct shares_problem shares = {.worker_count = layout->worker_count,
                                          .micro_batches = scratch->problem->micro_batches,
                                          .seconds = seconds_of,
                                          .arg = scratch,
                                          .least_seconds = scratch->times.least_seconds,
                                          .each_seconds = scratch->times.each_seconds,
                                          .needed = is_needed,
                                          .grain = scratch->grain,
                                          .limit_seconds = limit};
    return shares_solve(&shares, scratch->shares, scratch->trial.share);
}

/* Remove workers without a share. Return whether there were any. */
static bool drop_idle(struct servers_trial *trial)
{
    struct servers_layout *layout = &trial->layout;
    size_t kept = 0;
    for (size_t w = 0; w < layout->worker_count; w++) {
        if (trial->share[w].first < trial->share[w].end) {
            trial->share[kept] = trial->share[w];
            layout->worker[kept++] = layout->worker[w];
        }
    }
    const bool dropped = kept < layout->worker_count;
    layout->worker_count = kept;
    return dropped;
}

size_t servers_trial_sums(const struct servers_scratch *scratch, const struct servers_trial *trial)
{
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    size_t blocks = 0;
    for (size_t w = 0; w < trial->layout.worker_count; w++) {
        blocks += reduce_blocks(scratch->problem->micro_batches, trial->share[w], block);
    }
    return blocks;
}

bool servers_trial_fits(const struct servers_scratch *scratch, const struct servers_trial *trial)
{
    const struct servers_layout *layout = &trial->layout;
    const size_t count = scratch->problem->micro_batches, sums = servers_trial_sums(scratch, trial);
    bool fit = true;
    for (size_t w = 0; w < layout->worker_count && fit; w++) {
        const struct servers_stage stage =
            servers_trial_stage(layout, layout->worker[w], trial->share[w], count, sums);
        fit = servers_place_fits(scratch->problem, &stage);
    }
    for (size_t s = 0; s < layout->server_count && fit; s++) {
        const struct servers_stage stage = servers_trial_stage(
            layout, layout->server[s], (struct reduce_range){0, 0}, count, sums);
        fit = servers_trial_has(layout->worker, layout->worker_count, layout->server[s]) ||
              servers_place_fits(scratch->problem, &stage);
    }
    return fit;
}

void servers_trial_set_links(struct servers_scratch *scratch, const struct servers_layout *layout)
{
    for (size_t s = 0; s < layout->server_count; s++) {
        size_t i = 0;
        while (i < scratch->pool_count && scratch->pool[i] != layout->server[s]) {
            i++;
        }
        ASSERT(i < scratch->pool_count);
        scratch->transfers.link_of[s] = scratch->pool_link[i];
    }
}

bool servers_trial_spent(const struct servers_scratch *scratch, const struct servers_trial *plan)
{
    const struct servers_problem *problem = scratch->problem;
    const double most = problem->work_max > 0 ? problem->work_max : SERVERS_WORK_MAX;
    const bool found = scratch->found || isfinite(plan->total.step_seconds);
    return scratch->asked > (found ? most : NO_PLAN_WORK * most) ||
           (problem->cancelled && *problem->cancelled);
}

bool servers_trial_faster(const struct servers_trial *a, const struct servers_trial *b, double gain)
{
    return a->total.step_seconds * (1 + gain) < b->total.step_seconds * (1 - SERVERS_ROUNDING);
}

size_t servers_trial_devices(const struct servers_layout *layout)
{
    size_t count = layout->server_count;
    for (size_t w = 0; w < layout->worker_count; w++) {
        count += !servers_trial_has(layout->server, layout->server_count, layout->worker[w]);
    }
    return count;
}

void servers_trial_run(struct servers_scratch *scratch, size_t needed, double limit)
{
    struct servers_trial *trial = &scratch->trial;
    double seconds;
    servers_trial_set_links(scratch, &trial->layout);
    do {
        servers_step_times(scratch->problem, &trial->layout, &scratch->transfers, &scratch->times);
        scratch->asked += WORKER_WORK * (double)trial->layout.worker_count;
        seconds = find_shares(scratch, needed, limit);
    } while (isfinite(seconds) && drop_idle(trial));
    trial->total.step_seconds = INFINITY;
    if (isfinite(seconds) &&
        servers_trial_devices(&trial->layout) >= scratch->problem->stages_min &&
        servers_trial_fits(scratch, trial)) {
        trial->total = servers_step_total(&scratch->times, trial->share);
    }
}
