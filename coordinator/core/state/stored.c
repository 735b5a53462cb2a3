/* Objects that users upload: data sets, models, checkpoints. */
#include "coordinator/core/state/stored.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/state/act.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/state.h"

/* An earlier version of the coordinator did not count classes. */
static void add_class_counts(struct core *core, struct dataset *dataset,
                             const struct dataset *stored)
{
    if (dataset->class_count_count == 0 && stored->class_count_count > 0) {
        memcpy(dataset->class_count, stored->class_count, sizeof(dataset->class_count));
        dataset->class_count_count = stored->class_count_count;
        dataset->revision++;
        act_persist(core, OBJECT_DATASET, dataset);
    }
}

void stored_on_dataset(struct core *core, const struct event *event)
{
    const struct dataset *stored = event->dataset_stored.dataset;
    struct dataset *dataset = table_find(&core->datasets, stored->name);
    if (dataset) {
        if (strcmp(dataset->sha256, stored->sha256) == 0) {
            add_class_counts(core, dataset, stored);
            act_reply(core, 200, OBJECT_DATASET, dataset);
        } else {
            act_problem(core, PROBLEM_NAME_TAKEN,
                        "data set '%s' exists with different content (sha256 %.16s...); choose "
                        "another name",
                        dataset->name, dataset->sha256);
        }
        return;
    }
    dataset = table_add(&core->datasets, stored->name);
    if (!dataset) {
        act_problem(core, PROBLEM_TOO_MANY, "the coordinator has its maximum of %d data sets",
                    DATASETS_MAX);
        return;
    }
    *dataset = *stored;
    dataset->revision = 1;
    dataset->created_ms = core->wall_ms;
    act_persist(core, OBJECT_DATASET, dataset);
    act_reply(core, 201, OBJECT_DATASET, dataset);
    act_publish(core, "dataset_stored", "", "data set '%s' is stored", dataset->name);
}

void stored_on_model(struct core *core, const struct event *event)
{
    const struct model_row *stored = event->model_stored.model;
    struct model_row *model = table_find(&core->models, stored->name);
    if (model) {
        if (strcmp(model->sha256, stored->sha256) == 0) {
            act_reply(core, 200, OBJECT_MODEL, model);
        } else {
            act_problem(core, PROBLEM_NAME_TAKEN,
                        "model '%s' exists with a different description; choose another name",
                        model->name);
        }
        return;
    }
    model = table_add(&core->models, stored->name);
    if (!model) {
        act_problem(core, PROBLEM_TOO_MANY, "the coordinator has its maximum of %d models",
                    MODELS_MAX);
        return;
    }
    *model = *stored;
    model->revision = 1;
    model->created_ms = core->wall_ms;
    act_persist(core, OBJECT_MODEL, model);
    act_reply(core, 201, OBJECT_MODEL, model);
    act_publish(core, "model_stored", "", "model '%s' is stored", model->name);
}

/* A repeated upload of the same content gives the same checkpoint. */
void stored_on_checkpoint(struct core *core, const struct event *event)
{
    const struct event_checkpoint_stored *stored = &event->checkpoint_stored;
    struct checkpoint *checkpoint = table_find(&core->checkpoints, stored->sha256);
    if (checkpoint) {
        act_reply(core, 200, OBJECT_CHECKPOINT, checkpoint);
        return;
    }
    checkpoint = table_add(&core->checkpoints, stored->sha256);
    if (!checkpoint) {
        act_problem(core, PROBLEM_TOO_MANY,
                    "the coordinator has its maximum of %d uploaded checkpoints", CHECKPOINTS_MAX);
        return;
    }
    memcpy(checkpoint->sha256, stored->sha256, SHA256_SIZE);
    checkpoint->bytes = stored->bytes;
    checkpoint->revision = 1;
    checkpoint->created_ms = core->wall_ms;
    ids_new(core, checkpoint->id.text, "ckpt_");
    act_persist(core, OBJECT_CHECKPOINT, checkpoint);
    act_reply(core, 201, OBJECT_CHECKPOINT, checkpoint);
    act_publish(core, "checkpoint_stored", checkpoint->id.text,
                "stored an uploaded checkpoint of %" PRId64 " bytes", checkpoint->bytes);
}

/* ---- readers of the core ---- */

size_t core_dataset_count(const struct core *core)
{
    return core->datasets.count;
}

const struct dataset *core_dataset_at(const struct core *core, size_t index)
{
    return table_at(&core->datasets, index);
}

const struct dataset *core_dataset(const struct core *core, const char *name)
{
    return table_find(&core->datasets, name);
}

const struct model_row *core_model(const struct core *core, const char *name)
{
    return table_find(&core->models, name);
}

size_t core_model_count(const struct core *core)
{
    return core->models.count;
}

const struct model_row *core_model_at(const struct core *core, size_t index)
{
    return table_at(&core->models, index);
}

const struct checkpoint *core_upload(const struct core *core, const char *sha256)
{
    return table_find(&core->checkpoints, sha256);
}

bool core_uploads_full(const struct core *core)
{
    return core->checkpoints.count == CHECKPOINTS_MAX;
}
