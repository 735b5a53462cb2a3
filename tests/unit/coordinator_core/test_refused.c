/* Measurements that cannot be: they are counted, and change nothing. */
#include <math.h>

#include "tests/unit/coordinator_core/story.h"

/* No device is left out, however slow it is. */
static void train_on_three(struct world *world, char id[ID_SIZE])
{
    struct job_spec spec = story_spec(100);
    spec.devices_min = 3;
    story_devices(world);
    story_submit(world, id, &spec);
    world_settle(world);
    world_train(world, 5);
}

static void nonsense_measurements_are_ignored(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    struct heartbeat *heartbeat = &world->agent[0].heartbeat;
    world_train(world, 2);
    heartbeat->unit_seconds_count = 3;
    heartbeat->unit_seconds[0] =
        (struct unit_seconds){.unit = 4, .forward_seconds = 1, .backward_seconds = 1};
    heartbeat->unit_seconds[1] =
        (struct unit_seconds){.unit = -1, .forward_seconds = 1, .backward_seconds = 1};
    heartbeat->unit_seconds[2] =
        (struct unit_seconds){.unit = 0, .forward_seconds = -1, .backward_seconds = 1e300};
    heartbeat->link_count = 1;
    heartbeat->link[0] =
        (struct link_report){.device = world->agent[1].id, .count = 5, .seconds_sum = -3};
    heartbeat->metric_count = 3;
    heartbeat->metric[0] = (struct metric){.step = 101, .name = METRIC_LOSS, .value = 1};
    heartbeat->metric[1] = (struct metric){.step = 3, .name = 77, .value = 1};
    heartbeat->metric[2] = (struct metric){.step = 3, .name = METRIC_LOSS, .value = 1.0 / 0.0};
    heartbeat->step = 5000;
    heartbeat->holding_count = 1;
    heartbeat->all_holdings = true;
    heartbeat->holding[0].unit = 9999;
    heartbeat->revision =
        (1ll << 53) - 1; /* one more could not be said in JSON: the device would be locked out */
    int64_t revision = core_assignment_revision(world->core, world->agent[0].id.text);
    size_t metrics = world->metrics;
    const uint64_t refused = core_measurements_refused(world->core);
    agent_beat_again(world, &world->agent[0]);
    assert_int_equal(core_measurements_refused(world->core), refused + 4);
    assert_int_equal(world->metrics, metrics);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_true(plan->stage[0].measured_forward_seconds == 0);
    assert_in_range(core_job(world->core, id)->progress.step, 0, 100);
    assert_in_range(core_assignment_revision(world->core, world->agent[0].id.text), revision,
                    revision + 10);
    assert_state(world, id, JOB_RUNNING);
}

static size_t count_links(const struct world *world)
{
    size_t at = 0, count = 0;
    while (core_next_link(world->core, &at) != NULL) {
        count++;
    }
    return count;
}

/* An infinite sum would stay for ever: no later report could mend it. */
static void sums_of_links_do_not_overflow(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    train_on_three(world, id);
    struct agent *agent = &world->agent[0];
    const uint64_t refused = core_measurements_refused(world->core);
    agent_beat(world, agent);
    agent->heartbeat.link_count = 2;
    for (size_t i = 0; i < 2; i++) {
        agent->heartbeat.link[i] = (struct link_report){.device = world->agent[1].id,
                                                        .count = 1000,
                                                        .seconds_sum = 1.7e308,
                                                        .bytes_sum = 1.7e308,
                                                        .bytes_squared_sum = 1.7e308,
                                                        .bytes_seconds_sum = 1.7e308};
    }
    agent_beat_again(world, agent);
    assert_int_equal(core_measurements_refused(world->core), refused + 2);
    assert_int_equal(count_links(world), 0);
}

/* A pair has few places; the estimates that plans need would make room. */
static void links_of_unknown_codecs_take_no_place(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    train_on_three(world, id);
    struct agent *agent = &world->agent[0];
    agent_beat(world, agent);
    agent->heartbeat.link_count = 1;
    agent->heartbeat.link[0] = (struct link_report){
        .device = world->agent[1].id, .count = 10, .seconds_sum = 5, .bytes_sum = 1e4};
    agent_beat_again(world, agent);
    for (size_t i = 0; i < 8; i++) {
        (void)snprintf(agent->heartbeat.link[0].codec, sizeof(agent->heartbeat.link[0].codec),
                       "codec%zu", i);
        agent_beat_again(world, agent);
    }
    assert_int_equal(count_links(world), 1);
    (void)snprintf(agent->heartbeat.link[0].codec, sizeof(agent->heartbeat.link[0].codec), "q8");
    agent_beat_again(world, agent);
    assert_int_equal(count_links(world), 2);
}

/* A stage whose waits or whose update take longer than its step is not believed either. */
static void impossible_steps_are_counted_and_ignored(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    train_on_three(world, id);
    struct agent *agent = &world->agent[2];
    const uint64_t refused = core_measurements_refused(world->core);
    story_measure(world, agent, 0.02);
    agent->heartbeat.update_seconds = 3;
    agent->heartbeat.stage_seconds = (struct stage_seconds){.step = 2, .wait_input = 1};
    agent_beat_again(world, agent);
    assert_int_equal(core_measurements_refused(world->core), refused + 1);
    agent->heartbeat.update_seconds = 0;
    agent->heartbeat.stage_seconds = (struct stage_seconds){.step = 2, .wait_room = 3};
    agent_beat_again(world, agent);
    assert_int_equal(core_measurements_refused(world->core), refused + 2);
    world->plans_wait = true;
    world_verb(world, id, JOB_REPLAN);
    assert_true(core_planning(world->core, world->question, world->planning));
    const struct planning *planning = world->planning;
    const size_t d = planning_find(planning, agent->id.text);
    assert_true(planning->update_seconds[d * planning->model->unit_count] < 1e-3);
}

/* Numbers that one may report and from which a speed of nothing or of infinity would follow: those
 * are no numbers of JSON, and a row that holds one could not be read at the next start. */
static void extreme_measurements_leave_finite_numbers(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    for (size_t i = 0; i < 3; i++) {
        struct agent *agent = &world->agent[i];
        story_measure(world, agent, 5e-324);
        agent->heartbeat.update_seconds = 5e-324;
        agent->heartbeat.metric_count = 1;
        agent->heartbeat.metric[0] =
            (struct metric){.step = 1, .name = METRIC_STEP_SECONDS, .value = 5e-324};
        agent->heartbeat.link_count = 2;
        for (size_t k = 0; k < 2; k++) {
            agent->heartbeat.link[k] =
                (struct link_report){.device = world->agent[(i + 1 + k) % 3].id,
                                     .count = 2,
                                     .seconds_sum = 1e9,
                                     .bytes_sum = 5e-324,
                                     .bytes_squared_sum = 1e300,
                                     .bytes_seconds_sum = (double)k * 1e300};
        }
        agent_beat_again(world, agent);
    }
    const struct job_progress *progress = &core_job(world->core, id)->progress;
    assert_true(isfinite(progress->samples_per_second) && isfinite(progress->eta_seconds));
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    const struct plan *plan = world_plan(world, id, 2);
    assert_true(isfinite(plan->predicted_step_seconds) && plan->predicted_step_seconds > 0);
    assert_true(isfinite(plan->predicted_efficiency));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(nonsense_measurements_are_ignored),
        STORY(sums_of_links_do_not_overflow),
        STORY(links_of_unknown_codecs_take_no_place),
        STORY(impossible_steps_are_counted_and_ignored),
        STORY(extreme_measurements_leave_finite_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
