/* How classes are divided among devices whose data stay on them: by the classes that they have. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/core/state/slots.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "coordinator/core/submodel/submodel_plan.h"
#include "schema/job_check.h"
#include "tests/unit/coordinator_core/divided.h"

/* What each device has: `most` samples of the classes c with c % DIVIDED_DEVICES == d, and `few` of
 * others.
 */
static void offer_data(struct divided *bench, int64_t most, int64_t few)
{
    struct job_spec *spec = &bench->parent->job.spec;
    for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
        struct device *device = &slots_device_at(bench->world->core, d)->device;
        struct offer *offer = &device->offer[0];
        *offer = (struct offer){.name = "photos",
                                .height = 49,
                                .width = 40,
                                .channels = 1,
                                .dtype = "U8",
                                .classes = DIVIDED_CLASSES,
                                .class_count_count = DIVIDED_CLASSES};
        (void)memset(offer->sha256, (int)('a' + d), SHA256_SIZE - 1);
        for (size_t c = 0; c < DIVIDED_CLASSES; c++) {
            offer->class_count[c] = c % DIVIDED_DEVICES == d ? most : few;
            offer->samples += offer->class_count[c];
        }
        device->offer_count = 1;
        device->protocol = PROTOCOL_VERSION;
        offer_form(offer, spec->train_local.form);
    }
    (void)snprintf(spec->train_local.name, NAME_SIZE, "photos");
    (void)snprintf(spec->submodel.joint_dataset, NAME_SIZE, "public");
    spec->train_local.classes = DIVIDED_CLASSES;
}

static const struct device *device_of(const struct divided *bench, const struct class_group *group)
{
    return &slots_device(bench->world->core, group->device.text)->device;
}

static void groups_are_bound_to_what_their_devices_have(void **state)
{
    (void)state;
    struct divided bench;
    double least = INFINITY, most = 0;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    offer_data(&bench, 300, 40);
    struct parent_slot *parent = bench.parent;
    const struct class_groups *groups = divided_plan(&bench);
    assert_int_equal(groups->count, DIVIDED_DEVICES);
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
    divided_end(&bench);
}

static void a_device_with_less_than_a_batch_has_no_group(void **state)
{
    (void)state;
    struct divided bench;
    struct err err = {0};
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    offer_data(&bench, 300, 40);
    struct offer *small = &slots_device_at(bench.world->core, 3)->device.offer[0];
    for (size_t c = 0; c < DIVIDED_CLASSES; c++) {
        small->class_count[c] = 4;
    }
    small->samples = 4 * DIVIDED_CLASSES; /* two classes and as many others: 16 */
    const struct class_groups *groups = divided_plan(&bench);
    assert_int_equal(groups->count, DIVIDED_DEVICES - 1);
    for (size_t g = 0; g < groups->count; g++) {
        assert_true(device_of(&bench, &groups->group[g])->offer != small);
    }
    bench.parent->job.spec.batch = 2000;
    bench.parent->parent.groups.count = 0;
    assert_int_equal(submodel_plan(bench.world->core, bench.parent, NULL, &err), ERR_INVALID);
    divided_end(&bench);
}

/* Its group waits for memory: no other device has its classes. */
static void a_device_without_memory_keeps_its_classes(void **state)
{
    (void)state;
    struct divided bench;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    offer_data(&bench, 300, 0);
    for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
        struct offer *offer = &slots_device_at(bench.world->core, d)->device.offer[0];
        offer->class_count[(d + 1) % DIVIDED_CLASSES] += 40; /* others */
        offer->samples += 40;
    }
    slots_device_at(bench.world->core, 3)->device.probe.free_memory_bytes = 1 << 20;
    const struct class_groups *groups = divided_plan(&bench);
    assert_int_equal(groups->count, DIVIDED_DEVICES);
    divided_end(&bench);
}

/* With three groups the last device would have two classes and as many others, 80 samples; with two
 * it has class 5 and two more. */
static void fewer_groups_have_a_batch_each(void **state)
{
    (void)state;
    struct divided bench;
    bool there = false;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    offer_data(&bench, 0, 0);
    for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
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
    bench.parent->job.spec.train_local.classes = DIVIDED_CLASSES;
    bench.parent->job.spec.batch = 100;
    struct err err = {0};
    assert_int_equal(submodel_plan(bench.world->core, bench.parent, NULL, &err), ERR_INVALID);
    assert_holds(err.text, "class 6 is on 0 devices");
    bench.parent->job.spec.train_local.classes = 6;
    for (size_t d = 0; d < 3; d++) {
        slots_device_at(bench.world->core, d)->device.offer[0].classes = 6;
    }
    const struct class_groups *groups = divided_plan(&bench);
    assert_int_equal(groups->count, 2);
    for (size_t g = 0; g < 2; g++) {
        const struct device *device = device_of(&bench, &groups->group[g]);
        there = there || device == &slots_device_at(bench.world->core, 2)->device;
    }
    assert_true(there);
    divided_end(&bench);
}

static void the_joint_phase_trains_on_the_uploaded_data(void **state)
{
    (void)state;
    struct divided bench;
    struct job_spec spec;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    offer_data(&bench, 300, 40);
    struct parent_slot *parent = bench.parent;
    parent->job.data = (struct job_data){.joint_samples = 500, .train_samples = 4600};
    (void)memset(parent->job.data.joint_sha256, 'e', SHA256_SIZE - 1);
    (void)divided_plan(&bench);
    for (size_t c = 0; c < DIVIDED_CLASSES; c++) {
        parent->parent.joint_samples[c] = 50;
    }
    parent->parent.joint_class_count = DIVIDED_CLASSES;
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
    divided_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_bound_to_what_their_devices_have),
        cmocka_unit_test(a_device_with_less_than_a_batch_has_no_group),
        cmocka_unit_test(a_device_without_memory_keeps_its_classes),
        cmocka_unit_test(fewer_groups_have_a_batch_each),
        cmocka_unit_test(the_joint_phase_trains_on_the_uploaded_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
