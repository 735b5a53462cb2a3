/* The measured times of a stage (timing.h): windows by time, slow samples that count, shares of a
 * step, transfers. */
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "agent/core/timing.h"

#define UNITS 3

/* A stage whose clock stands still between its calls. */
struct clocked {
    struct timing timing;
    double now;
};

static struct heartbeat beat; /* too large for a stack */

static void setup(struct clocked *clocked)
{
    memset(clocked, 0, sizeof(*clocked));
    clocked->now = 100;
    timing_begin(&clocked->timing, UNITS);
}

static void run_scaled(struct clocked *clocked, enum timing_work work, double seconds, double scale)
{
    const double unit_seconds[UNITS] = {seconds / 2, seconds / 4, seconds / 4};
    const struct timing_task task = {.work = work,
                                     .began_seconds = clocked->now,
                                     .ended_seconds = clocked->now + seconds * scale,
                                     .seconds = seconds * scale,
                                     .unit_seconds = unit_seconds,
                                     .scale = scale};
    timing_add(&clocked->timing, &task);
    clocked->now += seconds * scale;
}

static void run(struct clocked *clocked, enum timing_work work, double seconds)
{
    run_scaled(clocked, work, seconds, 1);
}

/* The mean of all units' forward passes, as reported. */
static double forward_seconds(struct clocked *clocked)
{
    memset(&beat, 0, sizeof(beat));
    run(clocked, TIMING_BACKWARD, 1e-9);
    timing_report(&clocked->timing, 0, &beat);
    double sum = 0;
    for (size_t i = 0; i < beat.unit_seconds_count; i++) {
        sum += beat.unit_seconds[i].forward_seconds;
    }
    return sum;
}

static void assert_near(double value, double expected, double relative)
{
    if (!(fabs(value - expected) <= relative * fabs(expected))) {
        fail_msg("%g is not within %g %% of %g", value, 100 * relative, expected);
    }
}

static void each_unit_has_its_own_time(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    for (int i = 0; i < 20; i++) {
        run(&clocked, TIMING_FORWARD, 0.004);
        run(&clocked, TIMING_BACKWARD, 0.008);
    }
    run(&clocked, TIMING_UPDATE, 0.001);
    memset(&beat, 0, sizeof(beat));
    timing_report(&clocked.timing, 5, &beat);
    assert_int_equal(beat.unit_seconds_count, UNITS);
    assert_int_equal(beat.unit_seconds[2].unit, 7);
    assert_near(beat.unit_seconds[0].forward_seconds, 0.002, 1e-9);
    assert_near(beat.unit_seconds[2].forward_seconds, 0.001, 1e-9);
    assert_near(beat.unit_seconds[0].backward_seconds, 0.004, 1e-9);
    assert_near(beat.update_seconds, 0.001, 1e-9);
}

static void nothing_new_is_not_reported_again(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    run(&clocked, TIMING_FORWARD, 0.004);
    assert_true(forward_seconds(&clocked) > 0);
    memset(&beat, 0, sizeof(beat));
    timing_report(&clocked.timing, 0, &beat);
    assert_int_equal(beat.unit_seconds_count, 0);
}

static void the_first_pass_is_replaced_by_the_second(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    run(&clocked, TIMING_FORWARD, 0.3);
    assert_near(forward_seconds(&clocked), 0.3, 1e-9);
    run(&clocked, TIMING_FORWARD, 0.1);
    assert_near(forward_seconds(&clocked), 0.1, 1e-9);
}

/* Nine passes of ten are fast: a collector of garbage, say. */
static void what_recurs_shows_in_full(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    for (int i = 0; i < 1000; i++) {
        run(&clocked, TIMING_FORWARD, i % 10 == 9 ? 0.1 : 0.01);
    }
    assert_near(forward_seconds(&clocked), 0.019, 0.03);
}

/* 25 ms of work in each 100 ms, in passes of 1 ms: units take what they take, and the step shows
 * the stops, within tasks and between them. */
static void a_quota_stops_steps_and_no_units(void **state)
{
    (void)state;
    static struct clocked clocked;
    const double unit_seconds[UNITS] = {0.0005, 0.00025, 0.00025};
    setup(&clocked);
    for (int i = 0; i < 4000; i++) {
        const double stopped = i % 25 == 24 ? 0.075 : 0;
        const double inside = i % 50 == 24 ? stopped : 0;
        const struct timing_task task = {.work = i % 5 == 4   ? TIMING_UPDATE
                                                 : i % 2 == 0 ? TIMING_FORWARD
                                                              : TIMING_BACKWARD,
                                         .began_seconds = clocked.now + stopped - inside,
                                         .ended_seconds = clocked.now + stopped + 0.001,
                                         .seconds = 0.001,
                                         .stopped_seconds = stopped,
                                         .unit_seconds = unit_seconds,
                                         .scale = 1};
        timing_add(&clocked.timing, &task);
        clocked.now = task.ended_seconds;
    }
    memset(&beat, 0, sizeof(beat));
    timing_report(&clocked.timing, 0, &beat);
    assert_near(beat.unit_seconds[0].forward_seconds, 0.0005, 1e-9);
    assert_near(beat.unit_seconds[1].backward_seconds, 0.00025, 1e-9);
    assert_near(beat.update_seconds, 0.001, 1e-9);
    assert_near(beat.stage_seconds.step, 0.02, 0.05);
    assert_near(beat.stage_seconds.compute, 0.02, 0.05);
    assert_near(beat.stage_seconds.stopped, 0.015, 0.05);
}

/* A step of 8 micro-batches takes two seconds with the stops: the windows of passes tell of them
 * long before eight such steps have ended. */
static void a_new_quota_shows_within_the_window_of_passes(void **state)
{
    (void)state;
    static struct clocked clocked;
    const double unit_seconds[UNITS] = {0.01, 0.005, 0.005};
    setup(&clocked);
    for (int step = 0; step < 34; step++) {
        const double stopped = step < 30 ? 0 : 0.1;
        for (int i = 0; i < 17; i++) {
            const struct timing_task task = {.work = i == 16      ? TIMING_UPDATE
                                                     : i % 2 == 0 ? TIMING_FORWARD
                                                                  : TIMING_BACKWARD,
                                             .began_seconds = clocked.now,
                                             .ended_seconds = clocked.now + 0.02 + stopped,
                                             .seconds = 0.02,
                                             .stopped_seconds = stopped,
                                             .unit_seconds = unit_seconds,
                                             .scale = 1};
            timing_add(&clocked.timing, &task);
            clocked.now = task.ended_seconds;
        }
    }
    memset(&beat, 0, sizeof(beat));
    timing_report(&clocked.timing, 0, &beat);
    assert_near(beat.stage_seconds.stopped / beat.stage_seconds.compute, 5.0 / 6, 0.05);
}

static void a_single_stall_hardly_shows(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    for (int i = 0; i < 500; i++) {
        run(&clocked, TIMING_FORWARD, i == 450 ? 2.0 : 0.01);
    }
    assert_near(forward_seconds(&clocked), 0.01, 0.02);
    for (int i = 0; i < 600; i++) {
        run(&clocked, TIMING_FORWARD, 0.01);
    }
    assert_near(forward_seconds(&clocked), 0.01, 1e-6);
}

static void one_slow_pass_of_few_counts_as_four_medians(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    for (int i = 0; i < 20; i++) {
        run(&clocked, TIMING_FORWARD, i == 16 ? 20 : 1);
    }
    /* The window: the newest passes that cover five seconds, at least eight. */
    assert_near(forward_seconds(&clocked), (7 + TIMING_CLIP) / 8.0, 1e-9);
}

static void noise_averages_out(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    for (int i = 0; i < 3000; i++) {
        run(&clocked, TIMING_FORWARD, 0.01 * (0.8 + 0.4 * (double)(i * 7919 % 1000) / 1000));
    }
    assert_near(forward_seconds(&clocked), 0.01, 0.02);
}

static void a_change_shows_after_five_seconds_or_eight_passes(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    for (int i = 0; i < 1000; i++) {
        run(&clocked, TIMING_FORWARD, 0.01);
    }
    for (double end = clocked.now + 5.6; clocked.now < end;) {
        run(&clocked, TIMING_FORWARD, 0.12);
    }
    assert_near(forward_seconds(&clocked), 0.12, 0.05);
    for (int i = 0; i < 8; i++) {
        run(&clocked, TIMING_FORWARD, 4);
    }
    assert_near(forward_seconds(&clocked), 4, 1e-9);
}

/* The window's size is fixed: any rate and any gaps fit. */
static void every_rate_fits(void **state)
{
    (void)state;
    static const double seconds[] = {1e-7, 1e-4, 0.07, 0.4999, 0.5, 0.5001, 0.7, 3, 1000};
    for (size_t s = 0; s < sizeof(seconds) / sizeof(seconds[0]); s++) {
        for (size_t gap = 0; gap < sizeof(seconds) / sizeof(seconds[0]); gap++) {
            static struct clocked clocked;
            setup(&clocked);
            for (int i = 0; i < 300; i++) {
                run(&clocked, TIMING_FORWARD, seconds[s]);
                clocked.now += i % 3 == 0 ? seconds[gap] : 0;
            }
            assert_near(forward_seconds(&clocked), seconds[s], 1e-6);
        }
    }
    static struct clocked clocked;
    setup(&clocked);
    for (int i = 0; i < 100; i++) {
        run(&clocked, TIMING_FORWARD, i % 2 == 0 ? 1e-6 : TIMING_SLICE_SECONDS);
    }
    assert_near(forward_seconds(&clocked), TIMING_SLICE_SECONDS / 2, 0.1);
}

static void a_slowed_device_reports_the_stretched_time(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    for (int i = 0; i < 20; i++) {
        run_scaled(&clocked, TIMING_FORWARD, 0.01, 5);
    }
    assert_near(forward_seconds(&clocked), 0.05, 1e-9);
}

static void wait_for(struct clocked *clocked, enum timing_share why, double seconds)
{
    timing_wait(&clocked->timing, why, seconds);
    clocked->now += seconds;
}

static void a_step_says_where_its_time_went(void **state)
{
    (void)state;
    static struct clocked clocked;
    setup(&clocked);
    for (int i = 0; i < 30; i++) {
        wait_for(&clocked, TIMING_INPUT, 0.03);
        run(&clocked, TIMING_FORWARD, 0.01);
        wait_for(&clocked, TIMING_GRADIENT, 0.02);
        run(&clocked, TIMING_BACKWARD, 0.02);
        wait_for(&clocked, TIMING_ROOM, 0.005);
        clocked.now += 0.01; /* a snapshot, say */
        run(&clocked, TIMING_UPDATE, 0.004);
        if (i == 20) { /* what happens around an evaluation is no step */
            run(&clocked, TIMING_EVALUATE, 7);
            wait_for(&clocked, TIMING_INPUT, 7);
        }
        if (i == 25) {
            wait_for(&clocked, TIMING_SHARES, 60);
        }
    }
    memset(&beat, 0, sizeof(beat));
    timing_report(&clocked.timing, 0, &beat);
    const struct stage_seconds *seconds = &beat.stage_seconds;
    assert_near(seconds->step, 0.099, 1e-6);
    assert_near(seconds->compute, 0.034, 1e-6);
    assert_near(seconds->wait_input, 0.03, 1e-6);
    assert_near(seconds->wait_gradient, 0.02, 1e-6);
    assert_near(seconds->wait_room, 0.005, 1e-6);
}

static void a_transfer_that_stood_still_hardly_moves_the_mean(void **state)
{
    (void)state;
    struct timing_window window = {0};
    assert_true(timing_window_clipped_mean(&window) == 0);
    timing_window_add(&window, 2);
    assert_true(timing_window_clipped_mean(&window) == 2);
    for (int i = 0; i < TIMING_WINDOW; i++) {
        timing_window_add(&window, i % 2 == 0 ? 1 : 2);
    }
    assert_true(timing_window_clipped_mean(&window) == 1.5);
    timing_window_add(&window, 5000);
    const double mean = timing_window_clipped_mean(&window);
    assert_true(mean > 1.5 && mean < 2);
}

static void transfers_add_up_by_device_and_kind(void **state)
{
    (void)state;
    static struct timing_transfers transfers;
    memset(&transfers, 0, sizeof(transfers));
    memset(&beat, 0, sizeof(beat));
    const struct device_id one = {"dev_1"};
    const struct device_id two = {"dev_2"};
    timing_transfer_add(&transfers, LINK_REPLICA, &one, 100, 1);
    timing_transfer_add(&transfers, LINK_REPLICA, &one, 300, 2);
    timing_transfer_add(&transfers, LINK_FETCH, &one, 10, 1);
    timing_transfer_add(&transfers, LINK_FETCH, &two, 10, 1);
    timing_transfers_report(&transfers, &beat);
    assert_int_equal(beat.link_count, 3);
    const struct link_report *row = &beat.link[2];
    assert_int_equal(row->kind, LINK_REPLICA);
    assert_int_equal(row->count, 2);
    assert_true(row->seconds_sum == 3 && row->bytes_sum == 400);
    assert_true(row->bytes_squared_sum == 100000 && row->bytes_seconds_sum == 700);
    timing_transfers_report(&transfers, &beat);
    assert_int_equal(beat.link_count, 3);
}

static void links_keep_to_the_rows_of_a_heartbeat(void **state)
{
    (void)state;
    static struct timing_transfers transfers;
    memset(&transfers, 0, sizeof(transfers));
    memset(&beat, 0, sizeof(beat));
    struct timing_link link = {0};
    for (int i = 0; i < LINK_REPORTS_MAX + 5; i++) {
        struct device_id device = {{0}};
        (void)snprintf(device.text, sizeof(device.text), "dev_%d", i);
        timing_transfer_add(&transfers, LINK_FETCH, &device, 1, 1);
    }
    timing_transfers_report(&transfers, &beat);
    timing_link_add(&link, 1, 1);
    timing_link_report(&link, &beat);
    assert_int_equal(beat.link_count, LINK_REPORTS_MAX);
    beat.link_count = 0;
    timing_link_report(&link, &beat); /* it was kept */
    assert_int_equal(beat.link_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_unit_has_its_own_time),
        cmocka_unit_test(nothing_new_is_not_reported_again),
        cmocka_unit_test(the_first_pass_is_replaced_by_the_second),
        cmocka_unit_test(what_recurs_shows_in_full),
        cmocka_unit_test(a_quota_stops_steps_and_no_units),
        cmocka_unit_test(a_new_quota_shows_within_the_window_of_passes),
        cmocka_unit_test(a_single_stall_hardly_shows),
        cmocka_unit_test(one_slow_pass_of_few_counts_as_four_medians),
        cmocka_unit_test(noise_averages_out),
        cmocka_unit_test(a_change_shows_after_five_seconds_or_eight_passes),
        cmocka_unit_test(every_rate_fits),
        cmocka_unit_test(a_slowed_device_reports_the_stretched_time),
        cmocka_unit_test(a_step_says_where_its_time_went),
        cmocka_unit_test(a_transfer_that_stood_still_hardly_moves_the_mean),
        cmocka_unit_test(transfers_add_up_by_device_and_kind),
        cmocka_unit_test(links_keep_to_the_rows_of_a_heartbeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
