#include "coordinator/plan/partition.h"

#include <math.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/sample.h"

static struct partition_scratch *scratch;
static struct sample sample;
static struct partition_plan plan;

static void solve(void)
{
    struct err err = {0};
    assert_ok(partition_solve(&sample.problem, scratch, &plan, &err), &err);
}

static void a_plan_keeps_every_promise(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 13);
    for (int trial = 0; trial < 100; trial++) {
        struct err err = {0};
        sample_draw(&sample, &draws, 40, 8, 8, 3);
        sample.problem.work_max = 100000;
        int rc = partition_solve(&sample.problem, scratch, &plan, &err);
        if (rc != 0) {
            assert_true(rc == ERR_MEMORY || rc == ERR_INVALID);
            continue;
        }
        uint64_t used = 0;
        for (size_t i = 0, first = 0; i < plan.stage_count; first = plan.end[i++]) {
            const size_t d = plan.device[i];
            assert_true(plan.end[i] > first);
            assert_true(d < sample.problem.device_count && !(used >> d & 1));
            used |= (uint64_t)1 << d;
            assert_in_range(plan.in_flight[i], 1, sample.problem.micro_batches);
            assert_true(i == 0 || plan.in_flight[i] <= plan.in_flight[i - 1]);
            assert_int_equal(plan.memory_bytes[i],
                             sample.problem.stage_memory(&sample, d, first, plan.end[i],
                                                         plan.in_flight[i], plan.stage_count));
            assert_true(plan.memory_bytes[i] <= sample.cap[d]);
            assert_true(plan.busy[i] > 0 && plan.busy[i] <= 1 + 1e-9);
        }
        assert_int_equal(plan.end[plan.stage_count - 1], sample.problem.unit_count);
        assert_in_range(plan.stage_count, sample.problem.stages_min, sample.problem.stages_max);
        assert_true(plan.lower_seconds <= plan.step_seconds * (1 + 1e-9));
        assert_true(plan.gap >= 0 && (!plan.optimal || plan.gap < 1e-9));
    }
}

static void a_plan_is_played_with_other_times(void **state)
{
    (void)state;
    struct draws draws = draws_of(7, 70);
    for (int trial = 0; trial < 50; trial++) {
        struct err err = {0};
        sample_draw(&sample, &draws, 8, 4, 6, 2);
        if (partition_solve(&sample.problem, scratch, &plan, &err) != 0) {
            continue;
        }
        struct partition_plan played = plan;
        played.step_seconds = 0;
        partition_play(&sample.problem, scratch, &played);
        assert_close(&played.step_seconds, &plan.step_seconds, 1, 1e-9);
        sample_slow_down(&sample, plan.device[0], 3);
        partition_play(&sample.problem, scratch, &played);
        assert_true(played.step_seconds > plan.step_seconds);
        assert_true(played.step_seconds < 4 * plan.step_seconds);
    }
}

static void a_slow_device_gets_fewer_units(void **state)
{
    (void)state;
    sample_init(&sample, 12, 3, 16);
    sample_slow_down(&sample, 1, 4);
    sample.problem.stages_min = 3;
    solve();
    for (size_t i = 0, first = 0; i < 3; first = plan.end[i++]) {
        size_t units = plan.end[i] - first;
        assert_true(plan.device[i] == 1 ? units <= 2 : units >= 4);
    }
}

/* Wherever the slow device stands among the candidates. */
static void the_order_of_the_candidates_changes_nothing(void **state)
{
    (void)state;
    double step[3];
    for (size_t slow = 0; slow < 3; slow++) {
        sample_init(&sample, 12, 3, 4);
        sample_slow_down(&sample, slow, 10);
        solve();
        step[slow] = plan.step_seconds;
        assert_int_equal(plan.stage_count, 2);
        assert_true(plan.device[0] != slow && plan.device[1] != slow);
    }
    assert_close(&step[1], &step[0], 1, 1e-12);
    assert_close(&step[2], &step[0], 1, 1e-12);
}

static void a_minimum_of_devices_is_kept_even_if_it_costs_speed(void **state)
{
    (void)state;
    sample_init(&sample, 12, 3, 4);
    sample_slow_down(&sample, 2, 10);
    solve();
    const double two = plan.step_seconds;
    sample.problem.stages_min = 3;
    solve();
    assert_int_equal(plan.stage_count, 3);
    assert_true(plan.step_seconds > two);
}

static void links_that_are_slow_are_crossed_where_little_travels(void **state)
{
    (void)state;
    sample_init(&sample, 6, 2, 4);
    sample.problem.stages_min = 2;
    for (size_t u = 0; u < 6; u++) {
        sample.border[u] = u == 1 ? 1 : 1000;
    }
    sample.problem.usual_link.bytes_per_second = 10;
    solve();
    assert_int_equal(plan.end[0], 2);
}

/* Devices 0 and 2 are connected well, 1 is far from both. */
static void neighbours_are_devices_with_a_good_link(void **state)
{
    (void)state;
    sample_init(&sample, 6, 3, 4);
    for (size_t u = 0; u < 6; u++) {
        sample.border[u] = 100;
    }
    sample.problem.usual_link = (struct link_speed){20, 10};
    sample.pair[0] = (struct partition_pair){2, 0, {0, 1e9}};
    sample.problem.pair_count = 1;
    sample.problem.stages_max = 2;
    solve();
    assert_int_equal(plan.stage_count, 2);
    assert_true(plan.device[0] != 1 && plan.device[1] != 1);
}

/* A narrower codec pays where the link is slow, not where its time is longer than the link's. */
static void a_codec_is_used_where_it_pays(void **state)
{
    (void)state;
    sample_init(&sample, 6, 2, 4);
    sample.problem.stages_min = 2;
    for (size_t u = 0; u < 6; u++) {
        sample.border[u] = 1000;
    }
    sample.codec[0] = (struct partition_codec){1, INFINITY, INFINITY};
    sample.codec[1] = (struct partition_codec){4, 1e5, 1e5};
    sample.problem.codec_count = 2;
    sample.problem.usual_link.bytes_per_second = 100;
    solve();
    assert_int_equal(plan.codec[0], 1);
    sample.problem.usual_link.bytes_per_second = 1e9;
    solve();
    assert_int_equal(plan.codec[0], 0);
}

static void slow_links_raise_the_in_flight_limit(void **state)
{
    (void)state;
    sample_init(&sample, 6, 2, 16);
    sample.problem.stages_min = 2;
    for (size_t u = 0; u < 6; u++) {
        sample.border[u] = 9;
    }
    sample.problem.usual_link = (struct link_speed){5, 1};
    solve();
    assert_true(plan.in_flight[0] > 2);
    assert_int_equal(plan.in_flight[1], 1);
}

static void in_flight_gives_way_to_memory(void **state)
{
    (void)state;
    sample_init(&sample, 4, 2, 8);
    sample.problem.stages_min = 2;
    sample.problem.in_order = true;
    for (size_t u = 0; u < 4; u++) {
        sample.activation_bytes[u] = 10;
    }
    sample.cap[0] = 25;
    solve();
    assert_true(plan.memory_bytes[0] <= 25);
    assert_int_equal(plan.in_flight[0] * 10 * plan.end[0], plan.memory_bytes[0]);
}

/* ---- requested stages ---- */

static void devices_in_order_stay_in_order(void **state)
{
    (void)state;
    sample_init(&sample, 12, 3, 4);
    sample_slow_down(&sample, 1, 10);
    sample.problem.in_order = true;
    solve();
    assert_int_equal(plan.stage_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(plan.device[i], i);
    }
}

static void given_boundaries_are_kept_on_the_best_devices(void **state)
{
    (void)state;
    static const size_t end[] = {2, 9, 12};
    sample_init(&sample, 12, 4, 4);
    sample_slow_down(&sample, 0, 10);
    sample_slow_down(&sample, 2, 3);
    sample.problem.end = end;
    sample.problem.end_count = 3;
    solve();
    assert_int_equal(plan.stage_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(plan.end[i], end[i]);
        assert_true(plan.device[i] != 0);
    }
    assert_true(plan.device[1] != 2);
    sample.problem.in_order = true;
    sample.problem.device_count = 3;
    solve();
    assert_int_equal(plan.device[0], 0);
}

/* ---- ties ---- */

static void the_present_plan_wins_a_tie(void **state)
{
    (void)state;
    sample_init(&sample, 12, 4, 4);
    sample.problem.stages_max = 2;
    sample.problem.present_device = sample.present_device;
    sample.problem.present_end = sample.present_end;
    sample.problem.present_count = 2;
    sample.present_device[0] = 3;
    sample.present_device[1] = 1;
    solve();
    size_t best = plan.end[0];
    sample.present_end[0] = best;
    sample.present_end[1] = 12;
    solve();
    assert_int_equal(plan.device[0], 3);
    assert_int_equal(plan.device[1], 1);
    assert_int_equal(plan.end[0], best);
}

static void a_device_that_gains_less_than_a_tie_is_not_taken(void **state)
{
    (void)state;
    sample_init(&sample, 200, 2, 64);
    sample_slow_down(&sample, 1, 150);
    solve();
    assert_int_equal(plan.stage_count, 1);
    assert_int_equal(plan.device[0], 0);
}

/* ---- errors ---- */

static void the_unit_that_does_not_fit_is_named(void **state)
{
    (void)state;
    static const char *const units[] = {"stem", "block1", "block2", "head"};
    static const char *const devices[] = {"alpha", "beta"};
    struct err err = {0};
    sample_init(&sample, 4, 2, 4);
    sample.problem.unit_name = units;
    sample.problem.device_name = devices;
    sample.unit_bytes[2] = 500;
    sample.unit_bytes[3] = 20;
    sample.cap[0] = 399;
    sample.cap[1] = 400;
    assert_int_equal(partition_solve(&sample.problem, scratch, &plan, &err), ERR_MEMORY);
    assert_string_equal(err.text,
                        "unit 'block2' does not fit on device 'beta': it needs 500 bytes, 400 are "
                        "available (100 too many)");
    sample.cap[1] = 510;
    sample.cap[0] = 10;
    sample.problem.in_order = true;
    assert_int_equal(partition_solve(&sample.problem, scratch, &plan, &err), ERR_MEMORY);
    assert_string_equal(
        err.text,
        "unit 'head' does not fit on device 'beta' with 1 unit from unit 'block2' on: they "
        "need 520 bytes, 510 are available (10 too many)");
    static const size_t cuts[] = {3, 4};
    sample.problem.unit_name = NULL;
    sample.problem.device_name = NULL;
    sample.problem.end = cuts;
    sample.problem.end_count = 2;
    assert_int_equal(partition_solve(&sample.problem, scratch, &plan, &err), ERR_MEMORY);
    assert_holds(err.text, "unit 2 does not fit on device 0");
}

static void wrong_sizes_are_refused(void **state)
{
    (void)state;
    static const size_t falling[] = {4, 4}, beyond[] = {2, 5}, short_of[] = {2, 3},
                        empty[] = {0, 4};
    const size_t *const ends[] = {falling, beyond, short_of, empty};
    struct err err = {0};
    sample_init(&sample, 2, 3, 4);
    sample.problem.in_order = true;
    assert_int_equal(partition_solve(&sample.problem, scratch, &plan, &err), ERR_INVALID);
    assert_holds(err.text, "3 devices for 2 units");
    sample_init(&sample, 4, 2, 0);
    assert_int_equal(partition_solve(&sample.problem, scratch, &plan, &err), ERR_INVALID);
    sample_init(&sample, 4, 2, 1);
    sample.problem.stages_min = 3;
    assert_int_equal(partition_solve(&sample.problem, scratch, &plan, &err), ERR_INVALID);
    sample_init(&sample, 4, 2, 1);
    sample.problem.unit_count = PARTITION_UNITS_MAX + 1;
    assert_int_equal(partition_solve(&sample.problem, scratch, &plan, &err), ERR_INVALID);
    sample_init(&sample, 4, 2, 1);
    for (size_t i = 0; i < 4; i++) {
        sample.problem.end = ends[i];
        sample.problem.end_count = 2;
        assert_int_equal(partition_solve(&sample.problem, scratch, &plan, &err), ERR_INVALID);
    }
}

/* ---- work ---- */

/* A count of work limits the search, never a clock. */
static void a_search_does_the_work_it_may_and_no_more(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 14);
    struct partition_plan again;
    sample_init(&sample, PARTITION_UNITS_MAX, SAMPLE_DEVICES, 64);
    for (size_t d = 0; d < SAMPLE_DEVICES; d++) {
        for (size_t u = 0; u < PARTITION_UNITS_MAX; u++) {
            sample.forward[d * PARTITION_UNITS_MAX + u] = draw_uniform(&draws, 0.5, 1.5);
        }
    }
    sample.problem.work_max = 500000;
    solve();
    assert_true(plan.work <= 3 * 500000);
    assert_false(plan.optimal);
    assert_true(plan.gap > 0);
    assert_true(plan.step_seconds < plan.fluid_seconds * (64 + 31) / 64 * 1.25);
    struct err err = {0};
    assert_ok(partition_solve(&sample.problem, scratch, &again, &err), &err);
    assert_memory_equal(&plan, &again, sizeof(plan));
    sample.problem.first_fit = true;
    solve();
    assert_true(plan.work < again.work &&
                plan.step_seconds >= again.step_seconds * (1 - PARTITION_TIE));
}

/* A search within a turn must not make heartbeats wait: neither the intervals of the longest pass
 * nor plans with ever fewer devices may go far beyond its bound. */
static void a_short_search_stays_near_its_bound(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 15);
    sample_init(&sample, PARTITION_UNITS_MAX, SAMPLE_DEVICES, 4);
    for (size_t d = 0; d < SAMPLE_DEVICES; d++) {
        const double speed = draw_uniform(&draws, 1, 10);
        for (size_t u = 0; u < PARTITION_UNITS_MAX; u++) {
            sample.forward[d * PARTITION_UNITS_MAX + u] = draw_uniform(&draws, 0.5, 1.5) / speed;
        }
    }
    for (double most = 60000; most < 1e6; most *= 4) {
        sample.problem.work_max = most;
        solve();
        assert_true(plan.work <= 1.5 * most);
        assert_true(plan.gap > 0);
    }
}

/* Equal devices are one kind: symmetry costs nothing. */
/* The bound counts every one of ten devices once, with its own times. */
static void the_gap_of_ten_unequal_devices_is_small(void **state)
{
    (void)state;
    const size_t units = 40, devices = 10;
    struct draws draws = draws_of(1, 15);
    for (int i = 0; i < 3; i++) {
        sample_init(&sample, units, devices, 8);
        for (size_t d = 0; d < devices; d++) {
            const double speed = draw_uniform(&draws, 1, 10);
            for (size_t u = 0; u < units; u++) {
                const size_t at = d * units + u;
                sample.forward[at] = draw_uniform(&draws, 0.8, 1.2) / speed;
                sample.backward[at] = 2 * draw_uniform(&draws, 0.8, 1.2) / speed;
            }
        }
        sample.problem.work_max = 1e6;
        solve();
        assert_true(plan.gap < 0.08);
    }
}

static void equal_devices_cost_no_more_than_one_order(void **state)
{
    (void)state;
    sample_init(&sample, 10, 5, 2);
    sample.problem.stages_min = 5;
    solve();
    assert_true(plan.optimal && plan.work < 100000);
}

/* A stage's memory is the costliest query: the search for the longest stages that fit starts at
 * the result for the unit before. */
static void few_questions_are_asked_of_the_memory(void **state)
{
    (void)state;
    struct err err = {0};
    sample_init(&sample, PARTITION_UNITS_MAX, 4, 8);
    sample.problem.first_fit = true;
    for (size_t u = 0; u < PARTITION_UNITS_MAX; u++) {
        sample.unit_bytes[u] = 10;
    }
    for (uint64_t cap = 600; cap <= 2560; cap += 490) {
        for (size_t d = 0; d < 4; d++) {
            sample.cap[d] = cap + d;
        }
        sample.memory_calls = 0;
        int rc = partition_solve(&sample.problem, scratch, &plan, &err);
        assert_int_equal(rc, cap == 600 ? ERR_MEMORY : 0);
        assert_true(sample.memory_calls < 5 * 3 * PARTITION_UNITS_MAX);
    }
}

/* Where the memory is dear to ask for, devices are taken for smaller ones and cuts are not all
 * tried. */
static void questions_for_the_memory_are_work_too(void **state)
{
    (void)state;
    sample_init(&sample, PARTITION_UNITS_MAX, PARTITION_STAGES_MAX, 8);
    sample.problem.memory_work = &sample.memory_work;
    for (size_t u = 0; u < PARTITION_UNITS_MAX; u++) {
        sample.unit_bytes[u] = 10;
    }
    for (size_t d = 0; d < PARTITION_STAGES_MAX; d++) {
        sample.cap[d] = 2000 - d * d;
    }
    solve();
    /* The smallest device is asked about, and some plans are played, in any case. */
    assert_true((double)sample.memory_calls < 2 * PARTITION_MEMORY_WORK_MAX / 1e4 +
                                                  3 * PARTITION_UNITS_MAX +
                                                  100 * PARTITION_STAGES_MAX);
    for (size_t i = 0; i < plan.stage_count; i++) {
        assert_true(plan.memory_bytes[i] <= sample.cap[plan.device[i]]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_keeps_every_promise),
        cmocka_unit_test(a_plan_is_played_with_other_times),
        cmocka_unit_test(a_slow_device_gets_fewer_units),
        cmocka_unit_test(the_order_of_the_candidates_changes_nothing),
        cmocka_unit_test(a_minimum_of_devices_is_kept_even_if_it_costs_speed),
        cmocka_unit_test(links_that_are_slow_are_crossed_where_little_travels),
        cmocka_unit_test(neighbours_are_devices_with_a_good_link),
        cmocka_unit_test(a_codec_is_used_where_it_pays),
        cmocka_unit_test(slow_links_raise_the_in_flight_limit),
        cmocka_unit_test(in_flight_gives_way_to_memory),
        cmocka_unit_test(devices_in_order_stay_in_order),
        cmocka_unit_test(given_boundaries_are_kept_on_the_best_devices),
        cmocka_unit_test(the_present_plan_wins_a_tie),
        cmocka_unit_test(a_device_that_gains_less_than_a_tie_is_not_taken),
        cmocka_unit_test(the_unit_that_does_not_fit_is_named),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(a_search_does_the_work_it_may_and_no_more),
        cmocka_unit_test(a_short_search_stays_near_its_bound),
        cmocka_unit_test(the_gap_of_ten_unequal_devices_is_small),
        cmocka_unit_test(equal_devices_cost_no_more_than_one_order),
        cmocka_unit_test(few_questions_are_asked_of_the_memory),
        cmocka_unit_test(questions_for_the_memory_are_work_too),
    };
    struct err err = {0};
    if (partition_scratch_new(&scratch, &err) != 0) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    partition_scratch_free(&scratch);
    return failed;
}
