/* The holders of units, and the cost of failures. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "libtrain/memory/memory.h"
#include "tests/unit/coordinator_core/servers_story.h"

static struct replicas *replicas_of(const struct world *world, const char *id)
{
    struct replicas *replicas = calloc(1, sizeof(*replicas));
    assert_non_null(replicas);
    assert_true(core_replicas(world->core, id, replicas));
    return replicas;
}

static void coverage_lists_the_holders_of_each_unit(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 8);
    world_train(world, 20);
    struct replicas *replicas = replicas_of(world, id);
    const struct job *job = world_job(world, id);
    assert_int_equal(replicas->unit_count, 5);
    assert_int_equal(replicas->neighbor_version, job->neighbor_version);
    assert_int_equal(replicas->center_version, job->version);
    for (size_t u = 0; u < 5; u++) {
        const struct replica_unit *unit = &replicas->unit[u];
        assert_int_equal(unit->unit, u);
        assert_true(unit->copy_count >= 2);
        size_t at_commit = 0;
        for (size_t c = 0; c < unit->copy_count; c++) {
            assert_true(c == 0 ||
                        unit->copy[c - 1].version >= unit->copy[c].version); /* newest first */
            at_commit += unit->copy[c].version == job->neighbor_version;
        }
        assert_int_equal(at_commit, 2);
    }
    free(replicas);
    assert_false(core_replicas(world->core, "job_unknown", NULL));
}

/* Its prediction of a loss is correct. */
static void every_forecast_comes_true(void **state)
{
    struct world *world = *state;
    for (size_t lost = 1; lost < 7; lost++) { /* a set of devices, by bits */
        char id[ID_SIZE];
        world->agent_count == 0 ? story_replicated(world, id, 3, 8) : (void)0;
        if (lost > 1) {
            struct job_spec spec = story_spec(100);
            spec.neighbor_every = 3;
            spec.center_every = 8;
            story_submit(world, id, &spec);
        }
        world_train(world, 20);
        struct replicas *replicas = replicas_of(world, id);
        assert_int_equal(replicas->single_count, 3);
        assert_int_equal(replicas->pair_count, 3);
        const struct replica_loss *loss = NULL;
        struct replica_loss *const lists[] = {replicas->single, replicas->pair};
        for (size_t i = 0; i < 6; i++) {
            const struct replica_loss *each = &lists[i / 3][i % 3];
            size_t bits = 0;
            for (size_t d = 0; d < each->device_count; d++) {
                bits |= (size_t)1 << (world_agent_of(world, each->device[d].text) - world->agent);
            }
            loss = bits == lost ? each : loss;
        }
        assert_non_null(loss);
        assert_true(loss->can_continue);
        struct plan_question question = {.without_count = loss->device_count};
        memcpy(question.job.text, id, ID_SIZE);
        memcpy(question.without, loss->device, sizeof(loss->device));
        world_ask(world, &question);
        assert_int_equal(world->status, 200);
        assert_int_equal(world->answer->resume_version, loss->resume_version);
        assert_int_equal(world->answer->steps_lost, loss->steps_lost);
        size_t stages = world->answer->preview.stage_count;
        for (size_t k = 0; k < 3; k++) {
            if (lost >> k & 1) {
                agent_kill(&world->agent[k]);
            }
        }
        world_live(world, 6000);
        assert_int_equal(core_job_plan(world->core, id)->resume_version, loss->resume_version);
        assert_int_equal(core_job_plan(world->core, id)->stage_count, stages);
        assert_int_equal(core_job_incident(world->core, id)->steps_redone, loss->steps_lost);
        free(replicas);
        world_verb(world, id, JOB_CANCEL);
        for (size_t k = 0; k < 3; k++) {
            if (!world->agent[k].up) {
                agent_restart(world, &world->agent[k]);
            }
        }
        world_settle(world);
    }
}

static void a_question_without_an_answer_says_why(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = story_spec(100);
    spec.devices_min = 3;
    story_devices(world);
    story_submit(world, id, &spec);
    world_settle(world);
    struct plan_question question = {.without_count = 1};
    memcpy(question.job.text, id, ID_SIZE);
    question.without[0] = world->agent[0].id;
    world_ask(world, &question);
    assert_int_equal(world->problem, PROBLEM_NOT_ENOUGH_DEVICES);
    assert_string_equal(
        world->text,
        "without this device the job would wait for 1 more: it needs 3 (devices.min), 2 are free");
    struct replicas *replicas = replicas_of(world, id);
    assert_false(replicas->single[0].can_continue);
    free(replicas);
    memcpy(question.without[0].text, "dev_unknown", sizeof("dev_unknown"));
    world_ask(world, &question);
    assert_int_equal(world->problem, PROBLEM_UNKNOWN_DEVICE);
    memcpy(question.job.text, "job_unknown", sizeof("job_unknown"));
    world_ask(world, &question);
    assert_int_equal(world->problem, PROBLEM_UNKNOWN_JOB);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING); /* questions change nothing */
}

/* A plan with an avoided device beats no plan, in the plan and in the dry run. */
static void a_question_counts_on_those_that_are_avoided_if_need_be(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = world_spec("j", 100);
    spec.devices_min = 2;
    (void)world_agent(world, "a", 10);
    (void)world_agent(world, "b", 10);
    story_submit(world, id, &spec);
    world_settle(world);
    world->reports = true;
    world->agent[1].cut = true;
    for (int i = 0; i < 200 && world_job(world, id)->generation == 1; i++) {
        story_work(world, 100);
    }
    assert_int_equal(core_job_plan(world->core, id)->reason, PLAN_LINK);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 2);
    struct plan_question question = {.without_count = 0};
    memcpy(question.job.text, id, ID_SIZE);
    world_ask(world, &question);
    assert_int_equal(world->status, 200);
    assert_int_equal(world->answer->preview.stage_count, 2);
}

/* ---- a parameter server ---- */

static const struct label SERVES = {.key = "role", .value = "server"};

/* What one device needs for all units: as a worker of one micro-batch, or to keep them. */
static uint64_t whole_bytes(const struct world *world, const char *id, bool worker)
{
    const struct job *job = world_job(world, id);
    const struct memory_request request = {.end = world->model->unit_count,
                                           .micro_batch =
                                               (size_t)(job->spec.batch / job->spec.micro_batches),
                                           .in_flight = 1,
                                           .tree = (size_t)job->spec.micro_batches,
                                           .share = {0, worker ? 1 : 0},
                                           .worker = worker,
                                           .threads = 1,
                                           .backend = conv2d_backend_of(job->numeric_class)};
    struct memory_bytes bytes;
    struct err err = {0};
    assert_ok(memory_of_stage(world->model, &job->spec.optimizer, &request, &bytes, &err), &err);
    return bytes.total;
}

static void set_memory(struct world *world, size_t agent, uint64_t bytes)
{
    struct device_slot *slot = slots_device(world->core, world->agent[agent].id.text);
    slot->device.probe.free_memory_bytes = (int64_t)bytes;
}

/* Whether the job can continue without a, or without a and b: c and d, or d alone, are as they
 * are. */
static bool continues_without(const struct world *world, const char *id, bool b)
{
    struct replicas *replicas = replicas_of(world, id);
    const struct replica_loss *loss = b ? &replicas->pair[0] : &replicas->single[0];
    const bool continues = loss->can_continue;
    assert_string_equal(loss->device[0].text, world->agent[0].id.text);
    assert_true(!b || id_equal(loss->device[1].text, world->agent[1].id.text));
    free(replicas);
    return continues;
}

static void a_worker_needs_the_whole_model_beside_what_servers_keep(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    const struct job_spec spec = servers_spec(100);
    servers_run(world, id, &spec);
    const uint64_t worker = whole_bytes(world, id, true), kept = whole_bytes(world, id, false);
    assert_true(continues_without(world, id, false));
    for (size_t i = 0; i < 4; i++) {
        set_memory(world, i, worker - 1); /* enough for a pipeline */
    }
    assert_false(continues_without(world, id, false));
    set_memory(world, 3, worker + kept);
    assert_true(continues_without(world, id, false));
    assert_true(continues_without(world, id, true));
    set_memory(world, 2, kept);
    set_memory(world, 3, worker);
    assert_true(continues_without(world, id, true));
    set_memory(world, 2, kept - 1);
    assert_false(continues_without(world, id, true));
}

static void label_server(struct world *world, size_t agent)
{
    struct device *device = &slots_device(world->core, world->agent[agent].id.text)->device;
    device->label[0] = SERVES;
    device->label_count = 1;
}

/* Of the devices a, b, c and d. */
static void a_loss_is_weighed_by_the_kinds_of_devices_that_a_job_requests(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    const struct job_spec spec = servers_spec(100);
    servers_run(world, id, &spec);
    struct server_options *options = &slots_job(world->core, id)->job.spec.parameter_server;
    assert_true(continues_without(world, id, false));

    options->server_label[0] = SERVES;
    options->server_label_count = 1;
    label_server(world, 0);
    assert_false(continues_without(world, id, false));
    label_server(world, 1);
    assert_true(continues_without(world, id, false));
    assert_false(continues_without(world, id, true));
    options->servers = 2;
    assert_false(continues_without(world, id, false));
    label_server(world, 2);
    assert_true(continues_without(world, id, false));

    *options = spec.parameter_server;
    options->share_count = 3;
    assert_true(continues_without(world, id, false));
    assert_false(continues_without(world, id, true));

    *options = spec.parameter_server;
    options->place_count = 1;
    options->place[0].device = world->agent[1].id;
    assert_true(continues_without(world, id, false));
    assert_false(continues_without(world, id, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(coverage_lists_the_holders_of_each_unit),
        STORY(every_forecast_comes_true),
        STORY(a_question_without_an_answer_says_why),
        STORY(a_question_counts_on_those_that_are_avoided_if_need_be),
        STORY(a_worker_needs_the_whole_model_beside_what_servers_keep),
        STORY(a_loss_is_weighed_by_the_kinds_of_devices_that_a_job_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
