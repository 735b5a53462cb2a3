/* The coordinator dies before and after each commit of a job's life: no client has seen a state
 * that the restarted coordinator does not know. */
#include "tests/sim/stories/story.h"

/* It dies at the n-th commit after all devices have enrolled. Returns whether there was one. */
static bool dies_at(uint64_t commit, enum crash_point point)
{
    struct story *story = story_new(2);
    story->world.faults->crash_commit = story->world.coordinator->commits + commit;
    story->world.faults->crash_point = point;
    for (int second = 0; second < 300 && !users_served(&story->world); second++) {
        story_pass(story, SECOND);
    }
    assert_true(users_served(&story->world));
    assert_int_equal(story_job(story)->state, JOB_SUCCEEDED);
    const bool died = story->world.coordinator->lives > 1;
    story_free(story);
    return died;
}

static void every_commit_can_be_the_last_before(void **state)
{
    (void)state;
    uint64_t commit = 1;
    while (dies_at(commit, CRASH_BEFORE_COMMIT)) {
        commit++;
    }
    assert_true(commit > 10);
}

static void every_commit_can_be_the_last_after(void **state)
{
    (void)state;
    uint64_t commit = 1;
    while (dies_at(commit, CRASH_AFTER_COMMIT)) {
        commit++;
    }
    assert_true(commit > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_commit_can_be_the_last_before),
        cmocka_unit_test(every_commit_can_be_the_last_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
