/* The coordinator dies before and after each commit of a job's life: no client has seen a state
 * that the restarted coordinator does not know, and the model is that of an undisturbed run. */
#include <string.h>

#include "tests/sim/stories/story.h"

#define STEPS 40

/* A job, how long it may take, and how many commits its life has at least. */
struct life {
    struct story_setting setting;
    int seconds;
    uint64_t commits;
};

static const struct life pipeline = {
    .setting = {.devices = 2, .steps = STEPS}, .seconds = 300, .commits = 10};
static const struct submodel_options options = {
    .stem = 1, .stem_epochs = 1, .negatives = 1, .replicas = 1, .joint_epochs = 1};
static const struct life submodels = {.setting = {.devices = 2,
                                                  .devices_min = 1,
                                                  .steps = STEPS,
                                                  .submodel = &options,
                                                  .groups = &story_thirds},
                                      .seconds = 600,
                                      .commits = 30};

/* The coordinator dies at the n-th commit after all devices have enrolled; 0: at none. Writes the
 * hash of the model. Returns whether it died. */
static bool dies_at(const struct life *life, uint64_t commit, enum crash_point point,
                    char out[SHA256_SIZE])
{
    struct story *story = story_new_as(&life->setting);
    story->world.faults->crash_commit = commit > 0 ? story->world.coordinator->commits + commit : 0;
    story->world.faults->crash_point = point;
    for (int second = 0; second < life->seconds && !users_served(&story->world); second++) {
        story_pass(story, SECOND);
    }
    assert_true(users_served(&story->world));
    assert_int_equal(story_job(story)->state, JOB_SUCCEEDED);
    memcpy(out, story_model(story), SHA256_SIZE);
    const bool died = story->world.coordinator->lives > 1;
    story_free(story);
    return died;
}

static void dies_at_every_commit(const struct life *life, enum crash_point point)
{
    char right[SHA256_SIZE], model[SHA256_SIZE];
    assert_false(dies_at(life, 0, point, right));
    uint64_t commit = 1;
    while (dies_at(life, commit, point, model)) {
        assert_string_equal(model, right);
        commit++;
    }
    assert_true(commit > life->commits);
}

static void a_pipeline_survives_a_death_before_any_commit(void **state)
{
    (void)state;
    dies_at_every_commit(&pipeline, CRASH_BEFORE_COMMIT);
}

static void a_pipeline_survives_a_death_after_any_commit(void **state)
{
    (void)state;
    dies_at_every_commit(&pipeline, CRASH_AFTER_COMMIT);
}

static void sub_models_survive_a_death_before_any_commit(void **state)
{
    (void)state;
    dies_at_every_commit(&submodels, CRASH_BEFORE_COMMIT);
}

static void sub_models_survive_a_death_after_any_commit(void **state)
{
    (void)state;
    dies_at_every_commit(&submodels, CRASH_AFTER_COMMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_survives_a_death_before_any_commit),
        cmocka_unit_test(a_pipeline_survives_a_death_after_any_commit),
        cmocka_unit_test(sub_models_survive_a_death_before_any_commit),
        cmocka_unit_test(sub_models_survive_a_death_after_any_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
