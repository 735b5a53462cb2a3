#include "coordinator/core/state/layout.h"

#include <string.h>

#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/state.h"

struct stage_list layout_stages(const struct job_slot *job)
{
    return (struct stage_list){.stage = job->plan.stage,
                               .count = job->plan.stage_count,
                               .micro_batches = job->job.spec.micro_batches};
}

struct stage_work layout_work(const struct job_slot *job, size_t stage)
{
    const struct stage_list stages = layout_stages(job);
    return job->strategy->work(&stages, stage);
}

struct stage_work layout_loads(const struct job_slot *job, size_t stage)
{
    const struct stage_list stages = layout_stages(job);
    return strategy_loads(job->strategy, &stages, stage);
}

/* The end of the stage's share; 0: no share. */
static int64_t share_end(const struct plan_stage *stage)
{
    return stage->share_first < stage->share_end ? stage->share_end : 0;
}

static size_t last_keeper(const struct plan *plan)
{
    size_t last = 0;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        last = s;
    }
    return last;
}

/* The last keeper keeps the units up to the end. The stages after it keep none. */
void layout_request(const struct plan *plan, struct replan_request *out)
{
    memset(out, 0, sizeof(*out));
    out->has_cuts = true;
    out->cut_count = last_keeper(plan);
    for (size_t s = 0; s < plan->stage_count; s++) {
        out->device[out->device_count++] = plan->stage[s].device;
        out->share_end[s] = share_end(&plan->stage[s]);
        out->share_end_count = out->share_end[s] > 0 ? plan->stage_count : out->share_end_count;
        if (s < out->cut_count) {
            out->cut[s] = plan->stage[s].end;
        }
    }
}

bool layout_is(const struct replan_request *request, const struct plan_stage *stage, size_t count)
{
    bool same = count == request->device_count;
    for (size_t s = 0; same && s < count; s++) {
        const int64_t end = s < request->share_end_count ? request->share_end[s] : 0;
        same = id_equal(stage[s].device.text, request->device[s].text) &&
               (s < request->cut_count ? stage[s].end == request->cut[s]
                                       : keepers_has(&stage[s]) == (s == request->cut_count)) &&
               share_end(&stage[s]) == end;
    }
    return same;
}

/* The begin of the share with this end: the end of the preceding share. */
static int64_t share_first(const struct replan_request *request, int64_t end)
{
    int64_t first = 0;
    for (size_t s = 0; s < request->share_end_count; s++) {
        const int64_t other = request->share_end[s];
        first = other < end && other > first ? other : first;
    }
    return first;
}

void layout_read(const struct replan_request *request, size_t unit_count, struct plan_stage *out)
{
    int64_t first = 0;
    for (size_t s = 0; s < request->device_count; s++) {
        const int64_t end = s < request->cut_count ? request->cut[s] : (int64_t)unit_count;
        const int64_t share = s < request->share_end_count ? request->share_end[s] : 0;
        out[s] = (struct plan_stage){.device = request->device[s],
                                     .first = first,
                                     .end = end,
                                     .share_first = share_first(request, share),
                                     .share_end = share};
        first = end;
    }
}
