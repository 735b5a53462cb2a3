#include "coordinator/plan/servers_answer.h"

static void write_stage(const struct servers_scratch *scratch, size_t device,
                        struct servers_plan *out)
{
    const struct servers_problem *problem = scratch->problem;
    const struct servers_trial *best = &scratch->best;
    const size_t at = out->stage_count++;
    struct reduce_range share = {0, 0};
    for (size_t w = 0; w < best->layout.worker_count; w++) {
        if (best->layout.worker[w] == device) {
            const struct servers_times *times = &scratch->times;
            double left;
            share = best->share[w];
            (void)servers_step_share(times, w, share, &left);
            out->work[at] = (struct servers_work){
                .pull_seconds = times->pull_seconds[w],
                .middle_seconds = times->each_seconds[w] * (double)(share.end - share.first - 1),
                .push_seconds = servers_step_push(times, w, left),
                .pull_segments = times->pull_segments[w],
                .push_segments = times->push_segments[w],
            };
        }
    }
    out->stage[at] = servers_trial_stage(&best->layout, device, share, problem->micro_batches,
                                         servers_trial_sums(scratch, best));
    out->memory_bytes[at] =
        problem->stage_memory ? problem->stage_memory(problem->arg, &out->stage[at]) : 0;
}

void servers_answer_write(struct servers_scratch *scratch, struct servers_plan *out)
{
    const struct servers_layout *layout = &scratch->best.layout;
    const struct servers_total *total = &scratch->best.total;
    servers_trial_set_links(scratch, layout);
    servers_step_times(scratch->problem, layout, &scratch->transfers, &scratch->times);
    for (size_t s = 0; s < layout->server_count; s++) {
        write_stage(scratch, layout->server[s], out);
    }
    for (size_t w = 0; w < layout->worker_count; w++) {
        if (!servers_trial_has(layout->server, layout->server_count, layout->worker[w])) {
            write_stage(scratch, layout->worker[w], out);
        }
    }
    out->server_count = layout->server_count;
    out->transfers = layout->transfers;
    out->step_seconds = total->step_seconds;
    out->workers_seconds = total->workers_seconds;
    out->commit_seconds = total->commit_seconds;
    out->link_seconds = total->link_seconds;
    out->busiest_link = total->busiest_link;
}
