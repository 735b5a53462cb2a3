#include "coordinator/content/harvested.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "coordinator/content/awaited.h"
#include "coordinator/content/catalog.h"
#include "coordinator/content/checkpoint_blob.h"
#include "coordinator/content/damage.h"
#include "coordinator/content/publication.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "libtrain/state/harvest.h"

/* An open harvest. The worker reads the target, so its catalog entry is pinned, and the blobs of
 * the parts are protected: the job may be cancelled meanwhile. */
struct harvested {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct event_harvested result;
    const struct model *target;
    char model_sha256[SHA256_SIZE]; /* of the pinned entry; "": none */
    struct parent parent;           /* as it was at the start */
    struct submodel_options options;
    struct evaluation evaluation;
    struct awaited stem, joint, part[GROUPS_MAX];
    struct checkpoint_blob stem_blob, joint_blob, blob[GROUPS_MAX];
    uint32_t class_of[GROUP_CLASSES_MAX];
    struct slim_group slim[GROUPS_MAX];
    struct harvest_group group[GROUPS_MAX];
    struct blob_upload *upload;
    struct publication publication;
    int code;
    struct err err;
};

static void harvested_free(struct harvested *harvested)
{
    if (harvested->model_sha256[0]) {
        catalog_unpin(harvested->coordinator->catalog, harvested->model_sha256);
    }
    awaited_let_go(harvested->coordinator, &harvested->stem);
    awaited_let_go(harvested->coordinator, &harvested->joint);
    for (size_t g = 0; g < GROUPS_MAX; g++) {
        awaited_let_go(harvested->coordinator, &harvested->part[g]);
    }
    publication_end(&harvested->publication);
    free(harvested);
}

/* ---- on a worker ---- */

static bool goes_on(void *arg)
{
    const struct harvested *harvested = arg;
    return !work_stopping(harvested->coordinator->work);
}

/* Compare the whole blob with its hash first: the model must not contain damage. */
static int open_part(struct harvested *harvested, const char *sha256, struct checkpoint_blob *out)
{
    struct blob_store *blobs = harvested->coordinator->blobs;
    int rc = blob_check(blobs, sha256, goes_on, harvested, &harvested->err);
    return rc ? rc : checkpoint_blob_open(blobs, sha256, out, &harvested->err);
}

/* Return the correction of the prior of "other": from the samples that the group trained on to all
 * samples of the job. On its own data a device may have other shares of the classes. */
static double prior_of(const struct harvested *harvested, size_t group)
{
    const struct parent *parent = &harvested->parent;
    const struct class_group *one = &parent->groups.group[group];
    struct view view;
    struct view_sizes sizes;
    uint64_t own = 0, all = 0;
    for (size_t c = 0; c < parent->class_count; c++) {
        all += (uint64_t)parent->class_samples[c];
    }
    for (int64_t c = 0; c < one->class_count; c++) {
        own += (uint64_t)parent->class_samples[parent->groups.class_of[one->class_first + c]];
    }
    submodel_part_view(parent, harvested->options.negatives, group, &view, &sizes);
    const double drawn = sizes.own > 0 ? (double)sizes.drawn / (double)sizes.own : 0;
    return harvest_prior(drawn, own, all - own);
}

static int fill_groups(struct harvested *harvested)
{
    const struct parent *parent = &harvested->parent;
    int rc = open_part(harvested, parent->stem.sha256, &harvested->stem_blob);
    for (size_t c = 0; c < parent->groups.class_count; c++) {
        harvested->class_of[c] = (uint32_t)parent->groups.class_of[c];
    }
    for (size_t g = 0; !rc && g < parent->groups.count; g++) {
        const struct class_group *group = &parent->groups.group[g];
        if (parent->part[g].state == PART_TRAINED) {
            rc = open_part(harvested, parent->part[g].sha256, &harvested->blob[g]);
        }
        harvested->slim[g] =
            (struct slim_group){.classes = (uint32_t)group->class_count, .width = group->width};
        harvested->group[g] =
            (struct harvest_group){.file = harvested->blob[g].file,
                                   .classes = &harvested->class_of[group->class_first],
                                   .prior = prior_of(harvested, g)};
    }
    return rc;
}

static int write_piece(void *arg, const void *data, size_t size, struct err *err)
{
    struct harvested *harvested = arg;
    if (work_stopping(harvested->coordinator->work)) {
        return err_set(err, ERR_CANCELLED, "the coordinator is stopping");
    }
    return blob_upload_write_all(harvested->upload, data, size, err);
}

static int write_harvest(struct harvested *harvested)
{
    const struct harvest harvest = {.split = {.target = harvested->target,
                                              .stem = (size_t)harvested->options.stem,
                                              .group = harvested->slim,
                                              .group_count = harvested->parent.groups.count},
                                    .stem = harvested->stem_blob.file,
                                    .group = harvested->group,
                                    .missing = HARVEST_NEVER,
                                    .evaluation = harvested->evaluation};
    return harvest_write(&harvest, write_piece, harvested, &harvested->err);
}

/* Write the model of the joint phase. Its rows of missing classes become those of the harvest
 * again. */
static int write_joint(struct harvested *harvested)
{
    int64_t class_of[COUNTED_CLASSES_MAX];
    bool missing[COUNTED_CLASSES_MAX] = {0};
    const size_t count = parent_missing(&harvested->parent, class_of);
    for (size_t i = 0; i < count; i++) {
        missing[class_of[i]] = true;
    }
    return harvest_drop_classes(harvested->target, missing, harvested->joint_blob.file,
                                &harvested->evaluation, write_piece, harvested, &harvested->err);
}

static bool is_joint(const struct harvested *harvested)
{
    return harvested->parent.phase == PARENT_JOINT;
}

static void harvested_run(struct work_job *job)
{
    struct harvested *harvested = (struct harvested *)job;
    int rc = is_joint(harvested)
                 ? open_part(harvested, harvested->parent.joint.sha256, &harvested->joint_blob)
                 : fill_groups(harvested);
    if (!rc) {
        rc = blob_upload_open(harvested->coordinator->blobs, NULL, BLOB_BYTES_MAX,
                              &harvested->upload, &harvested->err);
    }
    if (!rc) {
        rc = is_joint(harvested) ? write_joint(harvested) : write_harvest(harvested);
    }
    if (rc && harvested->upload) {
        blob_upload_abort(harvested->upload);
    }
    checkpoint_blob_close(&harvested->stem_blob);
    checkpoint_blob_close(&harvested->joint_blob);
    for (size_t g = 0; g < GROUPS_MAX; g++) {
        checkpoint_blob_close(&harvested->blob[g]);
    }
    harvested->code = rc;
}

/* ---- on the loop's thread ---- */

/* Report damaged blobs before the failure: the core trains such a group again. */
static void report_damage(struct harvested *harvested)
{
    if (harvested->stem.sha256[0]) {
        damage_report(harvested->coordinator, harvested->stem.sha256);
    }
    for (size_t g = 0; g < GROUPS_MAX; g++) {
        if (harvested->part[g].sha256[0]) {
            damage_report(harvested->coordinator, harvested->part[g].sha256);
        }
    }
}

static void end(struct harvested *harvested)
{
    struct event event = {.type = EVENT_HARVESTED, .harvested = harvested->result};
    if (harvested->code != ERR_CANCELLED) { /* else the next start begins it again */
        event.harvested.failed = harvested->code != 0;
        if (harvested->code) {
            snprintf(event.harvested.message, sizeof(event.harvested.message), "%.200s",
                     harvested->err.text);
            log_error("export_failed", "job=%s error=%s", harvested->result.job.text,
                      log_quote(harvested->err.text).text);
            report_damage(harvested);
        }
        turn_event(harvested->coordinator->turn, &event, NULL, NULL);
    }
    harvested_free(harvested);
}

static void on_published(void *arg)
{
    struct harvested *harvested = arg;
    const struct publication *publication = &harvested->publication;
    harvested->code = publication->code;
    if (harvested->code) {
        harvested->err = publication->err;
    } else {
        memcpy(harvested->result.sha256, publication->sha256, SHA256_SIZE);
        harvested->result.bytes = (int64_t)publication->bytes;
    }
    end(harvested);
}

static void harvested_done(struct work_job *job)
{
    struct harvested *harvested = (struct harvested *)job;
    if (job->cancelled) {
        harvested->code = ERR_CANCELLED;
    }
    if (harvested->code) {
        end(harvested);
    } else {
        publication_begin(&harvested->publication, harvested->coordinator, harvested->upload,
                          on_published, harvested);
    }
}

/* Read the worker's input on the loop's thread. */
static int gather(struct harvested *harvested, const struct job *job, const struct parent *parent)
{
    struct coordinator *coordinator = harvested->coordinator;
    const struct catalog_entry *entry = NULL;
    int rc = catalog_find(coordinator->catalog, job->spec.model.sha256, &entry, &harvested->err);
    if (rc) {
        return rc;
    }
    catalog_pin(coordinator->catalog, entry->sha256);
    snprintf(harvested->model_sha256, sizeof(harvested->model_sha256), "%s", entry->sha256);
    harvested->target = entry->model;
    harvested->parent = *parent;
    harvested->options = job->spec.submodel;
    harvested->evaluation =
        (struct evaluation){.micro_batch = job->spec.batch / job->spec.micro_batches};
    if (is_joint(harvested)) {
        awaited_begin(coordinator, &harvested->joint, parent->joint.sha256);
        return 0;
    }
    awaited_begin(coordinator, &harvested->stem, parent->stem.sha256);
    for (size_t g = 0; g < parent->groups.count; g++) {
        if (parent->part[g].state == PART_TRAINED) {
            awaited_begin(coordinator, &harvested->part[g], parent->part[g].sha256);
        }
    }
    return 0;
}

int harvested_start(struct coordinator *coordinator, const char *job_id, struct err *err)
{
    const struct job *job = core_job(coordinator->core, job_id);
    const struct parent *parent = core_parent(coordinator->core, job_id);
    if (!parent) {
        return 0;
    }
    struct harvested *harvested = calloc(1, sizeof(*harvested));
    if (!harvested) {
        return err_set(err, ERR_MEMORY, "harvest of '%s': out of memory", job_id);
    }
    harvested->coordinator = coordinator;
    harvested->result.job = job->id;
    harvested->job = (struct work_job){.run = harvested_run, .done = harvested_done};
    harvested->code = gather(harvested, job, parent);
    if (harvested->code) {
        harvested->job.run = NULL;
        work_post(coordinator->work, &harvested->job);
    } else {
        work_submit(coordinator->work, &harvested->job);
    }
    return 0;
}
