#include "libtrain/state/harvest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/formats/class_names.h"
#include "libtrain/state/state.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"
#include "tests/unit/libtrain_state/slice_support.h"

/* ---- the head ---- */

/* A head over 16 channels, on a stem of 4 x 4 x 16. */
#define SMALL                                                                                      \
    "{\"name\":\"small\",\"input\":{\"shape\":[4,4,3],\"dtype\":\"uint8\"},\"units\":["            \
    "{\"name\":\"stem\",\"ops\":[{\"type\":\"conv2d\",\"filters\":16,\"kernel\":1}]},"             \
    "{\"name\":\"a\",\"ops\":[{\"type\":\"conv2d\",\"filters\":16,\"kernel\":1},"                  \
    "{\"type\":\"batch_norm\"}]},"                                                                 \
    "{\"name\":\"head\",\"ops\":[{\"type\":\"global_avg_pool\"},"                                  \
    "{\"type\":\"linear\",\"units\":5}]}]}"

static void small_slices(struct slices *slices, size_t groups)
{
    struct err err = {0};
    assert_ok(slices_divide(slices, good_model(SMALL, NULL), 1, groups, false, &err), &err);
}

/* Row and bias of a class that group `group` gives, its columns those of the group. */
static float class_weight(const struct slices *slices, size_t group, size_t output, size_t column)
{
    size_t count;
    const float *weight = slice_tensor(&slices->file[group], "head.1.weight", &count);
    const size_t width = count / (slices->group[group].classes + 1);
    return weight[output * width + column] - weight[slices->group[group].classes * width + column];
}

static float class_bias(const struct slices *slices, size_t group, size_t output)
{
    size_t count;
    const float *bias = slice_tensor(&slices->file[group], "head.1.bias", &count);
    return bias[output] - bias[slices->group[group].classes];
}

static void a_row_is_the_class_minus_other_with_the_prior_in_its_bias(void **state)
{
    (void)state;
    struct slices slices;
    struct slice_file file = {0};
    struct err err = {0};
    size_t count;
    small_slices(&slices, 2);
    slices_fill(&slices, 3);
    slices.from[0].prior = 1.5;
    slices.from[1].prior = -0.75;
    assert_ok(slices_harvest(&slices, &file.bytes, &err), &err);
    const float *weight = slice_tensor(&file, "head.1.weight", &count);
    const float *bias = slice_tensor(&file, "head.1.bias", &count);
    for (size_t c = 0; c < 5; c++) { /* classes 0, 2, 4 and 1, 3 */
        const size_t group = c % 2;
        for (size_t x = 0; x < 16; x++) {
            const float own = x / 8 == group ? class_weight(&slices, group, c / 2, x % 8) : 0.0f;
            assert_true(weight[c * 16 + x] == own);
        }
        assert_true(fabsf(bias[c] - class_bias(&slices, group, c / 2) -
                          (float)slices.from[group].prior) < 1e-6f);
    }
    buf_done(&file.bytes);
    slices_done(&slices);
}

/* Groups 0, 1 and 2, 3 are two replicas; in the second one other classes share a group. */
static void replicas_are_averaged_over_those_that_are_present(void **state)
{
    (void)state;
    static const uint32_t second[2][3] = {{0, 1, 4}, {2, 3}};
    for (int present = 0; present < 2; present++) {
        struct slices slices;
        struct slice_file file = {0};
        struct err err = {0};
        size_t count;
        small_slices(&slices, 4);
        for (size_t i = 0; i < 4; i++) {
            slices.group[i].classes = i % 2 ? 2 : 3;
            for (uint32_t c = 0; c < slices.group[i].classes; c++) {
                slices.classes[i][c] = i < 2 ? (uint32_t)i + 2 * c : second[i - 2][c];
            }
        }
        slices_fill(&slices, 4);
        slices.from[0].file = present ? slices.from[0].file : NULL;
        assert_ok(slices_harvest(&slices, &file.bytes, &err), &err);
        const float *weight = slice_tensor(&file, "head.1.weight", &count);
        const float *bias = slice_tensor(&file, "head.1.bias", &count);
        const float share = present ? 0.5f : 1.0f;
        /* class 2: output 1 of group 0 and output 0 of group 3 */
        for (size_t x = 0; x < 4; x++) {
            assert_true(weight[2 * 16 + x] ==
                        (present ? 0.5f * class_weight(&slices, 0, 1, x) : 0.0f));
            assert_true(weight[2 * 16 + 4 + x] == 0.0f);
            assert_true(weight[2 * 16 + 12 + x] == share * class_weight(&slices, 3, 0, x));
        }
        const double expected = present ? (class_bias(&slices, 0, 1) + slices.from[0].prior +
                                           class_bias(&slices, 3, 0) + slices.from[3].prior) /
                                              2
                                        : class_bias(&slices, 3, 0) + slices.from[3].prior;
        assert_true(fabs(bias[2] - expected) < 1e-6);
        buf_done(&file.bytes);
        slices_done(&slices);
    }
}

static void a_missing_group_leaves_zeros_and_rows_that_are_never_predicted(void **state)
{
    (void)state;
    struct slices slices;
    struct slice_file file = {0};
    struct err err = {0};
    size_t count;
    small_slices(&slices, 2);
    slices_fill(&slices, 5);
    slices.from[1].file = NULL;
    assert_ok(slices_harvest(&slices, &file.bytes, &err), &err);
    const float *weight = slice_tensor(&file, "head.1.weight", &count);
    const float *bias = slice_tensor(&file, "head.1.bias", &count);
    for (size_t c = 1; c < 5; c += 2) {
        assert_true(bias[c] == HARVEST_NEVER);
        for (size_t x = 0; x < 16; x++) {
            assert_true(weight[c * 16 + x] == 0.0f);
        }
    }
    const float *variance = slice_tensor(&file, "a.1.running_var", &count);
    const float *scale = slice_tensor(&file, "a.1.weight", &count);
    const float *filters = slice_tensor(&file, "a.0.weight", &count);
    for (size_t x = 8; x < 16; x++) {
        assert_true(variance[x] == 1.0f && scale[x] == 0.0f && filters[x * 16] == 0.0f);
    }
    assert_true(variance[0] != 1.0f && scale[0] != 0.0f && filters[0] != 0.0f);
    buf_done(&file.bytes);
    /* For more training the bias may be 0. */
    slices.harvest.missing = 0;
    assert_ok(slices_harvest(&slices, &file.bytes, &err), &err);
    assert_true(slice_tensor(&file, "head.1.bias", &count)[1] == 0.0f);
    buf_done(&file.bytes);
    slices_done(&slices);
}

static void classes_are_dropped_from_a_trained_file(void **state)
{
    (void)state;
    static const bool missing[5] = {false, true, false, false, true};
    const struct evaluation evaluation = {.micro_batch = EVALUATION_MICRO_BATCH};
    struct slices slices;
    struct slice_file file = {0};
    struct err err = {0};
    size_t count;
    small_slices(&slices, 2);
    slices_fill(&slices, 6);
    buf_init(&file.bytes, slices.stem.bytes.limit);
    assert_ok(harvest_drop_classes(slices.target, missing, slices.stem.opened, &evaluation,
                                   slice_write, &file.bytes, &err),
              &err);
    assert_int_equal(file.bytes.size, slices.stem.bytes.size);
    const float *bias = slice_tensor(&file, "head.1.bias", &count);
    const float *weight = slice_tensor(&file, "head.1.weight", &count);
    const float *from = slice_tensor(&slices.stem, "head.1.weight", &count);
    const float *from_bias = slice_tensor(&slices.stem, "head.1.bias", &count);
    /* Everything before the head is the same. */
    assert_memory_equal(file.bytes.data, slices.stem.bytes.data,
                        (const char *)weight - file.bytes.data);
    for (size_t c = 0; c < 5; c++) {
        assert_true(bias[c] == (missing[c] ? HARVEST_NEVER : from_bias[c]));
        for (size_t x = 0; x < 16; x++) {
            assert_true(weight[c * 16 + x] == (missing[c] ? 0.0f : from[c * 16 + x]));
        }
    }
    buf_done(&file.bytes);
    slices_done(&slices);
}

static void the_prior_is_the_log_of_drawn_over_existing_others(void **state)
{
    (void)state;
    assert_true(fabs(harvest_prior(1.0, 200, 800) - log(0.25)) < 1e-15);
    assert_true(fabs(harvest_prior(4.0, 200, 800)) < 1e-15);
    assert_true(harvest_prior(0.0, 200, 800) == 0.0);
    assert_true(harvest_prior(1.0, 0, 800) == 0.0);
    assert_true(harvest_prior(1.0, 200, 0) == 0.0);
}

/* ---- mismatches ---- */

static void assert_refused(const struct slices *slices, const char *text)
{
    struct err err = {0};
    BUF_AUTO struct buf out;
    assert_int_equal(slices_harvest(slices, &out, &err), ERR_INVALID);
    assert_string_equal(err.text, text);
}

static void files_of_other_shapes_are_named(void **state)
{
    (void)state;
    struct slices slices, other;
    struct err err = {0};
    small_slices(&slices, 2);
    small_slices(&other, 4);
    slices_fill(&slices, 7);
    slices_fill(&other, 7);
    slices.from[1].file = other.file[1].opened;
    assert_refused(&slices, "group 1: unit 'a': the file is of another slice or model");
    assert_int_equal(harvest_check(&slices.harvest, &err), ERR_INVALID);
    slices.from[1].file = slices.file[1].opened;
    assert_ok(harvest_check(&slices.harvest, &err), &err);
    slices.harvest.stem = other.file[0].opened;
    assert_ok(harvest_check(&slices.harvest, &err), &err); /* the same stem */
    slices_done(&other);
    assert_ok(slices_divide(&other, usual_model("resnet8"), 1, 2, false, &err), &err);
    slices_fill(&other, 7);
    slices.harvest.stem = other.stem.opened;
    assert_refused(&slices,
                   "stem: unit 'stem': the model has no tensor 'stem.1.weight' of the checkpoint");
    slices_done(&other);
    slices_done(&slices);
}

/* A file without a description is compared by its tensors. */
static void a_tensor_of_another_shape_is_named(void **state)
{
    (void)state;
    struct slices slices;
    struct slice_file plain = {0};
    struct err err = {0};
    small_slices(&slices, 2);
    slices_fill(&slices, 7);
    buf_init(&plain.bytes, slices.stem.bytes.limit);
    assert_ok(state_export_header(slices.target, NULL, &plain.bytes, &err), &err);
    while (plain.bytes.size < slices.stem.bytes.size) {
        assert_ok(buf_append(&plain.bytes, "\0\0\0\0", 4, &err), &err);
    }
    slice_open(&plain);
    slices.from[0].file = plain.opened;
    assert_refused(&slices, "group 0: unit 'a': tensor 'a.0.weight' is 16 x 16 x 1 x 1 in the "
                            "checkpoint, 8 x 16 x 1 x 1 in the model");
    slice_close(&plain);
    slices_done(&slices);
}

static void swapped_groups_of_one_shape_are_detected(void **state)
{
    (void)state;
    struct slices slices;
    struct err err = {0};
    assert_ok(slices_divide(&slices, usual_model("resnet8"), 1, 2, false, &err), &err);
    slices_fill(&slices, 8);
    slices.from[0].file = slices.file[1].opened;
    slices.from[1].file = slices.file[0].opened;
    assert_refused(&slices, "group 0: unit 'block1': the file is of another slice or model");
    slices_done(&slices);
}

static void files_of_other_classes_are_named(void **state)
{
    (void)state;
    static const char *const names[] = {"ant", "bee", "cat", "dog", "elk"};
    struct slices slices;
    struct err err = {0};
    small_slices(&slices, 2);
    slices_fill(&slices, 9);
    for (size_t i = 0; i < 5; i++) {
        assert_ok(class_names_append(&slices.target->class_names, names[i], 3, &err), &err);
    }
    /* A file of group 0 that names its outputs. */
    struct slice_file named = {0};
    const struct evaluation evaluation = {.micro_batch = EVALUATION_MICRO_BATCH};
    for (size_t i = 0; i < 3; i++) {
        assert_ok(class_names_append(&slices.model[0]->class_names, names[i], 3, &err), &err);
    }
    buf_init(&named.bytes, slices.stem.bytes.limit);
    assert_ok(trained_header(slices.model[0], &evaluation, &named.bytes, &err), &err);
    size_t count;
    const char *data = (const char *)slice_tensor(&slices.file[0], "stem.0.weight", &count);
    assert_ok(buf_append(&named.bytes, data,
                         slices.file[0].bytes.size - (size_t)(data - slices.file[0].bytes.data),
                         &err),
              &err);
    slice_open(&named);
    slices.from[0].file = named.opened;
    assert_refused(&slices, "group 0: the file's output 1 is class 'bee', expected 'cat'");
    slices.classes[0][1] = 1;
    slices.classes[0][2] = 2;
    slices.classes[1][0] = 3;
    slices.classes[1][1] = 4;
    assert_ok(harvest_check(&slices.harvest, &err), &err);
    slice_close(&named);
    slices_done(&slices);
}

static void wrong_class_lists_are_named(void **state)
{
    (void)state;
    struct slices slices;
    small_slices(&slices, 2);
    slices_fill(&slices, 10);
    slices.classes[1][1] = 5;
    assert_refused(&slices, "group 1: class 5; the model has 5 outputs");
    slices.classes[1][1] = 1;
    assert_refused(&slices, "group 1: class 1 occurs twice");
    slices_done(&slices);
}

static void a_group_trained_with_another_stem_is_named(void **state)
{
    (void)state;
    struct slices slices;
    size_t count;
    small_slices(&slices, 2);
    slices_fill(&slices, 11);
    slice_tensor(&slices.file[1], "stem.0.bias", &count)[3] += 1e-6f;
    assert_refused(&slices, "group 1: unit 'stem' differs from the stem's checkpoint: the group "
                            "was trained with another stem");
    slices_done(&slices);
}

/* ---- streaming and faults ---- */

struct sink {
    size_t calls, fail_at, largest;
};

static int count_write(void *arg, const void *data, size_t size, struct err *err)
{
    struct sink *sink = arg;
    (void)data;
    if (++sink->calls == sink->fail_at) {
        return err_set(err, ERR_CANCELLED, "stopped");
    }
    if (sink->calls > 1 && size > sink->largest) {
        sink->largest = size;
    }
    return 0;
}

static void units_are_written_one_by_one_and_an_error_of_writing_ends_it(void **state)
{
    (void)state;
    struct slices slices;
    struct err err = {0};
    struct sink sink = {0};
    small_slices(&slices, 2);
    slices_fill(&slices, 12);
    assert_ok(harvest_write(&slices.harvest, count_write, &sink, &err), &err);
    assert_int_equal(sink.calls, 1 + 3);
    assert_int_equal(sink.largest, 4 * (16 * 16 + 16 + 4 * 16));
    for (size_t call = 1; call <= 4; call++) {
        sink = (struct sink){.fail_at = call};
        assert_int_equal(harvest_write(&slices.harvest, count_write, &sink, &err), ERR_CANCELLED);
        assert_int_equal(sink.calls, call);
    }
    slices_done(&slices);
}

static void the_same_inputs_give_the_same_bytes(void **state)
{
    (void)state;
    struct slices slices;
    struct err err = {0};
    BUF_AUTO struct buf first;
    BUF_AUTO struct buf second;
    small_slices(&slices, 3);
    slices_fill(&slices, 13);
    assert_ok(slices_harvest(&slices, &first, &err), &err);
    assert_ok(slices_harvest(&slices, &second, &err), &err);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    slices_done(&slices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_the_class_minus_other_with_the_prior_in_its_bias),
        cmocka_unit_test(replicas_are_averaged_over_those_that_are_present),
        cmocka_unit_test(a_missing_group_leaves_zeros_and_rows_that_are_never_predicted),
        cmocka_unit_test(classes_are_dropped_from_a_trained_file),
        cmocka_unit_test(the_prior_is_the_log_of_drawn_over_existing_others),
        cmocka_unit_test(files_of_other_shapes_are_named),
        cmocka_unit_test(a_tensor_of_another_shape_is_named),
        cmocka_unit_test(swapped_groups_of_one_shape_are_detected),
        cmocka_unit_test(files_of_other_classes_are_named),
        cmocka_unit_test(wrong_class_lists_are_named),
        cmocka_unit_test(a_group_trained_with_another_stem_is_named),
        cmocka_unit_test(units_are_written_one_by_one_and_an_error_of_writing_ends_it),
        cmocka_unit_test(the_same_inputs_give_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
