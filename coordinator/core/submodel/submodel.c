#include "coordinator/core/submodel/submodel.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/copies/exports.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/parts/part_progress.h"
#include "coordinator/core/parts/part_work.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "coordinator/core/submodel/submodel_local.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "coordinator/core/submodel/submodel_plan.h"
#include "coordinator/core/submodel/submodel_repeats.h"
#include "coordinator/core/submodel/submodel_revise.h"
#include "schema/job_check.h"

/* The quality gate: the mean recall must exceed chance by RECALL_MARGIN. The recall of each class
 * must be at least CLASS_RECALL_SHARE times chance. docs/adr/0088. */
#define RECALL_MARGIN 0.1
#define CLASS_RECALL_SHARE 0.5
/* The pause after the first failed harvest. It doubles with each further failure. */
#define HARVEST_RETRY_MS 10000
#define HARVEST_SHIFT_MAX 5

/* ---- phases ---- */

static void fail(struct core *core, struct parent_slot *parent, const char *reason,
                 const char *format, ...) PRINTF_LIKE(4, 5);
static void fail(struct core *core, struct parent_slot *parent, const char *reason,
                 const char *format, ...)
{
    char message[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    text_format(message, sizeof(message), format, arguments);
    va_end(arguments);
    groups_end(core, parent, JOB_FAILED, reason, message);
}

static void succeed(struct core *core, struct parent_slot *parent,
                    const struct checkpoint_id *checkpoint)
{
    const size_t missing = groups_count(&parent->parent, PART_MISSING);
    char message[MESSAGE_SIZE] = "trained";
    if (missing > 0) {
        text_set(message, sizeof(message), "trained without %zu of %zu groups", missing,
                 parent->parent.groups.count);
    }
    parent->job.checkpoint = *checkpoint;
    part_progress_end(core, parent);
    groups_end(core, parent, JOB_SUCCEEDED, missing > 0 ? "degraded" : "", message);
}

static void enter(struct core *core, struct parent_slot *parent, int phase)
{
    parent->parent.phase = phase;
    parent->work.asked = parent->work.full = parent->work.weighed = false;
    parent->work.fault[0] = '\0';
    parent->work.retry_ms = core->now_ms;
    parent->work.deadline_ms = NEVER;
    parent->parent.groups_until_ms = parent->parent.groups_left_ms = 0;
    if (phase == PARENT_GROUPS) { /* repeated groups get the full time again */
        groups_set_deadline(core, parent, parent->job.spec.submodel.deadline_seconds * 1000);
    }
    groups_changed(parent);
    act_publish_job(core, "job_phase", &parent->job, parent->job.id.text, "'%s' is in the phase %s",
                    parent->job.spec.name, parent_phase_names[phase]);
}

static void begin_groups(struct core *core, struct parent_slot *parent)
{
    struct err err = {0};
    enter(core, parent, PARENT_GROUPS);
    if (submodel_plan(core, parent, NULL, &err) != 0) {
        fail(core, parent, "not_divisible", "%.200s", err.text);
    }
}

/* Ask the edge for the descriptions of the parts. */
static void ask_models(struct core *core, struct parent_slot *parent)
{
    if (!parent->work.asked && (!parent->work.full || groups_has_room(core, parent))) {
        parent->work.asked = true;
        parent->work.full = false;
        act_derive(core, parent->job.id.text);
    }
}

static void run_stem(struct core *core, struct parent_slot *parent)
{
    struct parent_part *stem = &parent->parent.stem;
    struct job_spec spec;
    switch ((enum part_state)stem->state) {
    case PART_WAITING:
        submodel_stem_job(parent, &spec);
        (void)groups_begin(core, parent, stem,
                           &(struct group_job){.part = JOB_STEM,
                                               .spec = &spec,
                                               .data = &parent->job.data,
                                               .model = parent->model});
        break;
    case PART_TRAINED: begin_groups(core, parent); break;
    case PART_TRAINS:
    case PART_MISSING: break;
    }
}

/* Whether a waiting group may begin. Groups on data of their devices wait for these devices. */
static bool has_ready(const struct core *core, const struct parent_slot *parent)
{
    bool ready = false;
    for (size_t g = 0; g < parent->parent.groups.count; g++) {
        ready = ready || (parent->parent.part[g].state == PART_WAITING &&
                          submodel_local_ready(core, parent, g));
    }
    return ready;
}

static void run_groups(struct core *core, struct parent_slot *parent)
{
    const struct parent *row = &parent->parent;
    submodel_revise(core, parent);
    const size_t waiting = groups_count(row, PART_WAITING);
    if (row->stem.state == PART_WAITING) {
        if (submodel_repeats_stem(core, parent)) {
            enter(core, parent, PARENT_STEM);
        }
    } else if (waiting > 0) {
        if (has_ready(core, parent)) {
            ask_models(core, parent);
        }
    } else if (groups_count(row, PART_TRAINED) == 0 && groups_count(row, PART_TRAINS) == 0) {
        fail(core, parent, "no_groups", "no group was trained");
    } else if (groups_count(row, PART_TRAINS) == 0) {
        enter(core, parent, PARENT_HARVEST);
    }
}

static void run_harvest(struct core *core, struct parent_slot *parent)
{
    if (!parent->work.asked && core->now_ms >= parent->work.retry_ms) {
        parent->work.asked = true;
        act_harvest(core, parent->job.id.text);
    }
}

/* In the joint phase, optimizers change the rows of missing classes. A last harvest restores these
 * rows. */
static void run_joint(struct core *core, struct parent_slot *parent)
{
    int64_t missing[COUNTED_CLASSES_MAX];
    struct parent_part *joint = &parent->parent.joint;
    if (joint->state == PART_WAITING) {
        ask_models(core, parent);
    } else if (joint->state == PART_TRAINED && parent_missing(&parent->parent, missing) == 0) {
        succeed(core, parent, &joint->checkpoint);
    } else if (joint->state == PART_TRAINED) {
        run_harvest(core, parent);
    }
}

/* Whether the trained classes have enough samples for a batch of the joint phase. */
static bool joins(const struct parent_slot *parent)
{
    struct job_spec spec;
    struct job_data data = parent->job.data;
    if (parent->job.spec.submodel.joint_epochs == 0) {
        return false;
    }
    submodel_joint_job(parent, &spec, &data);
    return job_total_steps(&spec, job_epoch_samples(&data)) > 0;
}

static void leave_harvest(struct core *core, struct parent_slot *parent)
{
    if (joins(parent)) {
        enter(core, parent, PARENT_JOINT);
    } else {
        succeed(core, parent, &parent->parent.harvest);
    }
}

/* ---- parts that have ended ---- */

static void take_model(struct core *core, struct parent_slot *parent, struct parent_part *part,
                       const struct job *job)
{
    ASSERT(id_equal(core->checkpoint.id.text, job->checkpoint.text));
    groups_take_class(parent, job);
    if (job->part == JOB_STEM) {
        submodel_repeats_new_stem(parent, core->checkpoint.sha256);
    }
    part->state = PART_TRAINED;
    part->checkpoint = job->checkpoint;
    memcpy(part->sha256, core->checkpoint.sha256, SHA256_SIZE);
    part->bytes = core->checkpoint.bytes;
}

/* A failed group is retrained; a failed stem or joint job fails the parent. The retraining gives
 * the same bits whichever devices fail, so a group that diverges needs another seed. */
static void take_failure(struct core *core, struct parent_slot *parent, struct parent_part *part,
                         const struct job *job)
{
    const bool is_group = job->part == JOB_GROUP;
    const bool again =
        is_group && job->state == JOB_FAILED && part->attempts < SUBMODEL_ATTEMPTS_MAX;
    part->state = again ? PART_WAITING : PART_MISSING;
    part->reseeded += again && strcmp(job->state_reason, "diverged") == 0;
    if (!is_group) {
        fail(core, parent, job->state_reason, "%s: %.200s", job_part_names[job->part],
             job->message);
    }
}

/* On samples that it has not trained on, a group must recognise its classes better than by chance.
 * A narrow group may collapse, as a whole or onto one of its classes. */
static bool passes_gate(const struct job *job)
{
    const struct job_progress *progress = &job->progress;
    const double chance = 1 / (double)(job->spec.view.class_count + 1);
    const bool mean = !progress->has_recall || progress->recall >= chance + RECALL_MARGIN;
    const bool each =
        !progress->has_least_recall || progress->least_recall >= chance * CLASS_RECALL_SHARE;
    return job->part != JOB_GROUP || (mean && each);
}

static void refuse_group(struct core *core, struct parent_slot *parent, struct parent_part *part,
                         const struct job *job)
{
    const bool again = part->attempts < SUBMODEL_ATTEMPTS_MAX;
    char least[48] = "";
    if (job->progress.has_least_recall) {
        text_set(least, sizeof(least), ", those of one class in %.0f %%",
                 100 * job->progress.least_recall);
    }
    part->state = again ? PART_WAITING : PART_MISSING;
    part->reseeded++;
    act_publish_job(core, "group_refused", &parent->job, parent->job.id.text,
                    "group %" PRId64
                    " of '%s' recognises its classes in %.0f %% of held-out samples%s; %s",
                    job->group, parent->job.spec.name, 100 * job->progress.recall, least,
                    again ? "it is trained again with another seed" : "it is left out");
}

static void take_ended(struct core *core, struct parent_slot *parent, const struct job_slot *job)
{
    struct parent_part *part = parent->work.ended ? NULL : groups_part_of(parent, job);
    if (!part) {
        return;
    }
    if (job->job.state == JOB_SUCCEEDED && !passes_gate(&job->job)) {
        refuse_group(core, parent, part, &job->job);
    } else if (job->job.state == JOB_SUCCEEDED) {
        take_model(core, parent, part, &job->job);
    } else {
        part_work_count_lost(parent, part, job);
        take_failure(core, parent, part, &job->job);
    }
    groups_changed(parent);
}

static void take_part(struct core *core, struct parent_slot *parent, const struct job_slot *job)
{
    part_work_count(parent, job);
    if (job->mark.ended) {
        take_ended(core, parent, job);
    }
}

static void end_groups(struct core *core, struct parent_slot *parent)
{
    struct parent *row = &parent->parent;
    parent->work.deadline_ms = NEVER;
    parent->work.full = false;
    for (size_t g = 0; g < row->groups.count; g++) {
        struct parent_part *part = &row->part[g];
        if (part->state == PART_TRAINS || part->state == PART_WAITING) {
            part_work_count_lost(parent, part, groups_job(core, part));
            groups_cancel(core, part, "deadline", "not trained by the deadline of the groups");
            part->state = PART_MISSING;
        }
    }
    groups_changed(parent);
}

/* The next phase begins in the step in which a phase ends. */
static void go_on(struct core *core, struct parent_slot *parent)
{
    int phase;
    do {
        phase = parent->parent.phase;
        switch ((enum parent_phase)phase) {
        case PARENT_STEM: run_stem(core, parent); break;
        case PARENT_GROUPS: run_groups(core, parent); break;
        case PARENT_HARVEST: run_harvest(core, parent); break;
        case PARENT_JOINT: run_joint(core, parent); break;
        case PARENT_MIXING:
        case PARENT_ENDED: break;
        }
    } while (parent->parent.phase != phase);
}

static bool is_due(const struct core *core, const struct parent_slot *parent)
{
    const bool again = groups_harvest_waits(parent) && core->now_ms >= parent->work.retry_ms;
    const bool local = job_is_local(&parent->job.spec) && parent->parent.phase == PARENT_GROUPS;
    return core->now_ms >= parent->work.deadline_ms || again || groups_has_room(core, parent) ||
           (local && core->data_changed);
}

static void run(struct core *core, struct parent_slot *parent)
{
    if (core->now_ms >= parent->work.deadline_ms && parent->parent.phase == PARENT_GROUPS) {
        end_groups(core, parent);
    }
    groups_follow(core, parent);
    if (!parent->parent.paused) {
        if (parent->parent.phase == PARENT_GROUPS) {
            submodel_local_follow(core, parent);
        }
        go_on(core, parent);
    }
    if (!parent->work.ended) {
        submodel_local_note(core, parent);
        part_progress_show(core, parent);
        groups_show(core, parent);
    }
}

static const struct checkpoint_id *kept(const struct parent_slot *parent)
{
    return &parent->parent.harvest;
}

const struct parent_row submodel_row = {
    .take_part = take_part, .is_due = is_due, .run = run, .kept = kept};

/* ---- answers of the edge ---- */

/* The device that the part prefers; NULL: none. */
static const struct device_id *device_of(const struct parent_slot *parent, size_t index)
{
    const struct device_id *device = &parent->parent.groups.group[index].device;
    return parent->parent.phase == PARENT_GROUPS && device->text[0] != '\0' ? device : NULL;
}

/* Begin a group or the joint phase. false: no room for its job, or the parent has failed. */
static bool begin_part(struct core *core, struct parent_slot *parent,
                       const struct event_derived *derived, size_t index)
{
    struct job_spec spec;
    struct job_data data = parent->job.data;
    struct group_job made = {.group = index, .spec = &spec, .data = &data};
    if (derived->phase == PARENT_GROUPS && job_is_local(&parent->job.spec)) {
        submodel_local_begin(core, parent, index);
    }
    if (derived->phase == PARENT_GROUPS) {
        submodel_group_job(parent, index, &spec, &data);
    } else {
        submodel_joint_job(parent, &spec, &data);
    }
    made.part = derived->phase == PARENT_GROUPS ? JOB_GROUP : JOB_JOINT;
    ASSERT(index < derived->model_count);
    made.model = derived->model[index].model;
    made.device = device_of(parent, index);
    memcpy(spec.model.sha256, derived->model[index].sha256, SHA256_SIZE);
    if (job_total_steps(&spec, job_epoch_samples(&data)) < 1) {
        fail(core, parent, "not_divisible",
             "group %zu has %" PRId64 " training samples, fewer than a batch", index,
             job_epoch_samples(&data));
        return false;
    }
    return groups_begin(core, parent, groups_part(parent, index), &made);
}

static bool may_begin(const struct parent_slot *parent)
{
    return !parent->parent.paused && parent->parent.stem.state == PART_TRAINED;
}

void submodel_on_derived(struct core *core, const struct event *event)
{
    const struct event_derived *derived = &event->derived;
    struct parent_slot *parent = slots_parent(core, derived->job.text);
    if (!parent || parent->parent.phase != derived->phase || !parent->work.asked ||
        groups_part_count(parent) == 0) {
        return; /* the parent has ended, or entered another phase, in the meantime */
    }
    parent->work.asked = false;
    parent->work.touched = true;
    if (derived->failed) {
        fail(core, parent, "not_divisible", "%.200s", derived->message);
        return;
    }
    size_t order[GROUPS_MAX] = {0}; /* the joint phase has one part */
    if (derived->phase == PARENT_GROUPS) {
        submodel_begin_order(parent, order);
    }
    for (size_t i = 0; i < groups_part_count(parent) && may_begin(parent); i++) {
        const size_t part = order[i];
        const bool waits =
            groups_part(parent, part)->state == PART_WAITING &&
            (derived->phase != PARENT_GROUPS || submodel_local_ready(core, parent, part));
        if (waits && !begin_part(core, parent, derived, part)) {
            return;
        }
    }
}

void submodel_on_harvested(struct core *core, const struct event *event)
{
    const struct event_harvested *harvested = &event->harvested;
    struct parent_slot *parent = slots_parent(core, harvested->job.text);
    if (!parent || !groups_harvests(parent) || !parent->work.asked) {
        return;
    }
    parent->work.asked = false;
    if (harvested->failed) {
        const int shift =
            parent->work.harvests < HARVEST_SHIFT_MAX ? parent->work.harvests : HARVEST_SHIFT_MAX;
        const int64_t pause_ms = (int64_t)HARVEST_RETRY_MS << shift;
        parent->work.harvests++;
        parent->work.retry_ms = core->now_ms + pause_ms;
        parent->work.touched = true;
        text_set(parent->work.fault, sizeof(parent->work.fault),
                 "could not assemble the model: %.170s; next attempt in %.0f s", harvested->message,
                 (double)pause_ms / 1000);
        act_publish_job(core, "export_failed", &parent->job, parent->job.id.text,
                        "could not assemble the model of '%s': %.150s", parent->job.spec.name,
                        harvested->message);
        return;
    }
    exports_store(core, &parent->job, 0, harvested->sha256, harvested->bytes);
    if (parent->parent.phase == PARENT_JOINT) {
        succeed(core, parent, &core->checkpoint.id);
        return;
    }
    parent->parent.harvest = core->checkpoint.id;
    memcpy(parent->parent.harvest_sha256, harvested->sha256, SHA256_SIZE);
    parent->parent.harvest_bytes = harvested->bytes;
    parent->work.touched = true;
    groups_changed(parent);
    leave_harvest(core, parent);
}

void submodel_on_damage(struct core *core, const char *sha256)
{
    for (size_t i = 0; i < core->parents.count; i++) {
        struct parent_slot *parent = slots_parent_at(core, i);
        int phase;
        if (!submodel_repeats_damage(core, parent, sha256, &phase)) {
            continue;
        }
        if (phase != parent->parent.phase) {
            enter(core, parent, phase);
        }
        parent->work.touched = true;
        groups_changed(parent);
    }
}

void submodel_disk_has_room(struct core *core)
{
    for (size_t i = 0; i < core->parents.count; i++) {
        slots_parent_at(core, i)->work.retry_ms = core->now_ms;
    }
}
