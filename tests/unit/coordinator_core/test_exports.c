/* Checkpoints of jobs that have not trained their last step: on request, and by a cancel that
 * keeps. */
#include "tests/unit/coordinator_core/story.h"

/* Ten steps are trained, some of them in the center. */
static int64_t start(struct world *world, char id[ID_SIZE])
{
    story_replicated(world, id, 0, 2);
    for (int i = 0; i < 20 && world_job(world, id)->version == 0; i++) {
        story_round(world, true);
    }
    assert_true(world_job(world, id)->version > 0);
    return world_job(world, id)->version;
}

static void train_on(struct world *world, const char *id, int64_t version)
{
    for (int i = 0; i < 20 && world_job(world, id)->version == version; i++) {
        story_round(world, true);
    }
    assert_true(world_job(world, id)->version > version);
}

static void a_running_job_can_be_exported_as_a_checkpoint(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t version = start(world, id);
    world_verb(world, id, JOB_EXPORT);
    assert_int_equal(world->status, 202);
    assert_int_equal(world->job.export_version, version);
    assert_int_equal(world->export_version, version);
    world_verb(world, id, JOB_EXPORT); /* it is under way */
    assert_int_equal(world->status, 202);
    assert_int_equal(world->exports, 1);
    world_exported(world, false);
    assert_int_equal(world->rows.checkpoint_count, 1);
    assert_int_equal(world->rows.checkpoint[0].version, version);
    assert_string_equal(world->rows.checkpoint[0].job.text, id);
    assert_int_equal(world_job(world, id)->export_version, 0);
    assert_int_equal(world_job(world, id)->exported_version, version);
    assert_string_equal(world_job(world, id)->checkpoint.text, "");
    assert_state(world, id, JOB_RUNNING);
    world_verb(world, id, JOB_EXPORT); /* it is there */
    assert_int_equal(world->status, 202);
    assert_int_equal(world->exports, 1);
    train_on(world, id, version);
    world_verb(world, id, JOB_EXPORT);
    assert_true(world->export_version > version);
    world_exported(world, false);
    assert_int_equal(world->rows.checkpoint_count, 2);
}

static void a_job_that_has_ended_exports_nothing_more(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t version = start(world, id);
    world_verb(world, id, JOB_EXPORT);
    assert_int_equal(world_job(world, id)->export_version, version);
    world_verb(world, id, JOB_CANCEL);
    assert_state(world, id, JOB_CANCELLED);
    assert_int_equal(world_job(world, id)->export_version, 0);
    world_exported(world, false);
    assert_int_equal(world->rows.checkpoint_count, 0);
}

static void without_a_version_in_the_center_there_is_nothing_to_export_or_keep(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 3);
    static const enum job_verb verbs[] = {JOB_EXPORT, JOB_CANCEL_KEEP};
    for (size_t i = 0; i < 2; i++) {
        world_verb(world, id, verbs[i]);
        assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
        assert_holds(world->text, "no whole version");
        assert_state(world, id, JOB_RUNNING);
    }
}

static void an_export_that_was_overtaken_takes_the_newer_version(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t version = start(world, id);
    world_verb(world, id, JOB_EXPORT);
    train_on(world, id, version);
    world_exported(world, true); /* of the older one */
    assert_int_equal(world->exports, 2);
    assert_int_equal(world->export_version, world_job(world, id)->version);
    world_exported(world, false);
    assert_int_equal(world->rows.checkpoint[0].version, world_job(world, id)->exported_version);
}

static void a_failed_export_is_reported_and_costs_nothing(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)start(world, id);
    world_verb(world, id, JOB_EXPORT);
    world->traced = true;
    world_exported(world, true);
    assert_holds(world->trace.data, "publish export_failed");
    assert_int_equal(world_job(world, id)->export_version, 0);
    assert_state(world, id, JOB_RUNNING);
    world_verb(world, id, JOB_EXPORT);
    assert_int_equal(world->exports, 2);
}

static void an_export_outlives_a_restart_of_the_coordinator(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t version = start(world, id);
    world_verb(world, id, JOB_EXPORT);
    world_restart(world);
    assert_int_equal(world->exports, 2);
    assert_int_equal(world->export_version, version);
    world_exported(world, false);
    assert_int_equal(world->rows.checkpoint_count, 1);
}

static void pause(struct world *world, const char *id)
{
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
}

static void a_paused_job_is_cancelled_with_its_weights_kept(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    pause(world, id);
    int64_t version = world_job(world, id)->version;
    world_verb(world, id, JOB_CANCEL_KEEP);
    assert_int_equal(world->status, 202);
    assert_state(world, id, JOB_CANCELLING);
    assert_int_equal(world_units(world, id), 5);
    world_verb(world, id, JOB_RESUME);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
    world_exported(world, false);
    assert_state(world, id, JOB_CANCELLED);
    assert_int_equal(world->rows.checkpoint[0].version, version);
    assert_string_equal(world_job(world, id)->checkpoint.text, world->rows.checkpoint[0].id.text);
    assert_int_equal(world_job(world, id)->progress.step, version);
    assert_int_equal(world_units(world, id), 0);
}

static void a_running_job_lets_its_devices_go_before_its_weights_are_kept(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t version = start(world, id);
    world_verb(world, id, JOB_CANCEL_KEEP);
    assert_state(world, id, JOB_CANCELLING);
    assert_int_equal(world_job(world, id)->progress.step, version);
    world_settle(world);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(core_device(world->core, world->agent[i].id.text)->job.text, "");
        assert_int_equal(world->agent[i].held_count, 0);
    }
    world_exported(world, false);
    assert_state(world, id, JOB_CANCELLED);
    assert_int_equal(world->rows.checkpoint_count, 1);
}

static void keeping_is_tried_again_and_outlives_a_restart(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)start(world, id);
    world_verb(world, id, JOB_CANCEL_KEEP);
    world_exported(world, true);
    assert_state(world, id, JOB_CANCELLING);
    world_pass(world, 10000);
    assert_int_equal(world->exports, 2);
    world_restart(world);
    assert_state(world, id, JOB_CANCELLING);
    assert_int_equal(world->exports, 3);
    world_exported(world, false);
    assert_state(world, id, JOB_CANCELLED);
    assert_int_equal(world->rows.checkpoint_count, 1);
}

static void keeping_that_fails_again_and_again_loses_nothing(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)start(world, id);
    world_verb(world, id, JOB_CANCEL_KEEP);
    for (int i = 0; i < 8; i++) {
        world_exported(world, true);
        assert_state(world, id, JOB_CANCELLING);
        assert_string_equal(world_job(world, id)->state_reason, "export_failed");
        assert_int_equal(world_units(world, id), 5);
        world_pass(world, 320000);
    }
    world_exported(world, false);
    assert_state(world, id, JOB_CANCELLED);
    assert_int_equal(world->rows.checkpoint_count, 1);
}

static void a_second_cancel_ends_the_job_without_keeping_its_weights(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)start(world, id);
    world_verb(world, id, JOB_CANCEL_KEEP);
    world_verb(world, id, JOB_CANCEL);
    assert_state(world, id, JOB_CANCELLED);
    world_exported(world, false);
    assert_int_equal(world->rows.checkpoint_count, 0);
    assert_int_equal(world_units(world, id), 0);
}

/* An older version arrives while the last one is on its way: the job does not end with it. */
static void an_export_does_not_end_a_job_that_stores_its_last_step(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)start(world, id);
    int64_t total = world_job(world, id)->progress.steps;
    for (int i = 0; i < 500 && core_job_plan(world->core, id)->last_version != total; i++) {
        story_round(world, false);
    }
    assert_int_equal(core_job_plan(world->core, id)->last_version, total);
    int64_t version = world_job(world, id)->version;
    assert_true(version < total);
    world_verb(world, id, JOB_EXPORT);
    assert_int_equal(world->export_version, version);
    world_exported(world, false);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world->rows.checkpoint_count, 1);
    assert_int_equal(world->rows.checkpoint[0].version, version);
}

static void an_ended_job_reports_its_mean_speed(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)start(world, id);
    const struct job *job = world_job(world, id);
    world_pass(world, 4321);
    double step = (double)job->progress.step, batch = (double)job->spec.batch;
    world_verb(world, id, JOB_CANCEL);
    job = world_job(world, id);
    double seconds = (double)(job->ended_ms - job->started_ms) / 1000;
    assert_true(seconds > 4.3);
    double mean = step * batch / seconds;
    assert_close(&job->progress.samples_per_second, &mean, 1, 1e-12);
    assert_true(job->progress.eta_seconds == 0);
    struct job_spec spec = world_spec("never", 100);
    spec.devices_min = spec.devices_max = 4;
    story_submit(world, id, &spec);
    world_pass(world, 1000);
    world_verb(world, id, JOB_CANCEL);
    assert_true(world_job(world, id)->progress.samples_per_second == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_running_job_can_be_exported_as_a_checkpoint),
        STORY(a_job_that_has_ended_exports_nothing_more),
        STORY(without_a_version_in_the_center_there_is_nothing_to_export_or_keep),
        STORY(an_export_that_was_overtaken_takes_the_newer_version),
        STORY(a_failed_export_is_reported_and_costs_nothing),
        STORY(an_export_outlives_a_restart_of_the_coordinator),
        STORY(a_paused_job_is_cancelled_with_its_weights_kept),
        STORY(a_running_job_lets_its_devices_go_before_its_weights_are_kept),
        STORY(keeping_is_tried_again_and_outlives_a_restart),
        STORY(keeping_that_fails_again_and_again_loses_nothing),
        STORY(a_second_cancel_ends_the_job_without_keeping_its_weights),
        STORY(an_export_does_not_end_a_job_that_stores_its_last_step),
        STORY(an_ended_job_reports_its_mean_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
