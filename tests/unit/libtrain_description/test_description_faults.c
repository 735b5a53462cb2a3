/* Descriptions that are rejected: each fault names its place and the remedy. */
#include <stdio.h>
#include <stdlib.h>

#include "libtrain/description/description.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/description_texts.h"
#include "tests/unit/libtrain_description/model_support.h"

static const struct model_fit mnist = {{28, 28, 1}, DTYPE_U8, 10, 1};

struct fault_case {
    const char *text, *pointer, *part;
};

static void check_cases(const struct fault_case *cases, size_t count, const struct model_fit *fit)
{
    for (size_t i = 0; i < count; i++) {
        assert_fault(cases[i].text, fit, cases[i].pointer, cases[i].part);
    }
}

#define RGB(input) "{\"name\":\"m\",\"input\":{" input "},\"units\":[" HEAD "]}"

static void an_input_has_a_mean_and_a_std_for_each_channel(void **state)
{
    (void)state;
    static const struct model_fit rgb = {{32, 32, 3}, DTYPE_U8, 10, 1};
    static const struct fault_case cases[] = {
        {RGB("\"mean\":[1,2],\"std\":[1,2,3]"), "/input/mean", "2 numbers for the 3 channels"},
        {RGB("\"mean\":[1,2,3]"), "/input/std", "0 numbers for the 3 channels"},
        {RGB("\"std\":[1,2,3,4]"), "/input/mean", "0 numbers for the 3 channels"},
        {RGB("\"mean\":[1,2,\"3\"],\"std\":[1,2,3]"), "/input/mean/2", "expected"},
        {RGB("\"mean\":[1,2,3],\"std\":[1,0,3]"), "/input/std/1", "at least"},
        {RGB("\"mean\":[1,2,3e9],\"std\":[1,2,3]"), "/input/mean/2", "at most"},
        {RGB("\"mean\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"), "/input/mean", "at most 16"},
    };
    check_cases(cases, sizeof(cases) / sizeof(cases[0]), &rgb);
    struct model *model = good_model(RGB("\"mean\":[1,2,3],\"std\":[4,5,6]"), &rgb);
    assert_int_equal(model->input_normalise.mean_count, 3);
    assert_true(model->input_normalise.std[1] > 4.9 && model->input_normalise.std[1] < 5.1);
    model_free(&model);
}

static void faults_of_form_name_the_field_and_the_unit(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"[]", "", "expected an object"},
        {"{\"name\":\"m\"," INPUT "\"units\":[]}", "/units", "at least 1"},
        {"{\"name\":\"a/b\"," INPUT "\"units\":[" HEAD "]}", "/name",
         "expected a name: 1 to 63 of a-z"},
        {"{\"name\":\"Mine\"," INPUT "\"units\":[" HEAD "]}", "/name", "expected a name"},
        {"{\"name\":\".m\"," INPUT "\"units\":[" HEAD "]}", "/name", "expected a name"},
        {"{\"name\":\"m\"," INPUT "\"unit\":[],\"units\":[" HEAD "]}", "/unit",
         "did you mean 'units'"},
        {MODEL("{\"name\":\"a\"}"), "/units/0",
         "unit 'a': needs exactly one of ops, residual and branches"},
        {MODEL("{\"name\":\"a\",\"ops\":[" CONV "],\"branches\":[[],[" CONV "]]}"), "/units/0",
         "exactly one"},
        {MODEL("{\"name\":\"a\",\"ops\":[" CONV "],\"then\":[" CONV "]}"), "/units/0",
         "append its ops to ops"},
        {MODEL("{\"name\":\"a\",\"branches\":[[" CONV "]]}"), "/units/0/branches",
         "unit 'a': has 1 element;"},
        {MODEL("{\"name\":\"a\",\"branches\":[[],[" CONV "],[]]}"), "/units/0/branches/2",
         "second empty branch"},
        {MODEL("{\"name\":\"a\",\"residual\":{\"body\":[]}}"), "/units/0/residual/body",
         "at least 1"},
        {MODEL("{\"name\":\"a.b\",\"ops\":[" CONV "]}"), "/units/0/name", "letters"},
        {MODEL(OPS(CONV) "," OPS(CONV) "," HEAD), "/units/1/name", "unit 0 has this name too"},
        {MODEL("7"), "/units/0", "expected an object"},
        {MODEL(OPS("7")), "/units/0/ops/0", "unit 'a': expected an op"},
        {MODEL(OPS("{\"units\":7}")), "/units/0/ops/0/type", "is required"},
        {MODEL(OPS("{\"type\":\"conv3d\"}")), "/units/0/ops/0/type", "did you mean 'conv2d'"},
        {MODEL(OPS("{\"type\":\"add\"}")), "/units/0/ops/0/type",
         "unknown op 'add'; there are conv2d, linear, batch_norm, relu, relu6,"},
        {MODEL(OPS("{\"type\":\"conv\"}")), "/units/0/ops/0/type",
         "unknown op 'conv'; did you mean 'conv2d'?"},
        {MODEL(OPS("{\"type\":\"relu\",\"rate\":1}")), "/units/0/ops/0/rate",
         "unit 'a': unknown field"},
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":0,\"kernel\":3}")), "/units/0/ops/0/filters",
         "at least 1"},
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":3,\"kernel\":99}")), "/units/0/ops/0/kernel",
         "unit 'a': expected an integer from 1 to 64, or two of them: [height, width]"},
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":3}")), "/units/0/ops/0/kernel", "is required"},
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":3,\"kernel\":null}")), "/units/0/ops/0/kernel",
         "expected"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":[2]}")), "/units/0/ops/0/kernel",
         "two of them"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":[2,2,2]}")), "/units/0/ops/0/kernel",
         "two of them"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":[2,0]}")), "/units/0/ops/0/kernel",
         "from 1 to 64"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":2,\"stride\":0}")), "/units/0/ops/0/stride",
         "from 1 to 64"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":2,\"padding\":[0,-1]}")),
         "/units/0/ops/0/padding", "from 0 to 64"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":2,\"padding\":2.5}")),
         "/units/0/ops/0/padding", "integer"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":2,\"ceil_mode\":1}")),
         "/units/0/ops/0/ceil_mode", "expected"},
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":3,\"kernel\":2,\"ceil_mode\":true}")),
         "/units/0/ops/0/ceil_mode", "unknown field"},
        {MODEL(OPS("{\"type\":\"linear\",\"units\":\"class\"}")), "/units/0/ops/0/units",
         "\"classes\""},
        {MODEL(OPS("{\"type\":\"linear\",\"units\":\"classes\"}")), "/units/0/ops/0/units",
         "needs a data set"},
        {MODEL(OPS("{\"type\":\"dropout\",\"rate\":1}")), "/units/0/ops/0/rate", "at most"},
        {"{\"name\":\"m\",\"units\":[" HEAD "]}", "/input/shape", "is required"},
        {"{\"name\":\"m\",\"input\":{\"shape\":[8,8,1]},\"units\":[" HEAD "]}", "/input/dtype",
         "is required"},
        {"{\"name\":\"m\",\"input\":{\"shape\":[8,8],\"dtype\":\"uint8\"},\"units\":[" HEAD "]}",
         "/input/shape", "at least 3"},
        {"{\"name\":\"m\",\"input\":{\"shape\":[67108864,67108864,67108864],\"dtype\":\"uint8\"},"
         "\"units\":[" HEAD "]}",
         "/input/shape", "elements"},
        {"{\"name\":\"m\"," INPUT "\"units\":[" HEAD "],\"loss\":{\"type\":\"mse\"}}", "/loss/type",
         "unknown value 'mse'; only 'softmax_cross_entropy' is offered"},
        {"{\"name\":\"m\"," INPUT "\"units\":[" HEAD "],\"loss\":{\"label_smoothing\":1}}",
         "/loss/label_smoothing", "at most 0.999"},
        {"{\"name\":\"m\"," INPUT "\"units\":[" HEAD "],\"loss\":{\"label_smoothing\":-0.1}}",
         "/loss/label_smoothing", "at least 0"},
    };
    check_cases(cases, sizeof(cases) / sizeof(cases[0]), NULL);
}

static void faults_of_shape_name_the_given_and_the_expected_shape(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":4,\"kernel\":30}")), "/units/0/ops/0",
         "unit 'a': conv2d: a window of 30 x 30 does not fit its input of 28 x 28 x 1"},
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":4,\"kernel\":3,\"padding\":3}")),
         "/units/0/ops/0", "padding 3"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":3,\"padding\":2}")), "/units/0/ops/0",
         "at most 1"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":[8,3],\"padding\":[4,2]}")), "/units/0/ops/0",
         "padding 2 is too large for kernel 3; at most 1"},
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":4,\"kernel\":[3,40],\"padding\":[1,2]}")),
         "/units/0/ops/0",
         "a window of 3 x 40 does not fit its input of 28 x 28 x 1 with padding 1 x 2"},
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":4,\"kernel\":3,\"groups\":2}")),
         "/units/0/ops/0", "groups 2 must divide its 1 channels and 4 filters"},
        {MODEL(OPS("{\"type\":\"linear\",\"units\":4}")), "/units/0/ops/0",
         "takes a vector or a sequence, not 28 x 28 x 1"},
        {MODEL(OPS(CONV ",{\"type\":\"flatten\"},{\"type\":\"batch_norm\"}")), "/units/0/ops/2",
         "flattened"},
        {MODEL(
             OPS(CONV ",{\"type\":\"flatten\"},{\"type\":\"conv2d\",\"filters\":4,\"kernel\":1}")),
         "/units/0/ops/2", "flattened"},
        {MODEL("{\"name\":\"a\",\"residual\":{\"body\":[" CONV "]}}"), "/units/0/residual",
         "body gives 28 x 28 x 4, shortcut 28 x 28 x 1"},
        {MODEL("{\"name\":\"a\",\"branches\":[[" CONV "],[{\"type\":\"max_pool\",\"kernel\":2}]]}"),
         "/units/0/branches", "branch 1 14 x 14 x 1"},
        {MODEL("{\"name\":\"a\",\"branches\":[[" CONV "],[{\"type\":\"flatten\"}]]}"),
         "/units/0/branches/1/0", "flatten: not inside a branch"},
        {MODEL("{\"name\":\"a\",\"residual\":{\"body\":[{\"type\":\"flatten\"}]}}"),
         "/units/0/residual/body/0", "flatten: not inside a residual"},
        {MODEL(OPS(CONV ",{\"type\":\"flatten\"}") ",{\"name\":\"r\",\"residual\":{\"body\":[{"
                                                   "\"type\":\"linear\","
                                                   "\"units\":3136}]}}"),
         "/units/1/residual", "cannot be joined"},
        {MODEL(OPS(CONV)), "/units/0",
         "the last unit must end with one number per class, not 28 x 28 x 4"},
        {MODEL(OPS(CONV ",{\"type\":\"flatten\"}")), "/units/0", "of a flatten"},
        {MODEL(OPS("{\"type\":\"flatten\"},{\"type\":\"linear\",\"units\":1000000}")),
         "/units/0/ops/1", "its weight has more than"},
        {MODEL(OPS("{\"type\":\"conv2d\",\"filters\":1000000,\"kernel\":3}")), "/units/0/ops/0",
         "more than 67108864"},
    };
    check_cases(cases, sizeof(cases) / sizeof(cases[0]), NULL);
}

static void faults_of_sequences_name_the_given_and_the_expected_shape(void **state)
{
    (void)state;
    static const struct model_fit fit = {{9, 1, 1}, DTYPE_U8, 50, 9};
    static const struct fault_case cases[] = {
        {TEXT(OPS("{\"type\":\"embedding\",\"units\":12}") "," SCORES), "/units/0/ops/0/rows",
         "is required"},
        {TEXT(OPS("{\"type\":\"embedding\",\"rows\":0,\"units\":12}") "," SCORES),
         "/units/0/ops/0/rows", "at least 1"},
        {TEXT(OPS("{\"type\":\"embedding\",\"rows\":16777216,\"units\":12}") "," SCORES),
         "/units/0/ops/0", "its weight has more than"},
        {TEXT(OPS(EMBED "," EMBED) "," SCORES), "/units/0/ops/1",
         "takes the model's input of T x 1 x 1"},
        {"{\"name\":\"m\",\"units\":[" OPS(EMBED) "," SCORES "]}", "/units/0/ops/0",
         "the input's scale must be 1"},
        {"{\"name\":\"m\",\"input\":{\"scale\":1,\"mean\":[1],\"std\":[1]},\"units\":[" OPS(
             EMBED) "," SCORES "]}",
         "/units/0/ops/0", "without mean and std"},
        {TEXT(OPS(EMBED ",{\"type\":\"attention\",\"heads\":0}") "," SCORES),
         "/units/0/ops/1/heads", "at least 1"},
        {TEXT(OPS(EMBED ",{\"type\":\"attention\",\"heads\":3}") "," SCORES), "/units/0/ops/1",
         "a multiple of its 3 heads, not 12"},
        {TEXT(OPS("{\"type\":\"attention\",\"heads\":1}") "," SCORES), "/units/0/ops/0",
         "takes 3 x C channels"},
        {TEXT(OPS(EMBED ",{\"type\":\"flatten\"},{\"type\":\"layer_norm\"}") "," SCORES),
         "/units/0/ops/2", "flattened"},
        {TEXT(OPS(EMBED ",{\"type\":\"flatten\"},{\"type\":\"positions\"}") "," SCORES),
         "/units/0/ops/2", "flattened"},
        {TEXT(OPS(EMBED ",{\"type\":\"global_avg_pool\"}") "," SCORES), "/units/1",
         "one number per class at each of 9 positions, not 1 x 1 x 50"},
    };
    check_cases(cases, sizeof(cases) / sizeof(cases[0]), &fit);
    struct model_fit one = {{9, 1, 1}, DTYPE_U8, 50, 1};
    assert_fault(TEXT(OPS(EMBED) "," SCORES), &one, "/units/1",
                 "one number per class, not 9 x 1 x 50");
    struct model_fit longest = {{32768, 1, 1}, DTYPE_U8, 50, 32768};
    assert_fault(TEXT(OPS(EMBED) "," SCORES), &longest, "/units/0/ops/0",
                 "32768 positions; at most 32767");
    struct model_fit wide = {{9, 2, 1}, DTYPE_U8, 50, 1};
    assert_fault(TEXT(OPS(EMBED) "," SCORES), &wide, "/units/0/ops/0",
                 "takes a sequence of T x 1 x C, not 9 x 2 x 1");
}

static void a_select_beyond_its_input_is_a_fault(void **state)
{
    (void)state;
#define SELECT(first, channels)                                                                    \
    "{\"type\":\"select\",\"first\":" first ",\"channels\":" channels "}"
    static const struct fault_case cases[] = {
        {MODEL(OPS(CONV "," SELECT("2", "3")) "," HEAD), "/units/0/ops/1",
         "select: 3 channels from channel 2 exceed its input of 28 x 28 x 4"},
        {MODEL(OPS(CONV "," SELECT("4", "1")) "," HEAD), "/units/0/ops/1",
         "select: 1 channels from channel 4 exceed"},
        {MODEL(OPS(CONV "," SELECT("0", "0")) "," HEAD), "/units/0/ops/1/channels", "at least 1"},
        {MODEL(OPS(CONV "," SELECT("-1", "2")) "," HEAD), "/units/0/ops/1/first", "at least 0"},
        {MODEL(OPS(CONV ",{\"type\":\"select\",\"channels\":2}") "," HEAD), "/units/0/ops/1/first",
         "is required"},
        {MODEL(OPS(CONV ",{\"type\":\"flatten\"}," SELECT("0", "4")) "," HEAD), "/units/0/ops/2",
         "select: takes no flattened input"},
    };
    check_cases(cases, sizeof(cases) / sizeof(cases[0]), NULL);
}

static void faults_against_the_data_set_name_both_sides(void **state)
{
    (void)state;
    struct model_fit rgb = {{32, 32, 3}, DTYPE_U8, 10, 1};
    struct model_fit floats = {{28, 28, 1}, DTYPE_F32, 10, 1};
    struct model_fit many = {{28, 28, 1}, DTYPE_U8, 12, 1};
    assert_fault(MODEL(OPS(CONV) "," HEAD), &rgb, "/input/shape",
                 "is 28 x 28 x 1, but the data set's samples are 32");
    assert_fault(MODEL(OPS(CONV) "," HEAD), &floats, "/input/dtype",
                 "is uint8, but the data set's is float32");
    assert_fault(MODEL(OPS(CONV) "," HEAD), &many, "/units/1",
                 "10 outputs are too few for the data set's 12 classes");
}

static void all_faults_of_a_description_are_collected(void **state)
{
    (void)state;
    struct model *model = NULL;
    struct record_faults faults = {0};
    struct err err = {0};
    assert_int_equal(
        parse_model(
            "{\"name\":\"m\",\"units\":[" OPS("{\"type\":\"conv2d\"},{\"type\":\"rel\"}") "," OPS(
                "{\"type\":\"linear\",\"units\":0}") "]}",
            &mnist, &model, &faults, &err),
        ERR_INVALID);
    assert_int_equal(faults.count, 5);
    assert_string_equal(err.text, "/units/0/ops/0/filters: unit 'a': is required");
}

/* A description of the given number of residual units whose bodies repeat one op; the caller frees
 * it. */
static char *long_description(size_t units, size_t ops, const char *op)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fprintf(out, "{\"name\":\"m\"," INPUT "\"units\":[");
    for (size_t i = 0; i < units; i++) {
        (void)fprintf(out, "%s{\"name\":\"u%zu\",\"residual\":{\"body\":[", i ? "," : "", i);
        for (size_t k = 0; k < ops; k++) {
            (void)fprintf(out, "%s{\"type\":\"%s\"}", k ? "," : "", op);
        }
        (void)fprintf(out, "]}}");
    }
    (void)fprintf(out, "]}");
    (void)fclose(out);
    return text;
}

static void limits_on_units_ops_and_elements_hold(void **state)
{
    (void)state;
    char *units = long_description(MODEL_UNITS_MAX + 1, 1, "relu");
    assert_fault(units, NULL, "/units", "257 elements; at most 256");
    free(units);
    char *ops = long_description(1, MODEL_UNIT_OPS_MAX + 1, "relu");
    assert_fault(ops, NULL, "/units/0/residual/body", "at most 64");
    free(ops);
    char *joined = long_description(1, MODEL_UNIT_OPS_MAX, "relu");
    assert_fault(joined, NULL, "/units/0/residual", "more than 64 ops");
    free(joined);
    char *all = long_description(64, 63, "relu"); /* and 64 joins */
    struct err err = {0};
    struct model *model = NULL;
    struct record_faults faults = {0};
    assert_int_equal(parse_model(all, NULL, &model, &faults, &err),
                     ERR_INVALID); /* its end, alone */
    assert_int_equal(faults.count, 1);
    assert_holds(err.text, "must end with one number per class");
    free(all);
    all = long_description(65, 63, "relu");
    assert_fault(all, NULL, "/units/64/residual/body/0", "more than 4096 ops");
    free(all);
    char *tensors = long_description(33, 63, "batch_norm");
    assert_fault(tensors, NULL, "/units/32/residual/body/32", "more than 8192 tensors");
    free(tensors);
    assert_fault(
        "{\"name\":\"m\",\"input\":{\"shape\":[4096,4096,4],\"dtype\":\"uint8\"},\"units\":[" OPS(
            "{\"type\":\"relu\"},{\"type\":\"relu\"},{\"type\":\"relu\"},{\"type\":\"relu\"},{"
            "\"type\":\"relu\"}") "]}",
        NULL, "/units/0/ops/4", "activations of one sample have more than 268435456");
    assert_fault(MODEL(OPS("{\"type\":\"flatten\"}," WIDE "," WIDE "," WIDE "," WIDE "," WIDE
                           "," WIDE "," WIDE "," WIDE "," WIDE "," WIDE "," WIDE "," WIDE "," WIDE
                           "," WIDE "," WIDE "," WIDE "," WIDE "," WIDE)),
                 NULL, "/units/0/ops/18", "parameters have more than 1073741824");
}

static void a_wholly_frozen_model_is_rejected(void **state)
{
    (void)state;
    assert_fault("{\"name\":\"m\",\"input\":{\"shape\":[1,1,4],\"dtype\":\"float32\"},\"units\":["
                 "{\"name\":\"a\",\"frozen\":true,\"ops\":[{\"type\":\"linear\",\"units\":2}]},"
                 "{\"name\":\"b\",\"ops\":[{\"type\":\"relu\"}]}]}",
                 NULL, "/units", "nothing is left to train");
    assert_fault("{\"name\":\"m\",\"input\":{\"shape\":[1,1,4],\"dtype\":\"float32\"},\"units\":["
                 "{\"name\":\"a\",\"frozen\":1,\"ops\":[{\"type\":\"linear\",\"units\":2}]}]}",
                 NULL, "/units/0/frozen", "boolean");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_input_has_a_mean_and_a_std_for_each_channel),
        cmocka_unit_test(faults_of_form_name_the_field_and_the_unit),
        cmocka_unit_test(faults_of_shape_name_the_given_and_the_expected_shape),
        cmocka_unit_test(faults_of_sequences_name_the_given_and_the_expected_shape),
        cmocka_unit_test(a_select_beyond_its_input_is_a_fault),
        cmocka_unit_test(faults_against_the_data_set_name_both_sides),
        cmocka_unit_test(all_faults_of_a_description_are_collected),
        cmocka_unit_test(a_wholly_frozen_model_is_rejected),
        cmocka_unit_test(limits_on_units_ops_and_elements_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
