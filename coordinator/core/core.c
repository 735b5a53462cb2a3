#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/pages.h"
#include "coordinator/core/copies/collect.h"
#include "coordinator/core/copies/damage.h"
#include "coordinator/core/copies/exports.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/core.h"
#include "coordinator/core/devices/devices.h"
#include "coordinator/core/devices/enrolment.h"
#include "coordinator/core/failures/failures.h"
#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/failures/lease.h"
#include "coordinator/core/failures/suspicion.h"
#include "coordinator/core/generation/change.h"
#include "coordinator/core/generation/coverage.h"
#include "coordinator/core/generation/drain.h"
#include "coordinator/core/generation/generations.h"
#include "coordinator/core/generation/heartbeats.h"
#include "coordinator/core/generation/patches.h"
#include "coordinator/core/gossip/gossip_job.h"
#include "coordinator/core/jobs/deletions.h"
#include "coordinator/core/jobs/jobs.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/parts/parents.h"
#include "coordinator/core/placement/asking.h"
#include "coordinator/core/placement/question.h"
#include "coordinator/core/placement/scheduler.h"
#include "coordinator/core/restore.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/stored.h"
#include "coordinator/core/state/timers.h"
#include "coordinator/core/submodel/slice_memory.h"
#include "coordinator/core/submodel/submodel.h"

const struct core_config core_config_default = {
    .heartbeat_ms = 1000, .lease_ms = 5000, .devices_max = DEVICES_MAX, .jobs_max = JOBS_LIVE_MAX};

/* Room for pointers to slots. */
static void *pointers_new(size_t count)
{
    return calloc(count, sizeof(void *));
}

int core_new(const struct core_config *config, struct core **out, struct err *err)
{
    if (config->heartbeat_ms < 1 ||
        config->lease_ms < LEASE_HEARTBEATS_MIN * config->heartbeat_ms) {
        return err_set(err, ERR_INVALID, "a lease must be at least %d heartbeats",
                       LEASE_HEARTBEATS_MIN);
    }
    if (config->devices_max < 1 || config->devices_max > DEVICES_MAX || config->jobs_max < 1 ||
        config->jobs_max > JOBS_LIVE_MAX) {
        return err_set(err, ERR_INVALID, "the limits must be 1 to %d devices and 1 to %d jobs",
                       DEVICES_MAX, JOBS_LIVE_MAX);
    }
    AUTO(core_free) struct core *core = pages_new(1, sizeof(*core));
    if (!core) {
        return err_set(err, ERR_MEMORY, "out of memory for the state of the coordinator");
    }
    core->config = *config;
    core->deadline_ms = NEVER;
    int rc = table_init(&core->devices, sizeof(struct device_slot),
                        offsetof(struct device_slot, device.id.text), config->devices_max, err);
    rc = rc != 0 ? rc
                 : table_init(&core->jobs, sizeof(struct job_slot),
                              offsetof(struct job_slot, job.id.text), config->jobs_max, err);
    rc = rc != 0 ? rc
                 : table_init(&core->parents, sizeof(struct parent_slot),
                              offsetof(struct parent_slot, job.id.text), PARENTS_MAX, err);
    rc = rc != 0 ? rc
                 : table_init(&core->datasets, sizeof(struct dataset),
                              offsetof(struct dataset, name), DATASETS_MAX, err);
    rc = rc != 0 ? rc
                 : table_init(&core->models, sizeof(struct model_row),
                              offsetof(struct model_row, name), MODELS_MAX, err);
    rc = rc != 0 ? rc
                 : table_init(&core->checkpoints, sizeof(struct checkpoint),
                              offsetof(struct checkpoint, sha256), CHECKPOINTS_MAX, err);
    if (rc != 0) {
        return rc;
    }
    core->device_due_ms = calloc(config->devices_max, sizeof(core->device_due_ms[0]));
    core->job_due_ms = calloc(config->jobs_max, sizeof(core->job_due_ms[0]));
    core->holding = pages_new(HOLDINGS_POOL_MAX + 1, sizeof(core->holding[0]));
    core->kept = pages_new(KEPT_MAX, sizeof(core->kept[0]));
    core->device_list = pointers_new(config->devices_max);
    core->job_list = pointers_new(config->jobs_max);
    core->queue = pointers_new(config->jobs_max);
    core->candidate = pointers_new(config->devices_max);
    core->candidate_rank = calloc(config->devices_max, sizeof(core->candidate_rank[0]));
    core->planned = pages_new(1, sizeof(*core->planned));
    core->held = pages_new(HOLDINGS_POOL_MAX, sizeof(core->held[0]));
    core->answer = pages_new(1, sizeof(*core->answer));
    core->shard = pages_new((size_t)GROUPS_MAX * COUNTED_CLASSES_MAX, sizeof(core->shard[0]));
    core->slice = pages_new(1, sizeof(*core->slice));
    if (!core->device_due_ms || !core->job_due_ms || !core->holding || !core->kept ||
        !core->device_list || !core->job_list || !core->queue || !core->candidate ||
        !core->candidate_rank || !core->held || !core->planned || !core->answer || !core->shard ||
        !core->slice) {
        return err_set(err, ERR_MEMORY, "out of memory for the state of the coordinator");
    }
    rc = question_new(&core->planning, err);
    rc = rc ? rc : capacity_new(config->devices_max, &core->capacity, err);
    rc = rc ? rc : traffic_new(config->devices_max, &core->traffic, err);
    if (rc != 0) {
        return rc;
    }
    core->holding_fresh = 1;
    *out = core;
    core = NULL;
    return 0;
}

void core_free(struct core **pointer)
{
    struct core *core = *pointer;
    if (!core) {
        return;
    }
    table_done(&core->devices);
    table_done(&core->jobs);
    table_done(&core->parents);
    table_done(&core->datasets);
    table_done(&core->models);
    table_done(&core->checkpoints);
    free(core->device_due_ms);
    free(core->job_due_ms);
    pages_free(core->holding);
    pages_free(core->kept);
    free(core->device_list);
    free(core->job_list);
    free(core->queue);
    free(core->candidate);
    free(core->candidate_rank);
    question_free(&core->planning);
    pages_free(core->planned);
    capacity_free(&core->capacity);
    traffic_free(&core->traffic);
    pages_free(core->held);
    pages_free(core->answer);
    pages_free(core->shard);
    pages_free(core->slice);
    pages_free(core);
    *pointer = NULL;
}

/* ---- handlers ---- */

static void handle_tick(struct core *core, const struct event *event)
{
    (void)event;
    devices_tick(core);
    for (size_t i = 0; i < core->jobs.count && core->actions->count < ACTIONS_MAX / 4; i++) {
        failures_tick(core, slots_job_at(core, i));
    }
}

static void handle_disk(struct core *core, const struct event *event)
{
    core->disk_nearly_full = event->disk.nearly_full;
    for (size_t i = 0; !core->disk_nearly_full && i < core->jobs.count; i++) {
        exports_disk_has_room(core, slots_job_at(core, i));
    }
    if (!core->disk_nearly_full) {
        submodel_disk_has_room(core);
    }
    act_reply(core, 204, OBJECT_NOTHING, NULL);
}

static void handle_damage(struct core *core, const struct event *event)
{
    damage_on_blob(core, event);
    submodel_on_damage(core, event->blob_damaged.sha256);
}

static void handle_submit(struct core *core, const struct event *event)
{
    const bool divides = strategy_has_parts(event->job_submit.spec->strategy);
    (divides ? parents_on_submit : jobs_on_submit)(core, event);
}

static void handle_verb(struct core *core, const struct event *event)
{
    const bool divides = slots_parent(core, event->job_verb.job.text);
    (divides ? parents_on_verb : jobs_on_verb)(core, event);
}

static void handle_heartbeat(struct core *core, const struct event *event)
{
    const struct heartbeat *heartbeat = event->heartbeat.heartbeat;
    /* Find the group first: if it reports that it has stopped, it may lose its device in this step.
     */
    struct job_slot *group = gossip_job_of(core, heartbeat);
    heartbeats_on_heartbeat(core, event);
    if (core->beating && group) {
        gossip_job_hear(core, group, heartbeat);
    }
}

static void handle_planned(struct core *core, const struct event *event)
{
    const enum asking_kind kind = core->asking.kind;
    struct err err = {0};
    int code;
    struct job_slot *job = asking_take(core, &event->planned, &code, &err);
    if (job && kind == ASKING_CHANGE) {
        change_planned(core, job, code);
    } else if (job && kind == ASKING_DRAIN) {
        drain_planned(core, job, code);
    } else if (job) {
        scheduler_planned(core, job, code, err.text);
    }
}

/* ---- the end of a step ---- */

/* Failures from an earlier step are not marked, because marks take room from the actions that
 * settle these failures. */
static void settle_failures(struct core *core)
{
    bool all = core->unsettled;
    size_t count = all ? core->jobs.count : core->job_list_count;
    core->unsettled = false;
    for (size_t i = 0; i < count; i++) {
        struct job_slot *job = all ? slots_job_at(core, i) : core->job_list[i];
        if (job->failure.cause == FAILURE_NONE) {
            continue;
        }
        if (!act_room(core) || asking_spent(core)) {
            core->unsettled = true;
            break;
        }
        failures_settle(core, job);
    }
}

static void flush_device(struct core *core, struct device_slot *device)
{
    if (device->mark.row && device->device.state != DEVICE_REMOVED) {
        device->device.revision++;
        act_persist(core, OBJECT_DEVICE, &device->device);
    }
    if (device->mark.row) {
        act_wake(core, OBJECT_DEVICE, device->device.id.text);
    }
    if (device->mark.touched) {
        device->assignment_revision++;
        holdings_mark_drops(core, device);
        act_wake(core, OBJECT_ASSIGNMENT, device->device.id.text);
    }
    device->mark.row = device->mark.touched = false;
    core->device_due_ms[table_slot(&core->devices, device)] = lease_next_ms(core, device);
}

/* The row is written on every change of state and occasionally for progress. Progress raises the
 * revision at most once per heartbeat. */
static void flush_job(struct core *core, struct job_slot *job)
{
    int64_t store_ms = 5 * core->config.heartbeat_ms;
    incidents_settle(core, job);
    bool show = job->progress.advanced &&
                core->now_ms - job->progress.shown_ms >= core->config.heartbeat_ms;
    if (show && core->now_ms - job->progress.stored_ms >= store_ms) {
        job->mark.row = true;
        job->mark.plan = job->has_plan;
    }
    if (job->mark.previous) {
        job->previous.revision++;
        act_persist(core, OBJECT_PLAN, &job->previous);
        act_wake(core, OBJECT_PLAN, job->previous.id.text);
    }
    if (job->mark.plan) {
        job->plan.revision++;
        act_persist(core, OBJECT_PLAN, &job->plan);
        act_wake(core, OBJECT_PLAN, job->plan.id.text);
    }
    if (job->mark.row || show) {
        job->job.revision++;
        job->progress.advanced = false;
        job->progress.shown_ms = core->now_ms;
        act_wake(core, OBJECT_JOB, job->job.id.text);
    }
    if (job->mark.incident) {
        job->incidents.row.revision++;
        act_persist(core, OBJECT_INCIDENT, &job->incidents.row);
        act_wake(core, OBJECT_INCIDENT, job->incidents.row.id.text);
    }
    if (job->mark.row) {
        job->progress.stored_ms = core->now_ms;
        deadlines_fill(core, job);
        act_persist(core, OBJECT_JOB, &job->job);
    }
    job->mark.listed = job->mark.row = job->mark.plan = job->mark.previous = job->mark.incident =
        false;
}

/* A job whose wait is over needs no tick: the scheduler visits it at the latest after the answer to
 * the open question. */
static int64_t job_due_ms(const struct job_slot *job)
{
    int64_t timer_ms[TIMER_COUNT];
    memcpy(timer_ms, job->timer_ms, sizeof(timer_ms));
    if (timer_ms[TIMER_GATHER] <= job->scheduled.over_ms) {
        timer_ms[TIMER_GATHER] = NEVER;
    }
    if (timer_ms[TIMER_RETRY] <= job->scheduled.over_ms) {
        timer_ms[TIMER_RETRY] = NEVER;
    }
    return timers_next_ms(timer_ms, TIMER_COUNT);
}

/* Plans leave draining devices before other changes. */
static void change_plans(struct core *core)
{
    if (core->joinable) {
        core->joinable = false;
        core->drain_due = core->join_due = true;
    }
    if (core->schedule || core->pass_open) {
        return; /* waiting jobs come first */
    }
    if (core->drain_due || core->drain_open) {
        drain_run(core);
    }
    if (core->join_due || core->join_open) {
        change_run(core);
    }
}

static void settle(struct core *core)
{
    settle_failures(core);
    asking_check(core);
    generations_ask_stopping(core);
    if (core->schedule || core->pass_open) {
        scheduler_run(core);
    }
    change_plans(core);
    parents_run(core);
    for (size_t i = 0; i < core->device_list_count; i++) {
        flush_device(core, core->device_list[i]);
        if (core->device_list[i]->device.state == DEVICE_REMOVED) {
            core->device_due_ms[table_slot(&core->devices, core->device_list[i])] = NEVER;
            holdings_forget_member(core, core->device_list[i]);
            table_remove(&core->devices, core->device_list[i]);
        }
    }
    for (size_t i = 0; i < core->job_list_count; i++) {
        struct job_slot *job = core->job_list[i];
        flush_job(core, job);
        core->job_due_ms[table_slot(&core->jobs, job)] = job->mark.ended ? NEVER : job_due_ms(job);
        if (job->mark.ended) {
            table_remove(&core->jobs, job);
        }
    }
    groups_flush(core);
    if (core->beating) {
        core->heartbeat_reply.revision = core->beating->assignment_revision;
    }
    core->device_list_count = core->job_list_count = 0;
    int64_t devices = timers_next_ms(core->device_due_ms, core->devices.fresh);
    int64_t jobs = timers_next_ms(core->job_due_ms, core->jobs.fresh);
    int64_t parents = groups_due_ms(core);
    core->deadline_ms = devices < jobs ? devices : jobs;
    core->deadline_ms = parents < core->deadline_ms ? parents : core->deadline_ms;
    bool passes = (core->schedule || core->pass_open) && !core->pass_waits;
    bool changes = (core->joinable || core->drain_due || core->drain_open || core->join_due ||
                    core->join_open) &&
                   core->asking.number == 0;
    if (core->unsettled || passes || changes) {
        core->deadline_ms = core->now_ms; /* this step was cut short */
    }
}

void core_step(struct core *core, const struct event *event, struct actions *actions)
{
    static void (*const handlers[])(struct core *, const struct event *) = {
        [EVENT_RESTORED] = restore_on_rows,
        [EVENT_TICK] = handle_tick,
        [EVENT_JOIN] = enrolment_on_join,
        [EVENT_ENROLL] = enrolment_on_enroll,
        [EVENT_HEARTBEAT] = handle_heartbeat,
        [EVENT_DEVICE_VERB] = devices_on_verb,
        [EVENT_JOB_SUBMIT] = handle_submit,
        [EVENT_JOB_VERB] = handle_verb,
        [EVENT_JOB_PATCH] = patches_on_patch,
        [EVENT_DATASET_STORED] = stored_on_dataset,
        [EVENT_MODEL_STORED] = stored_on_model,
        [EVENT_CHECKPOINT_STORED] = stored_on_checkpoint,
        [EVENT_BLOB_STORED] = collect_on_blob,
        [EVENT_EXPORTED] = collect_on_exported,
        [EVENT_TUNED] = generations_on_tuned,
        [EVENT_DERIVED] = submodel_on_derived,
        [EVENT_HARVESTED] = submodel_on_harvested,
        [EVENT_AVERAGE_STORED] = gossip_on_average,
        [EVENT_PLANNED] = handle_planned,
        [EVENT_PLAN_QUESTION] = coverage_on_question,
        [EVENT_CONTACT] = devices_on_contact,
        [EVENT_POLL_BROKEN] = suspicion_on_poll_broken,
        [EVENT_BLOB_DAMAGED] = handle_damage,
        [EVENT_DELETE] = deletions_on_delete,
        [EVENT_DISK] = handle_disk,
    };
    ASSERT(core->restored == (event->type != EVENT_RESTORED));
    core->restored = true;
    core->event = event;
    core->actions = actions;
    core->wall_ms = event->wall_ms;
    core->now_ms = event->now_ms > core->now_ms ? event->now_ms : core->now_ms;
    core->beating = NULL;
    core->asking.work = 0;
    core->mix_rows.count = 0;
    /* A late turn (a slow disk, a suspended machine) must not cost any device its lease. */
    if (core->deadline_ms != NEVER &&
        core->now_ms - core->deadline_ms > core->config.heartbeat_ms / 2) {
        devices_late(core, core->now_ms - core->deadline_ms);
    }
    handlers[event->type](core, event);
    settle(core);
    core->event = NULL;
    core->actions = NULL;
}

int64_t core_deadline_ms(const struct core *core)
{
    return core->deadline_ms;
}
