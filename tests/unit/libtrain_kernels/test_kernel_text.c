#include <stdlib.h>
#include <string.h>

#include "libtrain/kernels/kernel_table.h"
#include "libtrain/kernels/kernel_text.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

static struct model *resnet8(void)
{
    return zoo_model("resnet8", 28, 28, 1);
}

/* All kernels named, as a backend chooses them by shape. */
static void name_all(struct model *model, enum conv2d_backend backend)
{
    json_t *table = kernel_table_describe(model, backend);
    struct err err = {0};
    assert_ok(kernel_table_apply(model, table, NULL, &err), &err);
    json_decref(table);
}

static bool same_kernels(const struct model *a, const struct model *b)
{
    json_t *one = kernel_table_describe(a, CONV2D_BACKEND_OWN);
    json_t *other = kernel_table_describe(b, CONV2D_BACKEND_OWN);
    bool same = json_equal(one, other);
    json_decref(one);
    json_decref(other);
    return same;
}

static void texts_of_ranges_join_to_that_of_the_whole(void **state)
{
    (void)state;
    static const char *const names[] = {"resnet8", "mobilenetv2", "googlenet", "lenet5", "mlp"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct model *model = usual_model(names[i]);
        struct model *other = usual_model(names[i]);
        size_t convolutions = kernel_text_length(model, 0, model->unit_count) / CONV2D_PASSES;
        assert_int_equal(kernel_text_wanted(model), convolutions > 0);
        name_all(model, CONV2D_BACKEND_ONEDNN);
        assert_false(kernel_text_wanted(model));
        char whole[KERNEL_TEXT_SIZE], parts[KERNEL_TEXT_SIZE], *end = parts;
        kernel_text_write(model, 0, model->unit_count, whole);
        for (size_t u = 0; u < model->unit_count; u++) {
            kernel_text_write(model, u, u + 1, end);
            assert_true(kernel_text_fits(other, u, u + 1, end));
            end += kernel_text_length(model, u, u + 1);
        }
        *end = '\0';
        assert_string_equal(parts, whole);
        assert_true(kernel_text_fits(other, 0, other->unit_count, whole));
        kernel_text_apply(other, whole);
        assert_true(same_kernels(model, other));
        model_free(&model);
        model_free(&other);
    }
}

static void kernels_that_the_model_names_stay(void **state)
{
    (void)state;
    struct model *model = resnet8();
    const struct op *op = find_op(model, "block1.body.3");
    json_t *table = read_json("{\"block1.body.3\": {\"backward_data\": \"columns\"}}");
    struct err err = {0};
    assert_ok(kernel_table_apply(model, table, NULL, &err), &err);
    json_decref(table);
    struct model *named = resnet8();
    name_all(named, CONV2D_BACKEND_OWN);
    char text[KERNEL_TEXT_SIZE];
    kernel_text_write(named, 0, named->unit_count, text);
    kernel_text_apply(model, text);
    assert_int_equal(op->kernels.pass[CONV2D_FORWARD], CONV2D_WINOGRAD4);
    assert_int_equal(op->kernels.pass[CONV2D_BACKWARD_DATA], CONV2D_COLUMNS);
    model_free(&model);
    model_free(&named);
}

static void a_text_of_other_units_is_rejected(void **state)
{
    (void)state;
    struct model *model = resnet8();
    size_t stem = 0, first = kernel_text_length(model, 0, 1);
    assert_int_equal(first, 3); /* one convolution of 3 x 3, few channels */
    static const char *const good[] = {"ccc", "xcx", "DNW"};
    static const char *const bad[] = {"",    "cc",  "cccc", "cc-", "ccd",   "pcc",
                                      "cxc", "wcc", "cc ",  "ccC", "cc\x80"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(kernel_text_fits(model, stem, stem + 1, good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(kernel_text_fits(model, stem, stem + 1, bad[i]));
    }
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_ranges_join_to_that_of_the_whole),
        cmocka_unit_test(kernels_that_the_model_names_stay),
        cmocka_unit_test(a_text_of_other_units_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
