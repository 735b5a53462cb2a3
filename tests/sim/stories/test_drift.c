/* Speeds that change while a job trains: slow is not stalled, and no device is excluded for it. */
#include "tests/sim/stories/story.h"

#include "tests/sim/coordinator.h"
#include "tests/sim/faults.h"

#define USUAL 1000 /* slowness of the devices of a story */

#define LONG 9000 /* steps: more than a story takes */
#define EVERY 100

static const struct plan *newest(const struct story *story)
{
    return rows_plan(&story->world.coordinator->rows, story->job->id.text);
}

/* Units of the device in the newest plan. */
static int64_t units_of(const struct story *story, size_t index)
{
    const struct plan *plan = newest(story);
    int64_t units = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stage[s];
        units += story_stage(story, s) == index ? stage->end - stage->first : 0;
    }
    return units;
}

static void slow_down(struct story *story, size_t index, int64_t factor)
{
    story->world.agent[index]->slowness = USUAL * factor;
}

static size_t incidents(const struct story *story)
{
    return story->world.coordinator->rows.incident_count;
}

static void a_device_at_a_twelfth_has_fewer_units_and_is_not_excluded(void **state)
{
    (void)state;
    struct story *story = story_new_checked(2, LONG, EVERY);
    story_step(story, 30);
    story_pass(story, 60 * SECOND);
    const int64_t before = units_of(story, 1);
    slow_down(story, 1, 12);
    story_pass(story, 30 * SECOND);
    assert_true(units_of(story, 1) < before);
    assert_int_equal(newest(story)->reason, PLAN_DRIFT);
    slow_down(story, 1, 1);
    story_pass(story, 60 * SECOND);
    assert_int_equal(incidents(story), 0);
    story_free(story);
}

/* A step takes longer than its deadline, but tasks end. The job leaves the device before a slow
 * step has ended: the trial of the new plan is not compared with the fast ones. */
static void a_device_at_a_hundredth_has_fewer_units_and_is_not_excluded(void **state)
{
    (void)state;
    struct story *story = story_new_checked(2, LONG, EVERY);
    story_step(story, 30);
    story_pass(story, 60 * SECOND);
    const int64_t before = units_of(story, 1);
    slow_down(story, 1, 100);
    story_pass(story, 60 * SECOND);
    assert_true(units_of(story, 1) < before);
    assert_int_equal(incidents(story), 0);
    story_never(story, "center: job_stalled");
    assert_int_equal(newest(story)->reason, PLAN_DRIFT);
    assert_int_equal(newest(story)->verdict, VERDICT_KEPT);
    story_free(story);
}

/* Three equal devices and the boundaries of the user: the first measurements may show a better
 * plan, the later ones only repeat them. */
static void undisturbed_equal_devices_change_their_plan_once_at_most(void **state)
{
    (void)state;
    for (int64_t slowness = USUAL / 10; slowness <= USUAL; slowness *= 10) {
        struct story *story = story_new_checked(3, LONG, EVERY);
        for (size_t i = 0; i < 3; i++) {
            story->world.agent[i]->slowness = slowness;
        }
        story_pass(story, 120 * SECOND);
        assert_true(newest(story)->generation <= 2);
        assert_true(story_job(story)->last_check.step > 1000 * USUAL / slowness / 10);
        assert_int_equal(newest(story)->verdict == VERDICT_ROLLED_BACK, 0);
        story_free(story);
    }
}

/* The device at a fraction of its speed has fewer units, and gets them back with its speed. */
static void drop_and_return(int64_t factor)
{
    struct story *story = story_new_checked(2, LONG, EVERY);
    story_step(story, 30);
    story_pass(story, 60 * SECOND);
    const int64_t before = units_of(story, 1);
    slow_down(story, 1, factor);
    story_pass(story, 60 * SECOND);
    assert_true(units_of(story, 1) < before);
    slow_down(story, 1, 1);
    story_pass(story, 90 * SECOND);
    assert_int_equal(units_of(story, 1), before);
    assert_int_equal(incidents(story), 0);
    story_free(story);
}

static void units_return_to_a_device_that_was_at_a_fifth(void **state)
{
    (void)state;
    drop_and_return(5);
}

static void units_return_to_a_device_that_was_at_a_twelfth(void **state)
{
    (void)state;
    drop_and_return(12);
}

static void ten_noisy_minutes_make_two_plans_at_most(void **state)
{
    (void)state;
    struct story *story = story_new_checked(2, LONG, EVERY);
    story_step(story, 30);
    story_pass(story, 60 * SECOND);
    const int64_t generation = newest(story)->generation;
    for (int second = 0; second < 600; second++) {
        story->world.agent[1]->slowness = USUAL * (second % 3 == 0 ? 120 : 80) / 100;
        story_pass(story, 1 * SECOND);
    }
    assert_true(newest(story)->generation <= generation + 2);
    assert_int_equal(incidents(story), 0);
    story_free(story);
}

static void a_restart_keeps_the_cool_down(void **state)
{
    (void)state;
    struct story *story = story_new_checked(2, LONG, EVERY);
    story_step(story, 30);
    story_pass(story, 60 * SECOND);
    const int64_t generation = newest(story)->generation;
    slow_down(story, 1, 12);
    while (newest(story)->generation == generation || newest(story)->state != PLAN_RUNNING) {
        story_pass(story, 100 * MS);
    }
    const int64_t changed = newest(story)->generation;
    assert_true(story_job(story)->cooldown_ms >= 30000);
    slow_down(story, 1, 1);
    slow_down(story, 0, 12);
    story_pass(story, 3 * SECOND);
    faults_kill_coordinator(&story->world, 1 * SECOND);
    story_pass(story, 12 * SECOND);
    assert_int_equal(newest(story)->generation, changed);
    story_free(story);
}

/* Let the job change its plan, and the next generation run. */
static void await_change(struct story *story)
{
    const int64_t generation = newest(story)->generation;
    while (newest(story)->generation == generation || newest(story)->state != PLAN_RUNNING) {
        story_pass(story, 100 * MS);
    }
    assert_int_equal(newest(story)->reason, PLAN_DRIFT);
}

/* The device gets slower still while the plan changes: its stage takes longer than predicted. */
static struct story *fall_twice(void)
{
    struct story *story = story_new_checked(2, LONG, EVERY);
    story_step(story, 30);
    story_pass(story, 60 * SECOND);
    slow_down(story, 1, 8);
    await_change(story);
    slow_down(story, 1, 14);
    return story;
}

static void a_change_that_was_predicted_too_short_is_corrected_within_the_cool_down(void **state)
{
    (void)state;
    struct story *story = fall_twice();
    const int64_t changed = newest(story)->generation, before = units_of(story, 1);
    assert_true(story_job(story)->cooldown_ms >= 30000);
    story_pass(story, 25 * SECOND);
    assert_int_equal(newest(story)->generation, changed + 1);
    assert_int_equal(newest(story)->reason, PLAN_DRIFT);
    assert_true(units_of(story, 1) < before);
    story_free(story);
}

/* Speeds change again right after the correction: that waits for the end of the cool-down. */
static void a_correction_is_not_corrected_even_after_a_restart(void **state)
{
    (void)state;
    struct story *story = fall_twice();
    await_change(story);
    const int64_t corrected = newest(story)->generation;
    assert_true(story_job(story)->corrected);
    slow_down(story, 0, 3);
    slow_down(story, 1, 1);
    story_pass(story, 3 * SECOND);
    faults_kill_coordinator(&story->world, 1 * SECOND);
    story_pass(story, 15 * SECOND);
    assert_int_equal(newest(story)->generation, corrected);
    assert_true(story_job(story)->corrected);
    story_pass(story, 30 * SECOND);
    assert_int_equal(newest(story)->generation, corrected + 1);
    assert_false(story_job(story)->corrected);
    story_free(story);
}

static void the_last_steps_of_a_job_are_not_worth_a_change(void **state)
{
    (void)state;
    struct story *story = story_new_checked(2, 40, EVERY);
    story_step(story, 30);
    slow_down(story, 1, 5);
    story_succeeds(story, 1);
    story_free(story);
}

static void a_job_of_one_device_stays_where_it_is(void **state)
{
    (void)state;
    struct story *story = story_new_checked(1, 100, EVERY);
    story_step(story, 30);
    slow_down(story, 0, 5);
    story_succeeds(story, 1);
    assert_int_equal(incidents(story), 0);
    story_free(story);
}

static void with_both_periods_0_a_plan_never_changes_by_itself(void **state)
{
    (void)state;
    struct story *story = story_new_checked(2, LONG, 0);
    story_step(story, 30);
    slow_down(story, 1, 12);
    story_pass(story, 120 * SECOND);
    assert_int_equal(newest(story)->generation, 1);
    story_free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_at_a_twelfth_has_fewer_units_and_is_not_excluded),
        cmocka_unit_test(a_device_at_a_hundredth_has_fewer_units_and_is_not_excluded),
        cmocka_unit_test(undisturbed_equal_devices_change_their_plan_once_at_most),
        cmocka_unit_test(units_return_to_a_device_that_was_at_a_fifth),
        cmocka_unit_test(units_return_to_a_device_that_was_at_a_twelfth),
        cmocka_unit_test(ten_noisy_minutes_make_two_plans_at_most),
        cmocka_unit_test(a_restart_keeps_the_cool_down),
        cmocka_unit_test(a_change_that_was_predicted_too_short_is_corrected_within_the_cool_down),
        cmocka_unit_test(a_correction_is_not_corrected_even_after_a_restart),
        cmocka_unit_test(the_last_steps_of_a_job_are_not_worth_a_change),
        cmocka_unit_test(a_job_of_one_device_stays_where_it_is),
        cmocka_unit_test(with_both_periods_0_a_plan_never_changes_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
