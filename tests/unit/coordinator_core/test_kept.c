/* Which checkpoints a job keeps on the way, as a function of what is stored and measured. */
#include "coordinator/core/copies/kept.h"

#include <math.h>
#include <stdio.h>

#include "schema/heartbeat.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_core/one_job.h"

static struct one_job *keeps(int keep, int64_t count)
{
    const struct job_spec spec = {.has_checkpoint = true,
                                  .checkpoint = {.every_epochs = 1, .keep = keep, .count = count}};
    return one_job_new(100, &spec);
}

static struct checkpoint_id id_of(int64_t version)
{
    struct checkpoint_id id;
    (void)snprintf(id.text, sizeof(id.text), "ckpt_%lld", (long long)version);
    return id;
}

/* The version becomes whole in the center, and is stored if it is to be. */
static void store(struct one_job *one, int64_t version)
{
    one->job->job.version = version;
    if (!kept_owes(one->job)) {
        return;
    }
    if (!kept_wants(one->job)) {
        kept_skip(one->core, one->job);
        return;
    }
    struct checkpoint checkpoint = {.id = id_of(version), .version = version};
    (void)snprintf(checkpoint.sha256, sizeof(checkpoint.sha256), "sha-%lld", (long long)version);
    kept_stored(one->core, one->job, &checkpoint);
}

static void measure_as(struct one_job *one, int64_t version, double value, int name)
{
    const struct metric metric = {.name = name, .step = version, .value = value};
    kept_measured(one->core, one->job, &metric);
}

static void measure(struct one_job *one, int64_t version, double value)
{
    measure_as(one, version, value, METRIC_TEST_ACCURACY);
}

/* The listed versions in order, as "10 30"; one that is not stored in brackets. */
static void assert_listed(const struct one_job *one, const char *expected)
{
    char text[256] = "";
    const struct job *job = &one->job->job;
    for (size_t i = 0; i < job->kept_count; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used,
                       job->kept[i].id.text[0] ? "%s%lld" : "%s(%lld)", i > 0 ? " " : "",
                       (long long)job->kept[i].version);
    }
    assert_string_equal(text, expected);
}

static void the_newest_ones_stay_with_last(void **state)
{
    (void)state;
    struct one_job *one = keeps(KEEP_LAST, 2);
    for (int64_t version = 10; version <= 50; version += 10) {
        store(one, version);
    }
    assert_listed(one, "40 50");
    assert_int_equal(one_job_count(one, ACTION_FORGET), 3);
    assert_int_equal(one_job_count(one, ACTION_DELETE_CHECKPOINT), 3);
    one->job->job.version = 55; /* no end of an epoch */
    assert_false(kept_owes(one->job));
    one->job->job.version = one->job->total_steps; /* the trained model is another checkpoint */
    assert_false(kept_owes(one->job));
    one_job_free(one);
}

static void the_best_ones_stay_in_any_order_of_stores_and_evaluations(void **state)
{
    (void)state;
    struct one_job *one = keeps(KEEP_BEST, 2);
    store(one, 10);
    measure(one, 10, 0.5);
    measure(one, 20, 0.7); /* arrives before the version */
    assert_listed(one, "10 (20)");
    store(one, 20);
    measure(one, 30, 0.4);
    store(one, 30); /* known to be worse: not stored */
    assert_listed(one, "10 20");
    store(one, 40);
    assert_listed(one, "10 20 40"); /* until its evaluation is known */
    measure(one, 40, 0.6);
    assert_listed(one, "20 40");
    store(one, 50);
    measure(one, 50, 0.6); /* of equal ones the first stays */
    assert_listed(one, "20 40");
    one_job_free(one);
}

static void versions_that_are_never_evaluated_do_not_pile_up(void **state)
{
    (void)state;
    struct one_job *one = keeps(KEEP_BEST, 2);
    store(one, 10);
    measure(one, 10, 0.5);
    for (int64_t version = 20; version <= 400; version += 10) {
        store(one, version);
        assert_in_range(one->job->job.kept_count, 1, 3);
    }
    assert_listed(one, "10 20 400");
    measure(one, 400, 0.1);
    assert_listed(one, "10 400");
    one_job_free(one);
}

static void a_value_that_is_no_number_is_worse_than_any(void **state)
{
    (void)state;
    struct one_job *one = keeps(KEEP_BEST, 1);
    one->job->job.spec.has_stop = true;
    one->job->job.spec.stop.metric = JUDGED_TEST_LOSS;
    store(one, 10);
    measure_as(one, 10, NAN, METRIC_TEST_LOSS);
    store(one, 20);
    measure_as(one, 20, 3.5, METRIC_TEST_LOSS);
    assert_listed(one, "20");
    store(one, 30);
    measure_as(one, 30, INFINITY, METRIC_TEST_LOSS);
    assert_listed(one, "20");
    one_job_free(one);
}

static void a_repeated_evaluation_and_other_metrics_change_nothing(void **state)
{
    (void)state;
    struct one_job *one = keeps(KEEP_BEST, 1);
    store(one, 10);
    measure(one, 10, 0.5);
    measure(one, 10, 0.9); /* retrained steps are evaluated again */
    measure_as(one, 20, 0.9, METRIC_LOSS);
    measure(one, 25, 0.9); /* no version that is stored */
    assert_listed(one, "10");
    assert_true(one->job->job.kept[0].value == 0.5);
    one_job_free(one);
}

static void a_checkpoint_from_which_a_job_starts_leaves_the_list_but_stays(void **state)
{
    (void)state;
    struct one_job *one = keeps(KEEP_LAST, 1);
    store(one, 10);
    struct job_slot *clone = table_add(&one->core->jobs, "job_2");
    (void)snprintf(clone->job.id.text, sizeof(clone->job.id.text), "job_2");
    clone->job.spec.init_checkpoint = id_of(10);
    store(one, 20);
    store(one, 30);
    assert_listed(one, "30");
    assert_int_equal(one_job_count(one, ACTION_DELETE_CHECKPOINT), 1); /* of 20 */
    one_job_free(one);
}

static void a_deleted_checkpoint_makes_room_for_another(void **state)
{
    (void)state;
    struct one_job *one = keeps(KEEP_BEST, 1);
    store(one, 10);
    measure(one, 10, 0.9);
    kept_deleted(one->core, id_of(20).text); /* not in the list */
    assert_listed(one, "10");
    kept_deleted(one->core, id_of(10).text);
    assert_listed(one, "");
    assert_true(one->job->mark.row);
    assert_false(kept_owes(one->job)); /* it does not come back */
    measure(one, 20, 0.5);
    store(one, 20);
    assert_listed(one, "20");
    one_job_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_ones_stay_with_last),
        cmocka_unit_test(the_best_ones_stay_in_any_order_of_stores_and_evaluations),
        cmocka_unit_test(versions_that_are_never_evaluated_do_not_pile_up),
        cmocka_unit_test(a_value_that_is_no_number_is_worse_than_any),
        cmocka_unit_test(a_repeated_evaluation_and_other_metrics_change_nothing),
        cmocka_unit_test(a_checkpoint_from_which_a_job_starts_leaves_the_list_but_stays),
        cmocka_unit_test(a_deleted_checkpoint_makes_room_for_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
