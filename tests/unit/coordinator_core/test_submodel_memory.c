/* How the memory of devices limits the slices that are planned for them. */
#include <math.h>

#include "coordinator/core/placement/pool.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/submodel/slice_memory.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/memory/memory.h"
#include "tests/unit/coordinator_core/divided.h"

static const char *const models[] = {"alexnet-cifar", "vgg11-bn", "resnet8", "mobilenetv2"};
#define MODELS (sizeof(models) / sizeof(models[0]))

/* The bytes that a plan of the group's model counts. */
static uint64_t planned_bytes(const struct divided *bench, const struct slim_split *split,
                              size_t group, size_t device)
{
    const struct planning *planning = bench->world->core->planning;
    const struct job_spec *spec = &planning->spec;
    struct model *model = NULL;
    struct memory_bytes bytes;
    struct err err = {0};
    assert_ok(slim_derive(split, group, &model, &err), &err);
    for (size_t u = split->stem; u < model->unit_count; u++) {
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            struct op *op = &model->unit[u].op[k];
            if (op->type == OP_CONV2D) {
                op->kernels = op_slice_kernels(op);
            }
        }
    }
    const struct memory_request request = {
        .end = model->unit_count,
        .micro_batch = (size_t)(spec->batch / spec->micro_batches),
        .in_flight = 1,
        .threads = pool_threads(planning, device),
        .recompute = spec->recompute,
    };
    assert_ok(memory_of_stage(model, &spec->optimizer, &request, &bytes, &err), &err);
    model_free(&model);
    return bytes.total + pool_snapshots(planning, bytes.snapshot);
}

static void a_slice_fits_if_its_plan_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++) {
        struct divided bench;
        struct slim_group group[GROUPS_MAX];
        struct err err = {0};
        divided_begin(&bench, models[i], DIVIDED_CLASSES, 600);
        bench.parent->job.spec.submodel.group_count = 3;
        struct core *core = bench.world->core;
        const struct class_groups *groups = divided_plan(&bench);
        const struct slim_split split = submodel_split(bench.model, 1, groups, group);
        for (size_t g = 0; g < groups->count; g++) {
            const struct slice_place place = {
                .split = &split, .group = g, .device = divided_device(core, &groups->group[g])};
            const uint64_t bytes = planned_bytes(&bench, &split, g, place.device);
            bool fits, nearly;
            core->planning->device[place.device].cap_bytes = bytes;
            assert_ok(slice_memory_fits(core, &place, &fits, &err), &err);
            core->planning->device[place.device].cap_bytes = bytes - 1;
            assert_ok(slice_memory_fits(core, &place, &nearly, &err), &err);
            assert_true(fits && !nearly);
        }
        divided_end(&bench);
    }
}

/* ---- plans ---- */

static void give(const struct divided *bench, size_t device, uint64_t bytes)
{
    slots_device_at(bench->world->core, device)->device.probe.free_memory_bytes = (int64_t)bytes;
}

static bool is_on(const struct divided *bench, size_t group, size_t device)
{
    const struct class_group *one = &bench->parent->parent.groups.group[group];
    return one->device.text[0] != '\0' && divided_device(bench->world->core, one) == device;
}

static double width_on(const struct divided *bench, size_t device)
{
    const struct class_groups *groups = &bench->parent->parent.groups;
    double most = 0;
    for (size_t g = 0; g < groups->count; g++) {
        if (is_on(bench, g, device)) {
            most = fmax(most, groups->group[g].width);
        }
    }
    return most;
}

/* The memory of the widest slice on the device. */
static uint64_t bytes_on(const struct divided *bench, size_t device)
{
    const struct class_groups *groups = &bench->parent->parent.groups;
    struct slim_group group[GROUPS_MAX];
    const struct slim_split split = submodel_split(bench->model, 1, groups, group);
    uint64_t most = 0;
    for (size_t g = 0; g < groups->count; g++) {
        if (is_on(bench, g, device)) {
            const uint64_t bytes = planned_bytes(bench, &split, g, device);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

static const struct class_groups *plan_again(struct divided *bench)
{
    bench->parent->parent.groups.count = 0;
    return divided_plan(bench);
}

static void a_fast_device_with_little_memory_gets_a_narrower_slice(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct divided bench;
        divided_begin(&bench, models[i], DIVIDED_CLASSES, 600);
        (void)divided_plan(&bench);
        const double before = width_on(&bench, 0);
        const uint64_t cap = bytes_on(&bench, 0) * 3 / 5;
        give(&bench, 0, cap);
        const struct class_groups *groups = plan_again(&bench);
        assert_int_equal(groups->count, DIVIDED_DEVICES);
        print_message("%s: width %.3f, with three fifths of its memory %.3f (%.2f of it used)\n",
                      models[i], before, width_on(&bench, 0),
                      (double)bytes_on(&bench, 0) / (double)cap);
        assert_true(width_on(&bench, 0) > 0 && width_on(&bench, 0) < before);
        assert_true(bytes_on(&bench, 0) <= cap);
        divided_end(&bench);
    }
}

static void a_device_without_memory_for_a_slice_gets_none(void **state)
{
    (void)state;
    struct divided bench;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    give(&bench, 4, 1 << 20);
    const struct class_groups *groups = divided_plan(&bench);
    assert_int_equal(groups->count, DIVIDED_DEVICES - 1);
    assert_true(width_on(&bench, 4) == 0);
    divided_end(&bench);
}

/* Each device has memory for a tenth of the channels or slightly more. */
static void devices_with_little_memory_train_more_groups_one_after_the_other(void **state)
{
    (void)state;
    struct divided bench;
    divided_begin(&bench, "alexnet-cifar", 60, 600);
    bench.parent->job.spec.submodel.group_count = 10;
    (void)divided_plan(&bench);
    uint64_t most = 0;
    for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
        most = bytes_on(&bench, d) > most ? bytes_on(&bench, d) : most;
    }
    for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
        give(&bench, d, most);
    }
    bench.parent->job.spec.submodel.group_count = 0;
    const struct class_groups *groups = plan_again(&bench);
    print_message("%zu groups on %d devices\n", groups->count, DIVIDED_DEVICES);
    assert_true(groups->count > DIVIDED_DEVICES);
    for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
        assert_true(bytes_on(&bench, d) <= most);
    }
    divided_end(&bench);
}

/* The memory of a slice of this width on the device. */
static uint64_t bytes_of(struct divided *bench, size_t device, double width)
{
    const struct slim_group group[] = {{.classes = 2, .width = width},
                                       {.classes = 8, .width = 1 - width}};
    const struct slim_split split = {
        .target = bench->model, .stem = 1, .group = group, .group_count = 2};
    if (bench->world->core->planning->device_count == 0) {
        (void)plan_again(bench);
    }
    return planned_bytes(bench, &split, 0, device);
}

static void assert_all_fit(const struct divided *bench)
{
    for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
        assert_true(bytes_on(bench, d) <= bench->world->core->planning->device[d].cap_bytes);
    }
}

/* By its speed the fast device would have so many groups that the other could not hold the rest. */
static void a_fast_device_with_very_little_memory_leaves_the_groups_to_another(void **state)
{
    (void)state;
    static const double widths[][2] = {{0.07, 0.3}, {0.07, 0.45}};
    for (size_t i = 0; i < 2; i++) {
        struct divided bench;
        divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
        give(&bench, 0, bytes_of(&bench, 0, widths[i][0]));
        for (size_t d = 1; d < DIVIDED_DEVICES; d++) {
            give(&bench, d, d == 2 ? bytes_of(&bench, 2, widths[i][1]) : 1 << 20);
        }
        const struct class_groups *groups = plan_again(&bench);
        print_message("%zu groups, widths up to %.3f\n", groups->count, width_on(&bench, 2));
        assert_true(width_on(&bench, 2) > 0.15);
        assert_all_fit(&bench);
        divided_end(&bench);
    }
}

static void replicas_fit_the_memory_of_their_devices(void **state)
{
    (void)state;
    struct divided bench;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    bench.parent->job.spec.submodel.replicas = 2;
    for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
        give(&bench, d, bytes_of(&bench, d, 0.13));
    }
    const struct class_groups *groups = plan_again(&bench);
    assert_true(groups->count >= 8 && groups->count % 2 == 0);
    assert_all_fit(&bench);
    divided_end(&bench);
}

/* They wait for a device with more memory. each_bytes: of a device; 0: for a width of 0.07. stated:
 * number of groups; 0: none. */
static void assert_equal_groups(uint64_t each_bytes, int64_t stated)
{
    struct divided bench;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    bench.parent->job.spec.submodel.group_count = stated;
    for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
        give(&bench, d, each_bytes ? each_bytes : bytes_of(&bench, d, 0.07));
    }
    const struct class_groups *groups = plan_again(&bench);
    const size_t expected = stated > 0 ? (size_t)stated : DIVIDED_DEVICES;
    assert_int_equal(groups->count, expected);
    for (size_t g = 0; g < groups->count; g++) {
        assert_true(stated > 0 || fabs(groups->group[g].width - 0.2) < 1e-9);
        assert_string_equal(groups->group[g].device.text, "");
    }
    divided_end(&bench);
}

static void groups_that_fit_nowhere_are_equal_and_have_no_device(void **state)
{
    (void)state;
    assert_equal_groups(1 << 20, 0);
    assert_equal_groups(0, 0);
    assert_equal_groups(0, 2);
}

/* Equal groups have a batch each, but one of them does not fit on its device. */
static void a_group_that_does_not_fit_on_its_device_is_not_planned_for_it(void **state)
{
    (void)state;
    struct divided bench;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 4);
    bench.parent->job.spec.batch = 24;
    bench.parent->job.spec.submodel.group_count = 2;
    for (size_t d = 1; d < DIVIDED_DEVICES; d++) {
        give(&bench, d, d == 4 ? bytes_of(&bench, 4, 0.3) : 1 << 20);
    }
    const struct class_groups *groups = plan_again(&bench);
    assert_int_equal(groups->count, 2);
    for (size_t g = 0; g < groups->count; g++) {
        const bool wide = groups->group[g].width > 0.3;
        assert_true(!wide || groups->group[g].device.text[0] == '\0' ||
                    divided_device(bench.world->core, &groups->group[g]) == 0);
    }
    divided_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_fits_if_its_plan_does),
        cmocka_unit_test(a_fast_device_with_little_memory_gets_a_narrower_slice),
        cmocka_unit_test(a_device_without_memory_for_a_slice_gets_none),
        cmocka_unit_test(devices_with_little_memory_train_more_groups_one_after_the_other),
        cmocka_unit_test(a_fast_device_with_very_little_memory_leaves_the_groups_to_another),
        cmocka_unit_test(replicas_fit_the_memory_of_their_devices),
        cmocka_unit_test(groups_that_fit_nowhere_are_equal_and_have_no_device),
        cmocka_unit_test(a_group_that_does_not_fit_on_its_device_is_not_planned_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
