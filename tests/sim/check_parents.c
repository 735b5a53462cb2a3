/* What must hold of jobs that consist of groups: no part outlives its parent, one phase at a time,
 * each class is served as often as it should be, and the model is that of final parts. */
#include <string.h>

#include "base/assert.h"
#include "tests/sim/check.h"
#include "tests/sim/check_gossip.h"
#include "tests/sim/check_held_out.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/users.h"

static const struct checkpoint *find_checkpoint(const struct rows *rows, const char *id)
{
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        if (id_equal(rows->checkpoint[i].id.text, id)) {
            return &rows->checkpoint[i];
        }
    }
    return NULL;
}

/* ---- parts ---- */

/* A group that is measured and does not learn is no part of a harvest, whatever failed before. */
static bool passes_gate(const struct world *world, const struct job *job)
{
    const bool measured = job->data.holdout_samples > 0 && job->spec.evaluate_every_epochs > 0;
    return job->part != JOB_GROUP || !measured || !users_collapse(world->users, &job->spec);
}

/* The model of a trained part is the last one of a job of this parent. */
static void check_trained(struct world *world, const struct job *parent,
                          const struct parent_part *part, int kind, size_t group)
{
    const struct rows *rows = &world->coordinator->rows;
    const struct checkpoint *checkpoint = find_checkpoint(rows, part->checkpoint.text);
    const struct job *job = checkpoint ? rows_job(rows, checkpoint->job.text) : NULL;
    const bool given = kind == JOB_STEM && parent->spec.submodel.stem_epochs == 0;
    const bool deleted =
        job_state_ended(parent->state) && check_deleted(world, part->checkpoint.text);
    if (part->state != PART_TRAINED || given || deleted) {
        return;
    }
    if (!job || job->state != JOB_SUCCEEDED || job->part != kind || job->group != (int64_t)group ||
        !id_equal(job->parent.text, parent->id.text) ||
        !id_equal(job->checkpoint.text, part->checkpoint.text) ||
        strcmp(checkpoint->sha256, part->sha256) != 0) {
        check_fail(world, "a trained part of %s has not the last model of its job",
                   parent->spec.name);
    } else if (!passes_gate(world, job)) {
        check_fail(world, "%s has collapsed and is taken", job->spec.name);
    }
}

/* The one phase in which parts of this kind train. */
static int phase_of(const struct job *parent, int part)
{
    return parent->spec.strategy == STRATEGY_GOSSIP ? PARENT_MIXING
           : part == JOB_STEM                       ? PARENT_STEM
           : part == JOB_GROUP                      ? PARENT_GROUPS
                                                    : PARENT_JOINT;
}

static const struct parent_part *part_of(const struct parent *parent, const struct job *job)
{
    switch ((enum job_part)job->part) {
    case JOB_STEM: return &parent->stem;
    case JOB_JOINT: return &parent->joint;
    case JOB_GROUP: return &parent->part[job->group];
    case JOB_WHOLE: break;
    }
    return NULL;
}

static bool has_classes(const struct view *view, const struct parent *parent,
                        const struct class_group *group)
{
    bool same = (int64_t)view->class_count == group->class_count;
    for (size_t c = 0; same && c < view->class_count; c++) {
        same = view->class[c] == parent->groups.class_of[group->class_first + (int64_t)c];
    }
    return same;
}

/* All classes, or a view of those that are not missing. */
static bool trains_all_present(const struct job_spec *spec, const struct parent *parent)
{
    int64_t missing[COUNTED_CLASSES_MAX];
    const size_t count = parent_missing(parent, missing);
    bool right = spec->has_view == (count > 0);
    for (size_t c = 0; right && spec->has_view && c < spec->view.class_count; c++) {
        for (size_t m = 0; m < count; m++) {
            right = right && spec->view.class[c] != missing[m];
        }
    }
    return right && (!spec->has_view || (spec->view.numbers == VIEW_NUMBERS_DATA &&
                                         spec->view.class_count + count == parent->class_count));
}

static bool starts_from(const struct job *job, const struct checkpoint_id *checkpoint,
                        const char *sha256)
{
    return id_equal(job->spec.init_checkpoint.text, checkpoint->text) &&
           strcmp(job->data.checkpoint_sha256, sha256) == 0;
}

/* To the data of one device, if the samples of the parent stay there. */
static bool is_bound(const struct job *job, const struct job *whole,
                     const struct class_group *group)
{
    const struct local_train *local = &job->spec.train_local;
    return !job_is_local(&whole->spec) ||
           (id_equal(local->device.text, group->device.text) &&
            strcmp(local->sha256, group->data.sha256) == 0 && local->sha256[0] != '\0');
}

/* A part trains what its parent and the parts before it decide: the reference of its weights
 * follows from its spec. */
static void check_spec(struct world *world, const struct job *job, const struct job *whole,
                       const struct parent *parent)
{
    const struct class_group *group = &parent->groups.group[job->group];
    const struct parent_part *part = part_of(parent, job);
    bool right = true;
    switch ((enum job_part)job->part) {
    case JOB_STEM:
        right = !job->spec.has_view && job->spec.seed == whole->spec.seed &&
                starts_from(job, &whole->spec.init_checkpoint, whole->data.checkpoint_sha256);
        break;
    case JOB_GROUP:
        right = job->spec.has_view && has_classes(&job->spec.view, parent, group) &&
                is_bound(job, whole, group) &&
                job->spec.seed == whole->spec.seed + part->reseeded &&
                starts_from(job, &parent->stem.checkpoint, parent->stem.sha256);
        break;
    case JOB_JOINT:
        right = trains_all_present(&job->spec, parent) && !job_is_local(&job->spec) &&
                starts_from(job, &parent->harvest, parent->harvest_sha256);
        break;
    case JOB_WHOLE: break;
    }
    if (!right) {
        check_fail(world, "%s trains something else than its parent decided", job->spec.name);
    }
}

static void check_part(struct world *world, const struct job *job)
{
    const struct rows *rows = &world->coordinator->rows;
    const struct job *parent = rows_job(rows, job->parent.text);
    const struct parent *row = rows_parent(rows, job->parent.text);
    if (!parent || !row || job_state_ended(parent->state)) {
        check_fail(world, "%s outlives its parent", job->spec.name);
    } else if (row->phase != phase_of(parent, job->part)) {
        check_fail(world, "%s lives in the phase %s", job->spec.name,
                   parent_phase_names[row->phase]);
    } else if (part_of(row, job)->state != PART_TRAINS ||
               !id_equal(part_of(row, job)->job.text, job->id.text)) {
        check_fail(world, "%s lives and its parent does not know it", job->spec.name);
    } else if (job->created_ms != parent->created_ms ||
               job->spec.priority != parent->spec.priority) {
        check_fail(world, "%s has another priority or age than its parent", job->spec.name);
    } else if (parent->spec.strategy == STRATEGY_SUBMODEL) {
        check_spec(world, job, parent, row);
    }
}

/* ---- parents ---- */

static void check_classes(struct world *world, const struct job *job, const struct parent *parent)
{
    int64_t served[COUNTED_CLASSES_MAX] = {0};
    double width = 0;
    for (size_t g = 0; g < parent->groups.count; g++) {
        const struct class_group *group = &parent->groups.group[g];
        width += group->width;
        for (int64_t c = 0; c < group->class_count; c++) {
            served[parent->groups.class_of[group->class_first + c]]++;
        }
    }
    for (size_t c = 0; parent->groups.count > 0 && c < parent->class_count; c++) {
        if (served[c] != job->spec.submodel.replicas) {
            check_fail(world, "class %zu of %s is served %d times", c, job->spec.name,
                       (int)served[c]);
        }
    }
    if (parent->groups.count > 0 && (width < 1 - 1e-6 || width > 1 + 1e-6)) {
        check_fail(world, "the widths of %s add up to %f", job->spec.name, width);
    }
}

static size_t count_missing(const struct parent *parent)
{
    size_t missing = 0;
    for (size_t g = 0; g < parent->groups.count; g++) {
        missing += parent->part[g].state == PART_MISSING;
    }
    return missing;
}

/* The last phase made the checkpoint of the job: the joint job, after which rows of missing classes
 * are written again, or the harvest. */
static bool is_last(const struct rows *rows, const struct job *job, const struct parent *parent)
{
    int64_t missing[COUNTED_CLASSES_MAX];
    char right[SHA256_SIZE];
    const struct checkpoint *last = find_checkpoint(rows, job->checkpoint.text);
    if ((job->spec.submodel.joint_epochs > 0) != (parent->joint.state == PART_TRAINED) || !last) {
        return false;
    }
    if (parent->joint.state != PART_TRAINED) {
        return id_equal(last->id.text, parent->harvest.text);
    }
    if (parent_missing(parent, missing) == 0) {
        return id_equal(last->id.text, parent->joint.checkpoint.text);
    }
    digest_text(coordinator_dropped(parent), right);
    return strcmp(last->sha256, right) == 0 && id_equal(last->job.text, job->id.text);
}

/* Its model is harvested from its parts, or that of the joint job, which started from it. */
static void check_model(struct world *world, const struct job *job, const struct parent *parent)
{
    const struct rows *rows = &world->coordinator->rows;
    const struct checkpoint *harvest = find_checkpoint(rows, parent->harvest.text);
    const struct job *joint = rows_job(rows, parent->joint.job.text);
    char right[SHA256_SIZE];
    if (job_state_ended(job->state) && (check_deleted(world, parent->harvest.text) ||
                                        check_deleted(world, job->checkpoint.text))) {
        return;
    }
    digest_text(coordinator_harvested(parent), right);
    if (parent->harvest.text[0] != '\0' && (!harvest || strcmp(harvest->sha256, right) != 0 ||
                                            !blobs_have(&world->coordinator->blobs, right))) {
        check_fail(world, "the harvest of %s is not that of its parts", job->spec.name);
    }
    if (joint && strcmp(joint->data.checkpoint_sha256, right) != 0) {
        check_fail(world, "the joint job of %s does not start from its harvest", job->spec.name);
    }
    if (job->state != JOB_SUCCEEDED) {
        return;
    }
    if (!harvest || !is_last(rows, job, parent) ||
        (count_missing(parent) > 0) != (strcmp(job->state_reason, "degraded") == 0)) {
        check_fail(world, "%s has ended with another model than its last phase made",
                   job->spec.name);
    }
}

static double work_of(const struct rows *rows, const struct parent_part *part)
{
    const struct job *job = rows_job(rows, part->job.text);
    return job && part->state == PART_TRAINED
               ? (double)(job->progress.steps * job->spec.batch) * part->flops_per_sample
               : 0;
}

/* Each step of a trained part is counted, whatever failed. */
static void check_work(struct world *world, const struct job *job, const struct parent *parent)
{
    const struct rows *rows = &world->coordinator->rows;
    double least = work_of(rows, &parent->stem) + work_of(rows, &parent->joint);
    for (size_t g = 0; g < parent->groups.count; g++) {
        least += work_of(rows, &parent->part[g]);
    }
    if (parent->work.flops < least * (1 - 1e-9)) {
        check_fail(world, "%s counts %g operations, its parts have %g", job->spec.name,
                   parent->work.flops, least);
    }
}

static void check_live(struct world *world, const struct job *job, const struct parent *row)
{
    const struct parent *live = core_parent(world->coordinator->core, job->id.text);
    if (!live || live->phase != row->phase || live->paused != row->paused ||
        live->groups.count != row->groups.count ||
        memcmp(live->part, row->part, sizeof(row->part)) != 0 ||
        memcmp(&live->stem, &row->stem, sizeof(row->stem)) != 0 ||
        memcmp(&live->joint, &row->joint, sizeof(row->joint)) != 0) {
        check_fail(world, "the row of the parts of %s differs from the live state", job->spec.name);
    }
}

void check_parents(struct world *world)
{
    const struct rows *rows = &world->coordinator->rows;
    for (size_t i = 0; i < rows->job_count; i++) {
        if (rows->job[i].part != JOB_WHOLE && !job_state_ended(rows->job[i].state)) {
            check_part(world, &rows->job[i]);
        }
    }
    for (size_t i = 0; i < rows->parent_count; i++) {
        const struct parent *parent = &rows->parent[i];
        const struct job *job = rows_job(rows, parent->job.text);
        if (!job || job_state_ended(job->state) != (parent->phase == PARENT_ENDED)) {
            check_fail(world, "the rows of a parent differ");
            continue;
        }
        if (!job_state_ended(job->state)) {
            check_live(world, job, parent);
        }
        if (job->spec.strategy == STRATEGY_GOSSIP) {
            check_gossip_parent(world, job, parent);
            check_held_out(world, job, parent);
            continue;
        }
        check_trained(world, job, &parent->stem, JOB_STEM, 0);
        check_trained(world, job, &parent->joint, JOB_JOINT, 0);
        for (size_t g = 0; g < parent->groups.count; g++) {
            check_trained(world, job, &parent->part[g], JOB_GROUP, g);
        }
        check_classes(world, job, parent);
        check_model(world, job, parent);
        check_work(world, job, parent);
    }
    check_records_done(world);
}

void check_restored_parents(struct world *world, const struct core *core)
{
    const struct rows *rows = &world->coordinator->rows;
    for (size_t i = 0; i < rows->parent_count; i++) {
        const struct parent *row = &rows->parent[i], *live = core_parent(core, row->job.text);
        if (row->phase != PARENT_ENDED && (!live || live->phase < row->phase)) {
            check_fail(world, "restoring the rows gives a parent in another phase");
        }
    }
}
