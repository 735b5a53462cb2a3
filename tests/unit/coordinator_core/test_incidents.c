/* Failures as people see them. */
#include "tests/unit/coordinator_core/story.h"

static const struct incident *row_of(const struct world *world)
{
    assert_true(world->rows.incident_count > 0);
    return &world->rows.incident[world->rows.incident_count - 1];
}

/* A job with some steps done, whose device b has restarted. */
static void restart_b(struct world *world, char id[ID_SIZE])
{
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    agent_restart(world, &world->agent[1]);
    agent_beat(world, &world->agent[1]);
}

static void an_incident_has_a_time_for_each_phase(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    struct agent *b = &world->agent[1];
    int64_t before = world->now_ms, step = world->agent[0].step;
    world->reports = true;
    agent_kill(b);
    world_pass(world, 200); /* not noticed yet */
    (void)trouble_list_add(&world->agent[0].troubles, TROUBLE_NEXT, &b->id, PEER_REFUSED, before);
    agent_beat(world, &world->agent[0]);
    world_pass(world, 300);
    const struct incident *incident = core_job_incident(world->core, id);
    assert_non_null(incident);
    assert_int_equal(incident->cause, INCIDENT_DEVICE_LOST);
    assert_int_equal(incident->state, INCIDENT_OPEN);
    assert_int_equal(incident->device_count, 1);
    assert_string_equal(incident->device[0].name, "b");
    assert_int_equal(incident->generation_before, 1);
    assert_int_equal(incident->step_reached, step);
    assert_int_equal(incident->resume_version, core_job_plan(world->core, id)->resume_version);
    assert_int_equal(incident->steps_redone, step - incident->resume_version);
    assert_close(&incident->detect_seconds, &(double){0.45}, 1,
                 1e-9); /* 200 ms and the challenge's 250 */
    assert_close(&incident->decide_seconds, &(double){0}, 1, 1e-9);
    world_pass(world, 100);
    for (size_t k = 0; k < 3; k += 2) {
        agent_follow(world, &world->agent[k]);
        world->agent[k].fetch_seconds = 0.05 + 0.01 * (double)k;
    }
    agent_follow(world, &world->agent[2]);
    agent_follow(world, &world->agent[0]);
    agent_beat(world, &world->agent[0]);
    agent_beat(world, &world->agent[2]);
    assert_state(world, id, JOB_RUNNING);
    world_pass(world, 40);
    agent_follow(world, &world->agent[0]);
    agent_follow(world, &world->agent[2]);
    assert_true(agent_step(world, &world->agent[0]));
    agent_beat(world, &world->agent[0]);
    assert_null(core_job_incident(world->core, id));
    incident = row_of(world);
    assert_int_equal(incident->state, INCIDENT_RESOLVED);
    assert_int_equal(incident->generation_after, 2);
    assert_int_equal(incident->failures, 1);
    const double seconds[] = {incident->fetch_seconds, incident->rebuild_seconds,
                              incident->resume_seconds};
    const double expected[] = {0.07, incident->rebuild_seconds, 0.04};
    assert_close(seconds, expected, 3, 1e-9);
    assert_true(incident->rebuild_seconds > 0.05);
    double sum =
        incident->detect_seconds + incident->decide_seconds + seconds[0] + seconds[1] + seconds[2];
    double whole = (double)(incident->resumed_ms - incident->suspected_ms) / 1000;
    assert_close(&sum, &whole, 1, 1e-9);
}

static void one_incident_stays_open_through_failures_on_the_way(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    restart_b(world, id);
    agent_restart(world, &world->agent[2]);
    agent_beat(world, &world->agent[2]);
    assert_int_equal(world->rows.incident_count, 1);
    const struct incident *incident = core_job_incident(world->core, id);
    assert_int_equal(incident->cause, INCIDENT_DEVICE_RESTARTED);
    assert_int_equal(incident->failures, 2);
    assert_int_equal(incident->device_count, 2);
    world_settle(world);
    world_train(world, 3);
    assert_null(core_job_incident(world->core, id));
    assert_int_equal(world->rows.incident_count, 1);
    assert_int_equal(row_of(world)->state, INCIDENT_RESOLVED);
    assert_int_equal(row_of(world)->generation_before, 1);
    assert_true(row_of(world)->bytes_moved > 0);
    assert_int_equal(row_of(world)->generation_after, world_job(world, id)->generation);
}

static void an_incident_survives_a_restart_of_the_coordinator(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    restart_b(world, id);
    struct incident_id before = core_job_incident(world->core, id)->id;
    world_restart(world);
    assert_non_null(core_job_incident(world->core, id));
    assert_string_equal(core_job_incident(world->core, id)->id.text, before.text);
    world_settle(world);
    world_train(world, 5);
    assert_null(core_job_incident(world->core, id));
    assert_int_equal(row_of(world)->state, INCIDENT_RESOLVED);
    assert_true(row_of(world)->detect_seconds >= 0);
}

static void an_incident_of_a_job_that_ends_is_abandoned(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    agent_fail(world, &world->agent[1], "data");
    agent_beat(world, &world->agent[1]);
    assert_int_equal(core_job_incident(world->core, id)->cause, INCIDENT_ERROR);
    world_verb(world, id, JOB_CANCEL);
    assert_null(core_job_incident(world->core, id));
    assert_int_equal(row_of(world)->state, INCIDENT_ABANDONED);
}

/* A job that can resume later waits, and shows since when. */
static void waiting_for_devices_belongs_to_the_incident(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = story_spec(100);
    spec.devices_min = 3;
    spec.neighbor_every = 3;
    story_devices(world);
    story_submit(world, id, &spec);
    world_train(world, 20);
    agent_kill(&world->agent[1]);
    world_live(world, 6000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_int_equal(core_job_incident(world->core, id)->decided_ms, 0);
    world_live(world, 10000);
    agent_restart(world, &world->agent[1]);
    world_settle(world);
    world_train(world, 3);
    assert_int_equal(row_of(world)->state, INCIDENT_RESOLVED);
    assert_true(row_of(world)->decide_seconds > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(an_incident_has_a_time_for_each_phase),
        STORY(one_incident_stays_open_through_failures_on_the_way),
        STORY(an_incident_survives_a_restart_of_the_coordinator),
        STORY(an_incident_of_a_job_that_ends_is_abandoned),
        STORY(waiting_for_devices_belongs_to_the_incident),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
