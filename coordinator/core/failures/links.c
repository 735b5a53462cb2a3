/* A broken link between two live devices is no reason to treat either as lost. The next plan avoids
 * the pair, or waits for the link with growing delays, because many links return within seconds. */
#include "coordinator/core/failures/links.h"

#include "coordinator/core/state/device.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

/* Leases for which a pair counts as bad, as long as its excluded device is excluded. */
#define BAD_LEASES 6
/* After so many consecutive failures there is no delay yet: the next plan may avoid the link. */
#define EAGER_MAX 1
#define PAUSE_SHIFT_MAX 10

/* ---- pairs ---- */

static bool is_pair(const struct bad_link *link, const struct device_slot *a,
                    const struct device_slot *b)
{
    const char *first = link->device[0].text, *second = link->device[1].text;
    return (id_equal(first, a->device.id.text) && id_equal(second, b->device.id.text)) ||
           (id_equal(first, b->device.id.text) && id_equal(second, a->device.id.text));
}

void links_note(const struct core *core, struct job_slot *job, const struct device_slot *a,
                const struct device_slot *b)
{
    size_t at = 0;
    while (at < BAD_LINKS_MAX && !is_pair(&job->links.bad[at], a, b)) {
        at++;
    }
    if (at == BAD_LINKS_MAX) {
        at = job->links.next_bad;
        job->links.next_bad = (job->links.next_bad + 1) % BAD_LINKS_MAX;
    }
    job->links.bad[at] =
        (struct bad_link){.device = {a->device.id, b->device.id},
                          .until_ms = core->now_ms + BAD_LEASES * core->config.lease_ms};
}

bool links_is_bad(const struct core *core, const struct job_slot *job, const struct device_slot *a,
                  const struct device_slot *b)
{
    for (size_t i = 0; i < BAD_LINKS_MAX; i++) {
        const struct bad_link *link = &job->links.bad[i];
        if (link->until_ms > core->now_ms && is_pair(link, a, b)) {
            return true;
        }
    }
    return false;
}

/* Whether one stage sends its copies to the other. */
static bool replicate(const struct job_slot *job, const struct stage_list *stages, size_t a,
                      size_t b)
{
    return job->job.spec.neighbor_every > 0 &&
           (keepers_holder(stages->stage, stages->count, a) == b ||
            keepers_holder(stages->stage, stages->count, b) == a);
}

bool links_break(const struct core *core, const struct job_slot *job,
                 const struct stage_list *stages)
{
    for (size_t b = 1; b < stages->count; b++) {
        const struct device_slot *to = slots_device(core, stages->stage[b].device.text);
        for (size_t a = 0; a < b; a++) {
            const struct device_slot *from = slots_device(core, stages->stage[a].device.text);
            if (from && to && links_is_bad(core, job, from, to) &&
                (job->strategy->talk(stages, a, b) || replicate(job, stages, a, b))) {
                return true;
            }
        }
    }
    return false;
}

/* ---- the plan that ran ---- */

bool links_can_stay(const struct core *core, const struct job_slot *job)
{
    const struct replan_request *ran = &job->ran;
    struct plan_stage stage[STAGES_MAX];
    if (job->plan.state != PLAN_PREPARING || ran->device_count == 0 ||
        layout_is(ran, job->plan.stage, job->plan.stage_count)) {
        return false;
    }
    for (size_t s = 0; s < ran->device_count; s++) {
        const struct device_slot *device = slots_device(core, ran->device[s].text);
        if (!device || !device_ready(device) || (device->job && device->job != job)) {
            return false;
        }
    }
    layout_read(ran, job->unit_count, stage);
    const struct stage_list stages = {stage, ran->device_count, job->job.spec.micro_batches};
    return !links_break(core, job, &stages);
}

bool links_ran(const struct job_slot *job, const struct device_slot *device)
{
    for (size_t s = 0; s < job->ran.device_count; s++) {
        if (id_equal(job->ran.device[s].text, device->device.id.text)) {
            return true;
        }
    }
    return false;
}

/* ---- consecutive failures ---- */

void links_reset(struct job_slot *job)
{
    job->links.failures = 0;
    job->links.since_ms = NEVER;
}

/* Only new steps end a series of failures; retrained steps do not. */
void links_count(const struct core *core, struct job_slot *job, bool by_link)
{
    if (job->progress.reached_step > job->links.step) {
        links_reset(job);
    }
    if (by_link) {
        job->links.step = job->progress.reached_step > job->links.step ? job->progress.reached_step
                                                                       : job->links.step;
        job->links.since_ms = job->links.since_ms == NEVER ? core->now_ms : job->links.since_ms;
        job->links.failures++;
    }
}

int64_t links_pause_ms(const struct core *core, const struct job_slot *job)
{
    if (job->links.failures <= EAGER_MAX) {
        return 0;
    }
    int shift = job->links.failures - EAGER_MAX - 1 < PAUSE_SHIFT_MAX
                    ? job->links.failures - EAGER_MAX - 1
                    : PAUSE_SHIFT_MAX;
    int64_t ms = core->config.heartbeat_ms << shift;
    return ms < core->config.lease_ms ? ms : core->config.lease_ms;
}
