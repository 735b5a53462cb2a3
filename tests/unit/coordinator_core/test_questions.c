/* Users' questions about hypothetical devices, links and fields. */
#include <math.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static struct plan_question about(const char *id)
{
    struct plan_question question = {.without_count = 0};
    memcpy(question.job.text, id, ID_SIZE);
    return question;
}

/* Devices a and b, and a job that any number of devices may train. */
static void run_on_two(struct world *world, char id[ID_SIZE])
{
    struct job_spec spec = world_spec("j", 100);
    (void)world_agent(world, "a", 10);
    (void)world_agent(world, "b", 10);
    story_submit(world, id, &spec);
    world_settle(world);
}

static struct what_if_device existing(const struct agent *agent)
{
    return (struct what_if_device){.id = agent->id};
}

static struct what_if_device like(const char *name, const struct agent *agent, double speed)
{
    struct what_if_device device = {.like = agent->id, .speed = speed};
    (void)snprintf(device.name, sizeof(device.name), "%s", name);
    return device;
}

static double seconds_of(struct world *world, const struct plan_question *question)
{
    world_ask(world, question);
    assert_int_equal(world->status, 200);
    return world->answer->preview.predicted_step_seconds;
}

static void a_device_of_half_the_speed_takes_twice_as_long(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_on_two(world, id);
    const struct job before = *core_job(world->core, id);
    struct plan_question question = about(id);
    question.has_devices = true;
    question.device[question.device_count++] = like("whole", &world->agent[0], 0);
    const double whole = seconds_of(world, &question);
    question.device[0] = like("half", &world->agent[0], 0.5);
    const double half = seconds_of(world, &question);
    assert_close(&half, &(double){2 * whole}, 1, 1e-6);
    assert_string_equal(world->answer->preview.stage[0].name, "half");
    assert_string_equal(world->answer->preview.stage[0].device.text, "");
    assert_int_equal(core_job(world->core, id)->revision, before.revision); /* nothing changes */
}

static void a_device_is_made_of_three_numbers(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_on_two(world, id);
    struct plan_question question = about(id);
    question.has_devices = true;
    question.device[question.device_count++] = existing(&world->agent[0]);
    const double alone = seconds_of(world, &question);
    question.device[question.device_count++] = (struct what_if_device){
        .name = "big", .gflops = 1e4, .memory_bytes_per_second = 1e12, .memory_bytes = 1 << 30};
    assert_true(seconds_of(world, &question) < alone / 2);
    assert_string_equal(world->answer->preview.stage[0].name, "big");
    question.device[1].memory_bytes = 1000; /* no unit fits */
    const double without = seconds_of(world, &question);
    assert_close(&without, &alone, 1, 1e-9);
    assert_int_equal(world->answer->preview.left_out_count, 1);
    assert_string_equal(world->answer->preview.left_out[0].name, "big");
    assert_int_equal(world->answer->preview.left_out[0].reason, PARTITION_NO_MEMORY);
}

static void a_stated_link_counts_in_place_of_the_usual_one(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_on_two(world, id);
    struct plan_question question = about(id);
    question.has_devices = true;
    question.device[question.device_count++] = existing(&world->agent[0]);
    question.device[question.device_count++] = like("new", &world->agent[1], 1);
    question.link_count = 1;
    question.link[0] = (struct what_if_link){.bytes_per_second = 1e10};
    (void)snprintf(question.link[0].between[0], NAME_SIZE, "new");
    (void)snprintf(question.link[0].between[1], NAME_SIZE, "%s", world->agent[0].id.text);
    const double fast = seconds_of(world, &question);
    assert_int_equal(world->answer->preview.stage_count, 2);
    assert_true(world->answer->preview.link[0].predicted_seconds < 1e-4);
    question.link[0].bytes_per_second = 1000;
    assert_true(seconds_of(world, &question) > 1.1 * fast);
    assert_int_equal(world->answer->preview.stage_count, 1);
}

static void a_listed_device_that_cannot_work_is_left_out(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_on_two(world, id);
    world_device_verb(world, &world->agent[1], DEVICE_CORDON);
    world_settle(world);
    struct plan_question question = about(id);
    question.has_devices = true;
    question.device[question.device_count++] = existing(&world->agent[0]);
    question.device[question.device_count++] = existing(&world->agent[1]);
    (void)seconds_of(world, &question);
    assert_int_equal(world->answer->preview.stage_count, 1);
    assert_int_equal(world->answer->preview.left_out_count, 1);
    assert_int_equal(world->answer->preview.left_out[0].reason, PLAN_LEFT_OUT_UNAVAILABLE);
    assert_string_equal(world->answer->preview.left_out[0].device.text, world->agent[1].id.text);
}

static void combinations_are_all_values_of_all_fields(void **state)
{
    (void)state;
    struct plan_question question = {.has_vary = true,
                                     .vary = {.micro_batches = {4, 8, 16},
                                              .micro_batches_count = 3,
                                              .devices = {1, 2},
                                              .devices_count = 2,
                                              .pipeline = {JOB_SYNC, JOB_ASYNC},
                                              .pipeline_count = 2}};
    assert_int_equal(what_if_combinations(&question), 12);
    int seen = 0;
    for (size_t i = 0; i < 12; i++) {
        struct job_spec spec = job_spec_default;
        what_if_vary(&question, i, &spec);
        assert_int_equal(spec.devices_min, spec.devices_max);
        const int at = (int)spec.devices_max - 1 + 2 * (spec.pipeline == JOB_ASYNC) +
                       4 * (spec.micro_batches == 8) + 8 * (spec.micro_batches == 16);
        assert_false(seen >> at & 1);
        seen |= 1 << at;
    }
    assert_int_equal(seen, 0xfff);
    question.vary.micro_batches_count = 0; /* each schedule has its usual number */
    for (size_t i = 0; i < 4; i++) {
        struct job_spec spec = job_spec_default;
        job_spec_complete(&spec);
        what_if_vary(&question, i, &spec);
        assert_int_equal(spec.micro_batches, spec.pipeline == JOB_ASYNC ? 1 : 4);
    }
}

static uint64_t memory_asked(struct world *world, const char *id, const struct agent *agent)
{
    const struct plan_question question = about(id);
    world_ask(world, &question);
    return world->planning->device[planning_find(world->planning, agent->id.text)].memory_bytes;
}

/* Its stage counts as free: the next plan may take that memory. */
static void plans_take_what_other_programs_leave_of_a_working_devices_memory(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_on_two(world, id);
    struct agent *a = &world->agent[0];
    const uint64_t idle = (uint64_t)a->memory_bytes;
    const struct plan *plan = world_plan(world, id, 1);
    const bool first = id_equal(plan->stage[0].device.text, a->id.text);
    const uint64_t own = (uint64_t)plan->stage[first ? 0 : 1].memory_bytes;
    assert_int_equal(memory_asked(world, id, a), idle);
    a->free_bytes = 1000;
    agent_beat(world, a);
    assert_int_equal(memory_asked(world, id, a), own + 1000);
    assert_int_equal(world->status, 200); /* the present stages fit */
    a->free_bytes = INT64_MAX;
    agent_beat(world, a);
    assert_int_equal(memory_asked(world, id, a), idle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_device_of_half_the_speed_takes_twice_as_long),
        STORY(a_device_is_made_of_three_numbers),
        STORY(a_stated_link_counts_in_place_of_the_usual_one),
        STORY(a_listed_device_that_cannot_work_is_left_out),
        STORY(plans_take_what_other_programs_leave_of_a_working_devices_memory),
        cmocka_unit_test(combinations_are_all_values_of_all_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
