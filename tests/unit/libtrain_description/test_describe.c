#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

/* The description says the rest. */
static void assert_same_op(const struct op *a, const struct op *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->part, b->part);
    assert_int_equal(a->input_count, b->input_count);
    assert_memory_equal(a->input, b->input, a->input_count * sizeof(a->input[0]));
    assert_true(shape_equal(a->in, b->in));
    assert_true(shape_equal(a->out, b->out));
    assert_true(shape_equal(a->flat_from, b->flat_from));
    assert_int_equal(a->tensor_count, b->tensor_count);
}

/* describe(model) and describe(parse(describe(model))) are the same bytes. */
static void assert_round_trip(const struct model *model)
{
    BUF_AUTO struct buf first;
    BUF_AUTO struct buf second;
    struct err err = {0};
    buf_init(&first, MODEL_DESCRIPTION_BYTES_MAX);
    buf_init(&second, MODEL_DESCRIPTION_BYTES_MAX);
    json_t *described = description_write(model);
    assert_non_null(described);
    assert_ok(json_write(described, &first, &err), &err);
    json_decref(described);

    struct model *again = good_model(first.data, NULL);
    described = description_write(again);
    assert_non_null(described);
    assert_ok(json_write(described, &second, &err), &err);
    json_decref(described);
    assert_string_equal(first.data, second.data);

    assert_int_equal(again->unit_count, model->unit_count);
    for (size_t i = 0; i < model->unit_count; i++) {
        assert_int_equal(again->unit[i].op_count, model->unit[i].op_count);
        for (size_t k = 0; k < model->unit[i].op_count; k++) {
            assert_same_op(&again->unit[i].op[k], &model->unit[i].op[k]);
        }
    }
    model_free(&again);
}

static void frozen_units_are_described_and_others_are_not(void **state)
{
    (void)state;
    struct model *model = usual_model("lenet5");
    struct err err = {0};
    BUF_AUTO struct buf plain;
    BUF_AUTO struct buf frozen;
    buf_init(&plain, MODEL_DESCRIPTION_BYTES_MAX);
    buf_init(&frozen, MODEL_DESCRIPTION_BYTES_MAX);
    json_t *described = description_write(model);
    assert_ok(json_write(described, &plain, &err), &err);
    json_decref(described);
    assert_null(strstr(plain.data, "frozen"));
    assert_int_equal(model_first_trained(model), 0);
    model->unit[0].frozen = model->unit[2].frozen = true;
    assert_round_trip(model);
    described = description_write(model);
    assert_ok(json_write(described, &frozen, &err), &err);
    json_decref(described);
    struct model *again = good_model(frozen.data, NULL);
    for (size_t unit = 0; unit < 5; unit++) {
        assert_true(again->unit[unit].frozen == (unit == 0 || unit == 2));
        assert_true(model_trains(again, unit) == !again->unit[unit].frozen);
    }
    assert_int_equal(model_first_trained(again), 1);
    model_free(&again);
    model_free(&model);
}

static void a_zoo_model_survives_describe_and_parse(void **state)
{
    (void)state;
    for (size_t i = 0; zoo_name(i); i++) {
        struct model *model = usual_model(zoo_name(i));
        assert_round_trip(model);
        model_free(&model);
    }
}

static void an_example_survives_describe_and_parse(void **state)
{
    (void)state;
    static const char *const examples[] = {"tiny-residual", "tiny-branches"};
    for (size_t i = 0; i < 2; i++) {
        char path[64];
        BUF_AUTO struct buf text;
        struct err err = {0};
        (void)snprintf(path, sizeof(path), "examples/models/%s.json", examples[i]);
        buf_init(&text, MODEL_DESCRIPTION_BYTES_MAX);
        assert_ok(file_read(test_data_path(path).text, &text, &err), &err);
        struct model_fit fit = {{28, 28, 1}, DTYPE_U8, 10, 1};
        struct model *model = good_model(text.data, &fit);
        assert_string_equal(model->name, examples[i]);
        assert_round_trip(model);
        model_free(&model);
    }
}

static void windows_are_written_as_short_as_they_are_read(void **state)
{
    (void)state;
    struct model_fit fit = {{9, 9, 1}, DTYPE_U8, 3, 1};
    struct model *model = good_model(
        "{\"name\":\"m\",\"units\":[{\"name\":\"a\",\"ops\":[{\"type\":\"conv2d\",\"filters\":2,"
        "\"kernel\":[3,2],"
        "\"stride\":[2,2],\"padding\":[1,0]},{\"type\":\"max_pool\",\"kernel\":[3,3],\"stride\":[1,"
        "2],"
        "\"ceil_mode\":true},{\"type\":\"global_avg_pool\"},{\"type\":\"linear\",\"units\":3}]}]}",
        &fit);
    BUF_AUTO struct buf text;
    struct err err = {0};
    buf_init(&text, MODEL_DESCRIPTION_BYTES_MAX);
    json_t *described = description_write(model);
    assert_ok(json_write(described, &text, &err), &err);
    json_decref(described);
    assert_non_null(
        strstr(text.data, "\"kernel\":[3,2],\"stride\":2,\"padding\":[1,0],\"groups\":1"));
    assert_non_null(
        strstr(text.data, "\"kernel\":3,\"stride\":[1,2],\"padding\":0,\"ceil_mode\":true}"));
    assert_round_trip(model);
    model_free(&model);
}

static void label_smoothing_is_written_unless_it_is_zero(void **state)
{
    (void)state;
    static const char text[] = "{\"name\":\"m\",\"input\":{\"shape\":[1,1,4],\"dtype\":\"float32\"}"
                               ",\"units\":[{\"name\":\"a\",\"ops\":["
                               "{\"type\":\"relu\"}]}],\"loss\":{\"type\":\"softmax_cross_"
                               "entropy\",\"label_smoothing\":%s}}";
    static const struct {
        const char *stated;
        const char *written; /* NULL: not */
        double value;
    } cases[] = {{"0", NULL, 0.0}, {"0.25", "\"label_smoothing\":0.25", 0.25}};
    for (size_t i = 0; i < 2; i++) {
        char description[sizeof(text) + 8];
        BUF_AUTO struct buf written;
        struct err err = {0};
        (void)snprintf(description, sizeof(description), text, cases[i].stated);
        buf_init(&written, MODEL_DESCRIPTION_BYTES_MAX);
        struct model *model = good_model(description, NULL);
        assert_true(fabs(model->label_smoothing - cases[i].value) <= 0.0);
        json_t *described = description_write(model);
        assert_ok(json_write(described, &written, &err), &err);
        json_decref(described);
        assert_non_null(strstr(written.data, cases[i].written ? cases[i].written
                                                              : "\"softmax_cross_entropy\"}}"));
        assert_round_trip(model);
        model_free(&model);
    }
}

static void defaults_are_written_out(void **state)
{
    (void)state;
    struct model_fit fit = {{4, 4, 1}, DTYPE_U8, 3, 1};
    struct model *model = good_model(
        "{\"name\":\"m\",\"units\":[{\"name\":\"a\",\"ops\":[{\"type\":\"max_pool\",\"kernel\":4},"
        "{\"type\":\"linear\",\"units\":\"classes\"}]}]}",
        &fit);
    BUF_AUTO struct buf text;
    struct err err = {0};
    buf_init(&text, MODEL_DESCRIPTION_BYTES_MAX);
    json_t *described = description_write(model);
    assert_ok(json_write(described, &text, &err), &err);
    json_decref(described);
    assert_string_equal(text.data, "{\"name\":\"m\",\"input\":{\"shape\":[4,4,1],\"dtype\":"
                                   "\"uint8\",\"scale\":0.00392156862745098},"
                                   "\"units\":[{\"name\":\"a\",\"ops\":[{\"type\":\"max_pool\","
                                   "\"kernel\":4,\"stride\":4,\"padding\":0},"
                                   "{\"type\":\"linear\",\"units\":3,\"bias\":true}]}],\"loss\":{"
                                   "\"type\":\"softmax_cross_entropy\"}}");
    model_free(&model);
}

static void a_normalised_input_is_written_and_read(void **state)
{
    (void)state;
    struct model_fit fit = {{4, 4, 2}, DTYPE_U8, 3, 1};
    static const char text[] =
        "{\"name\":\"m\",\"input\":{\"shape\":[4,4,2],\"dtype\":\"uint8\",\"scale\":0.5,\"mean\":["
        "0.25,-1.5],"
        "\"std\":[0.5,2.0]},\"units\":[{\"name\":\"a\",\"ops\":[{\"type\":\"flatten\"},{\"type\":"
        "\"linear\","
        "\"units\":3,\"bias\":true}]}],\"loss\":{\"type\":\"softmax_cross_entropy\"}}";
    static const struct normalise normalise = {
        .mean = {0.25, -1.5}, .std = {0.5, 2.0}, .mean_count = 2, .std_count = 2};
    static const struct normalise other = {
        .mean = {0.25, -1.0}, .std = {0.5, 2.0}, .mean_count = 2, .std_count = 2};
    static const struct normalise none;
    struct err err = {0};
    struct model *plain =
        good_model("{\"name\":\"m\",\"input\":{\"scale\":0.5},\"units\":[{\"name\":\"a\",\"ops\":["
                   "{\"type\":\"flatten\"},{\"type\":\"linear\",\"units\":3}]}]}",
                   &fit);
    assert_ok(model_normalise(plain, &none, NULL, &err), &err);
    assert_int_equal(plain->input_normalise.mean_count, 0);
    assert_ok(model_normalise(plain, &normalise, NULL, &err), &err);
    struct model *stated = good_model(text, &fit);
    assert_ok(model_normalise(stated, &normalise, NULL, &err), &err);
    struct model *const models[] = {plain, stated};
    for (size_t i = 0; i < 2; i++) {
        struct model *model = models[i];
        BUF_AUTO struct buf written;
        buf_init(&written, MODEL_DESCRIPTION_BYTES_MAX);
        json_t *described = description_write(model);
        assert_ok(json_write(described, &written, &err), &err);
        json_decref(described);
        assert_string_equal(written.data, text);
        model_free(&model);
    }
    struct record_faults faults = {0};
    stated = good_model(text, &fit);
    assert_int_equal(model_normalise(stated, &other, &faults, &err), ERR_INVALID);
    assert_int_equal(faults.count, 1);
    assert_string_equal(faults.fault[0].pointer, "/input/mean");
    assert_holds(err.text, "the job's mean and std differ");
    model_free(&stated);
}

static void tokens_are_not_normalised(void **state)
{
    (void)state;
    static const struct normalise normalise = {
        .mean = {0.5}, .std = {0.5}, .mean_count = 1, .std_count = 1};
    struct model *model = zoo_model("gpt-mini", 16, 1, 1);
    struct err err = {0};
    assert_int_equal(model_normalise(model, &normalise, NULL, &err), ERR_INVALID);
    assert_holds(err.text, "tokens");
    model_free(&model);
}

#define SOUND "sound=8000,clip_ms=1000,window_ms=40,hop_ms=20,mels=2,floor_db=60"
#define OTHER_SOUND "sound=8000,clip_ms=1000,window_ms=40,hop_ms=20,mels=2,floor_db=50"
#define SAMPLES(input, names)                                                                      \
    "{\"name\":\"m\",\"input\":{\"shape\":[1,1,2],\"dtype\":\"float32\"" input                     \
    "},\"units\":[{\"name\":\"a\",\"ops\":["                                                       \
    "{\"type\":\"linear\",\"units\":3}]}]" names "}"

static char cat[] = "cat", dog[] = "dog";
static const struct name_list two_names = {.item = (char *[]){cat, dog}, .count = 2};
static const struct name_list no_names;

static void metadata_of_a_data_sets_samples_is_written_and_read(void **state)
{
    (void)state;
    const struct model_samples samples = {.class_names = &two_names, .reading = SOUND};
    const struct model_samples nothing = {.class_names = &no_names, .reading = ""};
    struct err err = {0};
    struct model *model = good_model(SAMPLES("", ""), NULL);
    json_auto_t *before = description_write(model);
    assert_ok(model_take_samples(model, &nothing, NULL, &err), &err);
    json_auto_t *same = description_write(model);
    assert_true(json_equal(before, same));
    assert_ok(model_take_samples(model, &samples, NULL, &err), &err);
    assert_ok(model_take_samples(model, &samples, NULL, &err), &err);
    assert_ok(model_take_samples(model, &nothing, NULL, &err), &err);
    assert_round_trip(model);
    json_auto_t *after = description_write(model);
    assert_string_equal(json_string_value(json_array_get(json_object_get(after, "class_names"), 1)),
                        "dog");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(after, "input"), "reading")), SOUND);
    model_free(&model);
}

static void a_data_set_of_other_classes_or_sounds_is_a_fault(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pointer, *part;
    } wrong[] = {
        {SAMPLES("", ",\"class_names\":[\"dog\",\"cat\"]"), "/class_names",
         "(class 0 is 'cat', not 'dog')"},
        {SAMPLES("", ",\"class_names\":[\"bird\",\"cat\",\"dog\"]"), "/class_names",
         "(missing: 'bird')"},
        {SAMPLES(",\"reading\":\"" OTHER_SOUND "\"", ""), "/input/reading",
         "is not the data set's, '" SOUND "'"},
    };
    const struct model_samples samples = {.class_names = &two_names, .reading = SOUND};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct model *model = good_model(wrong[i].text, NULL);
        struct record_faults faults = {0};
        struct err err = {0};
        assert_int_equal(model_take_samples(model, &samples, &faults, &err), ERR_INVALID);
        assert_int_equal(faults.count, 1);
        assert_string_equal(faults.fault[0].pointer, wrong[i].pointer);
        assert_holds(faults.fault[0].message, wrong[i].part);
        model_free(&model);
    }
    struct model *model =
        good_model(SAMPLES("", ",\"class_names\":[\"cat\",\"dog\",\"elk\"]"), NULL);
    struct err err = {0};
    assert_ok(model_take_samples(model, &samples, NULL, &err), &err);
    assert_int_equal(model->class_names.count, 3);
    model_free(&model);
}

static void wrong_names_and_readings_in_a_description_are_faults(void **state)
{
    (void)state;
    assert_fault(SAMPLES("", ",\"class_names\":7"), NULL, "/class_names", "expected a list");
    assert_fault(SAMPLES("", ",\"class_names\":null"), NULL, "/class_names", "expected a list");
    assert_fault(SAMPLES("", ",\"class_names\":[\"a\",\"a\"]"), NULL, "/class_names",
                 "'a' occurs twice");
    assert_fault(SAMPLES("", ",\"class_names\":[\"a\",\"b\",\"c\",\"d\"]"), NULL, "/class_names",
                 "4 names for the 3 outputs of unit 'a'");
    assert_fault(SAMPLES(",\"reading\":\"sound=8000\"", ""), NULL, "/input/reading",
                 "'sound=8000,clip_ms=1000,");
    assert_fault(SAMPLES(",\"reading\":\"size=8x8\"", ""), NULL, "/input/reading",
                 "expected how sounds become");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_units_are_described_and_others_are_not),
        cmocka_unit_test(a_zoo_model_survives_describe_and_parse),
        cmocka_unit_test(an_example_survives_describe_and_parse),
        cmocka_unit_test(windows_are_written_as_short_as_they_are_read),
        cmocka_unit_test(label_smoothing_is_written_unless_it_is_zero),
        cmocka_unit_test(defaults_are_written_out),
        cmocka_unit_test(a_normalised_input_is_written_and_read),
        cmocka_unit_test(tokens_are_not_normalised),
        cmocka_unit_test(metadata_of_a_data_sets_samples_is_written_and_read),
        cmocka_unit_test(a_data_set_of_other_classes_or_sounds_is_a_fault),
        cmocka_unit_test(wrong_names_and_readings_in_a_description_are_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
