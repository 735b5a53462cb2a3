/* Faults of one device that still sends heartbeats: the others' job continues without it, and waits
 * for it only if it must. */
#include "tests/sim/stories/story.h"

static const enum local_fault every_fault[] = {LOCAL_DISK_FULL, LOCAL_DISK_HUNG, LOCAL_CACHE_WRONG,
                                               LOCAL_MEMORY};
#define FAULTS (sizeof(every_fault) / sizeof(every_fault[0]))

static void one_failed_device_costs_one_generation(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAULTS; i++) {
        struct story *story = story_new(3);
        faults_local(&story->world, 2, every_fault[i]);
        story_until(story, "center: incident_opened: 'job1': ");
        story_until(story, "center: job job1 running: runs generation 2 on 2 devices");
        story_succeeds(story, 2);
        story_free(story);
    }
}

static void a_failure_in_mid_job_costs_one_more_generation(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAULTS; i++) {
        struct story *story = story_new(3);
        story_step(story, 10);
        faults_local(&story->world, 2, every_fault[i]);
        faults_kill_device(&story->world, 1, 300 * MS); /* all have to prepare again */
        story_until(story, "center: generation_failed: generation 2: ");
        story_until(story, "center: job job1 succeeded");
        assert_in_range(story_job(story)->generation, 3, 4); /* who was killed may join again */
        story_free(story);
    }
}

static void a_job_waits_for_the_only_device_and_resumes_on_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAULTS; i++) {
        struct story *story = story_new(1);
        faults_local(&story->world, 0, every_fault[i]);
        story_until(story, "center: job job1 waiting_for_devices device_failed: ");
        story_pass(story, 130 * SECOND);
        assert_in_range(story_job(story)->generation, 2, 6); /* in longer and longer pauses */
        faults_local(&story->world, 0, LOCAL_NONE);
        story_until(story, "center: job job1 succeeded");
        story_free(story);
    }
}

static void a_job_that_needs_all_devices_resumes_when_they_return(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAULTS; i++) {
        struct story *story = story_new_min(3, 3);
        faults_local(&story->world, 0, every_fault[i]);
        story_until(story, "center: job job1 waiting_for_devices device_failed: ");
        story_pass(story, 20 * SECOND);
        faults_local(&story->world, 0, LOCAL_NONE);
        story_until(story, "center: job job1 succeeded");
        story_free(story);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failed_device_costs_one_generation),
        cmocka_unit_test(a_failure_in_mid_job_costs_one_more_generation),
        cmocka_unit_test(a_job_waits_for_the_only_device_and_resumes_on_it),
        cmocka_unit_test(a_job_that_needs_all_devices_resumes_when_they_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
