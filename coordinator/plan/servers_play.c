#include "coordinator/plan/servers_play.h"

#include "coordinator/plan/servers_answer.h"
#include "coordinator/plan/servers_trial.h"

/* The servers of the layout, which are the pool. */
static int take_servers(const struct servers_problem *problem, struct servers_scratch *scratch,
                        const struct servers_stage *stage, size_t count, struct err *err)
{
    struct servers_layout *layout = &scratch->trial.layout;
    size_t unit = 0;
    for (size_t s = 0; s < count && stage[s].first < stage[s].end; s++) {
        if (s == SERVERS_MAX || stage[s].first != unit ||
            stage[s].device >= problem->device_count) {
            return err_set(err, ERR_INVALID, "stage %zu: expected a server of units from %zu on", s,
                           unit);
        }
        layout->server[s] = scratch->pool[s] = stage[s].device;
        layout->end[s] = unit = stage[s].end;
        layout->server_count = scratch->pool_count = s + 1;
        servers_step_links(problem, stage[s].device, scratch->pool_link[s]);
    }
    return unit == problem->unit_count
               ? 0
               : err_set(err, ERR_INVALID, "the servers keep %zu of %zu units", unit,
                         problem->unit_count);
}

/* The stage whose share begins there; count: none. */
static size_t share_at(const struct servers_stage *stage, size_t count, size_t first)
{
    size_t s = 0;
    while (s < count && (stage[s].share.first != first || stage[s].share.end <= first)) {
        s++;
    }
    return s;
}

static int take_workers(const struct servers_problem *problem, struct servers_trial *trial,
                        const struct servers_stage *stage, size_t count, struct err *err)
{
    struct servers_layout *layout = &trial->layout;
    size_t first = 0;
    for (size_t s = share_at(stage, count, 0); s < count; s = share_at(stage, count, first)) {
        if (stage[s].device >= problem->device_count) {
            return err_set(err, ERR_INVALID, "stage %zu: unknown device", s);
        }
        layout->worker[layout->worker_count] = stage[s].device;
        trial->share[layout->worker_count++] = stage[s].share;
        first = stage[s].share.end;
    }
    return first == problem->micro_batches && servers_trial_devices(layout) == count
               ? 0
               : err_set(err, ERR_INVALID,
                         "the shares have %zu of %zu micro-batches in order, on %zu of %zu devices",
                         first, problem->micro_batches, servers_trial_devices(layout), count);
}

static void predict(struct servers_scratch *scratch, enum segments_transfers transfers)
{
    struct servers_trial *trial = &scratch->trial;
    trial->layout.transfers = transfers;
    servers_step_times(scratch->problem, &trial->layout, &scratch->transfers, &scratch->times);
    trial->total = servers_step_total(&scratch->times, trial->share);
}

int servers_play(const struct servers_problem *problem, struct servers_scratch *scratch,
                 const struct servers_stage *stage, size_t count, struct servers_plan *out,
                 struct err *err)
{
    struct servers_trial *trial = &scratch->trial;
    if (count < 1 || count > SERVERS_STAGES_MAX || problem->layer_count < 1 ||
        problem->layer_count > scratch->layers) {
        return err_set(err, ERR_INVALID, "%zu stages, %zu layers", count, problem->layer_count);
    }
    *trial = (struct servers_trial){.layout = {.server_count = 0}};
    scratch->problem = problem;
    int rc = take_servers(problem, scratch, stage, count, err);
    rc = rc ? rc : take_workers(problem, trial, stage, count, err);
    if (rc) {
        return rc;
    }
    if (!servers_trial_fits(scratch, trial)) {
        return err_set(err, ERR_MEMORY, "a stage of the plan does not fit on its device");
    }
    servers_trial_set_links(scratch, &trial->layout);
    predict(scratch, problem->automatic ? SEGMENTS_OPTIMAL : problem->transfers);
    scratch->best = *trial;
    if (problem->automatic) {
        predict(scratch, SEGMENTS_STREAM);
        scratch->best = servers_trial_faster(trial, &scratch->best, 0) ? *trial : scratch->best;
    }
    *out = (struct servers_plan){0};
    servers_answer_write(scratch, out);
    return 0;
}
