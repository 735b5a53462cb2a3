/* The version from which a job resumes after a failure, and the sources of its units. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static int64_t start_of(const struct world *world, const char *id)
{
    return core_job_plan(world->core, id)->resume_version;
}

static void one_loss_costs_the_steps_since_the_last_commit(void **state)
{
    struct world *world = *state;
    for (size_t k = 0; k < 3; k++) {
        char id[ID_SIZE];
        if (k == 0) {
            story_replicated(world, id, 3, 0);
        } else {
            struct job_spec spec = story_spec(100);
            spec.neighbor_every = 3;
            story_submit(world, id, &spec);
        }
        world_train(world, 20);
        int64_t committed = world_job(world, id)->neighbor_version;
        assert_true(committed > 10);
        agent_kill(&world->agent[k]);
        world_live(world, 6000);
        assert_int_equal(start_of(world, id), committed);
        world_settle(world);
        assert_state(world, id, JOB_RUNNING);
        world_verb(world, id, JOB_CANCEL);
        agent_restart(world, &world->agent[k]);
        world_settle(world);
    }
}

static void losing_two_neighbours_costs_versions_that_only_they_held(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 8);
    world_train(world, 20);
    int64_t center = world_job(world, id)->version;
    assert_true(center >= 8 && center < world_job(world, id)->neighbor_version);
    agent_kill(&world->agent[1]);
    agent_kill(&world->agent[2]);
    world_live(world, 6000);
    assert_int_equal(start_of(world, id), center); /* c held b's copies, and c is lost as well */
    assert_int_equal(world_job(world, id)->neighbor_version, 0);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

/* All holders of a unit must agree: with different hashes the right one is unknown. */
static void a_version_with_different_hashes_is_not_resumed(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    struct agent *a = &world->agent[0];
    a->spoilt = true;
    agent_tell_holdings(a);
    agent_beat(world, a);
    world->commit_count = 0; /* no promise holds against wrong bytes */
    agent_fail(world, &world->agent[1], "data");
    agent_beat(world, &world->agent[1]);
    assert_int_equal(start_of(world, id), 0);
}

/* A plan may take units from a device that is not part of it. */
static void a_source_that_is_lost_costs_a_generation(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    struct agent *b = &world->agent[1];
    world_device_verb(world, b, DEVICE_CORDON);
    story_replan(world, id, 1, 2);
    world_verb(world, id, JOB_REPLAN);
    story_next(world, id);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 2);
    assert_string_equal(core_device(world->core, b->id.text)->job.text, "");
    int64_t generation = world_job(world, id)->generation;
    agent_kill(b);
    for (int i = 0; i < 12; i++) {
        world_pass(world, 500);
        agent_beat(world, &world->agent[0]);
        agent_beat(world, &world->agent[2]);
    }
    assert_int_equal(world_job(world, id)->generation, generation + 1);
    assert_int_equal(core_job_plan(world->core, id)->reason, PLAN_DEVICE_LOST);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

/* A device that is back may hold the only copy of a unit until it has reported its holdings. */
static void a_returning_device_is_asked_before_steps_are_discarded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    for (size_t k = 0; k < 3; k++) {
        world->agent[k].disk = true;
    }
    world_train(world, 20);
    int64_t committed = world_job(world, id)->neighbor_version;
    for (size_t k = 0; k < 3; k++) {
        agent_kill(&world->agent[k]);
    }
    world_restart(world); /* everything lost power */
    for (size_t k = 0; k < 3; k++) {
        agent_restart(world, &world->agent[k]);
    }
    for (size_t k = 0; k < 3; k++) {
        agent_beat(world, &world->agent[k]);
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING); /* without a command */
    assert_true(start_of(world, id) >= committed);
    story_finish(world, id);
}

static void asking_has_a_bound(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    agent_kill(&world->agent[0]);
    world_live(world, 5100);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    agent_restart(world, &world->agent[1]); /* it says nothing more */
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_string_equal(world_job(world, id)->state_reason, "gathering");
    world->agent[1].up = false;
    world_live(world, 5500);
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(start_of(world, id), 0);
}

/* It lists every unit of the job at the version. */
static void list_all(struct world *world, struct agent *agent, const char *id, int64_t generation,
                     int64_t version)
{
    struct heartbeat *heartbeat = &agent->heartbeat;
    agent_beat(world, agent);
    heartbeat->all_holdings = true;
    for (int64_t u = 0; u < 5; u++) {
        struct holding *holding = &heartbeat->holding[heartbeat->holding_count++];
        *holding = (struct holding){
            .generation = generation, .version = version, .unit = u, .bytes = 1000};
        memcpy(holding->job.text, id, ID_SIZE);
        unit_sha256(holding->sha256, version, u);
    }
    agent_beat_again(world, agent);
}

/* A version above where a later generation began belongs to another line. */
static void versions_that_a_rollback_discarded_stay_discarded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 0, 4);
    struct agent *d = world_agent(world, "d", 10);
    world_train(world, 7);
    assert_int_equal(world_job(world, id)->version, 4);
    agent_fail(world, &world->agent[0], "data");
    agent_beat(world, &world->agent[0]);
    assert_int_equal(start_of(world, id), 4);
    const struct job *job = world_job(world, id);
    assert_int_equal(job->line_count, 2);
    assert_int_equal(job->line[1].generation, 2);
    assert_int_equal(job->line[1].first, 4);
    world_settle(world);
    list_all(world, d, id, 1, 9); /* it was away, and has what generation 1 had reached */
    agent_fail(world, &world->agent[0], "data");
    agent_beat(world, &world->agent[0]);
    assert_int_equal(start_of(world, id), 4);
}

/* Nor does what a generation made that the rows do not know: they were restored from a backup. */
static void versions_of_unknown_generations_are_not_taken(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 0, 4);
    struct agent *d = world_agent(world, "d", 10);
    world_train(world, 7);
    list_all(world, d, id, 7, 30);
    agent_fail(world, &world->agent[0], "data");
    agent_beat(world, &world->agent[0]);
    assert_int_equal(start_of(world, id), 4);
}

/* A device may discard dropped versions at any moment after the assignment. */
static void training_does_not_resume_from_dropped_versions(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    struct agent *d = world_agent(world, "d", 10);
    world_train(world, 4);
    int64_t old = world_job(world, id)->neighbor_version;
    assert_int_equal(old, 3);
    list_all(world, d, id, 1, old);
    for (int i = 0; i < 20 && world_job(world, id)->neighbor_version == old; i++) {
        for (size_t k = 0; k < 3; k++) { /* d does not look at its assignment */
            agent_follow(world, &world->agent[k]);
            (void)agent_step(world, &world->agent[k]);
            for (int blob = 0; blob < 5; blob++) {
                (void)agent_replicate(world, &world->agent[k]);
            }
            agent_beat(world, &world->agent[k]);
        }
    }
    assert_true(world_job(world, id)->neighbor_version > old);
    agent_kill(&world->agent[1]);
    agent_kill(&world->agent[2]);
    for (int i = 0; i < 12; i++) {
        world_pass(world, 500);
        agent_beat(world, &world->agent[0]);
        agent_beat(world, d);
    }
    assert_int_equal(start_of(world, id), 0);
}

/* The return of the first device must not make a waiting job forget that device's holdings. */
static void a_waiting_job_asks_devices_that_return(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = story_spec(100);
    spec.devices_min = 2;
    spec.neighbor_every = 3;
    story_devices(world);
    world->agent[2].disk = true;
    story_submit(world, id, &spec);
    world_train(world, 20);
    int64_t committed = world_job(world, id)->neighbor_version;
    agent_kill(&world->agent[1]);
    agent_kill(&world->agent[2]);
    world_live(world, 6000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    agent_restart(world, &world->agent[2]);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    agent_beat(world, &world->agent[2]);
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(start_of(world, id), committed);
}

/* Of two holders the one that is asked for less, or has the faster link, is taken. */
static void units_come_from_where_they_come_fastest(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    (void)world_agent(world, "d", 10);
    world_train(world, 20);
    struct agent *a = &world->agent[0], *b = &world->agent[1], *d = &world->agent[3];
    /* a's link to everybody is slow: 1000 bytes in 10 s. */
    agent_beat(world, d);
    d->heartbeat.link_count = 0;
    agent_beat(world, b);
    b->heartbeat.link[0] = (struct link_report){.device = a->id,
                                                .count = 2,
                                                .seconds_sum = 20,
                                                .bytes_sum = 2000,
                                                .bytes_squared_sum = 2000000,
                                                .bytes_seconds_sum = 20000};
    b->heartbeat.link_count = 1;
    agent_beat_again(world, b);
    agent_restart(world, b); /* its unit is on c; c's units are on c and a */
    agent_beat(world, b);
    size_t from_a = 0, fetched = 0;
    for (size_t k = 0; k < 4; k++) {
        const struct assignment *desired = story_assignment(world, &world->agent[k]);
        for (size_t i = 0; desired->has_run && i < desired->run.source_count; i++) {
            bool device = desired->run.source[i].from == SOURCE_DEVICE;
            fetched += device;
            from_a += device && k == 1 && id_equal(desired->run.source[i].device.text, a->id.text);
        }
    }
    assert_true(fetched > 0);
    assert_int_equal(from_a, 0);
}

/* The same number of a generation may have been used by a coordinator whose rows are lost: the
 * plan's id tells. */
static void reports_about_another_plan_of_the_same_number_are_not_believed(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    struct agent *a = &world->agent[0];
    agent_beat(world, a);
    (void)snprintf(a->heartbeat.plan.text, ID_SIZE, "plan_01HZZZZZZZZZZZZZZZZZZZZZZZ");
    a->heartbeat.step = 50;
    agent_beat_again(world, a);
    assert_int_equal(world_job(world, id)->generation, 2); /* abandoned: a works for another job */
    assert_int_equal(core_job_incident(world->core, id)->step_reached,
                     0); /* what it says is of another life */
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

/* An idle device reports a later generation first; the plan's device must still end the plan. */
static void an_idle_device_does_not_hide_that_a_plans_device_is_ahead(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    struct agent *d = world_agent(world, "d", 10);
    agent_beat(world, d);
    memcpy(d->heartbeat.job.text, id, ID_SIZE);
    d->heartbeat.highest_generation = 6;
    agent_beat_again(world, d);
    assert_int_equal(world_job(world, id)->generation, 1);
    story_claim(world, &world->agent[0], 6);
    assert_int_equal(world_job(world, id)->generation, 7);
}

/* A version that two devices could not load is abandoned for the center's. */
static void after_two_devices_failed_to_load_it_the_center_is_tried(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 8);
    world_train(world, 20);
    int64_t center = world_job(world, id)->version;
    agent_restart(world, &world->agent[2]);
    for (size_t i = 0; i < 2; i++) {
        assert_true(start_of(world, id) > center);
        agent_follow(world, &world->agent[i]);
        world_live(world, 500); /* longer than the steps since take */
        agent_fail(world, &world->agent[i], "internal");
        agent_beat(world, &world->agent[i]);
        agent_follow(world, &world->agent[i]);
    }
    assert_int_equal(start_of(world, id), center);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

/* The device cannot load its units whenever the job is planned, until the job starts from `version`
 * or so much time has passed. */
static void fail_to_load(struct world *world, const char *id, struct agent *agent, int64_t version,
                         int64_t ms)
{
    int64_t end_ms = world->now_ms + ms;
    while (world->now_ms < end_ms && start_of(world, id) != version) {
        if (world_job(world, id)->state == JOB_RECOVERING) {
            agent_follow(world, agent);
            agent_fail(world, agent, "internal");
            agent_beat(world, agent);
        }
        world_live(world, 500);
    }
}

static void one_device_that_the_job_needs_and_cannot_load_it_gets_the_centers(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = story_spec(100);
    spec.devices_min = 3;
    spec.neighbor_every = 3;
    spec.center_every = 8;
    story_submit(world, id, &spec);
    world_train(world, 20);
    story_measure_step(world, 3);
    int64_t center = world_job(world, id)->version, held = world_job(world, id)->neighbor_version;
    assert_true(center >= 8 && center < held);
    agent_restart(world, &world->agent[2]);
    agent_beat(world, &world->agent[2]);
    assert_true(start_of(world, id) >= held);
    fail_to_load(world, id, &world->agent[0], center, 2000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_string_equal(world_job(world, id)->state_reason, "device_failed");
    assert_true(start_of(world, id) >= held);
    fail_to_load(world, id, &world->agent[0], center, 60000);
    assert_int_equal(start_of(world, id), center);
    assert_holds(core_job_incident(world->core, id)->message, " could not be loaded for ");
    story_finish(world, id);
}

/* A pause and a resume start it from the seed, if that is preferred. */
static void devices_that_cannot_load_it_never_send_a_job_back_to_the_seed(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    int64_t held = world_job(world, id)->neighbor_version;
    agent_restart(world, &world->agent[2]);
    for (size_t i = 0; i < 8; i++) {
        fail_to_load(world, id, &world->agent[i % 2], 0, 20000);
        assert_true(start_of(world, id) >= held);
    }
    assert_true(world_job(world, id)->neighbor_version >= held);
    for (int i = 0; i < 700 && world_job(world, id)->state != JOB_RUNNING; i++) {
        world_live(world, 1000);
        world_settle(world);
    }
    assert_true(start_of(world, id) >= held);
    story_finish(world, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(one_loss_costs_the_steps_since_the_last_commit),
        STORY(losing_two_neighbours_costs_versions_that_only_they_held),
        STORY(a_version_with_different_hashes_is_not_resumed),
        STORY(a_source_that_is_lost_costs_a_generation),
        STORY(a_returning_device_is_asked_before_steps_are_discarded),
        STORY(asking_has_a_bound),
        STORY(versions_that_a_rollback_discarded_stay_discarded),
        STORY(versions_of_unknown_generations_are_not_taken),
        STORY(training_does_not_resume_from_dropped_versions),
        STORY(a_waiting_job_asks_devices_that_return),
        STORY(units_come_from_where_they_come_fastest),
        STORY(reports_about_another_plan_of_the_same_number_are_not_believed),
        STORY(an_idle_device_does_not_hide_that_a_plans_device_is_ahead),
        STORY(after_two_devices_failed_to_load_it_the_center_is_tried),
        STORY(one_device_that_the_job_needs_and_cannot_load_it_gets_the_centers),
        STORY(devices_that_cannot_load_it_never_send_a_job_back_to_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
