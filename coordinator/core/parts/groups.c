#include "coordinator/core/parts/groups.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/jobs/jobs.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"
#include "coordinator/core/submodel/savings.h"

/* ---- parts ---- */

size_t groups_part_count(const struct parent_slot *parent)
{
    static const size_t counts[PARENT_ENDED + 1] = {[PARENT_STEM] = 1, [PARENT_JOINT] = 1};
    const int phase = parent->parent.phase;
    return phase == PARENT_GROUPS || phase == PARENT_MIXING ? parent->parent.groups.count
                                                            : counts[phase];
}

struct parent_part *groups_part(struct parent_slot *parent, size_t index)
{
    ASSERT(index < groups_part_count(parent));
    switch ((enum parent_phase)parent->parent.phase) {
    case PARENT_STEM: return &parent->parent.stem;
    case PARENT_GROUPS:
    case PARENT_MIXING: return &parent->parent.part[index];
    case PARENT_JOINT: return &parent->parent.joint;
    case PARENT_HARVEST:
    case PARENT_ENDED: break;
    }
    return NULL;
}

size_t groups_count(const struct parent *parent, enum part_state state)
{
    size_t count = 0;
    for (size_t g = 0; g < parent->groups.count; g++) {
        count += parent->part[g].state == (int)state;
    }
    return count;
}

bool groups_harvests(const struct parent_slot *parent)
{
    return parent->parent.phase == PARENT_HARVEST ||
           (parent->parent.phase == PARENT_JOINT && parent->parent.joint.state == PART_TRAINED);
}

bool groups_harvest_waits(const struct parent_slot *parent)
{
    return groups_harvests(parent) && !parent->work.asked && !parent->parent.paused;
}

struct parent_part *groups_part_of(struct parent_slot *parent, const struct job_slot *job)
{
    for (size_t i = 0; i < groups_part_count(parent); i++) {
        struct parent_part *part = groups_part(parent, i);
        if (part->state == PART_TRAINS && id_equal(part->job.text, job->job.id.text)) {
            return part;
        }
    }
    return NULL;
}

struct job_slot *groups_job(const struct core *core, const struct parent_part *part)
{
    struct job_slot *job = part->state == PART_TRAINS ? slots_job(core, part->job.text) : NULL;
    return job && !job->mark.ended ? job : NULL;
}

void groups_changed(struct parent_slot *parent)
{
    parent->work.row_changed = true;
}

/* Parts are scheduled with the priority and the age of their parent. */
bool groups_begin(struct core *core, struct parent_slot *parent, struct parent_part *part,
                  const struct group_job *made)
{
    struct job_slot *job = jobs_add(core, made->spec, made->data, made->model);
    parent->work.full = !job;
    if (!job) {
        return false;
    }
    job->job.created_ms = parent->job.created_ms;
    job->job.parent = parent->job.id;
    job->job.part = made->part;
    job->job.group = (int64_t)made->group;
    if (made->device) {
        job->job.wish = (struct replan_request){.device = {*made->device}, .device_count = 1};
        job->job.has_wish = true;
    }
    part->job = job->job.id;
    part->state = PART_TRAINS;
    part->attempts++;
    part->counted = 0;
    part->flops_per_sample = savings_flops(made->model, 0, made->model->unit_count);
    groups_changed(parent);
    core->schedule = true;
    act_publish_job(core, "job_queued", &job->job, job->job.id.text, "job '%s' is queued",
                    job->job.spec.name);
    return true;
}

void groups_cancel(struct core *core, struct parent_part *part, const char *reason,
                   const char *message)
{
    struct job_slot *job = groups_job(core, part);
    if (job) {
        ending_job(core, job, JOB_CANCELLED, reason, message);
    }
}

void groups_set_deadline(struct core *core, struct parent_slot *parent, int64_t left_ms)
{
    if (left_ms > 0 && parent->parent.paused) {
        parent->parent.groups_left_ms = left_ms;
    } else if (left_ms > 0) {
        parent->parent.groups_until_ms = core->wall_ms + left_ms;
        parent->parent.groups_left_ms = 0;
        parent->work.deadline_ms = core->now_ms + left_ms;
    }
}

/* A pause stops the clock of the deadline. The parts follow at the end of the step. */
void groups_pause(struct core *core, struct parent_slot *parent)
{
    parent->parent.paused = true;
    if (parent->work.deadline_ms != NEVER) {
        const int64_t left_ms = parent->work.deadline_ms - core->now_ms;
        parent->parent.groups_left_ms = left_ms > 1 ? left_ms : 1;
        parent->parent.groups_until_ms = 0;
        parent->work.deadline_ms = NEVER;
    }
}

void groups_resume(struct core *core, struct parent_slot *parent)
{
    parent->parent.paused = false;
    groups_set_deadline(core, parent, parent->parent.groups_left_ms);
    for (size_t i = 0; i < groups_part_count(parent); i++) {
        struct job_slot *job = groups_job(core, groups_part(parent, i));
        if (job) {
            jobs_resume(core, job);
        }
    }
}

void groups_follow(struct core *core, struct parent_slot *parent)
{
    for (size_t i = 0; i < groups_part_count(parent); i++) {
        struct job_slot *job = groups_job(core, groups_part(parent, i));
        if (job && parent->parent.paused) {
            jobs_pause(core, job);
        } else if (job && job->job.state == JOB_PAUSED) {
            jobs_resume(core, job);
        }
    }
}

bool groups_has_room(const struct core *core, const struct parent_slot *parent)
{
    return parent->work.full && !parent->parent.paused && core->jobs.count < core->jobs.max;
}

/* ---- the parent ---- */

static void set_state(struct core *core, struct parent_slot *parent, int state, const char *reason,
                      const char *format, ...) PRINTF_LIKE(5, 6);
static void set_state(struct core *core, struct parent_slot *parent, int state, const char *reason,
                      const char *format, ...)
{
    char message[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    text_format(message, sizeof(message), format, arguments);
    va_end(arguments);
    bool same = parent->job.state == state;
    if (same && strcmp(parent->job.state_reason, reason) == 0 &&
        strcmp(parent->job.message, message) == 0) {
        return;
    }
    parent->job.state = state;
    text_set(parent->job.state_reason, sizeof(parent->job.state_reason), "%s", reason);
    memcpy(parent->job.message, message, sizeof(message));
    parent->work.job_changed = true;
    if (!same) {
        act_publish_job(core, states_event(state), &parent->job, parent->job.id.text, "%s",
                        message);
    }
}

struct parent_slot *groups_add(struct core *core, const struct event_job_submit *submit)
{
    struct job_id id;
    ids_new(core, id.text, "job_");
    struct parent_slot *parent = table_add(&core->parents, id.text);
    if (!parent) {
        return NULL;
    }
    parent->job.id = id;
    parent->job.state = JOB_QUEUED;
    parent->job.spec = *submit->spec;
    parent->job.spec.model.description = NULL;
    parent->job.spec.kernels = NULL;
    parent->job.spec.submodel.groups = NULL;
    parent->job.data = *submit->data;
    parent->job.exact = true;
    parent->job.created_ms = core->wall_ms;
    parent->model = submit->model;
    parent->parent.job = id;
    parent->work = (struct group_work){.touched = true,
                                       .job_changed = true,
                                       .row_changed = true,
                                       .deadline_ms = NEVER,
                                       .tick_ms = NEVER};
    act_publish_job(core, "job_queued", &parent->job, id.text, "job '%s' is queued",
                    submit->spec->name);
    return parent;
}

void groups_end(struct core *core, struct parent_slot *parent, int state, const char *reason,
                const char *message)
{
    for (size_t i = 0; i < groups_part_count(parent); i++) {
        struct parent_part *part = groups_part(parent, i);
        groups_cancel(core, part, "", "its parent has ended");
        part->state = part->state == PART_TRAINS ? PART_MISSING : part->state;
    }
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        incidents_abandon(core, &parent->job, &parent->mixes.group[g].incidents);
    }
    set_state(core, parent, state, reason, "%s", message);
    parent->parent.phase = PARENT_ENDED;
    parent->job.ended_ms = core->wall_ms;
    parent->work.job_changed = parent->work.ended = true;
    groups_changed(parent);
}

void groups_take_class(struct parent_slot *parent, const struct job *job)
{
    struct job *shown = &parent->job;
    if (shown->numeric_class[0] == '\0') {
        memcpy(shown->numeric_class, job->numeric_class, sizeof(shown->numeric_class));
    } else if (strcmp(shown->numeric_class, job->numeric_class) != 0) {
        text_set(shown->numeric_class, sizeof(shown->numeric_class), "mixed");
        shown->exact = false;
    }
    shown->exact = shown->exact && job->exact;
    parent->work.job_changed = true;
}

/* A parent shows the state of its furthest part. */
static int further(int a, int b)
{
    static const int rank[JOB_CANCELLED + 1] = {
        [JOB_PAUSED] = 1,     [JOB_QUEUED] = 2,    [JOB_WAITING_FOR_DEVICES] = 3,
        [JOB_PLANNING] = 4,   [JOB_PREPARING] = 5, [JOB_RECOVERING] = 6,
        [JOB_REPLANNING] = 7, [JOB_PAUSING] = 8,   [JOB_RUNNING] = 9,
    };
    return rank[a] > rank[b] ? a : b;
}

/* The states of all parts of the phase together. */
struct summary {
    size_t live, running, paused, trained;
    int state;
    const char *reason;
};

static struct summary sum_up(const struct core *core, struct parent_slot *parent)
{
    struct summary sum = {.state = JOB_PAUSED, .reason = ""};
    for (size_t i = 0; i < groups_part_count(parent); i++) {
        const struct parent_part *part = groups_part(parent, i);
        const struct job_slot *job = groups_job(core, part);
        sum.trained += part->state == PART_TRAINED;
        if (!job) {
            continue;
        }
        sum.live++;
        sum.running += job->job.state == JOB_RUNNING;
        sum.paused += job->job.state == JOB_PAUSED;
        if (parent->job.exact && !job->job.exact) {
            parent->job.exact = false;
            parent->work.job_changed = true;
        }
        if (parent->job.started_ms == 0 && job->job.started_ms > 0) {
            parent->job.started_ms = job->job.started_ms;
            parent->work.job_changed = true;
        }
        if (further(job->job.state, sum.state) == job->job.state) {
            sum.state = job->job.state;
            sum.reason = job->job.state_reason;
        }
    }
    return sum;
}

void groups_show(struct core *core, struct parent_slot *parent)
{
    const struct summary sum = sum_up(core, parent);
    const char *phase = parent_phase_names[parent->parent.phase];
    const size_t count = groups_part_count(parent);
    if (parent->parent.paused && sum.paused == sum.live) {
        set_state(core, parent, JOB_PAUSED, "", "paused in the phase %s", phase);
    } else if (parent->parent.paused) {
        set_state(core, parent, JOB_PAUSING, "", "pauses %zu of %zu parts of the phase %s",
                  sum.live - sum.paused, sum.live, phase);
    } else if (parent->work.fault[0] != '\0') {
        set_state(core, parent, JOB_RUNNING, "export_failed", "%s", parent->work.fault);
    } else if (groups_harvests(parent)) {
        set_state(core, parent, JOB_RUNNING, "", "phase %s: assembles the model", phase);
    } else if (parent->work.wait[0] != '\0') {
        set_state(core, parent, JOB_WAITING_FOR_DEVICES, "waiting_for_devices", "%s",
                  parent->work.wait);
    } else if (sum.live == 0) {
        set_state(core, parent, JOB_RUNNING, "", "prepares the phase %s", phase);
    } else if (parent->parent.phase == PARENT_MIXING) {
        set_state(core, parent, sum.state, sum.reason,
                  "phase %s: %zu of %zu groups train, %" PRId64 " averages%.180s", phase,
                  sum.running, count, parent->parent.gossip.averages, parent->work.note);
    } else if (count > 1) {
        set_state(core, parent, sum.state, sum.reason, "phase %s: %zu of %zu trained%.180s", phase,
                  sum.trained, count, parent->work.note);
    } else {
        set_state(core, parent, sum.state, sum.reason, "phase %s", phase);
    }
}

/* ---- the end of a step ---- */

void groups_flush(struct core *core)
{
    for (size_t i = core->parents.count; i-- > 0;) {
        struct parent_slot *parent = slots_parent_at(core, i);
        if (parent->work.job_changed) {
            parent->job.revision++;
            parent->work.shown_ms = core->now_ms;
            act_persist(core, OBJECT_JOB, &parent->job);
            act_wake(core, OBJECT_JOB, parent->job.id.text);
        }
        if (parent->work.row_changed) {
            parent->parent.revision++;
            act_persist(core, OBJECT_PARENT, &parent->parent);
        }
        parent->work.job_changed = parent->work.row_changed = false;
        if (parent->work.ended) {
            table_remove(&core->parents, parent);
        }
    }
}

int64_t groups_due_ms(const struct core *core)
{
    int64_t due_ms = NEVER;
    for (size_t i = 0; i < core->parents.count; i++) {
        const struct parent_slot *parent = slots_parent_at(core, i);
        const struct group_work *work = &parent->work;
        const bool now = work->touched || groups_has_room(core, parent);
        const int64_t own_ms = now                            ? core->now_ms
                               : groups_harvest_waits(parent) ? work->retry_ms
                                                              : work->deadline_ms;
        due_ms = own_ms < due_ms ? own_ms : due_ms;
        due_ms = work->tick_ms < due_ms ? work->tick_ms : due_ms;
    }
    return due_ms;
}

/* ---- after a restart ---- */

void groups_restore_job(struct core *core, const struct restored_job *row)
{
    struct parent_slot *parent = table_add(&core->parents, row->job.id.text);
    if (parent) {
        parent->job = row->job;
        parent->model = row->model;
        parent->work = (struct group_work){.touched = true, .deadline_ms = NEVER, .tick_ms = NEVER};
    }
}

void groups_restore(struct core *core, const struct parent *row)
{
    struct parent_slot *parent = slots_parent(core, row->job.text);
    if (!parent) {
        return;
    }
    parent->parent = *row;
    if (row->phase == PARENT_GROUPS && row->groups_until_ms > 0) {
        const int64_t limit_ms = parent->job.spec.submodel.deadline_seconds * 1000;
        int64_t left_ms = row->groups_until_ms - core->wall_ms;
        left_ms = left_ms < limit_ms ? left_ms : limit_ms; /* the clock may have been set back */
        parent->work.deadline_ms = core->now_ms + (left_ms > 0 ? left_ms : 0);
    }
}

/* All rows of a parent are written in one transaction. If they disagree nevertheless, a part
 * without a job begins again, and a job without a parent ends. */
void groups_restored(struct core *core)
{
    for (size_t i = 0; i < core->parents.count; i++) {
        struct parent_slot *parent = slots_parent_at(core, i);
        for (size_t k = 0; k < groups_part_count(parent); k++) {
            struct parent_part *part = groups_part(parent, k);
            if (part->state == PART_TRAINS && !slots_job(core, part->job.text)) {
                part->state = PART_WAITING;
                groups_changed(parent);
            }
        }
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        struct parent_slot *parent = slots_parent(core, job->job.parent.text);
        if (job->job.part != JOB_WHOLE && (!parent || !groups_part_of(parent, job))) {
            ending_job(core, job, JOB_CANCELLED, "", "its parent has ended");
        }
    }
}
