#include <string.h>

#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

#define MODEL(units) "{\"name\":\"m\",\"units\":[" units "]}"
#define OPS(ops) "{\"name\":\"a\",\"ops\":[" ops "]}"
#define CONV "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":3,\"padding\":1}"
#define FLATTEN "{\"type\":\"flatten\"}"
#define LINEAR(units) "{\"type\":\"linear\",\"units\":" units "}"
#define TEXT(units) "{\"name\":\"m\",\"input\":{\"scale\":1},\"units\":[" units "]}"
#define EMBED "{\"type\":\"embedding\",\"rows\":256,\"units\":12}"

static int parse_usual(const char *text, struct model **out, bool *assumed,
                       struct record_faults *faults)
{
    struct err err = {0};
    json_t *value = read_json(text);
    int rc = description_parse_usual(value, out, assumed, faults, &err);
    assert_true(!rc || rc == err.code);
    json_decref(value);
    return rc;
}

static void a_description_that_fits_a_usual_input_is_a_model(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct shape input;
        uint32_t classes, positions;
        bool assumed;
    } cases[] = {
        {MODEL(OPS(FLATTEN "," LINEAR("2"))), {28, 28, 1}, 2, 1, true},
        {MODEL(OPS(FLATTEN "," LINEAR("\"classes\""))), {28, 28, 1}, 10, 1, true},
        {MODEL(OPS(CONV "," FLATTEN "," LINEAR("3000"))), {28, 28, 1}, 3000, 1, true},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":32}," FLATTEN "," LINEAR("2"))),
         {32, 32, 3},
         2,
         1,
         true},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":64}," FLATTEN "," LINEAR("2"))),
         {224, 224, 3},
         2,
         1,
         true},
        {MODEL(OPS(LINEAR("8") "," LINEAR("2"))), {1, 1, 64}, 2, 1, true},
        {TEXT(OPS(EMBED "," LINEAR("5"))), {64, 1, 1}, 5, 64, true},
        {TEXT(OPS(EMBED "," LINEAR("\"classes\""))), {64, 1, 1}, 256, 64, true},
        {TEXT(OPS(EMBED ",{\"type\":\"global_avg_pool\"}," LINEAR("2"))), {64, 1, 1}, 2, 1, true},
        {TEXT(OPS(EMBED ",{\"type\":\"global_avg_pool\"}," LINEAR("\"classes\""))),
         {64, 1, 1},
         256,
         1,
         true},
        /* Stated values are kept. */
        {"{\"name\":\"m\",\"input\":{\"shape\":[9,9,2]},\"units\":[" OPS(FLATTEN
                                                                         "," LINEAR("2")) "]}",
         {9, 9, 2},
         2,
         1,
         true},
        {"{\"name\":\"m\",\"input\":{\"dtype\":\"float32\"},\"units\":[" OPS(FLATTEN
                                                                             "," LINEAR("2")) "]}",
         {28, 28, 1},
         2,
         1,
         true},
        {"{\"name\":\"m\",\"input\":{\"mean\":[0,0,0],\"std\":[1,1,1]},\"units\":[" OPS(
             FLATTEN "," LINEAR("2")) "]}",
         {28, 28, 3},
         2,
         1,
         true},
        {"{\"name\":\"m\",\"input\":{\"shape\":[9,1,2]},\"units\":[" OPS(LINEAR("2")) "]}",
         {9, 1, 2},
         2,
         9,
         true},
        {"{\"name\":\"m\",\"input\":{\"shape\":[9,9,2],\"dtype\":\"uint8\"},\"units\":[" OPS(
             FLATTEN "," LINEAR("2")) "]}",
         {9, 9, 2},
         2,
         1,
         false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model *model = NULL;
        struct record_faults faults = {0};
        bool assumed = false;
        assert_int_equal(parse_usual(cases[i].text, &model, &assumed, &faults), 0);
        assert_int_equal(assumed, cases[i].assumed);
        assert_true(shape_equal(model->input, cases[i].input));
        assert_int_equal(model->classes, cases[i].classes);
        assert_int_equal(model->positions, cases[i].positions);
        model_free(&model);
    }
}

static void a_fault_comes_from_the_kind_and_names_the_assumption(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pointer, *message;
    } cases[] = {
        {MODEL(OPS(CONV "," LINEAR("10"))), "/units/0/ops/1",
         "unit 'a': linear: takes a vector or a sequence, not 28 x 28 x 4; put a flatten or "
         "global_avg_pool before it; "
         "assumed 28 x 28 x 1 of uint8: state input.shape and input.dtype"},
        {MODEL(OPS(CONV)), "/units/0",
         "unit 'a': the last unit must end with one number per class, not 28 x 28 x 4; "
         "assumed 28 x 28 x 1 of uint8: state input.shape and input.dtype"},
        /* The attempt that went furthest. */
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":32}," LINEAR(
             "2") ",{\"type\":\"attention\",\"heads\":1}")),
         "/units/0/ops/2", "not 2; assumed 32 x 32 x 3 of uint8"},
        {MODEL(OPS("{\"type\":\"max_pool\",\"kernel\":60}," LINEAR("2"))), "/units/0/ops/1",
         "224 x 224 x 3 of uint8"},
        {TEXT(OPS(EMBED "," EMBED)), "/units/0/ops/1",
         "unit 'a': embedding: takes the model's input of T x 1 x 1 token numbers and nothing "
         "else; "
         "assumed 64 x 1 x 1 of uint8: state input.shape and input.dtype"},
        /* Unrelated faults do not mention the assumption. */
        {MODEL(OPS(FLATTEN ",{\"type\":\"linaer\",\"units\":2}")), "/units/0/ops/1/type", "linear"},
        {"{\"name\":\"m\",\"input\":{\"shape\":[9,9,2]},\"units\":[" OPS(LINEAR("2")) "]}",
         "/units/0/ops/0", "not 9 x 9 x 2; put a flatten or global_avg_pool before it"},
        {"{\"name\":\"m\",\"input\":{\"shape\":[9,9]},\"units\":[" OPS(LINEAR("2")) "]}",
         "/input/shape", "at least 3"},
        {"{\"name\":\"m\",\"input\":{\"dtype\":\"float16\"},\"units\":[" OPS(LINEAR("2")) "]}",
         "/input/dtype", "float16"},
        {"[]", "", "expected an object"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model *model = NULL;
        struct record_faults faults = {0};
        bool assumed;
        assert_int_equal(parse_usual(cases[i].text, &model, &assumed, &faults), ERR_INVALID);
        assert_null(model);
        assert_string_equal(faults.fault[0].pointer, cases[i].pointer);
        assert_non_null(strstr(faults.fault[0].message, cases[i].message));
    }
}

static void every_model_of_the_zoo_has_a_usual_input(void **state)
{
    (void)state;
    for (size_t i = 0; zoo_name(i); i++) {
        struct model *model = NULL;
        struct record_faults faults = {0};
        bool assumed;
        assert_int_equal(parse_usual(zoo_text(zoo_name(i)), &model, &assumed, &faults), 0);
        assert_true(assumed);
        model_free(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_that_fits_a_usual_input_is_a_model),
        cmocka_unit_test(a_fault_comes_from_the_kind_and_names_the_assumption),
        cmocka_unit_test(every_model_of_the_zoo_has_a_usual_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
