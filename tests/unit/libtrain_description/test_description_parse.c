#include <stdio.h>
#include <stdlib.h>

#include "libtrain/description/description.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/description_texts.h"
#include "tests/unit/libtrain_description/model_support.h"

static void a_chain_gets_shapes_names_and_tensors(void **state)
{
    (void)state;
    struct model *model = good_model(
        MODEL(
            "{\"name\":\"stem\",\"ops\":[{\"type\":\"conv2d\",\"filters\":6,\"kernel\":5,"
            "\"stride\":2,\"padding\":1},"
            "{\"type\":\"batch_norm\"},{\"type\":\"max_pool\",\"kernel\":3,\"stride\":2}]}," HEAD),
        NULL);
    const struct op *conv = find_op(model, "stem.0");
    assert_int_equal(conv->out.h, 13);
    assert_int_equal(conv->out.c, 6);
    assert_int_equal(conv->groups, 1);
    assert_true(conv->bias);
    assert_int_equal(conv->tensor_count, 2);
    assert_string_equal(conv->tensor[0].suffix, "weight");
    assert_int_equal(conv->tensor[0].rank, 4);
    assert_int_equal(conv->tensor[0].elements, 6 * 1 * 5 * 5);
    const struct op *norm = find_op(model, "stem.1");
    assert_int_equal(norm->tensor_count, 4);
    assert_int_equal(norm->tensor[1].role, TENSOR_PARAMETER);
    assert_int_equal(norm->tensor[2].role, TENSOR_BUFFER);
    assert_string_equal(norm->tensor[3].suffix, "running_var");
    assert_int_equal(norm->input[0], 1);
    assert_int_equal(model->unit[0].out.h, 6);
    assert_true(shape_equal(model->unit[0].out, model->unit[1].in));
    assert_int_equal(model->classes, 10);
    assert_true(model->input_scale * 255.0 > 0.999999 && model->input_scale * 255.0 < 1.000001);
    model_free(&model);
    assert_null(model);
    model_free(&model);
}

static void a_pool_strides_by_its_kernel_by_default(void **state)
{
    (void)state;
    struct model *model =
        good_model(MODEL(OPS("{\"type\":\"avg_pool\",\"kernel\":4}") "," HEAD), NULL);
    assert_int_equal(find_op(model, "a.0")->stride.h, 4);
    assert_int_equal(model->unit[0].out.w, 7);
    model_free(&model);
    model = good_model(MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":[4,7]}") "," HEAD), NULL);
    assert_int_equal(find_op(model, "a.0")->stride.w, 7);
    assert_true(shape_equal(model->unit[0].out, (struct shape){7, 4, 1}));
    model_free(&model);
}

static void a_window_is_square_or_a_pair_of_height_and_width(void **state)
{
    (void)state;
    struct model *model = good_model(
        "{\"name\":\"m\",\"input\":{\"shape\":[49,10,1],\"dtype\":\"float32\"},\"units\":[" OPS(
            "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":[10,4],\"stride\":[2,2],\"padding\":[5,"
            "1]},"
            "{\"type\":\"avg_pool\",\"kernel\":[1,5],\"stride\":1}") "," HEAD "]}",
        NULL);
    const struct op *conv = find_op(model, "a.0");
    assert_true(shape_equal(conv->out, (struct shape){25, 5, 4}));
    assert_int_equal(conv->kernel.h, 10);
    assert_int_equal(conv->kernel.w, 4);
    assert_int_equal(conv->padding.h, 5);
    assert_int_equal(conv->padding.w, 1);
    assert_int_equal(conv->tensor[0].dim[2], 10);
    assert_int_equal(conv->tensor[0].dim[3], 4);
    assert_true(shape_equal(model->unit[0].out, (struct shape){25, 1, 4}));
    model_free(&model);
}

/* Of one dimension: how many positions PyTorch's rule gives. */
static void a_pool_in_ceil_mode_takes_the_rest_at_the_end(void **state)
{
    (void)state;
    static const struct {
        const char *pool;
        uint32_t floor, ceil;
    } cases[] = {
        {"\"kernel\":3,\"stride\":2", 13, 14},               /* 2 of 3 are left */
        {"\"kernel\":2,\"stride\":2", 14, 14},               /* nothing is left */
        {"\"kernel\":3,\"stride\":2,\"padding\":1", 14, 15}, /* one is left */
        {"\"kernel\":2,\"stride\":3,\"padding\":1", 10, 10}, /* the rest starts in the padding */
        {"\"kernel\":1,\"stride\":5", 6, 6},                 /* the rest starts after the input */
        {"\"kernel\":[1,3],\"stride\":[5,2]", 6, 6},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int ceil = 0; ceil < 2; ceil++) {
            char text[512];
            (void)snprintf(text, sizeof(text),
                           MODEL(OPS("{\"type\":\"max_pool\",%s,\"ceil_mode\":%s}") "," HEAD),
                           cases[i].pool, ceil ? "true" : "false");
            struct model *model = good_model(text, NULL);
            assert_int_equal(model->unit[0].out.h, ceil ? cases[i].ceil : cases[i].floor);
            model_free(&model);
        }
    }
}

static void a_residual_is_lowered_to_one_list_that_ends_with_add_and_then(void **state)
{
    (void)state;
    struct model *model = good_model(
        MODEL(OPS(CONV) ",{\"name\":\"r\",\"residual\":{\"body\":[" CONV ",{\"type\":\"relu\"}],"
                        "\"shortcut\":[" CONV "]},\"then\":[{\"type\":\"relu6\"}]}," HEAD),
        NULL);
    const struct unit *unit = &model->unit[1];
    assert_int_equal(unit->op_count, 5);
    assert_string_equal(unit->op[0].name, "r.body.0");
    assert_string_equal(unit->op[2].name, "r.shortcut.0");
    assert_int_equal(unit->op[2].input[0], 0);
    assert_int_equal(unit->op[3].type, OP_ADD);
    assert_int_equal(unit->op[3].input_count, 2);
    assert_int_equal(unit->op[3].input[0], 2);
    assert_int_equal(unit->op[3].input[1], 3);
    assert_string_equal(unit->op[4].name, "r.then.0");
    assert_int_equal(unit->op[4].input[0], 4);
    model_free(&model);
}

static void a_shortcut_left_out_is_the_identity(void **state)
{
    (void)state;
    struct model *model = good_model(
        MODEL(OPS(CONV) ",{\"name\":\"r\",\"residual\":{\"body\":[" CONV "]}}," HEAD), NULL);
    assert_int_equal(model->unit[1].op[1].input[0], 1);
    assert_int_equal(model->unit[1].op[1].input[1], 0);
    model_free(&model);
}

static void branches_are_concatenated_along_channels(void **state)
{
    (void)state;
    struct model *model =
        good_model(MODEL(OPS(CONV) ",{\"name\":\"mix\",\"branches\":[[" CONV "],[],[" CONV "," CONV
                                   "]],\"then\":[{\"type\":\"relu\"}]}," HEAD),
                   NULL);
    const struct unit *unit = &model->unit[1];
    assert_string_equal(unit->op[2].name, "mix.branches.2.1");
    assert_int_equal(unit->op[3].type, OP_CONCAT);
    assert_int_equal(unit->op[3].input[0], 1);
    assert_int_equal(unit->op[3].input[1], 0);
    assert_int_equal(unit->op[3].input[2], 3);
    assert_int_equal(unit->out.c, 12);
    model_free(&model);
}

static void a_linear_has_the_shape_of_its_input_before_flatten(void **state)
{
    (void)state;
    struct model *model =
        good_model(MODEL(OPS(CONV ",{\"type\":\"max_pool\",\"kernel\":2},{\"type\":"
                                  "\"flatten\"}") ","
                                                  "{\"name\":\"b\",\"ops\":[{\"type\":"
                                                  "\"relu\"},{\"type\":\"dropout\"},{"
                                                  "\"type\":\"linear\",\"units\":8}]},"
                                                  "{\"name\":\"c\",\"ops\":[{\"type\":"
                                                  "\"linear\",\"units\":10}]}"),
                   NULL);
    assert_true(shape_equal(find_op(model, "b.2")->flat_from, (struct shape){14, 14, 4}));
    assert_true(shape_equal(find_op(model, "c.0")->flat_from, (struct shape){1, 1, 8}));
    model_free(&model);
}

static void open_values_come_from_the_data_set(void **state)
{
    (void)state;
    struct model_fit fit = {{1, 1, 20}, DTYPE_F32, 3, 1};
    struct model *model = good_model("{\"name\":\"m\",\"units\":[{\"name\":\"a\",\"ops\":[{"
                                     "\"type\":\"linear\",\"units\":\"classes\"}]}]}",
                                     &fit);
    assert_int_equal(model->input.c, 20);
    assert_int_equal(model->input_dtype, DTYPE_F32);
    assert_true(model->input_scale > 0.99 && model->input_scale < 1.01);
    assert_int_equal(model->classes, 3);
    model_free(&model);
}

static void more_outputs_than_classes_are_fine(void **state)
{
    (void)state;
    struct model_fit fit = {{28, 28, 1}, DTYPE_U8, 7, 1};
    struct model *model = good_model(MODEL(OPS(CONV) "," HEAD), &fit);
    assert_int_equal(model->classes, 10);
    model_free(&model);
}

static void sequences_keep_their_positions_to_the_end(void **state)
{
    (void)state;
    struct model_fit fit = {{9, 1, 1}, DTYPE_U8, 50, 9};
    struct model *model = good_model(
        TEXT(OPS(
            EMBED
            ",{\"type\":\"positions\"},{\"type\":\"layer_norm\"},{\"type\":\"linear\","
            "\"units\":24},{\"type\":\"attention\",\"heads\":4},{\"type\":\"gelu\"}") "," SCORES),
        &fit);
    assert_int_equal(model->positions, 9);
    assert_int_equal(model->classes, 50);
    assert_true(shape_equal(model->unit[0].out, (struct shape){9, 1, 8}));
    assert_true(shape_equal(model->unit[1].out, (struct shape){9, 1, 50}));
    const struct op *attention = find_op(model, "a.4");
    assert_int_equal(attention->heads, 4);
    assert_true(attention->causal);
    assert_int_equal(attention->tensor_count, 0);
    const struct op *embedding = find_op(model, "a.0");
    assert_int_equal(embedding->tensor[0].dim[0], 256);
    assert_int_equal(embedding->tensor[0].dim[1], 12);
    const struct op *positions = find_op(model, "a.1");
    assert_int_equal(positions->tensor[0].dim[0], 9);
    model_free(&model);
    /* The mean of all positions has one label. */
    fit.positions = 1;
    model = good_model(TEXT(OPS(EMBED ",{\"type\":\"global_avg_pool\"}") "," SCORES), &fit);
    assert_int_equal(model->positions, 1);
    model_free(&model);
}

static void a_select_has_no_number(void **state)
{
    (void)state;
    struct model *model =
        good_model(MODEL(OPS(CONV ",{\"type\":\"select\",\"first\":1,\"channels\":2},"
                                  "{\"type\":\"batch_norm\"}") "," HEAD),
                   NULL);
    const struct op *select = &model->unit[0].op[1];
    assert_int_equal(select->type, OP_SELECT);
    assert_int_equal(select->first, 1);
    assert_true(shape_equal(select->out, (struct shape){28, 28, 2}));
    assert_string_equal(select->name, "a.select");
    assert_int_equal(select->tensor_count, 0);
    assert_int_equal(find_op(model, "a.1")->tensor[0].elements, 2);
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_gets_shapes_names_and_tensors),
        cmocka_unit_test(a_pool_strides_by_its_kernel_by_default),
        cmocka_unit_test(a_window_is_square_or_a_pair_of_height_and_width),
        cmocka_unit_test(a_pool_in_ceil_mode_takes_the_rest_at_the_end),
        cmocka_unit_test(a_residual_is_lowered_to_one_list_that_ends_with_add_and_then),
        cmocka_unit_test(a_shortcut_left_out_is_the_identity),
        cmocka_unit_test(branches_are_concatenated_along_channels),
        cmocka_unit_test(a_linear_has_the_shape_of_its_input_before_flatten),
        cmocka_unit_test(open_values_come_from_the_data_set),
        cmocka_unit_test(more_outputs_than_classes_are_fine),
        cmocka_unit_test(sequences_keep_their_positions_to_the_end),
        cmocka_unit_test(a_select_has_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
