/* Holdings that devices report: which of them count, and the memory they take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coordinator/core/placement/placement.h"
#include "tests/support/no_alloc.h"
#include "tests/unit/coordinator_core/story.h"

static void add(struct heartbeat *heartbeat, const char *id, int64_t version, int64_t unit)
{
    assert_true(heartbeat->holding_count < HOLDINGS_MAX);
    struct holding *holding = &heartbeat->holding[heartbeat->holding_count++];
    *holding = (struct holding){.generation = 1, .version = version, .unit = unit, .bytes = 1000};
    memcpy(holding->job.text, id, ID_SIZE);
    unit_sha256(holding->sha256, version, unit);
}

static int64_t start_after_failure(struct world *world, const char *id)
{
    agent_fail(world, &world->agent[0], "data");
    agent_beat(world, &world->agent[0]);
    return core_job_plan(world->core, id)->resume_version;
}

/* It says that it holds one unit of every version there may ever be. */
static void partial_versions_do_not_hide_whole_ones(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 12);
    int64_t committed = world_job(world, id)->neighbor_version;
    assert_true(committed > 6 && committed < 20);
    struct agent *b = &world->agent[1];
    agent_tell_holdings(b);
    agent_beat(world, b);
    for (int64_t version = 20; version <= 100; version++) {
        add(&b->heartbeat, id, version, 1);
    }
    agent_beat_again(world, b);
    assert_int_equal(start_after_failure(world, id), committed);
}

/* Nor is a version beyond the job's end, a unit that the model lacks, or anything from who never
 * worked for the job. */
static void impossible_holdings_are_ignored(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    static struct replicas replicas;
    story_replicated(world, id, 3, 0);
    struct agent *d = world_agent(world, "d", 10);
    world_device_verb(world, d, DEVICE_CORDON);
    world_train(world, 12);
    int64_t committed = world_job(world, id)->neighbor_version;
    agent_beat(world, d);
    d->heartbeat.all_holdings = true;
    for (int64_t u = 0; u < 5; u++) {
        add(&d->heartbeat, id, 50, u);
    }
    agent_beat_again(world, d);
    struct agent *b = &world->agent[1];
    agent_tell_holdings(b);
    agent_beat(world, b);
    add(&b->heartbeat, id, 101, 1);
    add(&b->heartbeat, id, committed, 5);
    agent_beat_again(world, b);
    assert_true(core_replicas(world->core, id, &replicas));
    for (size_t u = 0; u < replicas.unit_count; u++) {
        for (size_t c = 0; c < replicas.unit[u].copy_count; c++) {
            assert_true(replicas.unit[u].copy[c].version <= 20);
            assert_string_not_equal(replicas.unit[u].copy[c].device.text, d->id.text);
        }
    }
    assert_int_equal(start_after_failure(world, id), committed);
}

/* A restarted coordinator does not know the devices of earlier plans of the job: it asks all. */
static void a_device_of_an_older_plan_is_believed_after_a_restart(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    struct agent *c = &world->agent[2];
    world_device_verb(world, c, DEVICE_CORDON);
    world_verb(world, id, JOB_REPLAN);
    story_next(world, id);
    int64_t version = core_job_plan(world->core, id)->resume_version;
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 2);
    world_restart(world); /* c alone has what the others were to fetch */
    world_settle(world);
    assert_true(core_job_plan(world->core, id)->resume_version >= version);
    assert_state(world, id, JOB_RUNNING);
}

/* ---- many that list as much as they can ---- */

#define LIARS 300 /* more than there is room for */

struct crowd {
    struct core *core;
    struct actions actions;
    char id[ID_SIZE];
};

static void step(struct crowd *crowd, struct event *event)
{
    event->now_ms = 2000;
    event->wall_ms = 1700000002000;
    crowd->actions.count = 0;
    no_alloc_begin();
    core_step(crowd->core, event, &crowd->actions);
    no_alloc_end();
}

static void beat(struct crowd *crowd, const struct device_id *device, struct heartbeat *heartbeat)
{
    heartbeat->device = *device;
    (void)snprintf(heartbeat->boot, sizeof(heartbeat->boot), "boot");
    heartbeat->all_holdings = true;
    struct event event = {.type = EVENT_HEARTBEAT, .heartbeat = {.heartbeat = heartbeat}};
    step(crowd, &event);
}

/* A restarted coordinator with the world's job and many devices: it has to ask all of them. */
static void restart_with_many(struct crowd *crowd, struct world *world, struct device *device)
{
    struct err err = {0};
    struct restored_job job = {.job = *world_job(world, crowd->id), .model = world->model};
    const struct plan plan = *core_job_plan(world->core, crowd->id);
    size_t own = world->rows.device_count;
    memcpy(device, world->rows.device, own * sizeof(*device));
    for (size_t i = own; i < own + LIARS; i++) {
        device[i] = world->rows.device[0];
        (void)snprintf(device[i].id.text, ID_SIZE, "dev_zliar%zu", i);
        (void)snprintf(device[i].boot, sizeof(device[i].boot), "boot");
        device[i].job.text[0] = '\0';
    }
    assert_ok(core_new(&core_config_default, &crowd->core, &err), &err);
    struct event event = {.type = EVENT_RESTORED,
                          .restored = {.seed = 1,
                                       .device = device,
                                       .device_count = own + LIARS,
                                       .job = &job,
                                       .job_count = 1,
                                       .plan = &plan,
                                       .plan_count = 1}};
    step(crowd, &event);
}

static void a_device_with_too_many_holdings_takes_no_room_of_others(void **state)
{
    struct world *world = *state;
    static struct crowd crowd;
    static struct replicas replicas;
    static struct heartbeat heartbeat;
    story_replicated(world, crowd.id, 3, 0);
    world_train(world, 12);
    int64_t committed = world_job(world, crowd.id)->neighbor_version;
    struct device *device = calloc(8 + LIARS, sizeof(*device));
    crowd.actions.item = calloc(ACTIONS_MAX, sizeof(struct action));
    assert_true(device && crowd.actions.item);
    restart_with_many(&crowd, world, device);
    for (size_t i = 0; i < LIARS; i++) {
        memset(&heartbeat, 0, sizeof(heartbeat));
        for (int64_t k = 0; k < HOLDINGS_MAX; k++) {
            add(&heartbeat, crowd.id, 100 - k % 80, k % 4); /* never whole */
        }
        beat(&crowd, &device[world->rows.device_count + i].id, &heartbeat);
    }
    for (size_t a = 0; a < 3; a++) { /* those who hold something come last */
        struct agent *agent = &world->agent[a];
        agent_tell_holdings(agent);
        agent_beat(world, agent);
        struct event event = {.type = EVENT_HEARTBEAT,
                              .heartbeat = {.heartbeat = &agent->heartbeat}};
        step(&crowd, &event);
    }
    clock_t began = clock();
    assert_true(core_replicas(crowd.core, crowd.id, &replicas));
    struct plan_question question = {.without_count = 1, .without = {world->agent[0].id}};
    memcpy(question.job.text, crowd.id, ID_SIZE);
    struct event_planned planned = {.planned = &world->planned};
    struct event event = {.type = EVENT_PLAN_QUESTION,
                          .plan_question = {.question = &question, .planned = &planned}};
    struct err err = {0};
    assert_true(core_plan_question(crowd.core, &event.plan_question, NULL, world->planning));
    assert_ok(placement_solve(world->planning, &world->planned, &err), &err);
    step(&crowd, &event);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    assert_int_equal(replicas.single_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(replicas.single[i].resume_version, committed);
    }
    assert_true(seconds < 2);
    core_free(&crowd.core);
    free(crowd.actions.item);
    free(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(partial_versions_do_not_hide_whole_ones),
        STORY(impossible_holdings_are_ignored),
        STORY(a_device_of_an_older_plan_is_believed_after_a_restart),
        STORY(a_device_with_too_many_holdings_takes_no_room_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
