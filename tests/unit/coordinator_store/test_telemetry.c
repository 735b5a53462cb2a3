#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/store/state.h"
#include "tests/unit/coordinator_store/state_support.h"

#define POINTS_MAX 64

struct points {
    int64_t step[POINTS_MAX];
    char name[POINTS_MAX][32];
    double value[POINTS_MAX];
    size_t count, stop;
};

static bool remember(void *arg, int64_t step, const char *name, double value)
{
    struct points *points = arg;
    assert_in_range(points->count, 0, POINTS_MAX - 1);
    points->step[points->count] = step;
    points->value[points->count] = value;
    (void)snprintf(points->name[points->count], sizeof(points->name[0]), "%s", name);
    return ++points->count != points->stop;
}

static struct points metrics(struct state_store *store, const char *job, const char *name,
                             int64_t since, size_t limit)
{
    struct points points = {0};
    struct err err = {0};
    assert_ok(state_metrics(store, job, name, since, limit, remember, &points, &err), &err);
    return points;
}

static void metric(struct state_store *store, const char *job, int64_t step, const char *name,
                   double value)
{
    struct err err = {0};
    assert_ok(state_metric(store, job, step, name, value, &err), &err);
}

static void a_metric_is_there_after_the_flush_and_a_redone_step_replaces_it(void **state)
{
    struct state_store *store = open_state(state);
    metric(store, "j", 1, "loss", 2.5);
    assert_int_equal(metrics(store, "j", NULL, 0, 10).count, 0);
    flush(store);
    metric(store, "j", 1, "loss", 1.5);
    metric(store, "j", 1, "loss", 1.25);
    flush(store);
    flush(store);
    struct points points = metrics(store, "j", "loss", 0, 10);
    assert_int_equal(points.count, 1);
    assert_int_equal(points.step[0], 1);
    assert_true(points.value[0] == 1.25);
    state_close(&store);
}

static void metrics_come_in_order_of_steps_from_a_step_on(void **state)
{
    struct state_store *store = open_state(state);
    for (int step = 6; step >= 1; step--) {
        metric(store, "j", step, "loss", step);
        metric(store, "j", step, "accuracy", -step);
        metric(store, "other", step, "loss", 100);
    }
    flush(store);
    struct points points = metrics(store, "j", NULL, 2, 5);
    static const int64_t steps[] = {3, 3, 4, 4, 5};
    static const char *const names[] = {"accuracy", "loss", "accuracy", "loss", "accuracy"};
    assert_int_equal(points.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(points.step[i], steps[i]);
        assert_string_equal(points.name[i], names[i]);
        assert_true(fabs(points.value[i]) == (double)steps[i]);
    }
    points = metrics(store, "j", "loss", 4, 100);
    assert_int_equal(points.count, 2);
    assert_int_equal(points.step[1], 6);
    assert_int_equal(metrics(store, "j", "unknown", 0, 10).count, 0);
    assert_int_equal(metrics(store, "j", "loss", 6, 10).count, 0);

    struct points stopped = {.stop = 2};
    struct err err = {0};
    assert_ok(state_metrics(store, "j", NULL, 0, 100, remember, &stopped, &err), &err);
    assert_int_equal(stopped.count, 2);
    state_close(&store);
}

static void values_that_are_not_finite_survive(void **state)
{
    struct state_store *store = open_state(state);
    metric(store, "j", 1, "loss", (double)NAN);
    metric(store, "j", 2, "loss", (double)INFINITY);
    metric(store, "j", 3, "loss", -(double)INFINITY);
    flush(store);
    struct points points = metrics(store, "j", "loss", 0, 10);
    assert_true(isnan(points.value[0]));
    assert_true(points.value[1] > 0 && isinf(points.value[1]));
    assert_true(points.value[2] < 0 && isinf(points.value[2]));
    state_close(&store);
}

static void telemetry_waits_in_bounded_memory(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    int64_t step = 0;
    /* Inside a turn nothing can be flushed: at last a point is rejected. */
    assert_ok(state_begin(store, &err), &err);
    int rc = 0;
    while (rc == 0 && step < 1000000) {
        rc = state_metric(store, "j", ++step, "loss", 1.0, &err);
    }
    assert_int_equal(rc, ERR_LIMIT);
    assert_ok(state_commit(store, &err), &err);
    /* Outside it is written by itself. */
    assert_ok(state_metric(store, "j", step, "loss", 2.0, &err), &err);
    assert_int_equal(metrics(store, "j", "loss", step - 2, 10).count, 1);
    state_close(&store);
    store = open_state(state);
    struct points points = metrics(store, "j", "loss", step - 2, 10);
    assert_int_equal(points.count, 2);
    assert_true(points.value[1] == 2.0);
    state_close(&store);
}

static void names_that_are_too_long_are_refused(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    char name[100];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(state_metric(store, "j", 1, name, 1, &err), ERR_LIMIT);
    assert_holds(err.text, "metric 'nnn");
    assert_int_equal(state_metric(store, name, 1, "loss", 1, &err), ERR_LIMIT);
    state_close(&store);
}

static void put_job(struct state_store *store, const char *id, const char *parent)
{
    struct err err = {0};
    const struct state_row row = {id, parent, 1, 1, "{}", 2};
    assert_ok(state_begin(store, &err), &err);
    assert_ok(state_put(store, STATE_JOBS, &row, &err), &err);
    assert_ok(state_commit(store, &err), &err);
}

static void the_curves_of_the_parts_of_a_job_are_thinned_each(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    size_t thinned = 0;
    put_job(store, "parent", "");
    put_job(store, "one", "parent");
    put_job(store, "two", "parent");
    put_job(store, "other", "");
    for (int64_t step = 1; step <= 20; step++) {
        metric(store, "one", step, "loss", 1);
        metric(store, "two", step, "loss", 1);
        metric(store, "other", step, "loss", 1);
    }
    flush(store);
    assert_ok(state_thin_metrics(store, "parent", 5, &thinned, &err), &err);
    assert_int_equal(thinned, 30);
    assert_int_equal(metrics(store, "one", NULL, 0, 100).count, 5);
    assert_int_equal(metrics(store, "two", NULL, 0, 100).count, 5);
    assert_int_equal(metrics(store, "other", NULL, 0, 100).count, 20);
    state_close(&store);
}

static void the_metrics_of_a_deleted_job_are_gone_flushed_or_not(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    struct state_row row = {"j1", "", 1, 1, "", 0};
    assert_ok(state_begin(store, &err), &err);
    assert_ok(state_put(store, STATE_JOBS, &row, &err), &err);
    assert_ok(state_commit(store, &err), &err);
    metric(store, "j1", 1, "loss", 1);
    metric(store, "j2", 1, "loss", 1);
    flush(store);
    metric(store, "j1", 2, "loss", 1);
    metric(store, "j2", 2, "loss", 1);
    assert_ok(state_begin(store, &err), &err);
    assert_ok(state_delete(store, STATE_JOBS, "j1", &err), &err);
    assert_ok(state_commit(store, &err), &err);
    flush(store);
    assert_int_equal(metrics(store, "j1", NULL, 0, 10).count, 0);
    assert_int_equal(metrics(store, "j2", NULL, 0, 10).count, 2);
    state_close(&store);
}

static void a_thin_curve_keeps_its_ends_and_rare_metrics(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    size_t thinned = 0;
    for (int64_t step = 1; step <= 50; step++) {
        metric(store, "j", step, "loss", (double)step);
        metric(store, "other", step, "loss", 1);
    }
    metric(store, "j", 25, "accuracy", 0.5);
    metric(store, "j", 50, "accuracy", 0.75);
    flush(store);
    assert_ok(state_thin_metrics(store, "j", 8, &thinned, &err), &err);
    assert_int_equal(thinned, 42);
    struct points loss = metrics(store, "j", "loss", 0, 100);
    assert_int_equal(loss.count, 8);
    assert_int_equal(loss.step[0], 1);
    assert_int_equal(loss.step[7], 50);
    for (size_t i = 1; i < loss.count; i++) {
        assert_in_range(loss.step[i] - loss.step[i - 1], 6, 8);
    }
    assert_int_equal(metrics(store, "j", "accuracy", 0, 100).count, 2);
    assert_int_equal(metrics(store, "other", NULL, 0, 100).count, 50);
    assert_ok(state_thin_metrics(store, "j", 8, &thinned, &err), &err);
    assert_int_equal(thinned, 0);
    state_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_metric_is_there_after_the_flush_and_a_redone_step_replaces_it),
        test_with_directory(metrics_come_in_order_of_steps_from_a_step_on),
        test_with_directory(values_that_are_not_finite_survive),
        test_with_directory(telemetry_waits_in_bounded_memory),
        test_with_directory(names_that_are_too_long_are_refused),
        test_with_directory(the_metrics_of_a_deleted_job_are_gone_flushed_or_not),
        test_with_directory(a_thin_curve_keeps_its_ends_and_rare_metrics),
        test_with_directory(the_curves_of_the_parts_of_a_job_are_thinned_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
