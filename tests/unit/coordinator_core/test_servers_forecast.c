/* A step of a job of servers and workers beside other ways to train it. */
#include <math.h>
#include <string.h>

#include "coordinator/core/jobs/forecast.h"
#include "coordinator/core/jobs/previews.h"
#include "coordinator/core/placement/placement.h"
#include "coordinator/core/state/state.h"
#include "tests/unit/coordinator_core/servers_story.h"

#define SERVERS(function) cmocka_unit_test_setup_teardown(function, story_setup, story_teardown)

/* Devices a, b and so on, each half as fast as the one before. */
static void add_devices(struct world *world, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        (void)world_agent(world, name, 10 / (double)((size_t)1 << i));
    }
}

static void set_memory(struct world *world, size_t agent, int64_t bytes)
{
    world->agent[agent].memory_bytes = bytes;
    agent_restart(world, &world->agent[agent]);
    agent_beat(world, &world->agent[agent]);
}

/* A job of which the plan is given: a serves units [0, 2), b the others; a and c work. */
static struct job_spec given_spec(const struct world *world)
{
    struct job_spec spec = servers_spec(5);
    struct server_options *options = &spec.parameter_server;
    options->servers = 2;
    options->place_count = 2;
    options->place[0] = (struct server_place){.device = world->agent[0].id, .end = 2};
    options->place[1] = (struct server_place){.device = world->agent[1].id, .end = 5};
    options->shares = SHARES_GIVEN;
    options->share_count = 2;
    options->share[0] = 3;
    options->share[1] = 1;
    spec.devices_min = 3;
    return spec;
}

static struct job_spec pipeline_spec(const struct job_spec *servers)
{
    struct job_spec spec = *servers;
    spec.strategy = STRATEGY_PIPELINE;
    spec.parameter_server = job_spec_default.parameter_server;
    return spec;
}

/* All searches of a forecast. own: the answer to the first one; NULL: it is asked for. */
static struct servers_preview forecast(struct world *world, const struct job_spec *spec,
                                       const struct plan_question *question,
                                       const struct event_planned *own)
{
    const bool live = question && question->job.text[0] != '\0';
    const struct job_data data = {.train_samples = 1000};
    const struct forecast_request request = {
        .spec = spec, .data = &data, .model = live ? NULL : world->model, .question = question};
    struct err err = {0};
    struct forecast *forecast;
    assert_ok(forecast_new(world->core, &request, &forecast, &err), &err);
    bool more = !own || forecast_take(world->core, forecast, own);
    size_t searches = own ? 1 : 0;
    for (; more; searches++) {
        struct event_planned answer = {.planned = &world->planned};
        forecast_ask(world->core, forecast, world->planning);
        answer.code = placement_solve(world->planning, &world->planned, &err);
        more = forecast_take(world->core, forecast, &answer);
    }
    assert_int_equal(searches, 3);
    assert_null(forecast_preview(forecast).submodel);
    const struct servers_preview preview = *forecast_preview(forecast).servers;
    const struct event_planned *target = forecast_target(forecast);
    const double seconds = target->code == 0 ? target->planned->expected_seconds : 0;
    assert_true(preview.step_seconds == seconds);
    forecast_free(&forecast);
    return preview;
}

/* The seconds of a step by a dry run of this job; 0: it has no plan. */
static double dry_run(struct world *world, const struct job_spec *spec)
{
    world_dry_run(world, spec);
    assert_int_equal(world->status, 200);
    return world->preview->predicted_step_seconds;
}

static double dry_run_with(struct world *world, const struct job_spec *spec, int transfers)
{
    struct job_spec other = *spec;
    other.parameter_server.transfers = transfers;
    return dry_run(world, &other);
}

static double dry_run_alone(struct world *world, const struct job_spec *spec)
{
    struct job_spec alone = pipeline_spec(spec);
    alone.devices_min = alone.devices_max = 1;
    return dry_run(world, &alone);
}

static void each_figure_is_that_of_a_dry_run_of_its_own(void **state)
{
    struct world *world = *state;
    add_devices(world, 3);
    struct job_spec spec = given_spec(world);
    const struct job_spec pipeline = pipeline_spec(&spec);
    const struct servers_preview seen = forecast(world, &spec, NULL, NULL);
    const double optimal = dry_run_with(world, &spec, SEGMENTS_OPTIMAL);
    const double stream = dry_run_with(world, &spec, SEGMENTS_STREAM);
    assert_true(seen.optimal_seconds == optimal);
    assert_true(seen.step_seconds == fmin(optimal, stream));
    assert_int_equal(seen.transfers, stream < optimal ? SEGMENTS_STREAM : SEGMENTS_OPTIMAL);
    assert_true(seen.whole_seconds == dry_run_with(world, &spec, SEGMENTS_WHOLE));
    assert_true(seen.layer_seconds == dry_run_with(world, &spec, SEGMENTS_LAYER));
    assert_true(seen.layer_window_seconds == dry_run_with(world, &spec, SEGMENTS_LAYER_WINDOW));
    assert_true(seen.optimal_seconds < seen.whole_seconds);
    assert_true(seen.whole_seconds != seen.layer_seconds);
    assert_true(seen.pipeline_seconds == dry_run(world, &pipeline));
    assert_true(seen.single_seconds == dry_run_alone(world, &spec));
    assert_string_equal(seen.single_device.text, world->agent[0].id.text);
    assert_string_equal(seen.single_name, "a");
    const double least = fmin(seen.step_seconds, fmin(seen.pipeline_seconds, seen.single_seconds));
    const double named[] = {[SERVERS_WAY_SINGLE] = seen.single_seconds,
                            [SERVERS_WAY_PIPELINE] = seen.pipeline_seconds,
                            [SERVERS_WAY_PARAMETER_SERVER] = seen.step_seconds};
    assert_true(least > 0 && named[seen.fastest] == least);
    spec.parameter_server.transfers = SEGMENTS_WHOLE;
    const struct servers_preview whole = forecast(world, &spec, NULL, NULL);
    assert_int_equal(whole.transfers, SEGMENTS_WHOLE);
    assert_true(whole.step_seconds == seen.whole_seconds);
    assert_true(whole.optimal_seconds == seen.optimal_seconds);
}

/* The planner finds a plan of its own for each way where the job leaves it the choice. */
static void the_planner_chooses_each_way(void **state)
{
    struct world *world = *state;
    add_devices(world, 3);
    const struct job_spec spec = servers_spec(5), pipeline = pipeline_spec(&spec);
    const struct servers_preview seen = forecast(world, &spec, NULL, NULL);
    assert_true(seen.step_seconds == dry_run(world, &spec));
    assert_true(seen.pipeline_seconds == dry_run(world, &pipeline));
    assert_true(seen.single_seconds == dry_run_alone(world, &spec));
    assert_true(seen.step_seconds < seen.pipeline_seconds);
    assert_true(seen.pipeline_seconds < seen.single_seconds);
    assert_int_equal(seen.fastest, SERVERS_WAY_PARAMETER_SERVER);
}

static void a_pipeline_of_one_stage_is_one_device(void **state)
{
    struct world *world = *state;
    add_devices(world, 1);
    const struct job_spec spec = servers_spec(5);
    const struct servers_preview seen = forecast(world, &spec, NULL, NULL);
    assert_true(seen.single_seconds > 0);
    assert_close(&seen.step_seconds, &seen.single_seconds, 1, 1e-9); /* nothing is transferred */
    assert_true(seen.pipeline_seconds == seen.single_seconds);
    assert_int_equal(seen.fastest, SERVERS_WAY_SINGLE);
}

static void of_equal_ways_the_first_is_named(void **state)
{
    static const struct {
        double seconds[4];
        int fastest;
    } cases[] = {
        {{0, 2, 2, 2}, 1},        {{0, 3, 2, 2}, 2},          {{0, 3, 2, 1}, 3},
        {{0, 0, 2, 2}, 2},        {{0, 0, 0, 2}, 3},          {{0, INFINITY, 0, 2}, 3},
        {{0, 0, 0, 0}, 0},        {{0, INFINITY, 0, NAN}, 0}, {{0, 2 + 1e-12, 2, 2 - 1e-12}, 1},
        {{0, 2 + 1e-6, 2, 0}, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(previews_fastest(cases[i].seconds, 4), cases[i].fastest);
    }
}

/* A step of an optimizer with much state, which servers keep for workers. */
static struct job_spec large_spec(void)
{
    struct job_spec spec = servers_spec(5);
    spec.optimizer.type = OPTIMIZER_ADAM;
    return spec;
}
#define LESS_THAN_SINGLE                                                                           \
    4500000 /* bytes that a device of a pipeline or of servers needs at most                       \
             */

static void a_model_that_fits_on_no_device_has_no_single_one(void **state)
{
    struct world *world = *state;
    const struct job_spec spec = large_spec();
    add_devices(world, 3);
    assert_true(forecast(world, &spec, NULL, NULL).single_seconds > 0);
    for (size_t i = 0; i < 3; i++) {
        set_memory(world, i, LESS_THAN_SINGLE);
    }
    const struct servers_preview seen = forecast(world, &spec, NULL, NULL);
    assert_true(seen.step_seconds > 0 && seen.pipeline_seconds > 0);
    assert_true(seen.single_seconds == 0);
    assert_string_equal(seen.single_device.text, "");
    assert_string_equal(seen.single_name, "");
    assert_int_not_equal(seen.fastest, SERVERS_WAY_SINGLE);
}

static void a_job_without_a_plan_is_compared_too(void **state)
{
    struct world *world = *state;
    const struct job_spec spec = servers_spec(5);
    add_devices(world, 3);
    for (size_t i = 0; i < 3; i++) {
        set_memory(world, i, 2300000); /* no device has room for all units */
    }
    const struct servers_preview seen = forecast(world, &spec, NULL, NULL);
    assert_true(seen.step_seconds == 0 && seen.optimal_seconds == 0 && seen.whole_seconds == 0);
    assert_int_equal(seen.transfers, TRANSFERS_AUTO);
    assert_true(seen.pipeline_seconds > 0);
    assert_int_equal(seen.fastest, SERVERS_WAY_PIPELINE);
}

/* Every stage of a pipeline has a unit, and the model has 5. */
static void a_job_may_have_too_many_devices_for_a_pipeline(void **state)
{
    struct world *world = *state;
    add_devices(world, 6);
    struct job_spec spec = servers_spec(5);
    spec.devices_min = 6;
    const struct servers_preview seen = forecast(world, &spec, NULL, NULL);
    assert_true(seen.step_seconds > 0 && seen.single_seconds > 0);
    assert_true(seen.pipeline_seconds == 0);
    assert_int_not_equal(seen.fastest, SERVERS_WAY_PIPELINE);
}

/* The job could begin now: ways that wait for other devices are not compared with it. */
static void ways_use_the_devices_of_the_plan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    const struct job_spec spec = large_spec();
    add_devices(world, 3);
    set_memory(world, 1, LESS_THAN_SINGLE);
    set_memory(world, 2, LESS_THAN_SINGLE);
    assert_true(forecast(world, &spec, NULL, NULL).single_seconds > 0);
    struct job_spec other = world_spec("other", 100);
    other.devices_max = 1;
    story_submit(world, id, &other);
    world_settle(world);
    assert_string_equal(core_job_plan(world->core, id)->stage[0].device.text,
                        world->agent[0].id.text);
    const struct servers_preview seen = forecast(world, &spec, NULL, NULL);
    assert_true(seen.step_seconds > 0 && seen.single_seconds == 0);
}

static void a_question_compares_the_devices_that_it_assumes(void **state)
{
    struct world *world = *state;
    add_devices(world, 2);
    const struct job_spec spec = servers_spec(5);
    struct plan_question question = {.has_spec = true, .has_devices = true, .device_count = 2};
    question.device[0].id = world->agent[1].id;
    question.device[1] = (struct what_if_device){.name = "twin", .like = world->agent[0].id};
    const struct servers_preview seen = forecast(world, &spec, &question, NULL);
    assert_string_equal(seen.single_name, "twin");
    assert_string_equal(seen.single_device.text, "");
    question.device[1].speed = 2;
    const struct servers_preview fast = forecast(world, &spec, &question, NULL);
    assert_close(&fast.single_seconds, &(double){seen.single_seconds / 2}, 1, 1e-6);
    assert_true(fast.step_seconds < seen.step_seconds);
}

/* The answer to the question itself is the first of the forecast. */
static void a_question_about_a_running_job_is_compared(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct err err = {0};
    const struct job_spec spec = servers_spec(100);
    servers_run(world, id, &spec);
    struct plan_question question = {.without_count = 1};
    memcpy(question.job.text, id, ID_SIZE);
    question.without[0] = world->agent[2].id;
    const struct event_plan_question asked = {.question = &question};
    struct event_planned own = {.planned = &world->planned};
    assert_true(core_plan_question(world->core, &asked, &spec, world->planning));
    own.code = placement_solve(world->planning, &world->planned, &err);
    assert_ok(own.code, &err);
    const double seconds = world->planned.expected_seconds;
    const struct servers_preview seen = forecast(world, &spec, &question, &own);
    assert_true(seen.step_seconds == seconds);
    assert_true(seen.pipeline_seconds > 0 && seen.single_seconds > 0);
    assert_string_not_equal(seen.single_device.text, world->agent[2].id.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS(each_figure_is_that_of_a_dry_run_of_its_own),
        SERVERS(the_planner_chooses_each_way),
        SERVERS(a_pipeline_of_one_stage_is_one_device),
        cmocka_unit_test(of_equal_ways_the_first_is_named),
        SERVERS(a_model_that_fits_on_no_device_has_no_single_one),
        SERVERS(a_job_without_a_plan_is_compared_too),
        SERVERS(a_job_may_have_too_many_devices_for_a_pipeline),
        SERVERS(ways_use_the_devices_of_the_plan),
        SERVERS(a_question_compares_the_devices_that_it_assumes),
        SERVERS(a_question_about_a_running_job_is_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
