/* Keys become devices, change and end; two agents with one key. */
#include <stdio.h>
#include <string.h>

#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "tests/unit/coordinator_core/story.h"

static const struct device *find(const struct world *world, const char *id)
{
    return core_device(world->core, id);
}

/* A machine joins with the key of 64 times this letter. */
static void join_as(struct world *world, const char *name, char key, const char *token,
                    const char *device)
{
    struct join_request request = {.protocol = PROTOCOL_VERSION};
    struct event event = {.type = EVENT_JOIN, .join = {.request = &request}};
    (void)snprintf(request.name, sizeof(request.name), "%s", name);
    memset(request.public_key, key, SHA256_SIZE - 1);
    (void)snprintf(event.join.token, ID_SIZE, "%s", token);
    (void)snprintf(event.join.device.text, ID_SIZE, "%s", device);
    world_send(world, &event);
}

static void a_machine_that_joined_enrols_as_that_device(void **state)
{
    struct world *world = *state;
    join_as(world, "a", 'a', "tok_1", "");
    assert_int_equal(world->status, 201);
    struct device_id id = world->join_reply.device;
    assert_int_equal(find(world, id.text)->state, DEVICE_JOINED);
    assert_int_equal(world->join_reply.time_ms, world->wall_ms);
    join_as(world, "again", 'a', "tok_2", "");
    assert_int_equal(world->status, 200);
    assert_string_equal(world->join_reply.device.text, id.text);
    assert_string_equal(world->join_reply.name, "a");
    world_restart(world);
    assert_string_equal(find(world, id.text)->join_token, "tok_1");
    struct agent *agent = world_agent(world, "a", 10);
    struct enroll_request request = {.protocol = PROTOCOL_VERSION};
    struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request}};
    memset(request.public_key, 'a', SHA256_SIZE - 1);
    (void)snprintf(request.boot, sizeof(request.boot), "boot");
    (void)snprintf(request.name, sizeof(request.name), "a");
    request.probe = (struct device_probe){.gemm_gflops = 1,
                                          .memory_bytes_per_second = 1e9,
                                          .free_memory_bytes = 1 << 30,
                                          .threads = 1};
    world_send(world, &event);
    assert_int_equal(world->status, 200);
    assert_string_equal(world->enroll_reply.device.text, id.text);
    assert_int_equal(find(world, id.text)->state, DEVICE_ONLINE);
    assert_string_not_equal(agent->id.text, id.text);
}

static void who_joined_stays_and_who_did_not_is_removed_after_an_hour(void **state)
{
    struct world *world = *state;
    join_as(world, "kept", 'a', "tok_1", "");
    struct device_id kept = world->join_reply.device;
    join_as(world, "gone", 'b', "", "");
    struct device_id gone = world->join_reply.device;
    world_pass(world, DEVICE_FORGET_MS - 1);
    assert_non_null(find(world, gone.text));
    world_pass(world, 1);
    assert_null(find(world, gone.text));
    world_restart(world);
    world_pass(world, 400 * (int64_t)DEVICE_FORGET_MS);
    assert_int_equal(find(world, kept.text)->state, DEVICE_JOINED);
}

static void a_device_that_enrolled_before_there_were_tokens_can_join(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    struct join_request request = {.protocol = PROTOCOL_VERSION};
    struct event event = {.type = EVENT_JOIN, .join = {.request = &request, .token = "tok_1"}};
    memcpy(request.public_key, a->key, sizeof(request.public_key));
    (void)snprintf(request.name, sizeof(request.name), "other");
    world_send(world, &event);
    assert_int_equal(world->status, 200);
    assert_string_equal(world->join_reply.device.text, a->id.text);
    assert_string_equal(find(world, a->id.text)->join_token, "tok_1");
    assert_int_equal(find(world, a->id.text)->state, DEVICE_ONLINE);
    agent_kill(a);
    world_pass(world, 10 * (int64_t)DEVICE_FORGET_MS);
    assert_non_null(find(world, a->id.text));
}

static void a_new_key_ends_what_the_old_one_did(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct agent *b = &world->agent[1];
    join_as(world, "anew", 'x', "tok_1", b->id.text);
    assert_int_equal(world->status, 201);
    assert_string_equal(world->join_reply.device.text, b->id.text);
    assert_int_equal(find(world, b->id.text)->state, DEVICE_JOINED);
    assert_string_equal(find(world, b->id.text)->name, "b");
    assert_state(world, id, JOB_RECOVERING);
    agent_beat(world, b);
    assert_int_equal(world->problem, PROBLEM_STALE_BOOT);
    assert_string_equal(find(world, b->id.text)->job.text, "");
}

static void a_key_cannot_be_two_devices(void **state)
{
    struct world *world = *state;
    join_as(world, "a", 'a', "tok_1", "");
    struct device_id a = world->join_reply.device;
    join_as(world, "b", 'b', "tok_1", "");
    join_as(world, "b", 'b', "tok_2", a.text);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
    assert_holds(world->text, "device 'b' already, and the token is for device 'a'");
    join_as(world, "c", 'c', "tok_2", "dev_00000000000000000000000000");
    assert_int_equal(world->problem, PROBLEM_UNKNOWN_DEVICE);
    join_as(world, "a", 'a', "tok_2", a.text);
    assert_int_equal(world->status, 200);
}

static void a_full_table_takes_nobody(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < world->config.devices_max; i++) {
        struct join_request request = {.protocol = PROTOCOL_VERSION, .name = "n"};
        struct event event = {.type = EVENT_JOIN, .join = {.request = &request, .token = "tok_1"}};
        (void)snprintf(request.public_key, sizeof(request.public_key), "%064zu", i);
        world_send(world, &event);
        assert_int_equal(world->status, 201);
    }
    join_as(world, "more", 'a', "tok_1", "");
    assert_int_equal(world->problem, PROBLEM_TOO_MANY);
}

static void a_pending_device_works_for_nobody_until_it_is_accepted(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    for (size_t i = 0; i < world->agent_count; i++) {
        struct device_slot *slot = slots_device(world->core, world->agent[i].id.text);
        slot->device.pending = true;
        world->rows.device[i].pending = true;
    }
    struct job_spec spec = world_spec("waits", 100);
    world_submit(world, &spec);
    memcpy(id, world->job.id.text, sizeof(id));
    world_settle(world);
    assert_holds(world_job(world, id)->message, "waiting to be accepted");
    for (size_t i = 0; i < world->agent_count; i++) {
        world_device_verb(world, &world->agent[i], DEVICE_ACCEPT);
        assert_int_equal(world->status, 202);
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void enrol_as(struct world *world, const struct agent *agent, const char *boot,
                     const char *host, const char *source)
{
    struct enroll_request request = {.protocol = PROTOCOL_VERSION,
                                     .probe = {.gemm_gflops = 1,
                                               .memory_bytes_per_second = 1e9,
                                               .free_memory_bytes = 1 << 30,
                                               .threads = 1}};
    struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request, .source = source}};
    memcpy(request.public_key, agent->key, sizeof(request.public_key));
    (void)snprintf(request.name, sizeof(request.name), "%s", agent->name);
    (void)snprintf(request.boot, sizeof(request.boot), "%s", boot);
    (void)snprintf(request.address, sizeof(request.address), "https://0.0.0.0:7411");
    (void)snprintf(request.inventory.hostname, sizeof(request.inventory.hostname), "%s", host);
    world_send(world, &event);
}

static void both_agents_of_a_copied_disk_are_named(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    enrol_as(world, a, "boot-1", "pi-one", "10.0.0.6");
    enrol_as(world, a, "boot-2", "pi-two", "10.0.0.7");
    world_clear(world);
    enrol_as(world, a, "boot-1", "pi-one", "10.0.0.6");
    assert_holds(world->trace.data, "publish device_shared");
    world_pass(world, 1);
    enrol_as(world, a, "boot-2", "pi-two", "10.0.0.7");
    assert_int_equal(world->problem, PROBLEM_TOO_MANY);
    world_pass(world, world->config.heartbeat_ms);
    enrol_as(world, a, "boot-1", "pi-one", "10.0.0.6");
    enrol_as(world, a, "boot-2", "pi-two", "10.0.0.7");
    assert_int_equal(world->problem, PROBLEM_IDENTITY_IN_USE);
    assert_holds(world->text, "'pi-one' at https://0.0.0.0:7411 (from 10.0.0.6)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_machine_that_joined_enrols_as_that_device),
        STORY(who_joined_stays_and_who_did_not_is_removed_after_an_hour),
        STORY(a_device_that_enrolled_before_there_were_tokens_can_join),
        STORY(a_new_key_ends_what_the_old_one_did),
        STORY(a_key_cannot_be_two_devices),
        STORY(a_full_table_takes_nobody),
        STORY(a_pending_device_works_for_nobody_until_it_is_accepted),
        STORY(both_agents_of_a_copied_disk_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
