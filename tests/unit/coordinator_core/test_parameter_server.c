/* Plans, shares and assignments of jobs of servers and workers. */
#include "coordinator/core/placement/parameter_server.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/core/placement/placement.h"
#include "coordinator/core/placement/servers_memory.h"
#include "tests/unit/coordinator_core/servers_story.h"

#define SERVERS(function) cmocka_unit_test_setup_teardown(function, story_setup, story_teardown)

/* ---- checks ---- */

/* The stages of a plan: servers first, all units, and all micro-batches once. */
static void check_plan(const struct world *world, const struct plan *plan)
{
    const struct plan_stage *first = &plan->stage[0];
    int64_t micro_batches = 0;
    assert_true(parameter_server_strategy.plan_fits(plan, world->model->unit_count));
    assert_true(first->first == 0 && first->end > 0);
    assert_int_equal(plan->link_count, 0);
    assert_true(plan->predicted_step_seconds > 0 && plan->gap >= 0);
    assert_true(plan->predicted_efficiency > 0 && plan->predicted_efficiency <= 1);
    assert_int_not_equal(plan->bottleneck.part, PART_NONE);
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stage[s];
        const struct plan_memory *memory = &stage->memory;
        const bool works = stage->share_first < stage->share_end;
        micro_batches += stage->share_end - stage->share_first;
        assert_int_equal(stage->in_flight, 1);
        assert_int_equal(stage->predicted_forward_seconds > 0, works);
        assert_int_equal(stage->predicted_pull_seconds > 0, works);
        assert_int_equal(stage->predicted_push_seconds > 0, works);
        assert_int_equal(memory->parameters_bytes + memory->gradients_bytes +
                             memory->optimizer_bytes + memory->activations_bytes +
                             memory->workspace_bytes + memory->borders_bytes +
                             memory->snapshots_bytes + memory->replicas_bytes,
                         stage->memory_bytes);
        assert_true(stage->memory_bytes > 0);
    }
    assert_int_equal(micro_batches, 4);
}

/* Devices named a, b and so on. */
static void add_devices(struct world *world, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        (void)world_agent(world, name, 10);
    }
}

static const struct plan *submit(struct world *world, char id[ID_SIZE], const struct job_spec *spec)
{
    story_submit(world, id, spec);
    world_settle(world);
    const struct plan *plan = core_job_plan(world->core, id);
    if (plan) {
        check_plan(world, plan);
    }
    return plan;
}

static size_t count_servers(const struct plan *plan)
{
    size_t count = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        count += plan->stage[s].first < plan->stage[s].end;
    }
    return count;
}

static size_t count_workers(const struct plan *plan)
{
    size_t count = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        count += plan->stage[s].share_first < plan->stage[s].share_end;
    }
    return count;
}

/* ---- plans ---- */

/* A fourth one would use more of the server's link than it saves. */
static void one_to_three_devices_share_a_job(void **state)
{
    struct world *world = *state;
    for (size_t count = 1; count <= 3; count++) {
        char id[ID_SIZE];
        const struct job_spec spec = servers_spec(5);
        (void)world_agent(world, (const char[2]){(char)('a' + count - 1), '\0'}, 10);
        const struct plan *plan = submit(world, id, &spec);
        assert_state(world, id, JOB_RUNNING);
        assert_int_equal(plan->stage_count, count);
        assert_int_equal(count_workers(plan), count);
        story_finish(world, id);
    }
}

static void as_many_servers_as_the_job_wants_keep_the_model(void **state)
{
    struct world *world = *state;
    add_devices(world, 3);
    for (int64_t servers = 1; servers <= 3; servers++) {
        char id[ID_SIZE];
        struct job_spec spec = servers_spec(5);
        spec.parameter_server.servers = servers;
        assert_int_equal(count_servers(submit(world, id, &spec)), servers);
        story_finish(world, id);
    }
}

static void named_servers_keep_the_units_that_the_job_states(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    add_devices(world, 3);
    struct job_spec spec = servers_spec(5);
    spec.parameter_server.place[0] = (struct server_place){world->agent[2].id, 4};
    spec.parameter_server.place[1] = (struct server_place){world->agent[0].id, 5};
    spec.parameter_server.place_count = 2;
    const struct plan *plan = submit(world, id, &spec);
    assert_int_equal(count_servers(plan), 2);
    assert_string_equal(plan->stage[0].device.text, world->agent[2].id.text);
    assert_int_equal(plan->stage[0].end, 4);
    assert_string_equal(plan->stage[1].device.text, world->agent[0].id.text);
    story_finish(world, id);
}

static void a_job_waits_for_a_server_that_it_names(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    add_devices(world, 2);
    agent_kill(&world->agent[1]);
    world_live(world, 6000);
    struct job_spec spec = servers_spec(5);
    spec.parameter_server.place[0] = (struct server_place){world->agent[1].id, 5};
    spec.parameter_server.place_count = 1;
    assert_null(submit(world, id, &spec));
    assert_non_null(strstr(world_job(world, id)->message, world->agent[1].id.text));
    agent_restart(world, &world->agent[1]);
    story_work(world, 2000);
    assert_true(core_job_plan(world->core, id) != NULL);
    assert_string_equal(core_job_plan(world->core, id)->stage[0].device.text,
                        world->agent[1].id.text);
}

static void shares_may_be_equal_or_given(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)world_agent(world, "a", 40);
    (void)world_agent(world, "b", 1);
    struct job_spec spec = servers_spec(5);
    const struct plan *plan = submit(world, id, &spec);
    const struct plan_stage *a = servers_stage(world, id, &world->agent[0]);
    assert_int_equal(a->share_end - a->share_first, 4); /* b would only be slower */
    assert_int_equal(plan->left_out_count, 1);
    assert_string_equal(plan->left_out[0].device.text, world->agent[1].id.text);
    assert_true(plan->left_out[0].step_seconds_with > plan->predicted_step_seconds);
    story_finish(world, id);
    spec.parameter_server.shares = SHARES_EQUAL;
    spec.parameter_server.place[0] = (struct server_place){world->agent[0].id, 5};
    spec.parameter_server.place_count = 1;
    spec.devices_min = 2;
    plan = submit(world, id, &spec);
    assert_int_equal(count_workers(plan), 2);
    a = servers_stage(world, id, &world->agent[0]);
    assert_int_equal(a->share_end - a->share_first, 2);
    story_finish(world, id);
    spec.parameter_server.share[0] = 3; /* of the faster one */
    spec.parameter_server.share[1] = 1;
    spec.parameter_server.share_count = 2;
    submit(world, id, &spec);
    a = servers_stage(world, id, &world->agent[0]);
    assert_int_equal(a->share_end - a->share_first, 3);
}

static void a_plan_has_at_least_the_devices_that_the_job_wants(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)world_agent(world, "a", 40);
    (void)world_agent(world, "b", 1);
    (void)world_agent(world, "c", 1);
    struct job_spec spec = servers_spec(5);
    spec.devices_min = 3;
    const struct plan *plan = submit(world, id, &spec);
    assert_int_equal(plan->stage_count, 3);
    assert_true(plan->unbound.devices > 0 && plan->unbound.devices < 3);
    assert_true(plan->unbound.step_seconds < plan->predicted_step_seconds);
}

/* A device needs memory for the whole model to work, and for its units alone to serve. */
static void a_device_with_little_memory_does_not_work(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    add_devices(world, 3);
    world->agent[1].memory_bytes = 100000;
    agent_restart(world, &world->agent[1]);
    agent_beat(world, &world->agent[1]);
    const struct job_spec spec = servers_spec(5);
    const struct plan *plan = submit(world, id, &spec);
    assert_int_equal(plan->stage_count, 2);
    assert_null(servers_stage(world, id, &world->agent[1]));
    assert_int_equal(plan->left_out_count, 1);
    assert_int_equal(plan->left_out[0].reason, PARTITION_NO_MEMORY);
}

/* Three devices with so much memory. */
static void add_small_devices(struct world *world, int64_t bytes)
{
    for (size_t i = 0; i < 3; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        struct agent *agent = world_agent(world, name, 10);
        agent->memory_bytes = bytes;
        agent_restart(world, agent);
        agent_beat(world, agent);
    }
}

static void a_unit_that_fits_on_no_server_is_rejected(void **state)
{
    struct world *world = *state;
    const struct job_spec spec = servers_spec(5);
    add_small_devices(world, 2100000);
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_MODEL_TOO_LARGE);
    assert_non_null(strstr(world->text, "unit 'dense1' does not fit on any server"));
}

/* Any stage of a pipeline fits, any server and any worker, but not all of them. */
static void a_job_that_fits_as_a_pipeline_may_be_too_large(void **state)
{
    struct world *world = *state;
    const struct job_spec spec = servers_spec(5), pipeline = world_spec("p", 5);
    add_small_devices(world, 2300000);
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_MODEL_TOO_LARGE);
    world_submit(world, &pipeline);
    assert_int_equal(world->status, 201);
}

static void a_model_that_fits_on_no_worker_is_rejected(void **state)
{
    struct world *world = *state;
    struct agent *agent = world_agent(world, "a", 10);
    agent->memory_bytes = 900000;
    agent_restart(world, agent);
    agent_beat(world, agent);
    const struct job_spec spec = servers_spec(5);
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_MODEL_TOO_LARGE);
    assert_non_null(strstr(world->text, "the whole model does not fit on any worker"));
}

static void a_job_waits_for_as_many_servers_and_workers_as_it_wants(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    add_devices(world, 2);
    struct job_spec spec = servers_spec(5);
    spec.parameter_server.worker_label[0] = (struct label){"role", "worker"};
    spec.parameter_server.worker_label_count = 1;
    assert_null(submit(world, id, &spec));
    assert_non_null(strstr(world_job(world, id)->message, "waits for 1 worker, of which 0"));
    world_verb(world, id, JOB_CANCEL);
    spec.parameter_server.worker_label_count = 0;
    spec.parameter_server.servers = 3;
    assert_null(submit(world, id, &spec));
    assert_non_null(strstr(world_job(world, id)->message, "waits for 3 servers, of which 2"));
    (void)world_agent(world, "c", 10);
    story_work(world, 1000);
    assert_int_equal(count_servers(core_job_plan(world->core, id)), 3);
}

static void a_waiting_job_names_a_label_or_id_that_no_device_has(void **state)
{
    struct world *world = *state;
    static const char *const words[] = {"label role=serve of a server (2 online)", "id 'dev_none'"};
    add_devices(world, 2);
    for (size_t i = 0; i < 4; i++) {
        char id[ID_SIZE];
        struct job_spec spec = servers_spec(5);
        struct server_options *options = &spec.parameter_server;
        options->server_label[0] = (struct label){"role", "serve"};
        options->place[0] = (struct server_place){.device = {"dev_none"}, .end = 5};
        *(i < 2 ? &options->server_label_count : &options->place_count) = 1;
        spec.devices_max = 3;
        spec.devices_min = 2 + (int64_t)(i % 2); /* 3: too few devices of any kind */
        assert_null(submit(world, id, &spec));
        assert_non_null(strstr(world_job(world, id)->message, words[i / 2]));
        world_verb(world, id, JOB_CANCEL);
    }
}

/* The search adds up what grows with a share, a thread and a sum; the plan says what it is for. */
static void the_memory_of_the_search_is_that_of_the_plan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct err err = {0};
    const struct reduce_range shares[] = {{0, 0}, {0, 1}, {1, 4}, {0, 4}};
    struct planning *planning = world->planning;
    const struct job_spec spec = servers_spec(5);
    add_devices(world, 1);
    world->plans_wait = true;
    story_submit(world, id, &spec);
    assert_true(core_planning(world->core, world->question, planning));
    assert_ok(placement_solve(planning, &world->planned, &err), &err);
    for (size_t threads = 1; threads <= 3; threads += 2) {
        planning->pool_threads[0] = threads;
        planning->device[planning->pool[0]].threads = threads;
        for (size_t i = 0; i < 4 * 5 * 5 * 2; i++) {
            const size_t first = i / 4 % 5, end = i / 20 % 5 + 1;
            const struct servers_stage stage = {.first = end > first ? first : 0,
                                                .end = end > first ? end : 0,
                                                .share = shares[i % 4],
                                                .buffers = reduce_waiting_max(4, shares[i % 4]),
                                                .sums = 1 + i / 100 * 3};
            const struct plan_memory parts =
                servers_memory_parts(planning, &stage, planning->pool[0]);
            const int64_t sum = parts.parameters_bytes + parts.gradients_bytes +
                                parts.optimizer_bytes + parts.activations_bytes +
                                parts.workspace_bytes + parts.borders_bytes + parts.snapshots_bytes;
            assert_int_equal(servers_memory(planning, &stage), sum);
        }
    }
}

static void agents_that_do_not_know_the_strategy_get_no_stage(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    add_devices(world, 2);
    world->agent[0].versions_behind = 1;
    agent_restart(world, &world->agent[0]);
    agent_beat(world, &world->agent[0]);
    struct job_spec spec = servers_spec(5);
    spec.devices_min = 2;
    assert_null(submit(world, id, &spec));
    assert_non_null(strstr(world_job(world, id)->message, "with an older agent"));
    world_verb(world, id, JOB_CANCEL);
    spec.devices_min = 1;
    const struct plan *plan = submit(world, id, &spec);
    assert_int_equal(plan->stage_count, 1);
    assert_string_equal(plan->stage[0].device.text, world->agent[1].id.text);
    story_finish(world, id);
    world->agent[1].versions_behind = 1;
    agent_restart(world, &world->agent[1]);
    agent_beat(world, &world->agent[1]);
    assert_null(submit(world, id, &spec));
    assert_non_null(strstr(world_job(world, id)->message, "with strategy 'parameter_server'"));
}

static void frozen_units_are_kept_and_not_transferred(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    add_devices(world, 2);
    world->model->unit[0].frozen = world->model->unit[1].frozen = true;
    struct job_spec spec = servers_spec(5);
    spec.parameter_server.transfers = SEGMENTS_LAYER;
    spec.parameter_server.servers = 1;
    spec.devices_min = 2;
    const struct plan *plan = submit(world, id, &spec);
    assert_int_equal(plan->stage[0].end, 5);
    const struct plan_stage *b = &plan->stage[1];
    assert_int_equal(b->pull_segments, 3); /* one for each trained layer */
    assert_int_equal(b->push_segments, 3);
    story_finish(world, id);
}

static void a_model_that_trains_nothing_has_no_plan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    add_devices(world, 2);
    for (size_t u = 0; u < world->model->unit_count; u++) {
        world->model->unit[u].frozen = true;
    }
    const struct job_spec spec = servers_spec(5);
    assert_null(submit(world, id, &spec));
    assert_non_null(strstr(world_job(world, id)->message, "0 layers"));
}

static void a_dry_run_shows_the_plan(void **state)
{
    struct world *world = *state;
    add_devices(world, 3);
    const struct job_spec spec = servers_spec(5);
    world_dry_run(world, &spec);
    assert_int_equal(world->status, 200);
    assert_int_equal(world->preview->stage_count, 3);
    assert_int_equal(world->preview->link_count, 0);
    assert_true(world->preview->predicted_step_seconds > 0);
    int64_t micro_batches = 0;
    for (size_t s = 0; s < world->preview->stage_count; s++) {
        const struct preview_stage *stage = &world->preview->stage[s];
        const bool works = stage->share_end > stage->share_first;
        micro_batches += stage->share_end - stage->share_first;
        assert_int_equal(stage->predicted_pull_seconds > 0, works);
        assert_int_equal(stage->predicted_push_seconds > 0, works);
    }
    assert_int_equal(micro_batches, spec.micro_batches);
}

/* ---- what a row of the store may be ---- */

static struct plan plan_of(const struct servers_stage_of *stage, size_t count)
{
    struct plan plan = {.stage_count = count};
    for (size_t s = 0; s < count; s++) {
        plan.stage[s] = (struct plan_stage){.first = stage[s].first,
                                            .end = stage[s].end,
                                            .share_first = stage[s].share_first,
                                            .share_end = stage[s].share_end};
    }
    return plan;
}
#define FITS(...)                                                                                  \
    fits((const struct servers_stage_of[]){__VA_ARGS__},                                           \
         sizeof((const struct servers_stage_of[]){__VA_ARGS__}) / sizeof(struct servers_stage_of))

static bool fits(const struct servers_stage_of *stage, size_t count)
{
    const struct plan plan = plan_of(stage, count);
    return parameter_server_strategy.plan_fits(&plan, 5);
}

static void plans_of_other_forms_are_recognised(void **state)
{
    (void)state;
    assert_true(FITS({.end = 5, .share_end = 4}));
    assert_true(FITS({.end = 2}, {.first = 2, .end = 5, .share_first = 2, .share_end = 4},
                     {.share_end = 2}));
    assert_false(FITS({.end = 5}));                                         /* nobody works */
    assert_false(FITS({.end = 4, .share_end = 4}));                         /* a unit is missing */
    assert_false(FITS({.share_end = 4}, {.end = 5}));                       /* servers come first */
    assert_false(FITS({.end = 5, .share_end = 2}, {.first = 5, .end = 5})); /* it does nothing */
    assert_false(FITS({.end = 5, .share_first = 1, .share_end = 4}));       /* micro-batch 0 */
    assert_false(FITS({.end = 5, .share_end = 2}, {.share_first = 3, .share_end = 4}));
    assert_false(FITS({.end = 5, .share_end = 2}, {.share_first = 1, .share_end = 4}));
}

static void stages_talk_to_servers_and_to_the_lead(void **state)
{
    (void)state;
    const struct plan plan =
        plan_of((const struct servers_stage_of[]){{.end = 2},
                                                  {.first = 2, .end = 3},
                                                  {.first = 3, .end = 5},
                                                  {.share_end = 2},
                                                  {.share_first = 2, .share_end = 4}},
                5);
    const struct stage_list stages = {plan.stage, 5, 4};
    for (size_t b = 1; b < 5; b++) {
        assert_true(parameter_server_strategy.talk(&stages, 0, b));
        assert_true(parameter_server_strategy.talk(&stages, b, 0));
    }
    assert_true(parameter_server_strategy.talk(&stages, 1, 2));
    assert_true(parameter_server_strategy.talk(&stages, 2, 4));
    assert_false(parameter_server_strategy.talk(&stages, 3, 4));
    const struct stage_work worker = parameter_server_strategy.work(&stages, 3);
    assert_true(worker.first == 0 && worker.end == 5 && worker.micro_batches == 2);
    const struct stage_work server = parameter_server_strategy.work(&stages, 1);
    assert_true(server.first == server.end && server.micro_batches == 0);
    const struct stage_work loads = strategy_loads(&parameter_server_strategy, &stages, 1);
    assert_true(loads.first == 2 && loads.end == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS(one_to_three_devices_share_a_job),
        SERVERS(as_many_servers_as_the_job_wants_keep_the_model),
        SERVERS(named_servers_keep_the_units_that_the_job_states),
        SERVERS(a_job_waits_for_a_server_that_it_names),
        SERVERS(shares_may_be_equal_or_given),
        SERVERS(a_plan_has_at_least_the_devices_that_the_job_wants),
        SERVERS(a_device_with_little_memory_does_not_work),
        SERVERS(a_unit_that_fits_on_no_server_is_rejected),
        SERVERS(a_job_that_fits_as_a_pipeline_may_be_too_large),
        SERVERS(a_model_that_fits_on_no_worker_is_rejected),
        SERVERS(a_job_waits_for_as_many_servers_and_workers_as_it_wants),
        SERVERS(a_waiting_job_names_a_label_or_id_that_no_device_has),
        SERVERS(the_memory_of_the_search_is_that_of_the_plan),
        SERVERS(agents_that_do_not_know_the_strategy_get_no_stage),
        SERVERS(frozen_units_are_kept_and_not_transferred),
        SERVERS(a_model_that_trains_nothing_has_no_plan),
        SERVERS(a_dry_run_shows_the_plan),
        cmocka_unit_test(plans_of_other_forms_are_recognised),
        cmocka_unit_test(stages_talk_to_servers_and_to_the_lead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
