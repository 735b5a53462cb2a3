/* Deleting a checkpoint takes nothing from a job that has not ended. */
#include <string.h>

#include "base/assert.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"

static bool parent_needs(const struct parent *parent, const char *sha256)
{
    bool needs = strcmp(parent->stem.sha256, sha256) == 0 ||
                 strcmp(parent->harvest_sha256, sha256) == 0 ||
                 strcmp(parent->joint.sha256, sha256) == 0;
    for (size_t g = 0; g < parent->groups.count && !needs; g++) {
        needs = strcmp(parent->part[g].sha256, sha256) == 0;
    }
    return needs;
}

static bool is_needed(const struct rows *rows, const struct job *job, const char *sha256)
{
    const struct parent *parent = rows_parent(rows, job->id.text);
    return strcmp(job->data.checkpoint_sha256, sha256) == 0 ||
           (parent && parent_needs(parent, sha256));
}

/* It ends with the same transaction. */
static bool ends(const struct transaction *transaction, const struct job *job)
{
    bool ended = false;
    for (size_t i = 0; i < transaction->count; i++) {
        const struct change *change = &transaction->item[i];
        const struct job *row = change->kind == OBJECT_JOB && !change->forget ? change->row : NULL;
        ended = row && id_equal(row->id.text, job->id.text) ? job_state_ended(row->state) : ended;
    }
    return ended;
}

/* Another one with the same content: groups that train no step have the same average again. */
static bool has_twin(const struct rows *rows, const struct checkpoint *of)
{
    bool twin = false;
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        const struct checkpoint *row = &rows->checkpoint[i];
        twin = twin || (row != of && strcmp(row->sha256, of->sha256) == 0);
    }
    return twin;
}

void check_delete_checkpoint(struct world *world, const struct transaction *transaction,
                             const char *id)
{
    const struct rows *rows = &world->coordinator->rows;
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        const struct checkpoint *row = &rows->checkpoint[i];
        const bool goes = id_equal(row->id.text, id) && !has_twin(rows, row);
        for (size_t j = 0; goes && j < rows->job_count; j++) {
            const struct job *job = &rows->job[j];
            if (!job_state_ended(job->state) && is_needed(rows, job, row->sha256) &&
                !ends(transaction, job)) {
                check_fail(world, "checkpoint %s is deleted while %s needs it", id, job->spec.name);
            }
        }
    }
}

void check_note_deleted(struct world *world, const char *id)
{
    struct check *check = world->check;
    if (!check_deleted(world, id)) {
        ASSERT(check->deleted_count < CHECK_DELETED_MAX);
        memcpy(check->deleted[check->deleted_count++].text, id, ID_SIZE);
    }
}

bool check_deleted(const struct world *world, const char *id)
{
    const struct check *check = world->check;
    for (size_t i = 0; i < check->deleted_count; i++) {
        if (id_equal(check->deleted[i].text, id)) {
            return true;
        }
    }
    return false;
}
