/* The coordinator goes away for longer than any wait, and nothing comes of it. */
#include "tests/sim/stories/story.h"

#include <stdlib.h>

#define JOBS 8
#define STAGES 4
#define STEPS 60
#define HOUR_EVENTS_MAX 30000000

/* `devices` devices and a job for each STAGES of them. Steps take `slowness` percent of the usual
 * time. */
static struct story *begin(size_t devices, int64_t slowness, int64_t steps)
{
    struct err err = {0};
    struct story *story = calloc(1, sizeof(*story));
    assert_non_null(story);
    buf_init(&story->trace.text, 1 << 24);
    assert_ok(sim_models_new(&story->models, &err), &err);
    assert_ok(sim_open(&story->world, 1, &story->models, devices, &story->trace, &err), &err);
    for (size_t i = 0; i < devices / STAGES; i++) {
        struct user_job *job = users_add(&story->world, 2, steps);
        job->spec.devices_min = job->spec.devices_max = STAGES;
        job->spec.neighbor_every = 10;
        job->spec.autonomy_seconds = 7200;
        job->spec.replan_first = job->spec.replan_every = 0; /* plans stay as they are */
    }
    for (size_t i = 0; i < devices; i++) {
        struct agent *agent = story->world.agent[i];
        agent->slowness = agent->usual_slowness = slowness;
        agent->gflops = 1000.0 / (double)slowness;
    }
    story->world.faults->outages = true; /* any blame fails the test */
    sim_start(&story->world);
    story_pass(story, 100 * MS);
    assert_ok(users_begin(&story->world, &err), &err);
    return story;
}

static void end(struct story *story)
{
    for (int i = 0; i < 600 && !users_served(&story->world); i++) {
        story_pass(story, 10 * SECOND);
    }
    for (size_t i = 0; i < story->world.users->job_count; i++) {
        const struct user_job *job = &story->world.users->job[i];
        assert_true(job->ended);
        assert_int_equal(job->state, JOB_SUCCEEDED);
        assert_int_equal(rows_job(&story->world.coordinator->rows, job->id.text)->generation, 1);
    }
    story_free(story);
}

static void an_hour_without_the_coordinator_costs_32_devices_nothing(void **state)
{
    (void)state;
    struct story *story = begin(JOBS * STAGES, 60000, STEPS);
    story->world.events_max = HOUR_EVENTS_MAX;
    story_step(story, 2);
    faults_kill_coordinator(&story->world, 3600 * SECOND);
    story_pass(story, 3590 * SECOND);
    story_step(story, 10); /* they have trained on */
    end(story);
}

static void outages_of_5_to_60_s_cost_8_devices_nothing(void **state)
{
    (void)state;
    struct story *story = begin(2 * STAGES, 3000, 2000);
    story_step(story, 1);
    for (int64_t i = 0; i < 20; i++) {
        const int64_t us = (5 + 55 * i / 19) * SECOND;
        if (i % 2 == 0) {
            faults_kill_coordinator(&story->world, us);
        } else {
            faults_freeze(&story->world, ACTOR_COORDINATOR, us);
        }
        story_pass(story, us + 10 * SECOND);
    }
    end(story);
}

/* The hour takes its time: it is of the slow tier, where there is an argument. */
int main(int count, char **argument)
{
    (void)argument;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outages_of_5_to_60_s_cost_8_devices_nothing),
    };
    const struct CMUnitTest slow[] = {
        cmocka_unit_test(an_hour_without_the_coordinator_costs_32_devices_nothing),
    };
    return count > 1 ? cmocka_run_group_tests(slow, NULL, NULL)
                     : cmocka_run_group_tests(tests, NULL, NULL);
}
