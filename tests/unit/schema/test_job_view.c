/* The rules between a view and the data: each fault at its field. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "schema/job_check.h"
#include "schema/job_view.h"
#include "schema/wire.h"

/* Ten classes of 100 samples; class 4 has none, class 5 one. */
static const int64_t counts[10] = {100, 100, 100, 100, 0, 1, 100, 100, 100, 100};
static const struct job_view_data data = {
    .name = "digits", .classes = 10, .count = counts, .counted = 10};

static void read_view(const char *view, struct job_spec *spec)
{
    char text[512];
    struct err err = {0};
    const int size = snprintf(
        text, sizeof(text),
        "{\"model\":{\"name\":\"lenet5\"},\"dataset\":{\"train\":\"digits\"},\"view\":%s}", view);
    *spec = job_spec_default;
    assert_ok(wire_read(&job_spec_record, text, (size_t)size, spec, NULL, &err), &err);
}

static void a_view_gives_the_numbers_of_samples(void **state)
{
    (void)state;
    static const struct {
        const char *view;
        struct view_sizes sizes;
    } cases[] = {
        {"{\"classes\":[3,7]}", {.own = 200, .others = 601, .drawn = 200}},
        {"{\"classes\":[7,3],\"negatives\":0}", {.own = 200, .others = 601}},
        {"{\"classes\":[3],\"negatives\":100}", {.own = 100, .others = 701, .drawn = 701}},
        {"{\"classes\":[3,7],\"negatives\":0.5,\"holdout\":0.05}",
         {.own = 190, .held = 10, .others = 601, .drawn = 95}},
        {"{\"classes\":[0,1,2,3,5,6,7,8,9],\"negatives\":0}", {.own = 801}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job_spec spec;
        struct view_sizes sizes;
        struct record_faults faults = {0};
        struct err err = {0};
        read_view(cases[i].view, &spec);
        assert_true(spec.has_view);
        assert_ok(job_view_check(&spec, &data, &sizes, &faults, &err), &err);
        assert_int_equal(sizes.own, cases[i].sizes.own);
        assert_int_equal(sizes.held, cases[i].sizes.held);
        assert_int_equal(sizes.others, cases[i].sizes.others);
        assert_int_equal(sizes.drawn, cases[i].sizes.drawn);
    }
}

static void expect_fault(const char *view, const struct job_view_data *of, const char *pointer,
                         const char *part)
{
    struct job_spec spec;
    struct view_sizes sizes;
    struct record_faults faults = {0};
    struct err err = {0};
    read_view(view, &spec);
    assert_int_equal(job_view_check(&spec, of, &sizes, &faults, &err), ERR_INVALID);
    assert_int_equal(faults.count, 1);
    assert_string_equal(faults.fault[0].pointer, pointer);
    assert_holds(faults.fault[0].message, part);
    assert_holds(err.text, pointer);
    assert_holds(err.text, part);
}

static void each_rule_names_its_field(void **state)
{
    (void)state;
    expect_fault("{\"classes\":[3,10]}", &data, "/view/classes/1",
                 "'digits' has no class 10; its classes are 0 to 9");
    expect_fault("{\"classes\":[3,7,3]}", &data, "/view/classes/2",
                 "is the same class as /view/classes/0");
    expect_fault("{\"classes\":[4,3]}", &data, "/view/classes/0",
                 "class 4 of 'digits' has no samples");
    expect_fault("{\"classes\":[3],\"negatives\":0}", &data, "/view/negatives",
                 "must be above 0 with one class");
    expect_fault("{\"classes\":[0,1,2,3,5,6,7,8,9]}", &data, "/view/negatives",
                 "no other class of 'digits' has samples; use 0");
    expect_fault("{\"classes\":[3,5],\"holdout\":0.1}", &data, "/view/holdout",
                 "class 5 of 'digits' has one sample");
}

/* A shard with these members after index, count and seed. */
static void expect_shard_fault(const char *ranges, const char *pointer, const char *part)
{
    char view[256];
    (void)snprintf(view, sizeof(view),
                   "{\"shard\":{\"index\":0,\"count\":6,\"seed\":0,\"class_ranges\":[%s]}}",
                   ranges);
    expect_fault(view, &data, pointer, part);
}

static void each_rule_of_a_shard_names_its_range(void **state)
{
    (void)state;
    expect_fault("{\"shard\":{\"index\":2,\"count\":2,\"seed\":0,\"class_ranges\":[{\"class\":3,"
                 "\"first\":0,\"count\":1}]}}",
                 &data, "/view/shard/index", "must be below /view/shard/count, which is 2");
    expect_shard_fault(
        "{\"class\":3,\"first\":0,\"count\":1},{\"class\":10,\"first\":0,\"count\":1}",
        "/view/shard/class_ranges/1", "'digits' has no class 10; its classes are 0 to 9");
    expect_shard_fault(
        "{\"class\":3,\"first\":0,\"count\":1},{\"class\":3,\"first\":9,\"count\":1}",
        "/view/shard/class_ranges/1", "is the same class as /view/shard/class_ranges/0");
    expect_shard_fault("{\"class\":4,\"first\":0,\"count\":1}", "/view/shard/class_ranges/0",
                       "class 4 of 'digits' has no samples");
    expect_shard_fault("{\"class\":5,\"first\":1,\"count\":1}", "/view/shard/class_ranges/0",
                       "first + count is 2, but class 5 of 'digits' has 1 samples");
    expect_shard_fault("{\"class\":3,\"first\":4294967295,\"count\":4294967295}",
                       "/view/shard/class_ranges/0", "first + count is 8589934590, but class 3");
}

static void a_shard_gives_the_number_of_its_samples(void **state)
{
    (void)state;
    struct job_spec spec;
    struct view_sizes sizes;
    struct record_faults faults = {0};
    struct err err = {0};
    read_view("{\"shard\":{\"index\":1,\"count\":2,\"seed\":4,\"class_ranges\":["
              "{\"class\":9,\"first\":0,\"count\":100},{\"class\":3,\"first\":99,\"count\":1},"
              "{\"class\":5,\"first\":0,\"count\":1}]}}",
              &spec);
    assert_ok(job_view_check(&spec, &data, &sizes, &faults, &err), &err);
    assert_int_equal(view_epoch(&sizes), 102);
    assert_int_equal(sizes.held, 0);
    assert_null(job_view(&spec)); /* the model has an output for each class */
    struct job_view_data other = data;
    other.counted = 0;
    assert_int_equal(job_view_check(&spec, &other, &sizes, &faults, &err), ERR_INVALID);
    assert_holds(err.text, "/view: the classes of 'digits' were not counted");
    assert_holds(err.text, "upload it again");
}

static void data_without_counted_classes_have_no_view(void **state)
{
    (void)state;
    static const char view[] = "{\"classes\":[3,7]}";
    struct job_view_data other = data;
    other.positions = 64;
    expect_fault(view, &other, "/view", "the samples of 'digits' have 64");
    other = data;
    other.classes = 1025;
    other.counted = 0;
    expect_fault(view, &other, "/view", "at most 1024 classes; 'digits' has 1025");
    other = data;
    other.counted = 0;
    expect_fault(view, &other, "/view", "upload it again");
}

static void faults_before_the_view_stay(void **state)
{
    (void)state;
    struct job_spec spec;
    struct view_sizes sizes;
    struct record_faults faults = {0};
    struct err err = {0};
    record_fault(&faults, "/batch", "is odd");
    read_view("{\"classes\":[3,10,11]}", &spec);
    assert_int_equal(job_view_check(&spec, &data, &sizes, &faults, &err), ERR_INVALID);
    assert_int_equal(faults.count, 3);
    assert_holds(err.text, "/view/classes/1");
    read_view("{\"classes\":[3,7]}", &spec);
    assert_ok(job_view_check(&spec, &data, &sizes, &faults, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_gives_the_numbers_of_samples),
        cmocka_unit_test(each_rule_names_its_field),
        cmocka_unit_test(each_rule_of_a_shard_names_its_range),
        cmocka_unit_test(a_shard_gives_the_number_of_its_samples),
        cmocka_unit_test(data_without_counted_classes_have_no_view),
        cmocka_unit_test(faults_before_the_view_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
