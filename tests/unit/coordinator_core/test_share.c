/* The share of its processor that a device has (share.h): from stages that always work and from
 * those that mostly wait. */
#include "coordinator/core/capacity/share.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "schema/prediction.h"
#include "tests/unit/coordinator_core/story.h"

#define MINUTE 60000

/* A stage of a plan reports once a second for so long. */
static void run(struct share *share, uint64_t plan, double granted, double used, int64_t *now_ms,
                int64_t for_ms)
{
    const struct stage_load load = {.plan = plan, .granted = granted, .used = used};
    for (const int64_t end_ms = *now_ms + for_ms; *now_ms < end_ms; *now_ms += 1000) {
        share_ran(share, &load, *now_ms);
    }
}

static void assert_share(const struct share *share, double expected, double relative)
{
    assert_close(&share->value, &expected, 1, relative);
}

static void a_stage_that_always_works_shows_the_share(void **state)
{
    (void)state;
    struct share share;
    int64_t now_ms = 0;
    share_begin(&share, 0);
    assert_share(&share, 1, 0);
    run(&share, 1, 0.2, 0.2, &now_ms, 5000);
    assert_share(&share, 0.2, 1e-9);
    run(&share, 1, 0.3, 0.29, &now_ms, 5000);
    assert_share(&share, 0.3, 0.05);
}

static void a_stage_that_mostly_waits_leaves_it(void **state)
{
    (void)state;
    struct share share;
    int64_t now_ms = 0;
    share_begin(&share, 0.2);
    run(&share, 1, 0.8, 0.05, &now_ms, 5000);
    assert_share(&share, 0.2, 1e-9);
    run(&share, 1, 0.9, 0.05, &now_ms, 5000); /* noise */
    run(&share, 1, 0.7, 0.05, &now_ms, 5000);
    assert_share(&share, 0.2, 1e-9);
}

static void it_is_at_least_what_is_used_and_about_at_most_what_is_granted(void **state)
{
    (void)state;
    struct share share;
    int64_t now_ms = 0;
    share_begin(&share, 0.2);
    run(&share, 1, 0.9, 0.6, &now_ms, 1000);
    assert_share(&share, 0.6, 1e-9);
    share_begin(&share, 1);
    run(&share, 1, 0.4, 0.1, &now_ms, 1000);
    assert_share(&share, 0.5, 1e-9);
    run(&share, 1, -1, -1, &now_ms, 1000); /* an agent that tells nothing */
    assert_share(&share, 0.5, 1e-9);
}

/* The same work of a plan is stopped five times as much, and later as before. */
static void a_quota_that_changes_in_a_plan_shows_at_once(void **state)
{
    (void)state;
    struct share share;
    int64_t now_ms = 0;
    share_begin(&share, 0.5);
    run(&share, 1, 0.5, 0.45, &now_ms, 10000);
    run(&share, 1, 0.1, 0.09, &now_ms, 1000);
    assert_share(&share, 0.1, 1e-9);
    run(&share, 1, 0.5, 0.2, &now_ms, 1000);
    assert_share(&share, 0.5, 1e-9);
}

/* Nothing is seen of a quota that ended: half of the rest is forgotten in ten minutes. */
static void a_device_that_is_never_stopped_is_tried_again(void **state)
{
    (void)state;
    struct share share;
    int64_t now_ms = 0;
    share_begin(&share, 0.2);
    run(&share, 1, 1, 0.05, &now_ms, (int64_t)10 * MINUTE);
    assert_share(&share, 0.6, 0.01);
    assert_close(&share.seen, &(double){0.2}, 1, 1e-9); /* nothing was measured */
    run(&share, 2, 0.2, 0.2, &now_ms, 1000);
    run(&share, 2, 0.3, 0.05, &now_ms, (int64_t)60 * MINUTE); /* it is stopped */
    assert_share(&share, 0.2, 1e-9);
}

static void a_probe_is_believed_beyond_its_noise(void **state)
{
    (void)state;
    struct share share;
    share_begin(&share, 0.4);
    share_probed(&share, 0);
    assert_share(&share, 0.4, 0);
    share_probed(&share, 0.1);
    assert_share(&share, 0.1, 1e-9);
    share_probed(&share, 0.121);
    assert_share(&share, 0.11, 1e-9);
    share_probed(&share, 7);
    assert_share(&share, 1, 0);
    assert_false(share_valid(0));
    assert_false(share_valid(1.1));
    assert_true(share_valid(share.value));
}

/* ---- in the core ---- */

/* The agent's step takes a second, of which it waits for all but `compute`, and is stopped for part
 * of that. */
static void report(struct world *world, struct agent *agent, double seconds, double compute,
                   double stopped)
{
    story_measure(world, agent, seconds);
    agent->heartbeat.stage_seconds = (struct stage_seconds){
        .step = 1, .compute = compute, .stopped = stopped, .wait_input = 1 - compute};
    agent_beat_again(world, agent);
}

static void predict(const struct world *world, const char *id, const struct agent *agent,
                    struct prediction *out)
{
    const struct job_slot *job = slots_job(world->core, id);
    assert_true(core_predict(world->core, agent->id.text, job->model, &job->job.spec, out));
}

/* A quota of a tenth stops a stage that always works. One with little to do hardly meets it, and
 * its units take as long. Another plan may give it more. */
static void a_plan_in_which_a_stage_mostly_waits_makes_no_device_fast(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    static struct prediction before, after;
    story_train(world, id, 100, 5);
    struct agent *agent = &world->agent[2]; /* units 2 to 4 */
    report(world, agent, 0.01, 1, 0.9);
    predict(world, id, agent, &before);
    assert_close(&before.processor_share, &(double){0.1}, 1, 0.01);
    story_replan(world, id, 1, 4);
    world_settle(world);
    for (size_t i = 0; i < 3; i++) {
        report(world, agent, 0.01, 0.05, 0.01); /* at first without a step */
        predict(world, id, agent, &after);
        assert_close(&after.processor_share, &before.processor_share, 1, 0.02);
        for (size_t u = 0; u < before.unit_count; u++) {
            assert_close(&after.unit[u].forward_seconds, &before.unit[u].forward_seconds, 1, 0.02);
        }
    }
}

/* Plans of devices with a fifth of their processors are slower by it. */
static void a_plan_counts_the_share_of_the_processor(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    static const double stopped[] = {0, 0, 0.8};
    double seconds[3];
    story_train(world, id, 100, 5);
    for (size_t i = 0; i < 3; i++) {
        for (size_t a = 0; a < 3; a++) {
            report(world, &world->agent[a], 0.5, 1, stopped[i]);
        }
        story_replan(world, id, 2, 4);
        world_settle(world);
        seconds[i] = slots_job(world->core, id)->plan.predicted_step_seconds;
    }
    assert_true(seconds[2] > 4.5 * seconds[1] && seconds[2] < 5.1 * seconds[1]);
}

/* The units take as long as before and the step is that of other stages; the plan is checked. */
static void a_quota_that_ends_is_a_drift(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 1000, 5);
    struct job_slot *job = slots_job(world->core, id);
    job->job.spec.replan_first = job->job.spec.replan_every = 1000; /* it changes by itself */
    for (size_t i = 0; i < 8; i++) {
        report(world, &world->agent[2], 0.01, 0.5, 0.4);
        world_live(world, 1000);
    }
    job->drift.due = false;
    job->drift.checked_step = job->progress.reached_step;
    report(world, &world->agent[2], 0.01, 0.5, 0.4);
    assert_false(job->drift.due);
    for (size_t i = 0; i < 8; i++) {
        report(world, &world->agent[2], 0.01, 0.11, 0.01);
        world_live(world, 1000);
    }
    assert_true(job->drift.due || job->job.has_last_check);
    assert_int_equal(job->drift.trigger, CHECK_DRIFT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_that_always_works_shows_the_share),
        cmocka_unit_test(a_stage_that_mostly_waits_leaves_it),
        cmocka_unit_test(it_is_at_least_what_is_used_and_about_at_most_what_is_granted),
        cmocka_unit_test(a_quota_that_changes_in_a_plan_shows_at_once),
        cmocka_unit_test(a_device_that_is_never_stopped_is_tried_again),
        cmocka_unit_test(a_probe_is_believed_beyond_its_noise),
        STORY(a_plan_in_which_a_stage_mostly_waits_makes_no_device_fast),
        STORY(a_plan_counts_the_share_of_the_processor),
        STORY(a_quota_that_ends_is_a_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
