#include "libtrain/model/slim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/kernels/kernel_table.h"
#include "libtrain/model/cost.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"
#include "tests/unit/libtrain_model/slim_texts.h"
#include "tests/unit/libtrain_state/slice_support.h"

static const struct slim_group halves[] = {{4, 0.5}, {4, 0.5}};

static struct model *derive(const struct slim_split *split, size_t group)
{
    struct model *model = NULL;
    struct err err = {0};
    assert_ok(slim_derive(split, group, &model, &err), &err);
    return model;
}

/* ---- ranges ---- */

/* The filters of the unit's first convolution in each group. */
static void assert_filters(const struct slim_split *split, const char *op, const uint32_t *filters)
{
    for (size_t i = 0; i < split->group_count; i++) {
        struct model *model = derive(split, i);
        assert_int_equal(find_op(model, op)->out.c, filters[i]);
        model_free(&model);
    }
}

static void groups_of_16_channels_or_more_end_at_multiples_of_4(void **state)
{
    (void)state;
    struct model *target = usual_model("vgg11-bn");
    const struct slim_group fifths[] = {{2, 0.2}, {2, 0.2}, {2, 0.2}, {2, 0.2}, {2, 0.2}};
    const struct slim_group unequal[] = {{3, 0.1}, {3, 0.2}, {4, 0.7}};
    struct slim_split split = {target, 1, fifths, 5};
    assert_filters(&split, "conv2.0", (const uint32_t[]){24, 24, 28, 24, 28});      /* 128 */
    assert_filters(&split, "conv8.0", (const uint32_t[]){100, 104, 100, 104, 104}); /* 512 */
    split = (struct slim_split){target, 1, unequal, 3};
    assert_filters(&split, "conv2.0", (const uint32_t[]){12, 24, 92});
    model_free(&target);
    target = usual_model("dscnn-kws");
    split = (struct slim_split){target, 1, fifths, 5};
    assert_filters(&split, "block1.3", (const uint32_t[]){12, 13, 13, 13, 13}); /* 64 */
    model_free(&target);
}

static void sums_of_widths_end_at_the_channel_that_they_mean(void **state)
{
    (void)state;
    struct model *target =
        good_model(SLICED(OPS("{\"type\":\"conv2d\",\"filters\":40,\"kernel\":1}")), NULL);
    struct slim_group tenths[10];
    for (size_t i = 0; i < 10; i++) {
        tenths[i] = (struct slim_group){1, 0.1};
    }
    const struct slim_split split = {target, 1, tenths, 10};
    assert_filters(&split, "a.0", (const uint32_t[]){4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
    model_free(&target);
}

/* ---- descriptions ---- */

static void assert_same_op(const struct op *a, const struct op *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->part, b->part);
    assert_int_equal(a->branch, b->branch);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->input_count, b->input_count);
    assert_memory_equal(a->input, b->input, a->input_count * sizeof(a->input[0]));
    assert_true(shape_equal(a->in, b->in) && shape_equal(a->out, b->out));
    assert_true(shape_equal(a->flat_from, b->flat_from));
    assert_int_equal(a->groups, b->groups);
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->tensor_count, b->tensor_count);
    for (size_t i = 0; i < a->tensor_count; i++) {
        assert_int_equal(a->tensor[i].elements, b->tensor[i].elements);
        assert_int_equal(a->tensor[i].rank, b->tensor[i].rank);
        assert_memory_equal(a->tensor[i].dim, b->tensor[i].dim,
                            a->tensor[i].rank * sizeof(a->tensor[i].dim[0]));
    }
}

/* The group's text reads as the very model that slim_derive made. */
static void assert_described(const struct slim_split *split, size_t group)
{
    struct model *made = derive(split, group);
    struct err err = {0};
    BUF_AUTO struct buf text;
    buf_init(&text, MODEL_DESCRIPTION_BYTES_MAX);
    assert_ok(description_write_slice(split, group, &text, &err), &err);
    struct model *read = good_model(text.data, NULL);
    assert_string_equal(read->name, made->name);
    assert_int_equal(read->classes, made->classes);
    assert_int_equal(read->unit_count, made->unit_count);
    for (size_t i = 0; i < read->unit_count; i++) {
        const struct unit *a = &read->unit[i], *b = &made->unit[i];
        assert_string_equal(a->name, split->target->unit[i].name);
        assert_int_equal(a->frozen, i < split->stem);
        assert_int_equal(b->frozen, i < split->stem);
        assert_true(shape_equal(a->in, b->in) && shape_equal(a->out, b->out));
        assert_int_equal(a->branch_count, b->branch_count);
        assert_int_equal(a->op_count, b->op_count);
        for (size_t k = 0; k < a->op_count; k++) {
            assert_same_op(&a->op[k], &b->op[k]);
        }
    }
    model_free(&read);
    model_free(&made);
}

/* The cost of the derived model, counted as that of any model. */
static void assert_cost(const struct slim_split *split, size_t group)
{
    static struct unit_cost cost[MODEL_UNITS_MAX];
    struct model *model = derive(split, group);
    struct slim_cost expected = {0}, actual;
    struct err err = {0};
    cost_count(model, cost);
    for (size_t i = 0; i < model->unit_count; i++) {
        *(i < split->stem ? &expected.stem_flops : &expected.forward_flops) +=
            cost[i].forward_flops;
        expected.backward_flops += cost[i].backward_flops;
        expected.parameter_bytes += cost[i].parameter_bytes;
        expected.trained_bytes += cost[i].trained_bytes;
    }
    assert_ok(slim_cost(split, group, &actual, &err), &err);
    assert_true(actual.stem_flops == expected.stem_flops);
    assert_true(actual.forward_flops == expected.forward_flops);
    assert_true(actual.backward_flops == expected.backward_flops);
    assert_int_equal(actual.parameter_bytes, expected.parameter_bytes);
    assert_int_equal(actual.trained_bytes, expected.trained_bytes);
    assert_true(slim_load(&actual) == expected.stem_flops + 3 * expected.forward_flops);
    model_free(&model);
}

static void a_groups_text_reads_as_its_model_and_costs_what_that_costs(void **state)
{
    (void)state;
    static const char *const names[] = {
        "lenet5",    "resnet8",   "mobilenetv2", "alexnet-cifar",   "vgg11-bn", "resnet18",
        "googlenet", "dscnn-kws", "resnet50",    "mobilenetv2-224", "mlp"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct model *target = usual_model(names[i]);
        for (size_t stem = 1; stem + 2 <= target->unit_count && stem < 4; stem++) {
            const struct slim_group thirds[] = {{target->classes - 4, 0.6}, {2, 0.4}};
            const struct slim_split split = {target, stem, thirds, 2};
            struct err err = {0};
            if (strcmp(names[i], "lenet5") == 0 && stem < 2) {
                continue; /* 6 channels */
            }
            assert_ok(slim_check(&split, &err), &err);
            for (size_t group = 0; group < 2; group++) {
                assert_described(&split, group);
                assert_cost(&split, group);
            }
        }
        model_free(&target);
    }
}

/* As many groups of equal width as slim_least_channels promises, and not one more. */
static void assert_most_groups(const struct model *target, size_t stem)
{
    struct slim_group equal[SLIM_GROUPS_MAX];
    uint32_t least;
    struct err err = {0};
    if (slim_least_channels(target, stem, &least, &err)) {
        return;
    }
    for (size_t groups = 1; groups <= SLIM_GROUPS_MAX; groups++) {
        for (size_t i = 0; i < groups; i++) {
            equal[i] = (struct slim_group){1, 1.0 / (double)groups};
        }
        const struct slim_split split = {target, stem, equal, groups};
        const bool fits = groups <= least / SLIM_CHANNELS_MIN;
        assert_int_equal(slim_check(&split, &err), fits ? 0 : ERR_INVALID);
    }
}

static void random_descriptions_are_sliced_or_rejected_by_unit(void **state)
{
    (void)state;
    size_t sliced = 0, rejected = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct slice_draws draws = {.stream = rng_stream(seed, RNG_INITIALISE, 1, 1)};
        struct model *target = slices_draw_model(&draws);
        struct slices slices;
        struct err err = {0};
        if (!target) {
            continue;
        }
        const size_t groups = slice_draw(&draws, 2, 4);
        const size_t stem = slice_draw(&draws, 1, target->unit_count - 2);
        assert_most_groups(target, stem);
        int rc = slices_divide(&slices, target, stem, groups, seed % 2 == 0, &err);
        if (rc) {
            assert_int_equal(rc, ERR_INVALID);
            assert_true(strncmp(err.text, "unit '", 6) == 0 ||
                        strcmp(err.text, "the units after the stem have no channels to divide") ==
                            0);
            rejected++;
        }
        for (size_t i = 0; i < groups && rc == 0; i++) {
            assert_described(&slices.split, i);
            assert_cost(&slices.split, i);
            sliced += i == 0;
        }
        slices_done(&slices);
    }
    print_message("%zu sliced, %zu rejected\n", sliced, rejected);
    assert_true(sliced >= 50 && rejected >= 5);
}

/* The whole text, so that a change of it is seen. */
static void a_select_keeps_the_names_of_tensors(void **state)
{
    (void)state;
    struct model *target = good_model(
        SLICED("{\"name\":\"a\",\"ops\":[{\"type\":\"relu\"},{\"type\":\"conv2d\",\"filters\":16,"
               "\"kernel\":3,\"groups\":16,\"bias\":false}," CONV "]},"
               "{\"name\":\"b\",\"residual\":{\"body\":[{\"type\":\"relu\"}]}}"),
        NULL);
    const struct slim_split split = {target, 1, halves, 2};
    struct model *model = derive(&split, 1);
    const struct unit *unit = &model->unit[1];
    assert_int_equal(unit->op_count, 4);
    assert_int_equal(unit->op[1].type, OP_SELECT);
    assert_int_equal(unit->op[1].first, 8);
    assert_int_equal(unit->op[1].out.c, 8);
    assert_string_equal(unit->op[1].name, "a.select");
    assert_string_equal(unit->op[2].name, "a.1");
    assert_int_equal(unit->op[2].groups, 8);
    assert_string_equal(unit->op[3].name, "a.2");
    assert_string_equal(model->name, "m-slice");
    assert_int_equal(model->classes, 5);
    assert_int_equal(model->unit[2].op_count, target->unit[2].op_count);
    model_free(&model);
    model_free(&target);
}

/* Their channels are seldom multiples of 16. */
static void convolutions_of_a_slice_name_the_fastest_kernel(void **state)
{
    (void)state;
    struct model *target = usual_model("vgg11-bn");
    const struct slim_group unequal[] = {{5, 0.4}, {5, 0.6}};
    const struct slim_split split = {target, 1, unequal, 2};
    struct err err = {0};
    BUF_AUTO struct buf text;
    buf_init(&text, MODEL_DESCRIPTION_BYTES_MAX);
    assert_ok(description_write_slice(&split, 0, &text, &err), &err);
    struct model *slice = good_model(text.data, NULL);
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        assert_int_equal(find_op(slice, "conv1.0")->kernels.pass[pass], CONV2D_BY_SHAPE);
        assert_int_equal(find_op(slice, "conv3.0")->out.c, 100);
        assert_int_equal(find_op(slice, "conv3.0")->kernels.pass[pass], CONV2D_WINOGRAD4);
        assert_int_equal(find_op(slice, "conv8.0")->kernels.pass[pass],
                         CONV2D_BY_SHAPE); /* 2 x 2 */
    }
    assert_true(kernel_table_fills_channels(slice));
    assert_false(kernel_table_fills_channels(target));
    model_free(&slice);
    model_free(&target);
}

static void an_identity_shortcut_of_the_stem_becomes_a_select(void **state)
{
    (void)state;
    struct model *target = usual_model("resnet8");
    const struct slim_group quarters[] = {{3, 0.25}, {3, 0.25}, {2, 0.25}, {2, 0.25}};
    const struct slim_split split = {target, 1, quarters, 4};
    struct model *model = derive(&split, 3);
    const struct unit *unit = &model->unit[1];
    assert_int_equal(unit->op_count, target->unit[1].op_count + 1);
    const struct op *select = &unit->op[5];
    assert_int_equal(select->type, OP_SELECT);
    assert_int_equal(select->part, OP_PART_SHORTCUT);
    assert_int_equal(select->input[0], 0);
    assert_int_equal(select->first, 12);
    assert_int_equal(select->out.c, 4);
    assert_int_equal(unit->op[6].type, OP_ADD);
    assert_int_equal(unit->op[6].input[1], 6);
    assert_int_equal(unit->op[0].in.c, 16); /* the convolution reads the whole stem */
    assert_int_equal(model->unit[2].in.c, 4);
    model_free(&model);
    model_free(&target);
}

/* ---- costs ---- */

/* Of a forward: everything, and multiply-adds alone, by which the savings are predicted. */
struct work {
    double flops, multiply_adds;
};

static struct work count_work(const struct model *model, size_t first, size_t end)
{
    static struct unit_cost cost[MODEL_UNITS_MAX];
    struct work work = {0};
    cost_count(model, cost);
    for (size_t i = first; i < end; i++) {
        work.flops += cost[i].forward_flops;
        for (size_t k = 0; k < model->unit[i].op_count; k++) {
            const struct op *op = &model->unit[i].op[k];
            if (op->type == OP_CONV2D || op->type == OP_LINEAR) {
                work.multiply_adds +=
                    (double)shape_elements(op->out) * (double)op->tensor[0].elements / op->out.c;
            }
        }
    }
    return work;
}

/* The mean load of equal groups gives the predicted saving: 3 x target against stem + 3 x slice.
 * Widths are rounded to channels, so that groups differ. */
static void assert_saving(const char *name, size_t groups, double predicted)
{
    struct model *target = usual_model(name);
    const struct work whole = count_work(target, 0, target->unit_count);
    struct slim_group equal[5];
    double sum = 0, multiply_adds = 0, most = 0;
    for (size_t i = 0; i < groups; i++) {
        equal[i] = (struct slim_group){2, 1.0 / (double)groups};
    }
    const struct slim_split split = {target, 1, equal, groups};
    for (size_t i = 0; i < groups; i++) {
        struct slim_cost cost;
        struct err err = {0};
        assert_ok(slim_cost(&split, i, &cost, &err), &err);
        struct model *model = derive(&split, i);
        sum += slim_load(&cost) / (double)groups;
        most = fmax(most, slim_load(&cost));
        multiply_adds += (count_work(model, 0, 1).multiply_adds +
                          3 * count_work(model, 1, model->unit_count).multiply_adds) /
                         (double)groups;
        /* The exact backward is at most twice the forward. */
        assert_true(cost.backward_flops <= 2 * cost.forward_flops);
        model_free(&model);
    }
    print_message("%s in %zu groups: %.2fx less multiply-adds, %.2fx less FLOPs, %.2fx at least; "
                  "predicted %.2fx\n",
                  name, groups, 3 * whole.multiply_adds / multiply_adds, 3 * whole.flops / sum,
                  3 * whole.flops / most, predicted);
    assert_true(fabs(3 * whole.multiply_adds / multiply_adds / predicted - 1) < 0.01);
    assert_true(fabs(3 * whole.flops / sum / predicted - 1) < 0.015);
    assert_true(groups < 5 || 3 * whole.flops / most >= 11.8);
    model_free(&target);
}

static void slices_save_what_their_widths_predict(void **state)
{
    (void)state;
    assert_saving("vgg11-bn", 4, 11.26);
    assert_saving("vgg11-bn", 5, 15.83);
    assert_saving("alexnet-cifar", 4, 10.29);
    assert_saving("alexnet-cifar", 5, 14.24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_16_channels_or_more_end_at_multiples_of_4),
        cmocka_unit_test(sums_of_widths_end_at_the_channel_that_they_mean),
        cmocka_unit_test(a_groups_text_reads_as_its_model_and_costs_what_that_costs),
        cmocka_unit_test(random_descriptions_are_sliced_or_rejected_by_unit),
        cmocka_unit_test(a_select_keeps_the_names_of_tensors),
        cmocka_unit_test(convolutions_of_a_slice_name_the_fastest_kernel),
        cmocka_unit_test(an_identity_shortcut_of_the_stem_becomes_a_select),
        cmocka_unit_test(slices_save_what_their_widths_predict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
