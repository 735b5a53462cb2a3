#include "libtrain/model/layers.h"

#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/model/cost.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

#define MOST 512

static struct model_layer layer[MOST];

static void a_norm_belongs_to_the_layer_before_it(void **state)
{
    (void)state;
    struct model *model = zoo_model("mobilenetv2", 32, 32, 3);
    assert_int_equal(layers_list(model, 0, model->unit_count, layer, MOST), 53);
    assert_int_equal(layer[0].op, 0);
    /* 3 x 3 weights of 3 channels for each of 32 maps, and the two parameters of their norm */
    assert_int_equal(layer[0].floats, 3 * 3 * 3 * 32 + 2 * 32);
    assert_true(layers_begins(&model->unit[0], 0));
    assert_false(layers_begins(&model->unit[0], 1));
    model_free(&model);
}

static void layers_have_every_trained_parameter_once(void **state)
{
    (void)state;
    struct model *model = zoo_model("mobilenetv2", 32, 32, 3);
    struct unit_cost cost[UINT8_MAX];
    cost_count(model, cost);
    for (size_t first = 0; first < model->unit_count; first += 4) {
        const size_t end = first + 4 < model->unit_count ? first + 4 : model->unit_count;
        const size_t count = layers_list(model, first, end, layer, MOST);
        uint64_t bytes = 0, floats = 0;
        for (size_t u = first; u < end; u++) {
            bytes += cost[u].trained_bytes;
        }
        for (size_t l = 0; l < count; l++) {
            assert_true(layer[l].unit >= first && layer[l].unit < end);
            assert_true(l == 0 || layer[l].unit > layer[l - 1].unit ||
                        layer[l].op > layer[l - 1].op);
            floats += layer[l].floats;
        }
        assert_int_equal(floats * sizeof(float), bytes);
    }
    model_free(&model);
}

static void frozen_units_have_no_layers(void **state)
{
    (void)state;
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    const size_t all = layers_list(model, 0, model->unit_count, layer, MOST);
    model->unit[0].frozen = model->unit[3].frozen = true;
    const size_t count = layers_list(model, 0, model->unit_count, layer, MOST);
    assert_int_equal(count, all - 2);
    for (size_t l = 0; l < count; l++) {
        assert_true(layer[l].unit != 0 && layer[l].unit != 3);
        assert_true(layer[l].floats > 0);
    }
    model_free(&model);
}

static void the_count_is_whole_without_room(void **state)
{
    (void)state;
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    const size_t all = layers_list(model, 0, model->unit_count, layer, MOST);
    const struct model_layer second = layer[1];
    layer[1].floats = 7;
    assert_int_equal(layers_list(model, 0, model->unit_count, layer, 1), all);
    assert_int_equal(layer[1].floats, 7);
    assert_true(second.floats != 7);
    model_free(&model);
}

static void ops_add_up_to_their_unit(void **state)
{
    (void)state;
    struct model *model = zoo_model("mobilenetv2", 32, 32, 3);
    model->unit[2].frozen = true;
    for (size_t u = 0; u < model->unit_count; u++) {
        struct op_cost op[MODEL_UNIT_OPS_MAX];
        struct unit_cost unit;
        double forward = 0, backward = 0;
        cost_count_unit(&model->unit[u], u > 0, sizeof(float), &unit);
        cost_count_ops(&model->unit[u], u > 0, op);
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            forward += op[k].forward_flops;
            backward += op[k].backward_flops;
        }
        assert_true(forward == unit.forward_flops && forward > 0);
        assert_true(backward == unit.backward_flops);
    }
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_norm_belongs_to_the_layer_before_it),
        cmocka_unit_test(layers_have_every_trained_parameter_once),
        cmocka_unit_test(frozen_units_have_no_layers),
        cmocka_unit_test(the_count_is_whole_without_room),
        cmocka_unit_test(ops_add_up_to_their_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
