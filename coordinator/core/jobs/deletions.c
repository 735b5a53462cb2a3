/* The edge deletes blobs after the commit unless they are still needed: the same content may belong
 * to other objects, including rows that the core does not hold. */
#include "coordinator/core/jobs/deletions.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/kept.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"

#define USERS_NAMED 3

/* ---- users ---- */

/* The jobs that use an object, as texts. */
struct users {
    char text[MESSAGE_SIZE / 2];
    size_t count;
};

static void add_user(struct users *users, const struct job *job)
{
    const size_t used = strlen(users->text);
    if (users->count++ < USERS_NAMED) {
        text_set(users->text + used, sizeof(users->text) - used, "%s%s",
                 users->count > 1 ? ", " : "", job->id.text);
    }
}

static bool same(const char *used, const char *sha256)
{
    return used[0] != '\0' && strcmp(used, sha256) == 0;
}

static bool job_uses(const struct job *job, const struct event_delete *deletion)
{
    if (deletion->kind == DELETE_MODEL) { /* a job stores its own copy of the description */
        return strcmp(job->spec.model.name, deletion->id) == 0;
    }
    for (size_t i = 0; i < deletion->sha256_count; i++) {
        const char *sha256 = deletion->sha256[i];
        if (same(job->data.train_sha256, sha256) || same(job->data.test_sha256, sha256) ||
            same(job->data.joint_sha256, sha256) || same(job->data.checkpoint_sha256, sha256)) {
            return true;
        }
    }
    return false;
}

/* The next phase of a parent starts from the models of its ended parts and of its harvest. Groups
 * begin again with the newest average, and live groups with the average from which they started. */
static bool parent_uses(const struct core *core, const struct parent_slot *slot,
                        const struct event_delete *deletion)
{
    const struct parent *row = &slot->parent;
    const struct gossip_state *state = &row->gossip;
    bool uses = job_uses(&slot->job, deletion);
    for (size_t i = 0; !uses && i < deletion->sha256_count; i++) {
        const char *sha256 = deletion->sha256[i];
        uses = same(row->stem.sha256, sha256) || same(row->harvest_sha256, sha256) ||
               same(row->joint.sha256, sha256);
        for (size_t g = 0; !uses && g < row->groups.count; g++) {
            uses = same(row->part[g].sha256, sha256);
        }
        uses = uses || (state->average_count > 0 &&
                        same(state->average[state->average_count - 1].sha256, sha256));
    }
    for (size_t i = 0; !uses && i < core->jobs.count; i++) {
        const struct job *part = &slots_job_at(core, i)->job;
        uses = id_equal(part->parent.text, slot->job.id.text) && job_uses(part, deletion);
    }
    return uses;
}

/* List the live jobs that need one of the contents. A parent uses the objects of its parts. */
static struct users find_users(const struct core *core, const struct event_delete *deletion)
{
    struct users users = {.count = 0};
    for (size_t i = 0; i < core->jobs.count; i++) {
        const struct job *job = &slots_job_at(core, i)->job;
        if (job->parent.text[0] == '\0' && job_uses(job, deletion)) {
            add_user(&users, job);
        }
    }
    for (size_t i = 0; i < core->parents.count; i++) {
        const struct parent_slot *parent = table_at(&core->parents, i);
        if (parent_uses(core, parent, deletion)) {
            add_user(&users, &parent->job);
        }
    }
    return users;
}

/* Whether another data set has the same content and so keeps it for the jobs. */
static bool has_twin(const struct core *core, const struct event_delete *deletion)
{
    for (size_t i = 0; deletion->kind == DELETE_DATASET && i < core->datasets.count; i++) {
        const struct dataset *dataset = core_dataset_at(core, i);
        if (strcmp(dataset->name, deletion->id) != 0 &&
            strcmp(dataset->sha256, deletion->sha256[0]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_used(struct core *core, const struct event_delete *deletion)
{
    const struct users users = find_users(core, deletion);
    if (users.count == 0 || has_twin(core, deletion)) {
        return false;
    }
    char more[40] = "";
    if (users.count > USERS_NAMED) {
        text_set(more, sizeof(more), " and %zu more", users.count - USERS_NAMED);
    }
    act_problem(core, PROBLEM_IN_USE,
                "%s'%s' is used by %s%s; wait for the end of the job%s, or cancel %s",
                deletion->kind == DELETE_JOB ? "a checkpoint of " : "", deletion->id, users.text,
                more, users.count > 1 ? "s" : "", users.count > 1 ? "them" : "it");
    return true;
}

/* ---- deleting ---- */

/* A kind of deletable object. The core holds some of the rows; the edge has read the others. */
struct stored_kind {
    enum object_kind object;
    enum problem_code unknown;
    const char *event, *noun;
};

static const struct stored_kind kinds[] = {
    [DELETE_DATASET] = {OBJECT_DATASET, PROBLEM_UNKNOWN_DATASET, "dataset_deleted", "data set"},
    [DELETE_MODEL] = {OBJECT_MODEL, PROBLEM_UNKNOWN_MODEL, "model_deleted", "model"},
    [DELETE_CHECKPOINT] = {OBJECT_CHECKPOINT, PROBLEM_UNKNOWN_CHECKPOINT, "checkpoint_deleted",
                           "checkpoint"},
    [DELETE_JOB] = {OBJECT_JOB, PROBLEM_UNKNOWN_JOB, "job_deleted", "job"},
    [DELETE_INCIDENT] = {OBJECT_INCIDENT, PROBLEM_UNKNOWN_INCIDENT, "incident_deleted", "incident"},
};

/* Remove the object from the core, if the core holds it. */
static void release(struct core *core, const struct event_delete *deletion)
{
    struct table *tables[] = {[DELETE_DATASET] = &core->datasets,
                              [DELETE_MODEL] = &core->models,
                              [DELETE_CHECKPOINT] = &core->checkpoints};
    if (deletion->kind <= DELETE_CHECKPOINT) {
        struct table *table = tables[deletion->kind];
        const bool by_content = deletion->kind == DELETE_CHECKPOINT;
        void *item = table_find(table, by_content ? deletion->sha256[0] : deletion->id);
        /* A job's checkpoint may have the content of an uploaded one. */
        const struct checkpoint *upload = item;
        if (item && (!by_content || strcmp(upload->id.text, deletion->id) == 0)) {
            table_remove(table, item);
        }
    }
    if (deletion->kind == DELETE_CHECKPOINT) {
        kept_deleted(core, deletion->id);
    }
    for (size_t i = 0; deletion->kind == DELETE_JOB && i < deletion->unit_count; i++) {
        center_release(core, deletion->sha256[i]);
    }
}

static bool is_live(struct core *core, const struct event_delete *deletion)
{
    const struct job_slot *job = slots_job(core, deletion->job.text);
    const struct job *live = core_job(core, deletion->job.text);
    if (deletion->kind == DELETE_JOB && live) {
        act_problem(core, PROBLEM_WRONG_STATE, "job '%s' has not ended; cancel it first",
                    deletion->id);
        return true;
    }
    if (deletion->kind == DELETE_INCIDENT && job && job->incidents.open &&
        strcmp(job->incidents.row.id.text, deletion->id) == 0) {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "incident '%s' is open; job '%s' is still recovering", deletion->id,
                    deletion->job.text);
        return true;
    }
    return false;
}

void deletions_on_delete(struct core *core, const struct event *event)
{
    const struct event_delete *deletion = &event->delete;
    const struct stored_kind *kind = &kinds[deletion->kind];
    if (is_live(core, deletion)) {
        return;
    }
    if (deletion->if_revision != 0 && deletion->if_revision != deletion->revision) {
        act_problem(core, PROBLEM_REVISION_MISMATCH,
                    "%s '%s' has revision %" PRId64 ", not %" PRId64 "; read it and retry",
                    kind->noun, deletion->id, deletion->revision, deletion->if_revision);
        return;
    }
    if (is_used(core, deletion)) {
        return;
    }
    release(core, deletion);
    if (!deletion->parts_only) { /* before its parts: the audit names the first changed object */
        act_forget(core, kind->object, deletion->id, 0);
    }
    for (size_t i = 0; i < deletion->part_count; i++) {
        act_forget(core, OBJECT_JOB, deletion->part[i].text, 0);
    }
    if (deletion->parts_only) {
        return;
    }
    act_reply(core, 204, OBJECT_NOTHING, NULL);
    if (kind->object == OBJECT_JOB || kind->object == OBJECT_INCIDENT) {
        act_wake(core, kind->object, deletion->id);
    }
    act_publish(core, kind->event, strlen(deletion->id) < ID_SIZE ? deletion->id : "",
                "%s '%s' is deleted", kind->noun, deletion->id);
}
