/* Rounds of replication: stage 0 opens them, the core commits them or gives them up, and decides by
 * them what may be dropped. */
#include <string.h>

#include "coordinator/core/core_private.h"

/* Starts since the last commit whose versions are kept: more would fill the devices' memory. */
#define STARTS_KEPT 3

/* ---- what may be dropped ---- */

static bool replicates(const struct job_slot *job)
{
    return job->job.spec.center_every > 0 || job->job.spec.neighbor_every > 0;
}

static size_t starts_since(const struct job *job, int64_t version)
{
    size_t count = 0;
    while (count < job->line_count && job->line[job->line_count - 1 - count].first > version) {
        count++;
    }
    return count;
}

/* What is older than the newest committed version is of no use to anybody. A stop leaves one copy
 * of each unit, which no single loss may take: the version committed before stays until one of the
 * present placement is. Without replication nothing ever is committed, and the plan's start must
 * do. */
int64_t rounds_pin(const struct job_slot *job)
{
    const struct open_round *center = &job->round[ROUND_OF_CENTER];
    int64_t pin =
        job->job.neighbor_version > job->job.version ? job->job.neighbor_version : job->job.version;
    enum phase phase = job_phase(job);
    bool started = phase == PHASE_RUN || phase == PHASE_STOPPING || phase == PHASE_FINISHED;
    if (started && (!replicates(job) || starts_since(&job->job, pin) > STARTS_KEPT)) {
        pin = job->plan.resume_version > pin ? job->plan.resume_version : pin;
    }
    /* What is on its way to the center is still read. */
    return center->version > 0 && center->version < pin ? center->version : pin;
}

/* ---- life of a round ---- */

void rounds_reset(struct job_slot *job)
{
    for (size_t k = 0; k < ROUND_KINDS; k++) {
        job->round[k] = (struct open_round){.deadline_ms = NEVER};
    }
}

static bool is_paused(const struct core *core, enum round_kind kind)
{
    return kind == ROUND_OF_CENTER && core->disk_nearly_full;
}

static bool is_wanted(const struct job_slot *job, enum round_kind kind)
{
    return kind == ROUND_OF_CENTER ? job->job.spec.center_every > 0
                                   : job->job.spec.neighbor_every > 0 && job->plan.stage_count > 1;
}

static void close_round(struct core *core, struct job_slot *job, enum round_kind kind)
{
    job->round[kind].version = 0;
    job->round[kind].deadline_ms = NEVER;
    job_mark(core, job);
}

static void abandon(struct core *core, struct job_slot *job, enum round_kind kind)
{
    close_round(core, job, kind);
    if (kind == ROUND_OF_CENTER) {
        center_discard(core, job);
    }
}

void rounds_abandon_center(struct core *core, struct job_slot *job)
{
    abandon(core, job, ROUND_OF_CENTER);
}

static void open_round(struct core *core, struct job_slot *job, enum round_kind kind,
                       int64_t version)
{
    struct open_round *round = &job->round[kind];
    if (round->version > 0) {
        abandon(core, job, kind); /* stage 0 would not begin another one otherwise */
    }
    *round = (struct open_round){.version = version,
                                 .last = version,
                                 .deadline_ms = core->now_ms + job->job.deadlines.round_ms};
    if (kind == ROUND_OF_CENTER) {
        center_expect(core, job, version);
    }
    job_mark(core, job);
}

void rounds_restore_center(struct core *core, struct job_slot *job)
{
    const struct center_version *coming = center_coming(job);
    if (coming->count > 0) {
        job->round[ROUND_OF_CENTER] =
            (struct open_round){.version = coming->version,
                                .last = coming->version,
                                .deadline_ms = core->now_ms + job->job.deadlines.round_ms};
    }
}

/* Two devices hold every unit with one hash, the stage's own among them. */
static bool neighbor_complete(const struct core *core, const struct job_slot *job, int64_t version)
{
    size_t stages = job->plan.stage_count;
    for (size_t s = 0; s < stages; s++) {
        const struct plan_stage *stage = &job->plan.stage[s];
        const struct device_slot *own = stage_device(core, job, s);
        for (int64_t u = stage->first; u < stage->end; u++) {
            const struct holding *first =
                own && device_reachable(own) ? holdings_find(core, own, job, version, u) : NULL;
            bool second = false;
            for (size_t t = 0; first && !second && t < stages; t++) {
                const struct device_slot *other = stage_device(core, job, t);
                const struct holding *copy = t != s && other && device_reachable(other)
                                                 ? holdings_find(core, other, job, version, u)
                                                 : NULL;
                second = copy && strcmp(copy->sha256, first->sha256) == 0;
            }
            if (!second) {
                return false;
            }
        }
    }
    return true;
}

void rounds_check(struct core *core, struct job_slot *job)
{
    struct open_round *neighbor = &job->round[ROUND_OF_NEIGHBOR];
    if (job_phase(job) == PHASE_RUN && neighbor->version > 0 &&
        neighbor_complete(core, job, neighbor->version)) {
        job->job.neighbor_version = neighbor->version;
        progress_reach(job, neighbor->version);
        close_round(core, job, ROUND_OF_NEIGHBOR);
        job_changed(core, job);
        job_touch(core, job);
    }
    if (job->round[ROUND_OF_CENTER].version > 0) {
        center_advance(core, job);
    }
}

void rounds_center_done(struct core *core, struct job_slot *job)
{
    close_round(core, job, ROUND_OF_CENTER);
    job_touch(core, job);
}

void rounds_tick(struct core *core, struct job_slot *job)
{
    for (size_t k = 0; k < ROUND_KINDS; k++) {
        if (job->round[k].deadline_ms <= core->now_ms) {
            abandon(core, job, (enum round_kind)k);
        }
    }
}

int64_t rounds_due_ms(const struct job_slot *job)
{
    int64_t neighbor = job->round[ROUND_OF_NEIGHBOR].deadline_ms,
            center = job->round[ROUND_OF_CENTER].deadline_ms;
    return neighbor < center ? neighbor : center;
}

/* ---- what stage 0 asks ---- */

static enum round_state ask(struct core *core, struct job_slot *job, enum round_kind kind,
                            int64_t version)
{
    const struct open_round *round = &job->round[kind];
    int64_t committed = kind == ROUND_OF_CENTER ? job->job.version : job->job.neighbor_version;
    if (version == 0) {
        return is_paused(core, kind) ? ROUND_PAUSED : ROUND_NONE;
    }
    if (version > job->plan.resume_version && version <= committed) {
        return ROUND_COMMITTED;
    }
    if (round->version == version) {
        return ROUND_OPEN;
    }
    if (is_paused(core, kind)) {
        return ROUND_PAUSED;
    }
    if (job_phase(job) != PHASE_RUN || !is_wanted(job, kind) || version <= round->last ||
        version <= job->plan.resume_version || version >= job->total_steps) {
        return ROUND_ABANDONED;
    }
    open_round(core, job, kind, version);
    return ROUND_OPEN;
}

static int state_of(struct core *core, const struct device_slot *device,
                    const struct heartbeat *heartbeat, enum round_kind kind, int64_t version)
{
    struct job_slot *job = device->job;
    bool stage_0 = job && device->stage == 0 && strcmp(heartbeat->plan, job->plan.id.text) == 0 &&
                   plan_active(job) && job->failure.cause == FAILURE_NONE;
    if (stage_0) {
        return ask(core, job, kind, version);
    }
    return version > 0 ? ROUND_ABANDONED : is_paused(core, kind) ? ROUND_PAUSED : ROUND_NONE;
}

void rounds_take(struct core *core, const struct device_slot *device,
                 const struct heartbeat *heartbeat)
{
    struct heartbeat_reply *reply = &core->heartbeat_reply;
    int64_t neighbor = heartbeat->round_neighbor, center = heartbeat->round_center;
    int neighbor_state = state_of(core, device, heartbeat, ROUND_OF_NEIGHBOR, neighbor);
    int center_state = state_of(core, device, heartbeat, ROUND_OF_CENTER, center);
    if (device->job && (neighbor_state == ROUND_OPEN || center_state == ROUND_OPEN)) {
        rounds_check(core, device->job); /* the copies may be there already */
        neighbor_state = state_of(core, device, heartbeat, ROUND_OF_NEIGHBOR, neighbor);
        center_state = state_of(core, device, heartbeat, ROUND_OF_CENTER, center);
    }
    reply->neighbor = (struct round){.version = neighbor, .state = neighbor_state};
    reply->center = (struct round){.version = center, .state = center_state};
}
