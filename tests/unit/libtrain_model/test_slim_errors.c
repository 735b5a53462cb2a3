#include <math.h>

#include "libtrain/model/slim.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"
#include "tests/unit/libtrain_model/slim_texts.h"

static const struct slim_group halves[] = {{4, 0.5}, {4, 0.5}};

static void assert_rejected(const char *text, size_t stem, const struct slim_group *group,
                            size_t group_count, const char *expected)
{
    struct model *target = good_model(text, NULL);
    struct model *model = NULL;
    struct slim_cost cost;
    const struct slim_split split = {target, stem, group, group_count};
    struct err err = {0};
    assert_int_equal(slim_check(&split, &err), ERR_INVALID);
    assert_string_equal(err.text, expected);
    assert_int_equal(slim_derive(&split, 0, &model, &err), ERR_INVALID);
    assert_null(model);
    assert_int_equal(slim_cost(&split, 0, &cost, &err), ERR_INVALID);
    assert_string_equal(err.text, expected);
    model_free(&target);
}

static void unsupported_units_are_named(void **state)
{
    (void)state;
    assert_rejected(SLICED(OPS("{\"type\":\"layer_norm\"}")), 1, halves, 2,
                    "unit 'a': layer_norm: cannot be sliced; put it into the stem");
    assert_rejected(SLICED(OPS("{\"type\":\"select\",\"first\":4,\"channels\":8}")), 1, halves, 2,
                    "unit 'a': select: cannot be sliced; put it into the stem");
    assert_rejected(
        "{\"name\":\"m\",\"input\":{\"shape\":[4,1,3],\"dtype\":\"uint8\"},\"units\":["
        "{\"name\":\"stem\",\"ops\":[{\"type\":\"conv2d\",\"filters\":24,\"kernel\":1}]}," OPS(
            "{\"type\":\"attention\",\"heads\":2}") HEAD "]}",
        1, halves, 2, "unit 'a': attention: cannot be sliced; put it into the stem");
    assert_rejected(
        SLICED(OPS("{\"type\":\"conv2d\",\"filters\":16,\"kernel\":1,\"groups\":4}")), 1, halves, 2,
        "unit 'a': conv2d: 4 groups for 16 channels; only 1 and one for each channel can be "
        "sliced");
    assert_rejected(SLICED("{\"name\":\"a\",\"branches\":[[" CONV "],[" CONV "]]},"
                           "{\"name\":\"b\",\"residual\":{\"body\":["
                           "{\"type\":\"conv2d\",\"filters\":32,\"kernel\":1}]}}"),
                    1, halves, 2,
                    "unit 'b': add: body and shortcut divide their channels differently (one of "
                    "them comes from branches)");
    assert_rejected(
        "{\"name\":\"m\",\"input\":{\"shape\":[4,4,3],\"dtype\":\"uint8\"},\"units\":[" STEM
        "{\"name\":\"a\",\"frozen\":true,\"ops\":[" CONV "]}" HEAD "]}",
        1, halves, 2, "unit 'a': is frozen; only units of the stem may be");
    assert_rejected(
        "{\"name\":\"m\",\"input\":{\"shape\":[4,4,3],\"dtype\":\"uint8\"},\"units\":[" STEM OPS(
            "{\"type\":\"conv2d\",\"filters\":16,\"kernel\":4}") ",{\"name\":\"head\",\"ops\":[{"
                                                                 "\"type\":\"linear\",\"units\":8,"
                                                                 "\"bias\":false}]"
                                                                 "}]}",
        1, halves, 2,
        "unit 'head': the last op must be a linear with a bias, not a linear without "
        "one");
    assert_rejected(
        "{\"name\":\"m\",\"input\":{\"shape\":[4,4,3],\"dtype\":\"uint8\"},\"units\":[" STEM OPS(
            CONV) ",{\"name\":\"head\",\"ops\":[{\"type\":\"global_avg_pool\"}]}"
                  "]}",
        1, halves, 2,
        "unit 'head': the last op must be a linear with a bias, not a "
        "global_avg_pool");
}

static void text_models_cannot_be_sliced(void **state)
{
    (void)state;
    struct model *target = usual_model("gpt-mini");
    const struct slim_group groups[] = {{128, 0.5}, {128, 0.5}};
    struct err err = {0};
    assert_int_equal(slim_check(&(struct slim_split){target, 1, groups, 2}, &err), ERR_INVALID);
    assert_string_equal(err.text,
                        "unit 'attend1': layer_norm: cannot be sliced; put it into the stem");
    uint32_t least;
    assert_int_equal(slim_least_channels(target, target->unit_count - 2, &least, &err),
                     ERR_INVALID);
    assert_holds(err.text, "unit '");
    model_free(&target);
}

static void too_few_channels_name_unit_and_group(void **state)
{
    (void)state;
    const struct slim_group thin[] = {{2, 0.2}, {6, 0.8}};
    assert_rejected(SLICED(OPS(CONV)), 1, thin, 2,
                    "unit 'a': conv2d: 16 channels are too few for 2 groups: group 0 would have 3, "
                    "at least 4 are needed");
    struct model *target = usual_model("resnet8");
    uint32_t least = 0;
    struct err err = {0};
    assert_ok(slim_least_channels(target, 1, &least, &err), &err);
    assert_int_equal(least, 16); /* so 4 groups, not 5 */
    assert_ok(slim_least_channels(target, 2, &least, &err), &err);
    assert_int_equal(least, 32);
    struct slim_group fifths[] = {{2, 0.2}, {2, 0.2}, {2, 0.2}, {2, 0.2}, {2, 0.2}};
    assert_int_equal(slim_check(&(struct slim_split){target, 1, fifths, 5}, &err), ERR_INVALID);
    assert_holds(err.text, "unit 'block1': conv2d: 16 channels are too few for 5 groups");
    const struct slim_group narrow_last[] = {{5, 0.9}, {5, 0.1}};
    size_t group;
    struct slim_split split = {target, 1, narrow_last, 2};
    assert_int_equal(slim_check_group(&split, &group, &err), ERR_INVALID);
    assert_int_equal(group, 1);
    split.stem = target->unit_count; /* no group is to blame */
    assert_int_equal(slim_check_group(&split, &group, &err), ERR_INVALID);
    assert_int_equal(group, 2);
    model_free(&target);
}

static void wrong_divisions_are_rejected(void **state)
{
    (void)state;
    const char *const text = SLICED(OPS(CONV));
    const struct slim_group short_sum[] = {{4, 0.5}, {4, 0.4}};
    const struct slim_group no_class[] = {{4, 0.5}, {0, 0.5}};
    const struct slim_group many[] = {{9, 0.5}, {4, 0.5}};
    const struct slim_group nothing[] = {{4, 1.0}, {4, 0.0}};
    const struct slim_group unknown[] = {{4, (double)NAN}, {4, 0.5}};
    assert_rejected(text, 0, halves, 2,
                    "a stem of 0 units: from 1 to all but two of the model's 3 units");
    assert_rejected(text, 2, halves, 2,
                    "a stem of 2 units: from 1 to all but two of the model's 3 units");
    assert_rejected(text, 3, halves, 2,
                    "a stem of 3 units: from 1 to all but two of the model's 3 units");
    assert_rejected(text, 1, short_sum, 2, "the widths of the 2 groups add up to 0.9, not to 1");
    assert_rejected(text, 1, no_class, 2, "group 1: 0 classes; from 1 to the model's 8");
    assert_rejected(text, 1, many, 2, "group 0: 9 classes; from 1 to the model's 8");
    assert_rejected(text, 1, nothing, 2, "group 1: a width of 0; above 0 to 1");
    assert_rejected(text, 1, unknown, 2, "group 0: a width of nan; above 0 to 1");
    assert_rejected(SLICED(OPS("{\"type\":\"relu\"}")), 1, halves, 2,
                    "the units after the stem have no channels to divide");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsupported_units_are_named),
        cmocka_unit_test(text_models_cannot_be_sliced),
        cmocka_unit_test(too_few_channels_name_unit_and_group),
        cmocka_unit_test(wrong_divisions_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
