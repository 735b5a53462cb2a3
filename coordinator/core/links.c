/* Pairs of devices of a job that do not reach each other although both live: what is taken from
 * whom then, when the next generation is tried, and when a version that only such a link could
 * bring is given up. */
#include <inttypes.h>
#include <string.h>

#include "coordinator/core/core_private.h"

/* A pair is believed to be cut for so many leases, as the device of it that is left out. */
#define BAD_LEASES 6
/* So many failures in a row are not put off: the next plan may do without the link. */
#define EAGER_MAX 1
#define PAUSE_SHIFT_MAX 10
#define OLDER_MAX 8 /* versions that are looked at for one within reach */

/* ---- pairs ---- */

static bool is_pair(const struct bad_link *link, const struct device_slot *a,
                    const struct device_slot *b)
{
    const char *first = link->device[0].text, *second = link->device[1].text;
    return (strcmp(first, a->device.id.text) == 0 && strcmp(second, b->device.id.text) == 0) ||
           (strcmp(first, b->device.id.text) == 0 && strcmp(second, a->device.id.text) == 0);
}

void link_note(const struct core *core, struct job_slot *job, const struct device_slot *a,
               const struct device_slot *b)
{
    size_t at = 0;
    while (at < BAD_LINKS_MAX && !is_pair(&job->bad_link[at], a, b)) {
        at++;
    }
    if (at == BAD_LINKS_MAX) {
        at = job->next_bad_link;
        job->next_bad_link = (job->next_bad_link + 1) % BAD_LINKS_MAX;
    }
    job->bad_link[at] =
        (struct bad_link){.device = {a->device.id, b->device.id},
                          .until_ms = core->now_ms + BAD_LEASES * core->config.lease_ms};
}

bool link_is_bad(const struct core *core, const struct job_slot *job, const struct device_slot *a,
                 const struct device_slot *b)
{
    for (size_t i = 0; i < BAD_LINKS_MAX; i++) {
        const struct bad_link *link = &job->bad_link[i];
        if (link->until_ms > core->now_ms && is_pair(link, a, b)) {
            return true;
        }
    }
    return false;
}

/* Whether stages on these devices, in this order, would have to use such a link among themselves.
 */
static bool ring_is_bad(const struct core *core, const struct job_slot *job,
                        struct device_slot *const *device, size_t count)
{
    bool closed = job->job.spec.neighbor_every > 0; /* copies go from the last one to the first */
    for (size_t s = 0; s < count; s++) {
        const struct device_slot *next = device[(s + 1) % count];
        bool neighbors = s + 1 < count || closed;
        if (neighbors && next != device[s] && link_is_bad(core, job, device[s], next)) {
            return true;
        }
    }
    return false;
}

/* ---- the plan that ran ---- */

static bool same_layout(const struct plan *plan, const struct replan_request *ran)
{
    bool same = plan->stage_count == ran->device_count;
    for (size_t s = 0; same && s < plan->stage_count; s++) {
        same = strcmp(plan->stage[s].device.text, ran->device[s].text) == 0 &&
               (s + 1 == plan->stage_count || plan->stage[s].end == ran->cut[s]);
    }
    return same;
}

bool links_can_stay(const struct core *core, const struct job_slot *job)
{
    const struct replan_request *ran = &job->ran;
    struct device_slot *device[STAGES_MAX];
    if (job->plan.state != PLAN_PREPARING || ran->device_count == 0 ||
        same_layout(&job->plan, ran)) {
        return false;
    }
    for (size_t s = 0; s < ran->device_count; s++) {
        device[s] = device_find(core, ran->device[s].text);
        if (!device[s] || !device_ready(device[s]) || (device[s]->job && device[s]->job != job)) {
            return false;
        }
    }
    return !ring_is_bad(core, job, device, ran->device_count);
}

bool links_ran(const struct job_slot *job, const struct device_slot *device)
{
    for (size_t s = 0; s < job->ran.device_count; s++) {
        if (strcmp(job->ran.device[s].text, device->device.id.text) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- failures in a row ---- */

void links_reset(struct job_slot *job)
{
    job->links = 0;
    job->link_since_ms = NEVER;
}

/* Steps that were done before, and are done again, end no row. */
void links_count(const struct core *core, struct job_slot *job, bool by_link)
{
    if (job->reached_step > job->link_step) {
        links_reset(job);
    }
    if (by_link) {
        job->link_step = job->reached_step > job->link_step ? job->reached_step : job->link_step;
        job->link_since_ms = job->link_since_ms == NEVER ? core->now_ms : job->link_since_ms;
        job->links++;
    }
}

int64_t links_pause_ms(const struct core *core, const struct job_slot *job)
{
    if (job->links <= EAGER_MAX) {
        return 0;
    }
    int shift =
        job->links - EAGER_MAX - 1 < PAUSE_SHIFT_MAX ? job->links - EAGER_MAX - 1 : PAUSE_SHIFT_MAX;
    int64_t ms = core->config.heartbeat_ms << shift;
    return ms < core->config.lease_ms ? ms : core->config.lease_ms;
}

/* Whether some unit of the version would have to come over such a link, whoever of its holders is
 * asked. */
static bool is_out_of_reach(struct core *core, const struct job_slot *job, int64_t version)
{
    const struct planning *planning = core->planning;
    const struct absent nobody = {0};
    size_t count = held_list(core, job, &nobody, version), first = 0, at = 0;
    for (size_t s = 0; s < planning->device_count; s++) {
        for (size_t unit = first; unit < planning->plan.end[s]; unit++) {
            bool reached = false;
            for (; at < count && core->held[at].unit == unit; at++) {
                const struct device_slot *holder = core->held[at].device;
                reached = reached || holder == planning->device[s] ||
                          !link_is_bad(core, job, holder, planning->device[s]);
            }
            if (!reached) {
                return true;
            }
        }
        first = planning->plan.end[s];
    }
    return false;
}

/* The newest version below it that the plan gets without such a link, and its hashes: held, or the
 * center's. 0: none.
 */
static int64_t version_within_reach(struct core *core, const struct job_slot *job, int64_t below,
                                    struct cut *out)
{
    static const struct cut none;
    const struct absent nobody = {0};
    for (int i = 0; i < OLDER_MAX && below > 0; i++) {
        *out = none;
        below = held_newest(core, job, recovery_list(core, job, &nobody), &nobody, below, out);
        if (below > 0 && !is_out_of_reach(core, job, below)) {
            return below;
        }
    }
    *out = none;
    return recovery_center(job);
}

int64_t links_weigh(struct core *core, struct job_slot *job, int64_t start)
{
    if (job->links == 0 || start <= recovery_center(job) ||
        ring_is_bad(core, job, core->planning->device, core->planning->device_count) ||
        !is_out_of_reach(core, job, start)) {
        return start;
    }
    struct cut cut;
    int64_t older = version_within_reach(core, job, start, &cut);
    if (older == 0) {
        return start;
    }
    const struct weighing weighing = {.newer = start,
                                      .older = older,
                                      .waited_ms = core->now_ms - job->link_since_ms,
                                      .again_ms = redo_ms(job, start - older)};
    /* One more try that is in vain takes so long. */
    int64_t try_ms = job->job.deadlines.link_ms + links_pause_ms(core, job);
    bool waits = weighing.waited_ms + try_ms < weighing.again_ms;
    incident_weighed(core, job, &weighing, waits);
    if (waits) {
        return start;
    }
    job->cut = cut;
    return older;
}
