#include <stdlib.h>
#include <string.h>

#include "libtrain/state/state.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

static const struct optimizer momentum = {.type = OPTIMIZER_SGD, .momentum = 0.9};

static void a_blob_has_parameters_and_buffers_then_momentum(void **state)
{
    (void)state;
    struct model *model = zoo_model("resnet8", 28, 28, 1);
    struct state_layout *layout = NULL;
    struct err err = {0};
    assert_ok(state_layout_new(model, 0, &momentum, &layout, &err), &err);
    static const char *const names[] = {
        "stem.0.weight",          "stem.1.weight",       "stem.1.bias",
        "stem.1.running_mean",    "stem.1.running_var",  "stem.0.weight.momentum",
        "stem.1.weight.momentum", "stem.1.bias.momentum"};
    assert_int_equal(layout->header.tensor_count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_string_equal(layout->header.tensor[i].name, names[i]);
    }
    assert_int_equal(layout->source[4].kind, STATE_BUFFER);
    assert_int_equal(layout->source[4].op, 1);
    assert_int_equal(layout->source[4].tensor, 3);
    assert_int_equal(layout->source[5].kind, STATE_OPTIMIZER);
    assert_int_equal(layout->export_bytes, 4 * (16 * 9 + 4 * 16));
    assert_int_equal(layout->header.data_offset % 64, 0);
    assert_int_equal(layout->blob_bytes,
                     layout->header.data_offset + 4 * (16 * 9 + 4 * 16 + 16 * 9 + 2 * 16));
    state_layout_free(&layout);
    assert_null(layout);
    state_layout_free(&layout);
    model_free(&model);
}

static void adam_has_two_arrays_for_each_parameter(void **state)
{
    (void)state;
    static const struct optimizer adam[] = {{.type = OPTIMIZER_ADAM, .momentum = 0.9},
                                            {.type = OPTIMIZER_ADAMW}};
    static const char *const names[] = {"stem.0.weight",
                                        "stem.1.weight",
                                        "stem.1.bias",
                                        "stem.1.running_mean",
                                        "stem.1.running_var",
                                        "stem.0.weight.exp_avg",
                                        "stem.0.weight.exp_avg_sq",
                                        "stem.1.weight.exp_avg",
                                        "stem.1.weight.exp_avg_sq",
                                        "stem.1.bias.exp_avg",
                                        "stem.1.bias.exp_avg_sq"};
    struct model *model = zoo_model("resnet8", 28, 28, 1);
    for (size_t type = 0; type < 2; type++) {
        struct state_layout *layout = NULL;
        struct err err = {0};
        assert_ok(state_layout_new(model, 0, &adam[type], &layout, &err), &err);
        assert_int_equal(layout->header.tensor_count, 11);
        for (size_t i = 0; i < 11; i++) {
            assert_string_equal(layout->header.tensor[i].name, names[i]);
            assert_true((layout->source[i].kind == STATE_OPTIMIZER) == (i >= 5));
        }
        assert_int_equal(layout->source[8].array, 1);
        assert_int_equal(layout->source[8].op, 1);
        assert_int_equal(layout->source[8].tensor, 0);
        assert_int_equal(layout->source[9].array, 0);
        assert_int_equal(layout->export_bytes, 4 * (16 * 9 + 4 * 16));
        assert_int_equal(layout->header.data_bytes, 4 * (3 * (16 * 9 + 2 * 16) + 2 * 16));
        state_layout_free(&layout);
    }
    model_free(&model);
}

static void a_header_text_reads_back_as_the_same_header(void **state)
{
    (void)state;
    struct model *model = zoo_model("resnet8", 28, 28, 1);
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        struct state_layout *layout = NULL;
        struct safetensors_tensor tensor[STATE_TENSORS_MAX];
        struct safetensors_header header = {.tensor = tensor, .tensor_capacity = STATE_TENSORS_MAX};
        struct err err = {0};
        assert_ok(state_layout_new(model, unit, &momentum, &layout, &err), &err);
        assert_ok(safetensors_parse(layout->header_text, (size_t)layout->header.data_offset,
                                    &header, &err),
                  &err);
        assert_int_equal(header.tensor_count, layout->header.tensor_count);
        assert_int_equal(header.metadata_count, 0);
        for (size_t i = 0; i < header.tensor_count; i++) {
            assert_string_equal(header.tensor[i].name, layout->header.tensor[i].name);
            assert_int_equal(header.tensor[i].begin, layout->header.tensor[i].begin);
            assert_int_equal(header.tensor[i].end, layout->header.tensor[i].end);
        }
        state_layout_free(&layout);
    }
    model_free(&model);
}

static void a_unit_without_tensors_has_an_empty_blob(void **state)
{
    (void)state;
    struct model *model = good_model("{\"name\":\"m\",\"input\":{\"shape\":[1,1,4],\"dtype\":"
                                     "\"float32\"},\"units\":[{\"name\":\"a\","
                                     "\"ops\":[{\"type\":\"relu\"}]}]}",
                                     NULL);
    struct state_layout *layout = NULL;
    struct err err = {0};
    assert_ok(state_layout_new(model, 0, &momentum, &layout, &err), &err);
    assert_int_equal(layout->header.tensor_count, 0);
    assert_int_equal(layout->export_bytes, 0);
    assert_int_equal(layout->blob_bytes, 64);
    state_layout_free(&layout);
    model_free(&model);
}

static void a_frozen_unit_has_no_optimizer_state_but_a_mark(void **state)
{
    (void)state;
    struct model *model = zoo_model("resnet8", 28, 28, 1);
    struct state_layout *layout = NULL, *plain = NULL;
    struct err err = {0};
    assert_ok(state_layout_new(model, 0, &(struct optimizer){.type = OPTIMIZER_SGD}, &plain, &err),
              &err);
    model->unit[0].frozen = true;
    assert_ok(state_layout_new(model, 0, &momentum, &layout, &err), &err);
    assert_int_equal(layout->header.tensor_count, 5);
    assert_int_equal(layout->export_count, 5);
    assert_int_equal(layout->export_bytes, plain->export_bytes);
    assert_int_equal(layout->header.data_bytes, layout->export_bytes);
    assert_string_equal(safetensors_metadata(&layout->header, "frozen"), "true");
    assert_true(strstr(layout->header_text + 8, "__metadata__") !=
                NULL); /* the exported file has none */
    state_layout_free(&layout);
    state_layout_free(&plain);
    model_free(&model);
}

static void an_export_is_the_concatenation_of_the_first_parts(void **state)
{
    (void)state;
    struct model *model = zoo_model("mobilenetv2", 32, 32, 3);
    BUF_AUTO struct buf text;
    struct err err = {0};
    buf_init(&text, SAFETENSORS_HEADER_MAX);
    assert_ok(state_export_header(model, NULL, &text, &err), &err);
    struct safetensors_tensor *tensor = calloc(1000, sizeof(*tensor));
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = 1000};
    assert_ok(safetensors_parse(text.data, text.size, &header, &err), &err);
    size_t index = 0;
    uint64_t base = 0;
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        struct state_layout *layout = NULL;
        assert_ok(state_layout_new(model, unit, &momentum, &layout, &err), &err);
        for (size_t i = 0;
             i < layout->header.tensor_count && layout->source[i].kind != STATE_OPTIMIZER;
             i++, index++) {
            assert_string_equal(tensor[index].name, layout->header.tensor[i].name);
            assert_int_equal(tensor[index].begin, base + layout->header.tensor[i].begin);
        }
        base += layout->export_bytes;
        state_layout_free(&layout);
    }
    assert_int_equal(index, header.tensor_count);
    assert_int_equal(base, header.data_bytes);
    free(tensor);
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blob_has_parameters_and_buffers_then_momentum),
        cmocka_unit_test(adam_has_two_arrays_for_each_parameter),
        cmocka_unit_test(a_header_text_reads_back_as_the_same_header),
        cmocka_unit_test(a_unit_without_tensors_has_an_empty_blob),
        cmocka_unit_test(a_frozen_unit_has_no_optimizer_state_but_a_mark),
        cmocka_unit_test(an_export_is_the_concatenation_of_the_first_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
