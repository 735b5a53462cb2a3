#include <stdlib.h>
#include <string.h>

#include "libtrain/description/description.h"
#include "libtrain/kernels/kernel_table.h"
#include "libtrain/kernels/onednn_plan.h"
#include "libtrain/kernels/winograd_plan.h"
#include "libtrain/memory/memory.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

static struct model *resnet8(void)
{
    return zoo_model("resnet8", 28, 28, 1);
}

static int apply(struct model *model, const char *text, struct record_faults *faults,
                 struct err *err)
{
    json_t *table = read_json(text);
    int rc = kernel_table_apply(model, table, faults, err);
    json_decref(table);
    return rc;
}

static char *description_text(const struct model *model)
{
    json_t *description = description_write(model);
    char *text = json_dumps(description, JSON_COMPACT);
    json_decref(description);
    return text;
}

static const char *chosen(const json_t *table, const char *op, const char *pass)
{
    return json_string_value(json_object_get(json_object_get(table, op), pass));
}

static void the_whole_table_names_every_convolution_and_its_kernel_by_shape(void **state)
{
    (void)state;
    struct model *model = resnet8();
    json_t *table = kernel_table_describe(model, CONV2D_BACKEND_OWN);
    size_t convolutions = 0;
    for (size_t u = 0; u < model->unit_count; u++) {
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            const struct op *op = &model->unit[u].op[k];
            convolutions += op->type == OP_CONV2D;
            assert_true((op->type == OP_CONV2D) == (json_object_get(table, op->name) != NULL));
        }
    }
    assert_int_equal(json_object_size(table), convolutions);
    assert_string_equal(chosen(table, "block1.body.0", "forward"), "winograd4");
    assert_string_equal(chosen(table, "block2.body.0", "backward_weights"),
                        "columns"); /* stride 2 */
    json_decref(table);
    model_free(&model);
    model = usual_model("mobilenetv2");
    table = kernel_table_describe(model, CONV2D_BACKEND_OWN);
    size_t pointwise = 0, depthwise = 0;
    const char *name;
    json_t *choice;
    json_object_foreach(table, name, choice)
    {
        pointwise += strcmp(chosen(table, name, "backward_data"), "pointwise") == 0;
        depthwise += strcmp(chosen(table, name, "backward_data"), "depthwise") == 0;
    }
    assert_true(pointwise >= 34 && depthwise == 17);
    json_decref(table);
    model_free(&model);
}

static void a_described_kernel_table_applies_and_is_described_unchanged(void **state)
{
    (void)state;
    for (size_t backend = 0; backend < 2; backend++) {
        struct model *model = resnet8();
        struct err err = {0};
        json_t *table = kernel_table_describe(model, (enum conv2d_backend)backend);
        assert_ok(kernel_table_apply(model, table, NULL, &err), &err);
        /* All kernels are stated: the backend has none left to choose. */
        json_t *own = kernel_table_describe(model, CONV2D_BACKEND_OWN);
        json_t *onednn = kernel_table_describe(model, CONV2D_BACKEND_ONEDNN);
        assert_true(json_equal(table, own) && json_equal(table, onednn));
        assert_true(kernel_table_needs_onednn(model) == (backend == CONV2D_BACKEND_ONEDNN));
        json_decref(table);
        json_decref(own);
        json_decref(onednn);
        model_free(&model);
    }
}

static void the_choice_is_part_of_the_description_if_there_is_one(void **state)
{
    (void)state;
    struct model *plain = resnet8();
    struct model *model = resnet8();
    struct err err = {0};
    char *before = description_text(plain);
    assert_null(strstr(before, "kernels"));
    assert_ok(apply(model, "null", NULL, &err), &err);
    assert_ok(apply(model, "{}", NULL, &err), &err);
    assert_ok(apply(model, "{\"block1.body.3\": {\"forward\": \"by_shape\"}}", NULL, &err), &err);
    char *same = description_text(model);
    assert_string_equal(same, before);
    assert_ok(apply(model, "{\"block1.body.3\": {\"forward\": \"columns\"}}", NULL, &err), &err);
    char *other = description_text(model);
    assert_non_null(strstr(other, "\"kernels\":{\"forward\":\"columns\"}"));
    struct model *read = NULL;
    assert_ok(parse_model(other, NULL, &read, NULL, &err), &err);
    assert_int_equal(find_op(read, "block1.body.3")->kernels.pass[CONV2D_FORWARD], CONV2D_COLUMNS);
    assert_int_equal(find_op(read, "block1.body.3")->kernels.pass[CONV2D_BACKWARD_DATA],
                     CONV2D_BY_SHAPE);
    assert_int_equal(find_op(read, "block1.body.0")->kernels.pass[CONV2D_FORWARD], CONV2D_BY_SHAPE);
    char *again = description_text(read);
    assert_string_equal(again, other);
    free(before);
    free(same);
    free(other);
    free(again);
    model_free(&plain);
    model_free(&model);
    model_free(&read);
}

static void impossible_descriptions_are_rejected_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *table, *pointer, *message;
    } bad[] = {
        {"[]", "/kernels", "expected null or an object"},
        {"{\"block1.bdy.3\": {}}", "/kernels",
         "no convolution 'block1.bdy.3'; did you mean 'block1.body.3'?"},
        {"{\"block1.body.1\": {}}", "/kernels",
         "no convolution 'block1.body.1'"}, /* a batch-norm */
        {"{\"~/\": {}}", "/kernels", "no convolution '~/'"},
        {"{\"block1.body.3\": 4}", "/kernels/block1.body.3", "object"},
        {"{\"block1.body.3\": {\"forwards\": \"columns\"}}", "/kernels/block1.body.3/forwards",
         "did you mean 'forward'?"},
        {"{\"block1.body.3\": {\"forward\": \"colums\"}}", "/kernels/block1.body.3/forward",
         "expected one of by_shape,"},
        {"{\"block1.body.3\": {\"backward_data\": \"depthwise\"}}",
         "/kernels/block1.body.3/backward_data",
         "'depthwise' does not support 3 x 3, stride 1 x 1"},
        {"{\"block2.body.0\": {\"backward_weights\": \"winograd4\"}}",
         "/kernels/block2.body.0/backward_weights",
         "'winograd4' does not support 3 x 3, stride 2 x 2"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct model *model = resnet8();
        struct record_faults faults = {0};
        struct err err = {0};
        assert_int_equal(apply(model, bad[i].table, &faults, &err), ERR_INVALID);
        assert_int_equal(faults.count, 1);
        assert_string_equal(faults.fault[0].pointer, bad[i].pointer);
        assert_non_null(strstr(faults.fault[0].message, bad[i].message));
        assert_non_null(strstr(err.text, bad[i].pointer));
        model_free(&model);
    }
    static const char description[] =
        "{\"name\": \"m\", \"units\": [{\"name\": \"a\", \"ops\": [{\"type\": "
        "\"conv2d\", \"filters\": 16, \"kernel\": 1,"
        " \"kernels\": {\"forward\": \"winograd4\"}}, {\"type\": \"global_avg_pool\"}]}],"
        " \"loss\": {\"type\": \"softmax_cross_entropy\"}}";
    assert_fault(description, &(struct model_fit){{8, 8, 16}, DTYPE_F32, 10, 1},
                 "/units/0/ops/0/kernels/forward", "unit 'a': 'winograd4' does not support 1 x 1");
}

/* A table of the given number of unknown names, and then a known one that asks for columns; the
 * caller's. */
static json_t *long_table(size_t unknown, const char *known)
{
    json_t *table = json_object();
    for (size_t i = 0; i < unknown; i++) {
        char name[MODEL_OP_NAME_MAX];
        (void)snprintf(name, sizeof(name), "block1.body.%zu%zu", 100 + i, i);
        assert_int_equal(json_object_set_new(table, name, json_object()), 0);
    }
    assert_int_equal(json_object_set_new(table, known, json_pack("{s:s}", "forward", "columns")),
                     0);
    return table;
}

static void a_table_of_wrong_names_costs_no_more_than_its_reported_faults(void **state)
{
    (void)state;
    struct model *model = usual_model("resnet50"); /* 53 convolutions */
    const char *known = "stem.0";
    assert_int_equal(find_op(model, known)->type, OP_CONV2D);
    static const struct {
        size_t unknown, faults;
    } each[] = {{40, RECORD_FAULTS_MAX}, {1000, 1}};
    for (size_t i = 0; i < 2; i++) {
        struct record_faults faults = {0};
        struct err err = {0};
        json_t *table = long_table(each[i].unknown, known);
        assert_int_equal(kernel_table_apply(model, table, &faults, &err), ERR_INVALID);
        assert_int_equal(faults.count, each[i].faults);
        assert_int_equal(faults.more, i == 0);
        assert_int_equal(find_op(model, known)->kernels.pass[CONV2D_FORWARD],
                         CONV2D_BY_SHAPE); /* never reached */
        json_decref(table);
        if (i == 1) {
            assert_string_equal(faults.fault[0].pointer, "/kernels");
            assert_string_equal(faults.fault[0].message,
                                "has 1001 members; the model has 53 convolutions");
        }
    }
    model_free(&model);
}

static void a_numeric_class_names_its_backend(void **state)
{
    (void)state;
    assert_int_equal(conv2d_backend_of("libtrain-0.1.0-2/openblas-0.3.21-Zen/avx512/ftz"),
                     CONV2D_BACKEND_OWN);
    assert_int_equal(
        conv2d_backend_of("libtrain-0.1.0-2/openblas-0.3.21-Zen/avx512/ftz/onednn-2.6.3-avx2"),
        CONV2D_BACKEND_ONEDNN);
    assert_int_equal(conv2d_backend_of(""), CONV2D_BACKEND_OWN);
}

static void other_kernels_need_other_memory(void **state)
{
    (void)state;
    struct model *model = resnet8();
    struct err err = {0};
    struct memory_bytes by_shape, columns, onednn;
    const struct optimizer optimizer = {.type = OPTIMIZER_SGD};
    struct memory_request request = {.end = model->unit_count,
                                     .micro_batch = 8,
                                     .in_flight = 1,
                                     .threads = 2,
                                     .backend = CONV2D_BACKEND_OWN};
    assert_ok(memory_of_stage(model, &optimizer, &request, &by_shape, &err), &err);
    request.backend = CONV2D_BACKEND_ONEDNN;
    assert_ok(memory_of_stage(model, &optimizer, &request, &onednn, &err), &err);
    request.backend = CONV2D_BACKEND_OWN;
    json_t *table = kernel_table_describe(model, CONV2D_BACKEND_OWN);
    const char *name;
    json_t *choice;
    json_object_foreach(table, name, choice)
    {
        json_object_set_new(choice, "forward", json_string("columns"));
        json_object_set_new(choice, "backward_data", json_string("columns"));
        json_object_set_new(choice, "backward_weights", json_string("columns"));
    }
    assert_ok(kernel_table_apply(model, table, NULL, &err), &err);
    assert_ok(memory_of_stage(model, &optimizer, &request, &columns, &err), &err);
    assert_true(columns.workspace < by_shape.workspace);
    assert_true(onednn.packed > 0 && by_shape.packed == 0 && columns.packed == 0);
    assert_int_equal(columns.parameters, by_shape.parameters);
    json_decref(table);
    model_free(&model);
}

/* On a machine of 32 bits, too: its coordinator plans for larger ones. */
static void memory_of_large_convolutions_is_counted_in_64_bits(void **state)
{
    (void)state;
    const struct conv2d_shape shape = {.N = 65536,
                                       .H = 128,
                                       .W = 128,
                                       .C = 4096,
                                       .O = 4096,
                                       .KH = 3,
                                       .KW = 3,
                                       .SH = 1,
                                       .SW = 1,
                                       .PH = 1,
                                       .PW = 1,
                                       .G = 1,
                                       .OH = 128,
                                       .OW = 128};
    const struct conv2d_kernels winograd = {
        .pass = {CONV2D_ONEDNN_WINOGRAD, CONV2D_ONEDNN_WINOGRAD, CONV2D_ONEDNN_WINOGRAD}};
    const uint64_t weights = UINT64_C(4096) * 4096 * 9 * sizeof(float);
    const uint64_t tensors = UINT64_C(32768) * 128 * 128 * 8192 * sizeof(float);
    const uint64_t tiles = UINT64_C(32768) * 32 * 32;
    const struct workspace_bytes bytes = onednn_workspace(CONV2D_ONEDNN_WINOGRAD, &shape);
    assert_true(bytes.shared == 2 * weights &&
                onednn_packed_bytes(winograd, &shape) == 2 * weights);
    assert_true(bytes.worker ==
                tensors + 65536 + 36 * (tiles * 8192 + UINT64_C(2) * 4096 * 4096) * sizeof(float));
    assert_true(winograd_plane(UINT64_C(1) << 40) == (UINT64_C(1) << 40) + 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_table_names_every_convolution_and_its_kernel_by_shape),
        cmocka_unit_test(a_described_kernel_table_applies_and_is_described_unchanged),
        cmocka_unit_test(the_choice_is_part_of_the_description_if_there_is_one),
        cmocka_unit_test(impossible_descriptions_are_rejected_with_the_place),
        cmocka_unit_test(a_table_of_wrong_names_costs_no_more_than_its_reported_faults),
        cmocka_unit_test(memory_of_large_convolutions_is_counted_in_64_bits),
        cmocka_unit_test(a_numeric_class_names_its_backend),
        cmocka_unit_test(other_kernels_need_other_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
