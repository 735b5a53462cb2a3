#include "agent/core/needs.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

#define UNITS 3

static void fill(struct assignment_run *run, int64_t index, int64_t count)
{
    *run = (struct assignment_run){.stage_index = index,
                                   .stage_count = count,
                                   .first = 4,
                                   .end = 4 + UNITS,
                                   .source_count = UNITS};
    for (size_t i = 0; i < UNITS; i++) {
        run->source[i].unit = 4 + (int64_t)i;
    }
    run->job_spec.evaluate_every_epochs = 1;
    memset(run->data.test_sha256, 'a', SHA256_SIZE - 1);
}

static struct assignment_run run;

static void only_the_ends_of_the_pipeline_read_data(void **state)
{
    static const struct {
        int64_t index, count;
        bool inputs, labels;
    } row[] = {{0, 1, true, true}, {0, 3, true, false}, {1, 3, false, false}, {2, 3, false, true}};
    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        fill(&run, row[i].index, row[i].count);
        const struct needs_data needs = needs_data(&run);
        const bool reads = row[i].inputs || row[i].labels;
        assert_int_equal(needs.inputs, row[i].inputs);
        assert_int_equal(needs.labels, row[i].labels);
        assert_int_equal(needs.train, reads);
        assert_int_equal(needs.test, reads);
    }
}

static void the_test_set_is_read_only_by_jobs_that_evaluate(void **state)
{
    (void)state;
    fill(&run, 0, 2);
    run.job_spec.evaluate_every_epochs = 0;
    assert_false(needs_data(&run).test);
    fill(&run, 0, 2);
    run.job_spec.evaluate_every_epochs = 0;
    run.has_mix = true; /* a group evaluates averages */
    assert_true(needs_data(&run).test);
    run.data.test_sha256[0] = '\0';
    assert_false(needs_data(&run).test);
    assert_true(needs_data(&run).train);
}

static void each_unit_has_one_source_in_order(void **state)
{
    (void)state;
    struct err err = {0};
    fill(&run, 0, 2);
    assert_ok(needs_check_sources(&run, &err), &err);
    run.source[1].unit = 6;
    assert_int_equal(needs_check_sources(&run, &err), ERR_FORMAT);
    assert_string_equal(err.text, "source 1 is of unit 6");
    fill(&run, 0, 2);
    run.source_count--;
    assert_int_equal(needs_check_sources(&run, &err), ERR_FORMAT);
    run.end = run.first;
    assert_int_equal(needs_check_sources(&run, &err), ERR_FORMAT);
}

static void a_stage_with_a_share_has_a_source_for_each_unit_of_the_model(void **state)
{
    (void)state;
    struct err err = {0};
    fill(&run, 1, 2);
    run.first = run.end = 0; /* it keeps none */
    run.stages_listed = 2;
    run.stage[0] = (struct assigned_stage){.first = 0, .end = 3};
    run.stage[1] = (struct assigned_stage){.share_first = 0, .share_end = 4};
    run.source_count = 3;
    for (size_t i = 0; i < 3; i++) {
        run.source[i].unit = (int64_t)i;
    }
    assert_ok(needs_check_sources(&run, &err), &err);
    run.source_count = 2;
    assert_int_equal(needs_check_sources(&run, &err), ERR_FORMAT);
    assert_string_equal(err.text, "units 0 to 3 with 2 sources");
    run.stage[0].share_end = run.stage[1].share_end = 0;
    assert_int_equal(needs_check_sources(&run, &err), ERR_FORMAT);
}

static void other_bytes_than_the_source_names_are_an_error_of_their_holder(void **state)
{
    (void)state;
    struct err err = {0};
    struct source source = {.sha256 = "abc"};
    assert_ok(needs_check_hash(&source, "abc", &err), &err);
    assert_int_equal(needs_check_hash(&source, "abd", &err), ERR_FORMAT);
    assert_string_equal(needs_error_code(SOURCE_DEVICE), "peer");
    assert_string_equal(needs_error_code(SOURCE_SELF), "snapshot");
    assert_string_equal(needs_error_code(SOURCE_CENTER), "internal");
    assert_string_equal(needs_error_code(SOURCE_CHECKPOINT), "internal");
}

static void labels_of_a_view_are_read_by_the_first_stage_too(void **state)
{
    (void)state;
    for (int64_t index = 0; index < 3; index++) {
        fill(&run, index, 3);
        run.job_spec.has_view = true;
        const struct needs_data needs = needs_data(&run);
        assert_int_equal(needs.inputs, index == 0);
        assert_int_equal(needs.labels, index != 1);
        assert_int_equal(needs.train, index != 1);
    }
    fill(&run, 0, 2); /* run is used again */
    run.job_spec.has_view = false;
}

static void local_data_are_for_a_device_with_the_whole_model(void **state)
{
    (void)state;
    struct err err = {0};
    fill(&run, 0, 2);
    assert_ok(needs_check_local(&run, &err), &err);
    (void)snprintf(run.job_spec.train_local.name, NAME_SIZE, "photos");
    assert_int_equal(needs_check_local(&run, &err), ERR_UNSUPPORTED);
    assert_holds(err.text, "'photos' of this device");
    fill(&run, 0, 1);
    (void)snprintf(run.job_spec.train_local.name, NAME_SIZE, "photos");
    assert_ok(needs_check_local(&run, &err), &err);
    run.job_spec.strategy = STRATEGY_PARAMETER_SERVER;
    assert_int_equal(needs_check_local(&run, &err), ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_ends_of_the_pipeline_read_data),
        cmocka_unit_test(the_test_set_is_read_only_by_jobs_that_evaluate),
        cmocka_unit_test(each_unit_has_one_source_in_order),
        cmocka_unit_test(a_stage_with_a_share_has_a_source_for_each_unit_of_the_model),
        cmocka_unit_test(other_bytes_than_the_source_names_are_an_error_of_their_holder),
        cmocka_unit_test(labels_of_a_view_are_read_by_the_first_stage_too),
        cmocka_unit_test(local_data_are_for_a_device_with_the_whole_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
