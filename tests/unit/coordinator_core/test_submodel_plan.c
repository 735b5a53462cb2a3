/* How classes and channels are divided among devices: by the expected seconds of their slices, with
 * a batch for each group, and again by the seconds that slices take. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/core/capacity/capacity.h"
#include "coordinator/core/capacity/capacity_units.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/submodel/class_groups.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "coordinator/core/submodel/submodel_plan.h"
#include "tests/unit/coordinator_core/divided.h"

#define HELD_IN 0.95 /* of the samples of a group; a division ignores its hold-out */

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
        struct divided bench;
        double seconds[GROUPS_MAX];
        divided_begin(&bench, models[i], DIVIDED_CLASSES, 600);
        const struct class_groups *groups = divided_plan(&bench);
        assert_int_equal(groups->count, DIVIDED_DEVICES);
        divided_seconds(&bench, groups, seconds);
        print_message("%s: the seconds of groups differ by a factor of %.3f\n", models[i],
                      spread(seconds, DIVIDED_DEVICES));
        assert_true(spread(seconds, DIVIDED_DEVICES) < 1.25);
        divided_end(&bench);
    }
}

/* Each device has one group, whatever classes it prefers. */
static void every_group_has_a_device_of_its_own(void **state)
{
    (void)state;
    static const char *const preferred[] = {"0-1", "0-9", "8-9"};
    for (size_t i = 0; i < sizeof(preferred) / sizeof(preferred[0]); i++) {
        for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
            struct divided bench;
            size_t groups_of[DIVIDED_DEVICES] = {0};
            divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
            struct device *device = &slots_device_at(bench.world->core, d)->device;
            struct label *label = &device->label[device->label_count++];
            (void)snprintf(label->key, sizeof(label->key), "classes");
            (void)snprintf(label->value, sizeof(label->value), "%s", preferred[i]);
            const struct class_groups *groups = divided_plan(&bench);
            assert_int_equal(groups->count, DIVIDED_DEVICES);
            for (size_t g = 0; g < groups->count; g++) {
                groups_of[divided_device(bench.world->core, &groups->group[g])]++;
            }
            for (size_t k = 0; k < DIVIDED_DEVICES; k++) {
                assert_int_equal(groups_of[k], 1);
            }
            divided_end(&bench);
        }
    }
}

/* Devices with several groups are busy for equally long. */
static void more_groups_than_devices_leave_no_device_idle_for_long(void **state)
{
    (void)state;
    static const int64_t counts[] = {6, 8, 12, 20};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct divided bench;
        double seconds[GROUPS_MAX], busy[DIVIDED_DEVICES] = {0}, most = 0, sum = 0;
        divided_begin(&bench, "alexnet-cifar", 60, 600);
        bench.parent->job.spec.submodel.group_count = counts[i];
        const struct class_groups *groups = divided_plan(&bench);
        assert_int_equal(groups->count, counts[i]);
        divided_seconds(&bench, groups, seconds);
        for (size_t g = 0; g < groups->count; g++) {
            busy[divided_device(bench.world->core, &groups->group[g])] += seconds[g];
        }
        for (size_t d = 0; d < DIVIDED_DEVICES; d++) {
            most = fmax(most, busy[d]);
            sum += busy[d];
        }
        print_message("%" PRId64 " groups: devices are idle for %.1f %%\n", counts[i],
                      100 * (1 - sum / (DIVIDED_DEVICES * most)));
        assert_true(sum > 0.94 * DIVIDED_DEVICES * most);
        divided_end(&bench);
    }
}

/* The device measures a unit of the target: it takes `factor` times as long as expected. */
static void measure(const struct divided *bench, size_t d, size_t unit, double factor)
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
    struct divided bench;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    measure(&bench, 0, 1, 3);
    measure(&bench, 1, 3, 1.0 / 3);
    const struct class_groups *groups = divided_plan(&bench);
    assert_int_equal(groups->count, DIVIDED_DEVICES);
    print_message("widths of two equal devices: %.3f and %.3f\n", groups->group[0].width,
                  groups->group[1].width);
    assert_true(fabs(groups->group[0].width - groups->group[1].width) < 0.03);
    divided_end(&bench);
}

static void assert_batches(const struct divided *bench, const struct class_groups *groups)
{
    const struct parent_slot *parent = bench->parent;
    const struct class_samples data = {.samples = parent->parent.class_samples,
                                       .count = DIVIDED_CLASSES};
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
    struct divided bench;
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 5);
    const struct class_groups *groups = divided_plan(&bench);
    assert_true(groups->count >= 2 && groups->count < DIVIDED_DEVICES);
    assert_batches(&bench, groups);
    divided_end(&bench);
}

/* Unequal groups would have 2 and 3 classes, or more: 24 samples and less. */
static void groups_are_equal_if_unequal_ones_would_have_less_than_a_batch(void **state)
{
    (void)state;
    struct divided bench;
    struct err err = {0};
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 4);
    struct parent_slot *parent = bench.parent;
    const struct event_classes classes = {.samples = parent->parent.class_samples,
                                          .count = DIVIDED_CLASSES};
    parent->job.spec.batch = 24;
    parent->job.spec.submodel.group_count = 2;
    assert_ok(submodel_plan_check(bench.model, &parent->job.spec, &classes, &err), &err);
    assert_batches(&bench, divided_plan(&bench));
    parent->job.spec.batch = 40;
    parent->parent.groups.count = 0;
    assert_int_equal(submodel_plan_check(bench.model, &parent->job.spec, &classes, &err),
                     ERR_INVALID);
    assert_holds(err.text, "one of 2 groups would have");
    assert_int_equal(submodel_plan(bench.world->core, parent, NULL, &err), ERR_INVALID);
    divided_end(&bench);
}

/* Planned groups begin by number: devices train them in this order. */
static void given_groups_begin_with_the_most_operations(void **state)
{
    (void)state;
    static const int64_t counts[] = {2, 2, 4, 2};
    static const double widths[] = {0.2, 0.3, 0.25, 0.25};
    static const size_t expected[] = {2, 1, 3, 0};
    struct divided bench;
    size_t order[GROUPS_MAX];
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    struct class_groups *groups = &bench.parent->parent.groups;
    for (size_t g = 0; g < 4; g++) {
        groups->group[g] = (struct class_group){.class_first = (int64_t)groups->class_count,
                                                .class_count = counts[g],
                                                .width = widths[g]};
        for (int64_t c = 0; c < counts[g]; c++) {
            groups->class_of[groups->class_count] = (int64_t)groups->class_count;
            groups->class_count++;
        }
    }
    groups->count = 4;
    submodel_begin_order(bench.parent, order);
    for (size_t g = 0; g < 4; g++) {
        assert_int_equal(order[g], expected[g]);
    }
    bench.parent->parent.divisions = 1;
    submodel_begin_order(bench.parent, order);
    for (size_t g = 0; g < 4; g++) {
        assert_int_equal(order[g], g);
    }
    divided_end(&bench);
}

/* ---- again, by measured seconds ---- */

/* Divide again when each slice takes `factor` times its expected seconds. */
static struct division divide_again(struct divided *bench, const double *factor)
{
    const struct class_groups *groups = &bench->parent->parent.groups;
    struct division_trial trial = {.count = groups->count};
    struct division division = {0};
    double seconds[GROUPS_MAX], samples[GROUPS_MAX];
    struct err err = {0};
    divided_samples(bench, groups, seconds, samples);
    for (size_t g = 0; g < groups->count; g++) {
        trial.slice[g] = (struct slice_seconds){
            .device = groups->group[g].device, .group = g, .seconds = factor[g] * seconds[g]};
        trial.left[g] = 1;
    }
    assert_ok(submodel_plan_again(bench->world->core, bench->parent, &trial, &division, &err),
              &err);
    return division;
}

/* The seconds of the slowest group in all epochs if slices take `factor` times their expected
 * seconds. */
static double slowest(const struct divided *bench, const double *factor)
{
    double seconds[GROUPS_MAX], most = 0;
    divided_seconds(bench, &bench->parent->parent.groups, seconds);
    for (size_t g = 0; g < bench->parent->parent.groups.count; g++) {
        most = fmax(most, factor[g] * seconds[g]);
    }
    return (double)bench->parent->job.spec.epochs * most;
}

static void slices_that_are_as_fast_as_predicted_are_not_divided_better(void **state)
{
    (void)state;
    static const double factors[][DIVIDED_DEVICES] = {{1, 1, 1, 1, 1}, {1.7, 1.7, 1.7, 1.7, 1.7}};
    for (size_t i = 0; i < 2; i++) {
        struct divided bench;
        divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
        (void)divided_plan(&bench);
        const struct division division = divide_again(&bench, factors[i]);
        assert_true(fabs(HELD_IN * division.present_seconds - slowest(&bench, factors[i])) < 1e-6);
        assert_true(fabs(division.seconds / division.present_seconds - 1) < 0.02);
        divided_end(&bench);
    }
}

static void a_slice_that_is_slower_than_predicted_becomes_narrower(void **state)
{
    (void)state;
    static const double factor[DIVIDED_DEVICES] = {1, 1, 1, 2, 1};
    struct divided bench;
    divided_begin(&bench, "vgg11-bn", DIVIDED_CLASSES, 600);
    const struct class_groups *groups = divided_plan(&bench);
    const struct division division = divide_again(&bench, factor);
    const struct class_groups *again = &division.groups;
    size_t g = 0;
    while (!id_equal(again->group[g].device.text, groups->group[3].device.text)) {
        g++;
        assert_true(g < again->count);
    }
    assert_true(fabs(HELD_IN * division.present_seconds - slowest(&bench, factor)) < 1e-6);
    assert_true(again->group[g].width < 0.8 * groups->group[3].width);
    print_message(
        "one slice of twice the expected seconds: %.3f of the time after another division\n",
        division.seconds / division.present_seconds);
    assert_true(division.seconds < 0.8 * division.present_seconds);
    divided_end(&bench);
}

static void a_device_that_has_left_ends_the_comparison(void **state)
{
    (void)state;
    struct divided bench;
    struct division division;
    struct err err = {0};
    divided_begin(&bench, "alexnet-cifar", DIVIDED_CLASSES, 600);
    const struct class_groups *groups = divided_plan(&bench);
    struct division_trial trial = {.slice = {{.device = groups->group[0].device, .seconds = 1}},
                                   .count = 1};
    char *device = trial.slice[0].device.text;
    device[strlen(device) - 1] ^= 1;
    assert_int_equal(submodel_plan_again(bench.world->core, bench.parent, &trial, &division, &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.text, "is not a candidate"));
    divided_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_unequal_devices_take_alike_expected_seconds),
        cmocka_unit_test(every_group_has_a_device_of_its_own),
        cmocka_unit_test(more_groups_than_devices_leave_no_device_idle_for_long),
        cmocka_unit_test(equal_devices_get_equal_slices_whatever_units_they_ran),
        cmocka_unit_test(there_are_fewer_groups_if_they_would_have_less_than_a_batch),
        cmocka_unit_test(groups_are_equal_if_unequal_ones_would_have_less_than_a_batch),
        cmocka_unit_test(given_groups_begin_with_the_most_operations),
        cmocka_unit_test(slices_that_are_as_fast_as_predicted_are_not_divided_better),
        cmocka_unit_test(a_slice_that_is_slower_than_predicted_becomes_narrower),
        cmocka_unit_test(a_device_that_has_left_ends_the_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
