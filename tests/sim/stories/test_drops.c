/* Devices that become slow while something else happens to their job: it ends with another plan or
 * with the same one, in both schedules, and waits for nothing. */
#include "tests/sim/stories/story.h"

#include "tests/sim/operators.h"
#include "tests/sim/speeds.h"

#define STEPS 300
#define EVERY 50
#define FIFTH 500 /* per cent of the usual time */
#define TWELFTH 1200
#define HOUR (3600 * SECOND)

static struct story_setting usual(bool async)
{
    return (struct story_setting){.devices = 3,
                                  .devices_min = 1,
                                  .stages = 3,
                                  .steps = STEPS,
                                  .check_every = EVERY,
                                  .async = async};
}

static size_t incidents(const struct story *story)
{
    return story->world.coordinator->rows.incident_count;
}

/* The job ends, and no device was excluded for being slow. */
static void ends(struct story *story)
{
    story_until(story, "center: job job1 succeeded");
    story_never(story, "center: incident_opened");
    story_never(story, "center: generation_failed");
    story_free(story);
}

static void in_both_schedules(void (*tell)(struct story_setting setting))
{
    tell(usual(false));
    tell(usual(true));
}

/* ---- while something else happens ---- */

static void during_a_round(struct story_setting setting)
{
    struct story *story = story_new_as(&setting);
    story->job->spec.neighbor_every = 10;
    story_step(story, 30);
    speeds_slow(&story->world, story_stage(story, 0), TWELFTH);
    ends(story);
}

static void a_drop_during_a_round_of_copies(void **state)
{
    (void)state;
    in_both_schedules(during_a_round);
}

static void during_an_evaluation(struct story_setting setting)
{
    setting.test_samples = 400;
    struct story *story = story_new_as(&setting);
    story_step(story, 30);
    story_pass(story, 20 * MS);
    speeds_slow(&story->world, story_stage(story, 0), TWELFTH);
    ends(story);
}

static void a_drop_during_an_evaluation(void **state)
{
    (void)state;
    in_both_schedules(during_an_evaluation);
}

static void during_a_drain(struct story_setting setting)
{
    struct story *story = story_new_as(&setting);
    story_step(story, 30);
    const size_t slow = story_stage(story, 0);
    operators_ask(&story->world, (slow + 1) % 3, true);
    speeds_slow(&story->world, slow, TWELFTH);
    story_until(story, "center: device_drained");
    ends(story);
}

static void a_drop_during_a_drain(void **state)
{
    (void)state;
    in_both_schedules(during_a_drain);
}

static void during_a_recovery(struct story_setting setting)
{
    struct story *story = story_new_as(&setting);
    story->job->spec.neighbor_every = 10;
    story_step(story, 30);
    const size_t dead = story_stage(story, 0);
    faults_kill_device(&story->world, dead, HOUR);
    story_until(story, "center: job_recovering");
    speeds_slow(&story->world, (dead + 1) % 3, TWELFTH);
    story_until(story, "center: job job1 succeeded");
    assert_int_equal(incidents(story), 0); /* the one of the dead device is resolved */
    story_free(story);
}

static void a_drop_during_a_recovery(void **state)
{
    (void)state;
    in_both_schedules(during_a_recovery);
}

static void without_the_coordinator(struct story_setting setting)
{
    struct story *story = story_new_as(&setting);
    story_step(story, 30);
    faults_kill_coordinator(&story->world, 20 * SECOND);
    story_pass(story, 5 * SECOND);
    speeds_slow(&story->world, 0, TWELFTH);
    story_pass(story, 30 * SECOND);
    ends(story);
}

static void a_drop_while_the_coordinator_is_away(void **state)
{
    (void)state;
    in_both_schedules(without_the_coordinator);
}

static void two_at_once(struct story_setting setting)
{
    struct story *story = story_new_as(&setting);
    story_step(story, 30);
    speeds_slow(&story->world, story_stage(story, 0), TWELFTH);
    speeds_slow(&story->world, (story_stage(story, 0) + 1) % 3, FIFTH);
    ends(story);
}

static void two_drops_at_once(void **state)
{
    (void)state;
    in_both_schedules(two_at_once);
}

/* ---- where there is little to choose ---- */

static void in_the_last_steps(struct story_setting setting)
{
    struct story *story = story_new_as(&setting);
    story_step(story, STEPS - 9);
    const int64_t generation = story_job(story)->generation;
    speeds_slow(&story->world, story_stage(story, 0), FIFTH);

    story_succeeds(story, generation);
    story_free(story);
}

static void a_drop_in_the_last_ten_steps_changes_nothing(void **state)
{
    (void)state;
    in_both_schedules(in_the_last_steps);
}

static void on_one_device(struct story_setting setting)
{
    setting.devices = 1;
    setting.steps = 100;
    struct story *story = story_new_as(&setting);
    story_step(story, 30);
    speeds_slow(&story->world, 0, FIFTH);
    story_succeeds(story, 1);
    story_free(story);
}

static void a_job_of_one_device_goes_on_at_its_speed(void **state)
{
    (void)state;
    in_both_schedules(on_one_device);
}

/* The plan may use fewer of them, but needs all. */
static void with_a_device_for_each_unit(struct story_setting setting)
{
    setting.devices = 5;
    setting.devices_min = setting.stages = 5; /* lenet5 has five units */
    struct story *story = story_new_as(&setting);
    story_step(story, 30);
    assert_int_equal(story->job->model->unit_count, 5);
    const int64_t generation = story_job(story)->generation;
    speeds_slow(&story->world, story_stage(story, 0), FIFTH);
    story_until(story, "center: job job1 succeeded");
    assert_true(story_job(story)->generation <= generation + 2);
    story_never(story, "center: incident_opened");
    story_free(story);
}

static void as_many_devices_as_units(void **state)
{
    (void)state;
    in_both_schedules(with_a_device_for_each_unit);
}

static void with_a_frozen_front(struct story_setting setting)
{
    setting.frozen = 2;
    struct story *story = story_new_as(&setting);
    story_step(story, 30);
    speeds_slow(&story->world, story_stage(story, 0), TWELFTH);
    ends(story);
}

static void a_device_without_a_backward_pass(void **state)
{
    (void)state;
    in_both_schedules(with_a_frozen_front);
}

/* Its tasks take longer than a step may: it is excluded as stalled, and the job goes on. */
static void to_a_thousandth(struct story_setting setting)
{
    struct story *story = story_new_as(&setting);
    story_step(story, 30);
    speeds_slow(&story->world, story_stage(story, 0), 150000);
    story_until(story, "center: job job1 succeeded");
    assert_int_equal(incidents(story), 0);
    story_free(story);
}

static void a_drop_to_less_than_a_thousandth(void **state)
{
    (void)state;
    in_both_schedules(to_a_thousandth);
}

/* ---- how long a change rests ---- */

/* Where a step takes half a minute, a change has not paid for itself in the shortest cool-down. */
static void a_change_of_slow_steps_rests_until_it_has_paid(void **state)
{
    (void)state;
    struct story_setting setting = usual(false);
    setting.steps = 3000;
    struct story *story = story_new_as(&setting);
    for (size_t i = 0; i < setting.devices; i++) {
        story->world.agent[i]->slowness = story->world.agent[i]->usual_slowness = 200000;
    }
    story_until(story, "center: job_replanning: stops to resume on");
    story_pass(story, SECOND); /* its row is stored */
    assert_true(story_job(story)->cooldown_ms > 60000);
    story_free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drop_during_a_round_of_copies),
        cmocka_unit_test(a_drop_during_an_evaluation),
        cmocka_unit_test(a_drop_during_a_drain),
        cmocka_unit_test(a_drop_during_a_recovery),
        cmocka_unit_test(a_drop_while_the_coordinator_is_away),
        cmocka_unit_test(two_drops_at_once),
        cmocka_unit_test(a_drop_in_the_last_ten_steps_changes_nothing),
        cmocka_unit_test(a_job_of_one_device_goes_on_at_its_speed),
        cmocka_unit_test(as_many_devices_as_units),
        cmocka_unit_test(a_device_without_a_backward_pass),
        cmocka_unit_test(a_drop_to_less_than_a_thousandth),
        cmocka_unit_test(a_change_of_slow_steps_rests_until_it_has_paid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
