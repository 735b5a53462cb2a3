/* How classes and channels are divided among devices: by the expected seconds of their slices, with
 * a batch for each group, and by the classes that devices prefer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "coordinator/core/class_groups.h"
#include "coordinator/core/planning.h"
#include "coordinator/core/slice_loads.h"
#include "coordinator/core/state.h"
#include "coordinator/core/submodel_parts.h"
#include "coordinator/core/submodel_plan.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "tests/unit/coordinator_core/world.h"

#define CLASSES 10
#define DEVICES 5
#define BATCH 32

/* A job of sub-models on spoken digits, and devices with slowdowns of 2, 2, 4, 6 and 10. */
struct bench {
    struct world *world;
    struct model *model;
    struct parent_slot *parent;
};

static struct model *parse(const char *name)
{
    const char *text = zoo_text(name);
    const struct model_fit fit = {.input = {49, 40, 1}, .dtype = DTYPE_U8, .classes = CLASSES};
    json_auto_t *description = NULL;
    struct model *model = NULL;
    struct err err = {0};
    assert_ok(json_parse(text, strlen(text), &description, &err), &err);
    assert_ok(description_parse(description, &fit, &model, NULL, &err), &err);
    return model;
}

static void begin(struct bench *bench, const char *model, int64_t class_samples)
{
    static const double slowdown[DEVICES] = {2, 2, 4, 6, 10};
    static const char *const name[DEVICES] = {"a", "b", "c", "d", "e"};
    *bench = (struct bench){.world = world_new(), .model = parse(model)};
    bench->parent = calloc(1, sizeof(*bench->parent));
    assert_non_null(bench->parent);
    for (size_t i = 0; i < DEVICES; i++) {
        (void)world_agent(bench->world, name[i], 50 / slowdown[i]);
    }
    struct parent_slot *parent = bench->parent;
    parent->model = bench->model;
    parent->job.spec = world_spec("divided", 0);
    parent->job.spec.batch = BATCH;
    parent->job.spec.epochs = 2;
    parent->job.spec.strategy = STRATEGY_SUBMODEL;
    parent->job.spec.submodel = (struct submodel_options)SUBMODEL_OPTIONS_DEFAULT;
    parent->parent.class_count = CLASSES;
    for (size_t c = 0; c < CLASSES; c++) {
        parent->parent.class_samples[c] = class_samples;
    }
}

static void end(struct bench *bench)
{
    free(bench->parent);
    model_free(&bench->model);
    world_free(bench->world);
}

static const struct class_groups *plan(struct bench *bench)
{
    struct err err = {0};
    assert_ok(submodel_plan(bench->world->core, bench->parent, NULL, &err), &err);
    return &bench->parent->parent.groups;
}

/* The expected seconds of an epoch of each group, the first on the fastest device and so on. */
static void list_seconds(const struct bench *bench, const struct class_groups *groups,
                         double *seconds)
{
    const struct core *core = bench->world->core;
    const struct parent_slot *parent = bench->parent;
    const struct event_classes classes = {.samples = parent->parent.class_samples,
                                          .count = CLASSES};
    struct slim_group group[GROUPS_MAX];
    struct err err = {0};
    for (size_t g = 0; g < groups->count; g++) {
        group[g] = (struct slim_group){.classes = (uint32_t)groups->group[g].class_count,
                                       .width = groups->group[g].width};
    }
    const struct slim_split split = {
        .target = bench->model, .stem = 1, .group = group, .group_count = groups->count};
    for (size_t g = 0; g < groups->count; g++) {
        struct view view;
        struct view_sizes sizes;
        const struct slice_place place = {.split = &split, .group = g, .device = g};
        assert_ok(slice_loads_sample(core, NULL, &place, &seconds[g], &err), &err);
        submodel_group_view(groups, g, &classes, parent->job.spec.submodel.negatives, &view,
                            &sizes);
        seconds[g] *= (double)view_epoch(&sizes);
    }
}

static double spread(const double *seconds, size_t count)
{
    double least = INFINITY, most = 0;
    for (size_t g = 0; g < count; g++) {
        least = fmin(least, seconds[g]);
        most = fmax(most, seconds[g]);
    }
    return most / least;
}

static void groups_of_unequal_devices_take_alike_expected_seconds(void **state)
{
    (void)state;
    static const char *const models[] = {"alexnet-cifar", "vgg11-bn"};
    for (size_t i = 0; i < 2; i++) {
        struct bench bench;
        double seconds[GROUPS_MAX];
        begin(&bench, models[i], 600);
        const struct class_groups *groups = plan(&bench);
        assert_int_equal(groups->count, DEVICES);
        list_seconds(&bench, groups, seconds);
        print_message("%s: the seconds of groups differ by a factor of %.3f\n", models[i],
                      spread(seconds, DEVICES));
        assert_true(spread(seconds, DEVICES) < 1.25);
        end(&bench);
    }
}

static void assert_batches(const struct bench *bench, const struct class_groups *groups)
{
    const struct parent_slot *parent = bench->parent;
    const struct event_classes classes = {.samples = parent->parent.class_samples,
                                          .count = CLASSES};
    for (size_t g = 0; g < groups->count; g++) {
        struct view view;
        struct view_sizes sizes;
        submodel_group_view(groups, g, &classes, parent->job.spec.submodel.negatives, &view,
                            &sizes);
        assert_true((int64_t)view_epoch(&sizes) >= parent->job.spec.batch);
    }
}

/* Two classes of a group have 8 samples and 8 others: less than a batch of 32. */
static void there_are_fewer_groups_if_they_would_have_less_than_a_batch(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, "alexnet-cifar", 5);
    const struct class_groups *groups = plan(&bench);
    assert_true(groups->count >= 2 && groups->count < DEVICES);
    assert_batches(&bench, groups);
    end(&bench);
}

/* Unequal groups would have 2 and 3 classes, or more: 24 samples and less. */
static void groups_are_equal_if_unequal_ones_would_have_less_than_a_batch(void **state)
{
    (void)state;
    struct bench bench;
    struct err err = {0};
    begin(&bench, "alexnet-cifar", 4);
    struct parent_slot *parent = bench.parent;
    const struct event_classes classes = {.samples = parent->parent.class_samples,
                                          .count = CLASSES};
    parent->job.spec.batch = 24;
    parent->job.spec.submodel.group_count = 2;
    assert_ok(submodel_plan_check(bench.model, &parent->job.spec, &classes, &err), &err);
    assert_batches(&bench, plan(&bench));
    parent->job.spec.batch = 40;
    parent->parent.groups.count = 0;
    assert_int_equal(submodel_plan_check(bench.model, &parent->job.spec, &classes, &err),
                     ERR_INVALID);
    assert_holds(err.text, "one of 2 groups would have");
    assert_int_equal(submodel_plan(bench.world->core, parent, NULL, &err), ERR_INVALID);
    end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_unequal_devices_take_alike_expected_seconds),
        cmocka_unit_test(there_are_fewer_groups_if_they_would_have_less_than_a_batch),
        cmocka_unit_test(groups_are_equal_if_unequal_ones_would_have_less_than_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
