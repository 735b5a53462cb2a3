#include "coordinator/core/submodel/submodel_repeats.h"

#include <string.h>

#include "coordinator/core/parts/groups.h"
#include "coordinator/core/state/state.h"

/* The attempt does not count, because the part has not failed. */
static void repeat(struct parent_part *part)
{
    part->state = PART_WAITING;
    part->attempts--;
}

/* A part without a completed step has not loaded the file from which it starts. */
static void repeat_unbegun(struct core *core, struct parent_part *part)
{
    const struct job_slot *job = groups_job(core, part);
    if (job && job->job.progress.step == 0) {
        groups_cancel(core, part, "", "the model that it starts from is damaged");
        repeat(part);
    }
}

static bool lose_model(struct parent_part *part, const char *sha256)
{
    const bool lost = part->state == PART_TRAINED && strcmp(part->sha256, sha256) == 0;
    if (lost) {
        repeat(part);
    }
    return lost;
}

/* Trained parts are needed until the harvest is stored. A stem given by the user is never
 * retrained. */
static bool lose_parts(struct parent_slot *parent, const char *sha256, int *phase)
{
    struct parent *row = &parent->parent;
    const bool own_stem = parent->job.spec.submodel.stem_epochs > 0;
    const bool stem = own_stem && lose_model(&row->stem, sha256);
    bool group = false;
    for (size_t g = 0; g < row->groups.count; g++) {
        group = lose_model(&row->part[g], sha256) || group;
    }
    if ((stem || group) && row->phase == PARENT_HARVEST) {
        *phase = stem ? PARENT_STEM : PARENT_GROUPS;
    }
    return stem || group;
}

/* The joint phase needs the harvested model until its first step. If classes are missing, it needs
 * its own model at its end. */
static bool lose_joint(struct core *core, struct parent_slot *parent, const char *sha256,
                       int *phase)
{
    struct parent *row = &parent->parent;
    const bool harvest = strcmp(row->harvest_sha256, sha256) == 0;
    if (harvest) {
        repeat_unbegun(core, &row->joint);
    }
    if (harvest && row->joint.state == PART_WAITING) {
        *phase = PARENT_HARVEST;
        return true;
    }
    return lose_model(&row->joint, sha256);
}

bool submodel_repeats_damage(struct core *core, struct parent_slot *parent, const char *sha256,
                             int *phase)
{
    *phase = parent->parent.phase;
    return *phase < PARENT_JOINT    ? lose_parts(parent, sha256, phase)
           : *phase == PARENT_JOINT ? lose_joint(core, parent, sha256, phase)
                                    : false;
}

bool submodel_repeats_stem(struct core *core, struct parent_slot *parent)
{
    bool trains = false;
    for (size_t g = 0; g < parent->parent.groups.count; g++) {
        struct parent_part *part = &parent->parent.part[g];
        repeat_unbegun(core, part);
        trains = trains || part->state == PART_TRAINS;
    }
    groups_changed(parent);
    return !trains;
}

/* A group depends on every bit of its stem. A retrained stem has the same bits, unless devices of
 * another numeric class trained it. */
void submodel_repeats_new_stem(struct parent_slot *parent, const char *sha256)
{
    struct parent *row = &parent->parent;
    const bool same = strcmp(row->stem.sha256, sha256) == 0;
    for (size_t g = 0; !same && g < row->groups.count; g++) {
        if (row->part[g].state == PART_TRAINED) {
            repeat(&row->part[g]);
        }
    }
}
