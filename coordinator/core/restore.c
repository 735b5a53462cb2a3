/* Restore the state from the rows of an earlier run. Leases restart, long enough for agents to call
 * again; the devices' snapshots and measurements are unknown until they report. */
#include "coordinator/core/restore.h"

#include "base/assert.h"
#include "coordinator/core/capacity/capacity_rows.h"
#include "coordinator/core/capacity/profile.h"
#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/collect.h"
#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/copies/sources.h"
#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/failures/challenge.h"
#include "coordinator/core/failures/charges.h"
#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/failures/lease.h"
#include "coordinator/core/failures/stall.h"
#include "coordinator/core/generation/drift.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/jobs/earlier.h"
#include "coordinator/core/jobs/jobs.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/placement/placement.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

/* Progress raises revisions without writing a row. This is more than clients can have seen since
 * the last row. */
#define REVISION_SKIP 1000
#define STATE_PER_PARAMETERS_MAX                                                                   \
    4 /* bytes of a state by those of its parameters: momentum and buffers are less */

static void restore_device(struct core *core, const struct device *row)
{
    struct device_slot *device =
        row->state == DEVICE_REMOVED ? NULL : table_add(&core->devices, row->id.text);
    ids_seen(core, row->id.text);
    if (!device) {
        return;
    }
    device->device = *row;
    device->lease.seen_ms = device->lease.lost_ms = device->lease.beat_ms = core->now_ms;
    device->assignment_revision = core->revision_base;
    challenge_clear(device);
    core->device_due_ms[table_slot(&core->devices, device)] = lease_next_ms(core, device);
    capacity_enrolled(core, device);
}

static void restore_job(struct core *core, const struct restored_job *row)
{
    if (strategy_has_parts(row->job.spec.strategy) && !job_state_ended(row->job.state)) {
        ids_seen(core, row->job.id.text);
        groups_restore_job(core, row);
        return;
    }
    struct job_slot *job =
        job_state_ended(row->job.state) ? NULL : table_add(&core->jobs, row->job.id.text);
    ids_seen(core, row->job.id.text);
    if (!job) {
        return;
    }
    job->job = row->job;
    job->job.revision += REVISION_SKIP;
    progress_restore_steps(job);
    job->waiting.reason = PLAN_DEVICE_LOST;
    job->generation.stop_reason = PLAN_REQUESTED;
    drift_restore(core, job);
    jobs_init(core, job, row->model);
}

static void restore_plan(struct core *core, const struct plan *row)
{
    struct job_slot *job = slots_job(core, row->job.text);
    ids_seen(core, row->id.text);
    if (job && job->strategy->plan_fits(row, job->unit_count) &&
        (!job->has_plan || row->generation > job->plan.generation)) {
        job->plan = *row;
        job->has_plan = true;
    }
}

/* Assign the devices of the plan to its stages. A device with all its units in the center may have
 * left. false: a device is missing. */
static bool take_devices(struct core *core, struct job_slot *job)
{
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        struct device_slot *device = slots_stage_device(core, job, s);
        bool works = device && id_equal(device->device.job.text, job->job.id.text);
        if (states_phase(job) == PHASE_FINISHED && !works && !center_owes(job, s)) {
            continue;
        }
        if (!device || device->job) {
            return false;
        }
        device->job = job;
        device->stage = s;
    }
    return true;
}

static void gather(struct core *core, struct job_slot *job)
{
    if (states_plan_active(job)) {
        ending_close_plan(core, job, job->plan.resume_version);
    }
    progress_halt(job);
    job->waiting.reason = PLAN_RESTARTED;
    bool on_devices =
        job->has_plan && (job->plan.resume_version > job->job.version ||
                          job->job.neighbor_version > job->job.version || job->plan.started_ms > 0);
    job->timer_ms[TIMER_GATHER] =
        on_devices ? core->now_ms + deadlines_first_lease_ms(core) : core->now_ms;
}

static void resume_prepare(struct core *core, struct job_slot *job)
{
    int64_t version = job->plan.resume_version;
    if (version != 0 && version != center_whole(job)->version) {
        gather(core, job); /* only the devices know which units they hold */
        return;
    }
    int64_t moved = job->plan.bytes_moved;
    sources_choose(core, job);
    job->plan.bytes_moved = moved;
    job->timer_ms[TIMER_PHASE] = core->now_ms + deadlines_prepare_ms(core, job);
}

static void resume_finish(struct core *core, struct job_slot *job)
{
    if (center_whole(job)->version == job->plan.last_version) {
        collect_begin(core, job, job->plan.last_version);
        return;
    }
    center_coming(job)->version = job->plan.last_version;
    job->timer_ms[TIMER_PHASE] = core->now_ms + deadlines_transfer_ms(job->generation.state_bytes);
    collect_advance(core, job);
}

/* Continue a running plan. Its devices must first call again. */
static void resume_run(struct core *core, struct job_slot *job)
{
    rounds_restore_center(core, job);
    stall_watch(core, job);
    drift_begin(core, job);
    job->timer_ms[TIMER_STEP] += deadlines_first_lease_ms(core);
    avoidance_watch(core, job);
}

static void resume_plan(struct core *core, struct job_slot *job)
{
    const struct job_progress stored = job->job.progress;
    charges_progress(job, job->plan.resume_version);
    job->generation.state_bytes =
        STATE_PER_PARAMETERS_MAX *
        (int64_t)profile_parameter_bytes(core, job, 0, (int64_t)job->unit_count);
    job->generation.decided_ms = core->now_ms;
    progress_restore(job, &stored);
    if (job->plan.state != PLAN_PREPARING) {
        layout_request(&job->plan, &job->ran);
    }
    switch (states_phase(job)) {
    case PHASE_PREPARE: resume_prepare(core, job); break;
    case PHASE_STOPPING:
        rounds_restore_center(core, job);
        job->timer_ms[TIMER_PHASE] = core->now_ms + deadlines_stop_ms(job);
        break;
    case PHASE_FINISHED: resume_finish(core, job); break;
    case PHASE_RUN: resume_run(core, job); break;
    case PHASE_IDLE:
    case PHASE_READY:
    case PHASE_STOPPED: break;
    }
}

static void resume_job(struct core *core, struct job_slot *job)
{
    collect_restored(core, job);
    charges_progress(job, job->job.neighbor_version > job->job.version ? job->job.neighbor_version
                                                                       : job->job.version);
    switch ((enum job_state)job->job.state) {
    case JOB_QUEUED:
    case JOB_PLANNING:
    case JOB_PAUSED:
    case JOB_CANCELLING: break;
    case JOB_PREPARING:
    case JOB_RUNNING:
    case JOB_REPLANNING:
    case JOB_RECOVERING:
    case JOB_PAUSING:
    case JOB_WAITING_FOR_DEVICES:
        if (states_plan_active(job) && take_devices(core, job)) {
            resume_plan(core, job);
        } else {
            gather(core, job);
        }
        break;
    case JOB_SUCCEEDED:
    case JOB_FAILED:
    case JOB_CANCELLED: break;
    }
}

/* Rows of devices and plans are written in one transaction. If they disagree nevertheless, the
 * plans are right. */
static void settle_devices(struct core *core)
{
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = slots_device_at(core, i);
        const struct job_id job = device->job ? device->job->job.id : (struct job_id){0};
        if (!id_equal(device->device.job.text, job.text)) {
            device->device.job = job;
            mark_device_changed(core, device);
        }
    }
}

static void restore_capacities(struct core *core, const struct restored_capacities *rows)
{
    for (size_t i = 0; i < rows->device_count; i++) {
        capacity_rows_restore(core, &rows->device[i]);
    }
    for (size_t i = 0; i < rows->unit_count; i++) {
        capacity_rows_restore_unit(core, &rows->unit[i]);
    }
    for (size_t i = 0; i < rows->link_count; i++) {
        traffic_restore(core, &rows->link[i]);
    }
}

void restore_on_rows(struct core *core, const struct event *event)
{
    const struct event_restored *rows = &event->restored;
    core->seed = rows->seed;
    core->revision_base = core->wall_ms > 0 ? core->wall_ms : 1;
    lease_spare(core, deadlines_first_lease_ms(core));
    for (size_t i = 0; i < rows->device_count; i++) {
        restore_device(core, &rows->device[i]);
    }
    restore_capacities(core, &rows->capacities);
    for (size_t i = 0; i < rows->dataset_count; i++) {
        struct dataset *dataset = table_add(&core->datasets, rows->dataset[i].name);
        ASSERT(dataset);
        *dataset = rows->dataset[i];
    }
    for (size_t i = 0; i < rows->model_count; i++) {
        struct model_row *model = table_add(&core->models, rows->model[i].name);
        ASSERT(model);
        *model = rows->model[i];
    }
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        struct checkpoint *checkpoint = table_add(&core->checkpoints, rows->checkpoint[i].sha256);
        ASSERT(checkpoint);
        *checkpoint = rows->checkpoint[i];
        ids_seen(core, checkpoint->id.text);
    }
    for (size_t i = 0; i < rows->job_count; i++) {
        restore_job(core, &rows->job[i]);
    }
    for (size_t i = 0; i < rows->parent_count; i++) {
        groups_restore(core, &rows->parent[i]);
    }
    for (size_t i = 0; i < rows->plan_count; i++) {
        restore_plan(core, &rows->plan[i]);
    }
    for (size_t i = 0; i < rows->center_unit_count; i++) {
        struct job_slot *job = slots_job(core, rows->center_unit[i].job.text);
        if (job) {
            center_restore_unit(job, &rows->center_unit[i]);
        } else {
            center_keep(core, rows->center_unit[i].sha256);
        }
    }
    for (size_t i = 0; i < rows->incident_count; i++) {
        incidents_restore(core, &rows->incident[i]);
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        resume_job(core, slots_job_at(core, i));
    }
    groups_restored(core);
    settle_devices(core);
    core->schedule = true;
}
