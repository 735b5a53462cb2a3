#include <string.h>

#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/model/cost.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

static double parameters(const struct model *model)
{
    struct unit_cost cost[MODEL_UNITS_MAX];
    double total = 0;
    cost_count(model, cost);
    for (size_t i = 0; i < model->unit_count; i++) {
        total += (double)cost[i].parameter_bytes / 4;
    }
    return total;
}

static void names_and_texts_belong_together(void **state)
{
    (void)state;
    size_t count = 0;
    for (; zoo_name(count); count++) {
        struct model *model = usual_model(zoo_name(count));
        assert_string_equal(model->name, zoo_name(count));
        model_free(&model);
    }
    assert_int_equal(count, 13);
    assert_null(zoo_name(count));
    assert_null(zoo_name(count + 5));
    assert_null(zoo_text("lenet"));
    assert_null(zoo_fit("lenet"));
}

static void lenet5_has_its_known_size(void **state)
{
    (void)state;
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    assert_int_equal(model->unit_count, 5);
    assert_int_equal((long)parameters(model), 61706);
    assert_true(shape_equal(find_op(model, "dense1.1")->flat_from, (struct shape){5, 5, 16}));
    model_free(&model);
    model = zoo_model("lenet5", 32, 32, 3);
    assert_true(shape_equal(find_op(model, "dense1.1")->flat_from, (struct shape){6, 6, 16}));
    model_free(&model);
}

static void eight_by_eight_digits_fit_the_mlp_but_not_lenet5(void **state)
{
    (void)state;
    struct model_fit digits = {{8, 8, 1}, DTYPE_U8, 10, 1};
    struct model *model = good_model(zoo_text("mlp"), &digits);
    assert_int_equal(find_op(model, "hidden1.1")->in.c, 64);
    model_free(&model);
    assert_fault(zoo_text("lenet5"), &digits, "/units/1/ops/0",
                 "unit 'conv2': conv2d: a window of 5 x 5 does not fit its input of 4 x 4 x 6 with "
                 "padding 0");
}

static void resnet8_halves_twice(void **state)
{
    (void)state;
    struct model *model = zoo_model("resnet8", 28, 28, 1);
    assert_int_equal(model->unit_count, 5);
    assert_true(shape_equal(model->unit[3].out, (struct shape){7, 7, 64}));
    model_free(&model);
    model = zoo_model("resnet8", 32, 32, 3);
    assert_true(shape_equal(model->unit[3].out, (struct shape){8, 8, 64}));
    assert_int_equal((long)parameters(model), 78042);
    model_free(&model);
}

static void mobilenetv2_has_seventeen_blocks_and_its_known_size(void **state)
{
    (void)state;
    struct model *model = zoo_model("mobilenetv2", 32, 32, 3);
    assert_int_equal(model->unit_count, 19);
    assert_true(shape_equal(model->unit[17].out, (struct shape){4, 4, 320}));
    /* torchvision's mobilenet_v2(num_classes=10) has 2 236 682. */
    assert_int_equal((long)parameters(model), 2236682);
    size_t residuals = 0;
    for (size_t i = 0; i < model->unit_count; i++) {
        const struct unit *unit = &model->unit[i];
        residuals += unit->op[unit->op_count - 1].type == OP_ADD;
    }
    assert_int_equal(residuals, 10);
    model_free(&model);
}

static void gpt_mini_has_four_layers_and_its_known_size(void **state)
{
    (void)state;
    struct model *model = zoo_model("gpt-mini", 64, 1, 1);
    assert_int_equal(model->unit_count, 10);
    assert_int_equal(model->classes, 256);
    assert_int_equal(model->positions, 64);
    /* Tables (256 + 64) x 128, layers of 12 x 128^2 + 13 x 128, the last norm and the head of 256.
     */
    assert_int_equal((long)parameters(model), 40960 + 4 * 198272 + 256 + 33024);
    assert_true(shape_equal(find_op(model, "attend1.body.2")->out, (struct shape){64, 1, 128}));
    model_free(&model);
    assert_fault(zoo_text("gpt-mini"), &(struct model_fit){{28, 28, 1}, DTYPE_U8, 10, 1},
                 "/units/0/ops/0", "takes a sequence of T x 1 x C, not 28 x 28 x 1");
    assert_fault(zoo_text("gpt-mini"), &(struct model_fit){{64, 1, 1}, DTYPE_U8, 10, 1}, "/units/9",
                 "not 64 x 1 x 256");
}

/* The figures of the models' own sources, for the samples they are usually trained on.
 * alexnet-cifar and dscnn-kws: by hand; torchvision: what its weights' documentation says; the
 * others: kuangliu/pytorch-cifar. */
static void the_convolutional_models_have_their_known_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t units;
        long parameters;
        struct shape last; /* in front of the head's average or flatten */
    } cases[] = {
        {"alexnet-cifar", 6, 2261834, {2, 2, 256}},
        {"vgg11-bn", 9, 9231114, {1, 1, 512}},
        {"vgg16-bn", 14, 14728266, {1, 1, 512}},
        {"resnet18", 10, 11173962, {4, 4, 512}},
        {"resnet50", 18, 25557032, {7, 7, 2048}},
        {"googlenet", 13, 6624904, {7, 7, 1024}},
        {"mobilenetv2-224", 19, 3504872, {7, 7, 320}},
        {"dscnn-kws", 6, 640 * 4 + 128 + 4 * (576 + 4096 + 256) + 65 * 12, {25, 5, 64}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model *model = usual_model(cases[i].name);
        assert_int_equal(model->unit_count, cases[i].units);
        assert_int_equal((long)parameters(model), cases[i].parameters);
        assert_true(shape_equal(model->unit[cases[i].units - 2].out, cases[i].last));
        model_free(&model);
    }
}

static void a_vgg_needs_images_that_can_be_halved_five_times(void **state)
{
    (void)state;
    struct model_fit fashion = {{28, 28, 1}, DTYPE_U8, 10, 1};
    assert_fault(zoo_text("vgg11-bn"), &fashion, "/units/7/ops/3",
                 "a window of 2 x 2 does not fit its input of 1 x 1 x 512");
}

static void of_the_zoo_only_the_model_of_text_is_causal(void **state)
{
    (void)state;
    static const char other[] =
        "{\"name\":\"x\",\"input\":{\"scale\":1},\"units\":[{\"name\":\"a\",\"ops\":[{\"type\":"
        "\"embedding\",\"rows\":"
        "256,"
        "\"units\":12},{\"type\":\"attention\",\"heads\":2,\"causal\":false},{\"type\":\"linear\","
        "\"units\":\"classes\"}]}]}";
    const char *name;
    for (size_t i = 0; (name = zoo_name(i)); i++) {
        struct model *model = usual_model(name);
        assert_int_equal(model_is_causal(model), strcmp(name, "gpt-mini") == 0);
        model_free(&model);
    }
    struct model *model = good_model(other, zoo_fit("gpt-mini"));
    assert_false(model_is_causal(model));
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_texts_belong_together),
        cmocka_unit_test(lenet5_has_its_known_size),
        cmocka_unit_test(eight_by_eight_digits_fit_the_mlp_but_not_lenet5),
        cmocka_unit_test(resnet8_halves_twice),
        cmocka_unit_test(gpt_mini_has_four_layers_and_its_known_size),
        cmocka_unit_test(mobilenetv2_has_seventeen_blocks_and_its_known_size),
        cmocka_unit_test(the_convolutional_models_have_their_known_sizes),
        cmocka_unit_test(a_vgg_needs_images_that_can_be_halved_five_times),
        cmocka_unit_test(of_the_zoo_only_the_model_of_text_is_causal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
