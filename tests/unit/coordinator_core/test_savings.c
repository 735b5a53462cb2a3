/* What counts as an operation of a job of sub-models, and what sub-models save. */
#include <math.h>
#include <stdio.h>

#include "coordinator/core/submodel/savings.h"
#include "libtrain/model/cost.h"
#include "libtrain/model/slim.h"
#include "tests/unit/coordinator_core/world.h"

#define STEM 2

static void assert_near(double a, double b)
{
    assert_true(fabs(a / b - 1) < 1e-12);
}

static double forward_of(const struct model *model, size_t unit)
{
    struct unit_cost cost[UNITS_MAX];
    cost_count(model, cost);
    return cost[unit].forward_flops;
}

static void a_slice_counts_as_it_is_planned(void **state)
{
    (void)state;
    struct model *target = world_model(), *slice = NULL;
    const struct slim_group half = {.classes = 5, .width = 0.5}, groups[] = {half, half};
    const struct slim_split split = {target, STEM, groups, 2};
    struct slim_cost cost;
    struct err err = {0};
    assert_ok(slim_cost(&split, 1, &cost, &err), &err);
    assert_ok(slim_derive(&split, 1, &slice, &err), &err);
    assert_near(savings_flops(slice, 0, slice->unit_count), slim_load(&cost));
    assert_near(savings_flops(slice, 0, STEM), cost.stem_flops);
    model_free(&slice);
    model_free(&target);
}

static void a_frozen_unit_after_a_trained_one_has_a_backward_pass(void **state)
{
    (void)state;
    struct model *model = world_model();
    double flops = 0;
    for (size_t u = 0; u < model->unit_count; u++) {
        flops += 3 * forward_of(model, u);
    }
    assert_near(savings_flops(model, 0, model->unit_count), flops);
    model->unit[2].frozen = true;
    assert_near(savings_flops(model, 2, 3), 2 * forward_of(model, 2));
    model->unit[0].frozen = model->unit[1].frozen = true;
    assert_near(savings_flops(model, 2, 3), forward_of(model, 2));
    model_free(&model);
}

static void savings_are_ratios_to_the_target(void **state)
{
    (void)state;
    const struct device_id first = {"dev_1"}, second = {"dev_2"};
    const struct savings_base base = {.sample_flops = 100, .flops = 10000};
    const double group[] = {10, 20, 0};
    struct submodel_work work = {0};
    struct submodel_compute compute;
    savings_compare(&base, &work, group, 0, &compute);
    assert_true(compute.per_sample_least == 0 && compute.total == 0 && compute.busiest == 0);
    savings_add(&work, &first, 1000);
    savings_add(&work, &second, 500);
    savings_add(&work, &first, 1000);
    savings_compare(&base, &work, group, 3, &compute);
    assert_near(compute.per_sample_least, 5);
    assert_near(compute.per_sample_most, 10);
    assert_near(compute.total, 4);
    assert_near(compute.busiest, 5);
    assert_near(compute.flops, 2500);
}

static void more_devices_than_are_listed_count_in_the_sum(void **state)
{
    (void)state;
    struct submodel_work work = {0};
    for (int i = 0; i < WORK_DEVICES_MAX + 3; i++) {
        struct device_id id;
        (void)snprintf(id.text, sizeof(id.text), "dev_%d", i);
        savings_add(&work, &id, 1);
    }
    assert_int_equal(work.device_count, WORK_DEVICES_MAX);
    assert_near(work.flops, WORK_DEVICES_MAX + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_counts_as_it_is_planned),
        cmocka_unit_test(a_frozen_unit_after_a_trained_one_has_a_backward_pass),
        cmocka_unit_test(savings_are_ratios_to_the_target),
        cmocka_unit_test(more_devices_than_are_listed_count_in_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
