#include "tests/unit/coordinator_core/divided.h"

#include <stdlib.h>

#include "coordinator/core/state/planning.h"
#include "coordinator/core/submodel/slice_loads.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "coordinator/core/submodel/submodel_plan.h"

void divided_begin(struct divided *bench, const char *model, uint32_t classes,
                   int64_t class_samples)
{
    static const double slowdown[DIVIDED_DEVICES] = {2, 2, 4, 6, 10};
    static const char *const name[DIVIDED_DEVICES] = {"a", "b", "c", "d", "e"};
    const struct model_fit fit = {.input = {49, 40, 1}, .dtype = DTYPE_U8, .classes = classes};
    *bench = (struct divided){.world = world_new(), .model = world_zoo_model(model, &fit)};
    bench->parent = calloc(1, sizeof(*bench->parent));
    assert_non_null(bench->parent);
    for (size_t i = 0; i < DIVIDED_DEVICES; i++) {
        (void)world_agent(bench->world, name[i], 50 / slowdown[i]);
    }
    struct parent_slot *parent = bench->parent;
    parent->model = bench->model;
    parent->job.spec = world_spec("divided", 0);
    parent->job.spec.batch = DIVIDED_BATCH;
    parent->job.spec.epochs = 2;
    parent->job.spec.strategy = STRATEGY_SUBMODEL;
    parent->job.spec.submodel = (struct submodel_options)SUBMODEL_OPTIONS_DEFAULT;
    parent->parent.class_count = classes;
    for (size_t c = 0; c < classes; c++) {
        parent->parent.class_samples[c] = class_samples;
    }
}

void divided_end(struct divided *bench)
{
    free(bench->parent);
    model_free(&bench->model);
    world_free(bench->world);
}

const struct class_groups *divided_plan(struct divided *bench)
{
    struct err err = {0};
    assert_ok(submodel_plan(bench->world->core, bench->parent, NULL, &err), &err);
    return &bench->parent->parent.groups;
}

size_t divided_device(const struct core *core, const struct class_group *group)
{
    size_t d = 0;
    while (d < DIVIDED_DEVICES &&
           !id_equal(core->planning->device[d].id.text, group->device.text)) {
        d++;
    }
    assert_true(d < DIVIDED_DEVICES);
    return d;
}

void divided_samples(const struct divided *bench, const struct class_groups *groups,
                     double *seconds, double *samples)
{
    const struct core *core = bench->world->core;
    const struct parent_slot *parent = bench->parent;
    const struct class_samples data = {.samples = parent->parent.class_samples,
                                       .count = parent->parent.class_count};
    struct slim_group group[GROUPS_MAX];
    struct err err = {0};
    const struct slim_split split = submodel_split(bench->model, 1, groups, group);
    for (size_t g = 0; g < groups->count; g++) {
        struct view view;
        struct view_sizes sizes;
        const struct slice_place place = {
            .split = &split, .group = g, .device = divided_device(core, &groups->group[g])};
        assert_ok(slice_loads_sample(core, NULL, &place, &seconds[g], &err), &err);
        submodel_group_view(groups, g, &data, parent->job.spec.submodel.negatives, &view, &sizes);
        samples[g] = (double)view_epoch(&sizes);
    }
}

void divided_seconds(const struct divided *bench, const struct class_groups *groups,
                     double *seconds)
{
    double samples[GROUPS_MAX];
    divided_samples(bench, groups, seconds, samples);
    for (size_t g = 0; g < groups->count; g++) {
        seconds[g] *= samples[g];
    }
}
