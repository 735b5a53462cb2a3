/* Checkpoints that are uploaded, and jobs that start from one. */
#include "tests/unit/coordinator_core/story.h"

static void store(struct world *world, const char *sha256)
{
    struct event event = {.type = EVENT_CHECKPOINT_STORED, .checkpoint_stored = {.bytes = 1000}};
    (void)snprintf(event.checkpoint_stored.sha256, SHA256_SIZE, "%s", sha256);
    world_send(world, &event);
}

/* Devices a, b and c prepare a job of the stages 0, 1, 2-4 that starts from a checkpoint, except
 * for unit `head`. */
static void story_start(struct world *world, char id[ID_SIZE])
{
    struct job_spec spec = story_spec(100);
    store(world, "start");
    spec.init_checkpoint = world->rows.checkpoint[0].id;
    (void)snprintf(spec.init_except[0].text, NAME_SIZE, "%s", world->model->unit[4].name);
    spec.init_except_count = 1;
    story_devices(world);
    story_submit(world, id, &spec);
}

static void assert_started(const struct world *world, const struct agent *agent)
{
    const struct assignment_run *run = &story_assignment(world, agent)->run;
    assert_int_equal(run->phase, PHASE_PREPARE);
    assert_int_equal(run->resume_version, 0);
    assert_int_equal(run->source_count, run->end - run->first);
    for (size_t i = 0; i < run->source_count; i++) {
        const struct source *source = &run->source[i];
        assert_int_equal(source->from, source->unit < 4 ? SOURCE_CHECKPOINT : SOURCE_SEED);
        assert_string_equal(source->sha256, source->unit < 4 ? "start" : "");
        assert_int_equal(source->bytes, source->unit < 4 ? 1000 : 0);
    }
    assert_true(core_may_read_blob(world->core, agent->id.text, "start"));
}

static void the_same_content_is_the_same_checkpoint(void **state)
{
    struct world *world = *state;
    store(world, "first");
    assert_int_equal(world->status, 201);
    store(world, "second");
    assert_int_equal(world->status, 201);
    world_restart(world);
    store(world, "first");
    assert_int_equal(world->status, 200);
    assert_int_equal(world->rows.checkpoint_count, 2);
    const struct checkpoint *first = core_upload(world->core, "first");
    assert_string_equal(first->id.text, world->rows.checkpoint[0].id.text);
    assert_string_equal(first->job.text, "");
    assert_int_equal(first->version, 0);
    assert_int_equal(first->bytes, 1000);
    assert_null(core_upload(world->core, "third"));
}

static void there_is_a_bound_on_uploads(void **state)
{
    struct world *world = *state;
    char sha256[SHA256_SIZE];
    for (int i = 0; i < 1024; i++) {
        assert_false(core_uploads_full(world->core));
        (void)snprintf(sha256, sizeof(sha256), "%d", i);
        store(world, sha256);
        assert_int_equal(world->status, 201);
    }
    assert_true(core_uploads_full(world->core));
    store(world, "one more");
    assert_int_equal(world->problem, PROBLEM_TOO_MANY);
    assert_null(core_upload(world->core, "one more"));
    store(world, "7");
    assert_int_equal(world->status, 200);
}

static void units_come_from_the_checkpoint_except_the_named_ones(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_start(world, id);
    for (size_t i = 0; i < 3; i++) {
        assert_started(world, &world->agent[i]);
    }
    assert_false(core_may_read_blob(world->core, world->agent[0].id.text, "other"));
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_false(core_may_read_blob(world->core, world->agent[0].id.text, "start")); /* it runs */
}

static void a_failure_before_the_first_copy_leads_back_to_the_checkpoint(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_start(world, id);
    world_settle(world);
    story_round(world, false);
    agent_restart(world, &world->agent[1]);
    world_settle(world);
    assert_int_equal(core_job_plan(world->core, id)->resume_version, 0);
    assert_state(world, id, JOB_RUNNING);
}

static void a_preparation_from_the_checkpoint_outlives_a_restart_of_the_coordinator(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_start(world, id);
    world_restart(world);
    for (size_t i = 0; i < 3; i++) {
        agent_enroll(world, &world->agent[i]);
        assert_started(world, &world->agent[i]);
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void a_blob_that_is_a_checkpoint_too_stays_when_its_version_goes(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE], sha256[SHA256_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    world_train(world, 5);
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    unit_sha256(sha256, world_job(world, id)->version, 2);
    store(world, sha256);
    const size_t deleted = world->deleted;
    world_verb(world, id, JOB_CANCEL);
    assert_int_equal(world->deleted - deleted, 4); /* of 5 units */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(the_same_content_is_the_same_checkpoint),
        STORY(there_is_a_bound_on_uploads),
        STORY(units_come_from_the_checkpoint_except_the_named_ones),
        STORY(a_failure_before_the_first_copy_leads_back_to_the_checkpoint),
        STORY(a_preparation_from_the_checkpoint_outlives_a_restart_of_the_coordinator),
        STORY(a_blob_that_is_a_checkpoint_too_stays_when_its_version_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
