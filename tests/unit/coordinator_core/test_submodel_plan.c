/* How classes and channels are divided among devices: by the expected seconds of their slices, with
 * a batch for each group, by the classes that devices prefer, and by the data that they have. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "coordinator/core/capacity/capacity.h"
#include "coordinator/core/capacity/capacity_units.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/submodel/class_groups.h"
#include "coordinator/core/submodel/slice_loads.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "coordinator/core/submodel/submodel_plan.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "schema/job_check.h"
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

/* The index of the group's device among those of the plan. */
static size_t device_index(const struct core *core, const struct class_group *group)
{
    size_t d = 0;
    while (d < DEVICES && !id_equal(core->planning->device[d].id.text, group->device.text)) {
        d++;
    }
    assert_true(d < DEVICES);
    return d;
}

/* The expected seconds of an epoch of each group on the device that it was planned for. */
static void list_seconds(const struct bench *bench, const struct class_groups *groups,
                         double *seconds)
{
    const struct core *core = bench->world->core;
    const struct parent_slot *parent = bench->parent;
    const struct class_samples data = {.samples = parent->parent.class_samples, .count = CLASSES};
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
        const struct slice_place place = {
            .split = &split, .group = g, .device = device_index(core, &groups->group[g])};
        assert_ok(slice_loads_sample(core, NULL, &place, &seconds[g], &err), &err);
        submodel_group_view(groups, g, &data, parent->job.spec.submodel.negatives, &view, &sizes);
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

/* Each device has one group, whatever classes it prefers. */
static void every_group_has_a_device_of_its_own(void **state)
{
    (void)state;
    static const char *const preferred[] = {"0-1", "0-9", "8-9"};
    for (size_t i = 0; i < sizeof(preferred) / sizeof(preferred[0]); i++) {
        for (size_t d = 0; d < DEVICES; d++) {
            struct bench bench;
            size_t groups_of[DEVICES] = {0};
            begin(&bench, "alexnet-cifar", 600);
            struct device *device = &slots_device_at(bench.world->core, d)->device;
            struct label *label = &device->label[device->label_count++];
            (void)snprintf(label->key, sizeof(label->key), "classes");
            (void)snprintf(label->value, sizeof(label->value), "%s", preferred[i]);
            const struct class_groups *groups = plan(&bench);
            assert_int_equal(groups->count, DEVICES);
            for (size_t g = 0; g < groups->count; g++) {
                groups_of[device_index(bench.world->core, &groups->group[g])]++;
            }
            for (size_t k = 0; k < DEVICES; k++) {
                assert_int_equal(groups_of[k], 1);
            }
            end(&bench);
        }
    }
}

/* The device measures a unit of the target: it takes `factor` times as long as expected. */
static void measure(const struct bench *bench, size_t d, size_t unit, double factor)
{
    struct core *core = bench->world->core;
    const struct device_slot *device = slots_device_at(core, d);
    struct unit_work work[UNITS_MAX];
    struct capacity_unit expected;
    capacity_work(core, bench->model, &bench->parent->job.spec, CONV2D_BACKEND_OWN, unit, unit + 1,
                  work);
    capacity_units(core, device, &work[unit], 1, 1, &expected);
    const double seconds[1][UNIT_PASSES] = {
        {factor * expected.seconds[UNIT_FORWARD], factor * expected.seconds[UNIT_BACKWARD]}};
    capacity_ran(core, device, &work[unit], seconds, 1);
}

static void equal_devices_get_equal_slices_whatever_units_they_ran(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, "alexnet-cifar", 600);
    measure(&bench, 0, 1, 3);
    measure(&bench, 1, 3, 1.0 / 3);
    const struct class_groups *groups = plan(&bench);
    assert_int_equal(groups->count, DEVICES);
    print_message("widths of two equal devices: %.3f and %.3f\n", groups->group[0].width,
                  groups->group[1].width);
    assert_true(fabs(groups->group[0].width - groups->group[1].width) < 0.03);
    end(&bench);
}

static void assert_batches(const struct bench *bench, const struct class_groups *groups)
{
    const struct parent_slot *parent = bench->parent;
    const struct class_samples data = {.samples = parent->parent.class_samples, .count = CLASSES};
    for (size_t g = 0; g < groups->count; g++) {
        struct view view;
        struct view_sizes sizes;
        submodel_group_view(groups, g, &data, parent->job.spec.submodel.negatives, &view, &sizes);
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

/* ---- data that stay on devices ---- */

/* What each device has: `most` samples of the classes c with c % DEVICES == d, and `few` of others.
 */
static void offer_data(struct bench *bench, int64_t most, int64_t few)
{
    struct job_spec *spec = &bench->parent->job.spec;
    for (size_t d = 0; d < DEVICES; d++) {
        struct device *device = &slots_device_at(bench->world->core, d)->device;
        struct offer *offer = &device->offer[0];
        *offer = (struct offer){.name = "photos",
                                .height = 49,
                                .width = 40,
                                .channels = 1,
                                .dtype = "U8",
                                .classes = CLASSES,
                                .class_count_count = CLASSES};
        (void)memset(offer->sha256, (int)('a' + d), SHA256_SIZE - 1);
        for (size_t c = 0; c < CLASSES; c++) {
            offer->class_count[c] = c % DEVICES == d ? most : few;
            offer->samples += offer->class_count[c];
        }
        device->offer_count = 1;
        device->protocol = PROTOCOL_VERSION;
        offer_form(offer, spec->train_local.form);
    }
    (void)snprintf(spec->train_local.name, NAME_SIZE, "photos");
    (void)snprintf(spec->submodel.joint_dataset, NAME_SIZE, "public");
    spec->train_local.classes = CLASSES;
}

static const struct device *device_of(const struct bench *bench, const struct class_group *group)
{
    return &slots_device(bench->world->core, group->device.text)->device;
}

static void groups_are_bound_to_what_their_devices_have(void **state)
{
    (void)state;
    struct bench bench;
    double least = INFINITY, most = 0;
    begin(&bench, "alexnet-cifar", 600);
    offer_data(&bench, 300, 40);
    struct parent_slot *parent = bench.parent;
    const struct class_groups *groups = plan(&bench);
    assert_int_equal(groups->count, DEVICES);
    for (size_t g = 0; g < groups->count; g++) {
        const struct class_group *group = &groups->group[g];
        const struct offer *offer = &device_of(&bench, group)->offer[0];
        struct job_spec spec;
        struct job_data data = {.joint_samples = 7, .joint_sha256 = "f"};
        assert_int_equal(group->class_count, 2);
        assert_int_equal(offer->class_count[groups->class_of[group->class_first]], 300);
        assert_int_equal(offer->class_count[groups->class_of[group->class_first + 1]], 300);
        submodel_group_job(parent, g, &spec, &data);
        assert_string_equal(spec.train_local.device.text, group->device.text);
        assert_string_equal(spec.train_local.sha256, offer->sha256);
        assert_int_equal(data.train_samples, offer->samples);
        assert_int_equal(data.holdout_samples, 30); /* 5 % of 600 */
        assert_int_equal(data.epoch_samples, 570 + 320);
        assert_true(data.joint_samples == 0 && data.joint_sha256[0] == '\0');
        assert_true(spec.view.holdout > 0 && spec.view.class_count == 2);
        least = fmin(least, group->width);
        most = fmax(most, group->width);
    }
    assert_true(most > 1.5 * least); /* widths follow the speeds */
    end(&bench);
}

static void a_device_with_less_than_a_batch_has_no_group(void **state)
{
    (void)state;
    struct bench bench;
    struct err err = {0};
    begin(&bench, "alexnet-cifar", 600);
    offer_data(&bench, 300, 40);
    struct offer *small = &slots_device_at(bench.world->core, 3)->device.offer[0];
    for (size_t c = 0; c < CLASSES; c++) {
        small->class_count[c] = 4;
    }
    small->samples = 4 * CLASSES; /* two classes and as many others: 16 */
    const struct class_groups *groups = plan(&bench);
    assert_int_equal(groups->count, DEVICES - 1);
    for (size_t g = 0; g < groups->count; g++) {
        assert_true(device_of(&bench, &groups->group[g])->offer != small);
    }
    bench.parent->job.spec.batch = 2000;
    bench.parent->parent.groups.count = 0;
    assert_int_equal(submodel_plan(bench.world->core, bench.parent, NULL, &err), ERR_INVALID);
    end(&bench);
}

/* With three groups the last device would have two classes and as many others, 80 samples; with two
 * it has class 5 and two more. */
static void fewer_groups_have_a_batch_each(void **state)
{
    (void)state;
    struct bench bench;
    bool there = false;
    begin(&bench, "alexnet-cifar", 600);
    offer_data(&bench, 0, 0);
    for (size_t d = 0; d < DEVICES; d++) {
        struct device *device = &slots_device_at(bench.world->core, d)->device;
        struct offer *offer = &device->offer[0];
        device->offer_count = d < 3;
        offer->samples = 0;
        for (size_t c = 0; c < 6; c++) {
            offer->class_count[c] = d == 2 ? 20 : c < 5 ? 500 : 0;
            offer->samples += offer->class_count[c];
        }
    }
    bench.parent->parent.class_count = 6;
    bench.parent->job.spec.train_local.classes = CLASSES;
    bench.parent->job.spec.batch = 100;
    struct err err = {0};
    assert_int_equal(submodel_plan(bench.world->core, bench.parent, NULL, &err), ERR_INVALID);
    assert_holds(err.text, "class 6 is on 0 devices");
    bench.parent->job.spec.train_local.classes = 6;
    for (size_t d = 0; d < 3; d++) {
        slots_device_at(bench.world->core, d)->device.offer[0].classes = 6;
    }
    const struct class_groups *groups = plan(&bench);
    assert_int_equal(groups->count, 2);
    for (size_t g = 0; g < 2; g++) {
        const struct device *device = device_of(&bench, &groups->group[g]);
        there = there || device == &slots_device_at(bench.world->core, 2)->device;
    }
    assert_true(there);
    end(&bench);
}

static void the_joint_phase_trains_on_the_uploaded_data(void **state)
{
    (void)state;
    struct bench bench;
    struct job_spec spec;
    begin(&bench, "alexnet-cifar", 600);
    offer_data(&bench, 300, 40);
    struct parent_slot *parent = bench.parent;
    parent->job.data = (struct job_data){.joint_samples = 500, .train_samples = 4600};
    (void)memset(parent->job.data.joint_sha256, 'e', SHA256_SIZE - 1);
    (void)plan(&bench);
    for (size_t c = 0; c < CLASSES; c++) {
        parent->parent.joint_samples[c] = 50;
    }
    parent->parent.joint_class_count = CLASSES;
    struct job_data data = parent->job.data;
    submodel_joint_job(parent, &spec, &data);
    assert_string_equal(spec.dataset_train, "public");
    assert_false(job_is_local(&spec));
    assert_string_equal(data.train_sha256, parent->job.data.joint_sha256);
    assert_int_equal(job_epoch_samples(&data), 500);
    assert_int_equal(data.joint_samples, 0);
    parent->parent.part[1].state = PART_MISSING;
    data = parent->job.data;
    submodel_joint_job(parent, &spec, &data);
    assert_int_equal(job_epoch_samples(&data), 400); /* without its two classes */
    end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_bound_to_what_their_devices_have),
        cmocka_unit_test(a_device_with_less_than_a_batch_has_no_group),
        cmocka_unit_test(fewer_groups_have_a_batch_each),
        cmocka_unit_test(the_joint_phase_trains_on_the_uploaded_data),
        cmocka_unit_test(groups_of_unequal_devices_take_alike_expected_seconds),
        cmocka_unit_test(every_group_has_a_device_of_its_own),
        cmocka_unit_test(equal_devices_get_equal_slices_whatever_units_they_ran),
        cmocka_unit_test(there_are_fewer_groups_if_they_would_have_less_than_a_batch),
        cmocka_unit_test(groups_are_equal_if_unequal_ones_would_have_less_than_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
