/* Bad pairs: live devices that do not reach each other. Their holdings still count. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

/* Three devices train a job of 400 steps, and are at step 20 or so. */
static void begin(struct world *world, char id[ID_SIZE], int64_t devices_min,
                  int64_t neighbor_every, int64_t center_every)
{
    struct job_spec spec = story_spec(400);
    spec.devices_min = devices_min;
    spec.neighbor_every = neighbor_every;
    spec.center_every = center_every;
    spec.expected_step_seconds = 0;
    spec.replan_first = spec.replan_every = 0;
    story_devices(world);
    story_submit(world, id, &spec);
    world_train(world, 20);
    world->reports = true;
}

/* Time passes as in story_work; every generation that is made meanwhile starts from the version. */
static void assert_kept(struct world *world, const char *id, int64_t version, int64_t ms)
{
    int64_t generation = world_job(world, id)->generation;
    for (; ms > 0; ms -= 100) {
        story_work(world, 100);
        for (; generation < world_job(world, id)->generation; generation++) {
            assert_int_equal(world_plan(world, id, generation + 1)->resume_version, version);
        }
    }
}

/* The three devices stop for a plan with other borders. Returns the version that they hold then. */
static int64_t stop_for(struct world *world, const char *id, int64_t first, int64_t second)
{
    story_replan(world, id, first, second);
    story_next(world, id);
    int64_t version = core_job_plan(world->core, id)->resume_version;
    assert_true(version > 10);
    return version;
}

/* Nothing is in the center, and for half a minute no device reaches another. */
static void holdings_count_while_links_are_down(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id, 3, 0, 0);
    int64_t version = stop_for(world, id, 2, 3);
    for (size_t i = 0; i < 3; i++) {
        world->agent[i].cut = true;
    }
    assert_kept(world, id, version, 30000);
    int64_t generation = world_job(world, id)->generation;
    assert_true(generation > 4 && generation < 14); /* it retries, but not continually */
    for (size_t i = 0; i < 3; i++) {
        world->agent[i].cut = false;
    }
    assert_kept(world, id, version, 10000);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(core_job_incident(world->core, id) == NULL, true); /* resolved by a step */
    story_finish(world, id);
}

/* Committed, and older in the center: the same. */
static void a_committed_version_survives_failed_links(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id, 3, 3, 10);
    int64_t version = world_job(world, id)->neighbor_version;
    assert_true(version > world_job(world, id)->version && world_job(world, id)->version > 0);
    world->agent[1].cut = true;
    assert_kept(world, id, version, 60000); /* from the center it could not run either */
    world->agent[1].cut = false;
    assert_kept(world, id, version, 8000);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

static void waiting_for_a_link_says_so(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id, 3, 0, 0);
    int64_t version = stop_for(world, id, 2, 3);
    for (size_t i = 0; i < 3; i++) {
        world->agent[i].cut = true;
    }
    for (int i = 0; i < 200 && world_job(world, id)->state != JOB_WAITING_FOR_DEVICES; i++) {
        story_work(world, 100);
    }
    assert_string_equal(world_job(world, id)->state_reason, "link");
    char expected[MESSAGE_SIZE];
    (void)snprintf(expected, sizeof(expected), "; next attempt from step %lld in 1.0 s",
                   (long long)version);
    assert_non_null(strstr(world_job(world, id)->message, "are alive but do not reach each other"));
    assert_non_null(strstr(world_job(world, id)->message, expected));
    assert_int_equal(world_job(world, id)->progress.step, version);
    world_restart(world); /* and the coordinator may restart meanwhile */
    for (size_t i = 0; i < 3; i++) {
        world->agent[i].cut = false;
    }
    assert_kept(world, id, version, 10000);
    assert_state(world, id, JOB_RUNNING);
}

/* The failure that ends a generation with progress is the first of a row. */
static void the_second_failure_in_a_row_of_a_job_that_ran_is_put_off(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id, 3, 0, 0);
    assert_true(world_job(world, id)->progress.step > 10);
    world->agent[0].apart = &world->agent[1];
    for (int i = 0; i < 300 && world_job(world, id)->state != JOB_WAITING_FOR_DEVICES; i++) {
        story_work(world, 100);
    }
    assert_string_equal(world_job(world, id)->state_reason, "link");
    assert_int_equal(world_job(world, id)->generation, 2);
    world->agent[0].apart = NULL;
    story_finish(world, id);
}

/* a cannot fetch from c what the new borders give it; the old ones need no such link. */
static void units_that_cannot_move_stay(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id, 3, 0, 10);
    world->agent[0].apart = &world->agent[2];
    int64_t version = stop_for(world, id, 3, 4);
    assert_kept(world, id, version, 8000);
    assert_state(world, id, JOB_RUNNING);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_int_equal(plan->generation, 3);
    assert_int_equal(plan->reason, PLAN_LINK);
    assert_int_equal(plan->stage[0].end, 1);
    assert_int_equal(plan->stage[1].end, 2);
    assert_int_equal(plan->bytes_moved, 0);
    story_finish(world, id);
}

/* Devices a and b, whose units take so long, have stopped at a version that is newer than the
 * center's, to go on with other borders, when nothing passes between them any more. Returns the
 * version. */
static int64_t part_two(struct world *world, char id[ID_SIZE], int64_t devices_min,
                        int64_t neighbor_every, double unit_seconds)
{
    struct job_spec spec = world_spec("j", 400);
    spec.devices_min = devices_min;
    spec.cut[0] = 4; /* not where the planner would cut */
    spec.cut_count = 1;
    spec.neighbor_every = neighbor_every;
    spec.center_every = 10;
    spec.expected_step_seconds = 0;
    spec.replan_first = spec.replan_every = 0;
    struct agent *a = world_agent(world, "a", 10), *b = world_agent(world, "b", 10);
    story_submit(world, id, &spec);
    world_train(world, 20);
    world->reports = true;
    story_measure(world, a, unit_seconds);
    story_measure(world, b, unit_seconds);
    const struct replan_request other = {.cut = {2}, .cut_count = 1, .has_cuts = true};
    world_replan(world, id, &other);
    story_next(world, id);
    int64_t version = core_job_plan(world->core, id)->resume_version;
    assert_true(world_job(world, id)->version > 0 && version > world_job(world, id)->version);
    world->agent[0].apart = &world->agent[1];
    return version;
}

/* Time passes until some generation starts from another version. Returns how long it took. */
static int64_t until_given_up(struct world *world, const char *id, int64_t version)
{
    int64_t since_ms = world->now_ms;
    while (core_job_plan(world->core, id)->resume_version == version) {
        story_work(world, 100);
        assert_true(world->now_ms - since_ms < 120000);
    }
    return world->now_ms - since_ms;
}

/* One of the two continues alone, from the center. */
static void assert_alone(struct world *world, const char *id, int64_t start, int64_t version)
{
    const struct plan *plan = core_job_plan(world->core, id);
    assert_int_equal(plan->resume_version, start);
    assert_int_equal(plan->stage_count, 1);
    const struct incident *incident = core_job_incident(world->core, id);
    assert_int_equal(incident->resume_version, start);
    assert_int_equal(incident->steps_redone, version - start);
    assert_non_null(strstr(incident->message, " s: resumes from step "));
}

static void a_job_does_not_wait_for_steps_that_are_retrained_sooner(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t version = part_two(world, id, 1, 0, 0.0001), center = world_job(world, id)->version;
    assert_true(until_given_up(world, id, version) < 4000); /* till the link is blamed */
    assert_alone(world, id, center, version);
    story_finish(world, id);
}

static void a_copy_at_a_neighbour_is_nearer_than_the_center(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t version = part_two(world, id, 1, 3, 0.0001),
            committed = world_job(world, id)->neighbor_version;
    assert_true(committed > world_job(world, id)->version && committed < version);
    (void)until_given_up(world, id, version);
    assert_alone(world, id, committed, version);
    story_finish(world, id);
}

/* Retries take at most as long as the steps would; the incident states the choice and the
 * reason. */
static void a_job_waits_for_steps_that_take_longer_to_retrain(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE], expected[MESSAGE_SIZE];
    int64_t version = part_two(world, id, 1, 0, 0.06), center = world_job(world, id)->version;
    double again_seconds =
        (double)(version - center) * core_job_plan(world->core, id)->predicted_step_seconds;
    assert_true(again_seconds > 10);
    assert_kept(world, id, version, 11000); /* 10 s to prepare, and the link is blamed */
    (void)snprintf(expected, sizeof(expected),
                   "devices 'a' and 'b' are alive but do not reach each other; waits for step %d: "
                   "retraining from step %d would take %.1f s",
                   (int)version, (int)center, again_seconds);
    assert_string_equal(core_job_incident(world->core, id)->message, expected);
    /* Plans around the link are slower, and retraining takes longer: one device runs all units. */
    assert_in_range(until_given_up(world, id, version), 0, (uint64_t)(3000 * again_seconds));
    assert_alone(world, id, center, version);
    assert_null(strstr(core_job_incident(world->core, id)->message, "waits for step"));
    story_finish(world, id);
}

static void a_restart_removes_the_remark_of_an_ended_wait(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t version = part_two(world, id, 1, 0, 0.06);
    assert_kept(world, id, version, 11000); /* 10 s to prepare, and the link is blamed */
    assert_holds(core_job_incident(world->core, id)->message, "waits for step");
    world_restart(world);
    (void)until_given_up(world, id, version);
    assert_holds(core_job_incident(world->core, id)->message, "resumes from step");
    assert_null(strstr(core_job_incident(world->core, id)->message, "waits for step"));
    story_finish(world, id);
}

static void a_version_is_not_abandoned_for_a_plan_that_cannot_run(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t version = part_two(world, id, 2, 0, 0.0001);
    assert_kept(world, id, version, 60000);
    world->agent[0].apart = NULL;
    assert_kept(world, id, version, 10000);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(holdings_count_while_links_are_down),
        STORY(a_restart_removes_the_remark_of_an_ended_wait),
        STORY(a_committed_version_survives_failed_links),
        STORY(waiting_for_a_link_says_so),
        STORY(the_second_failure_in_a_row_of_a_job_that_ran_is_put_off),
        STORY(units_that_cannot_move_stay),
        STORY(a_job_does_not_wait_for_steps_that_are_retrained_sooner),
        STORY(a_copy_at_a_neighbour_is_nearer_than_the_center),
        STORY(a_job_waits_for_steps_that_take_longer_to_retrain),
        STORY(a_version_is_not_abandoned_for_a_plan_that_cannot_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
