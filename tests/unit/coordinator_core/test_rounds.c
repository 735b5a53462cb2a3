/* Rounds of replication: their opening, commits of versions, and drops. */
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

/* Train until stage 0 has opened a round of the kind; no replica has been sent yet. */
static void open_round(struct world *world, int kind)
{
    struct agent *a = &world->agent[0];
    while (agent_round(a, kind) == 0) {
        assert_true(agent_step(world, a));
    }
    agent_beat(world, a);
}

/* The other stages reach stage 0's step. */
static void catch_up(struct world *world)
{
    while (agent_step(world, &world->agent[1])) {
    }
    while (agent_step(world, &world->agent[2])) {
    }
}

static void beat_all(struct world *world)
{
    for (size_t i = 0; i < world->agent_count; i++) {
        if (world->agent[i].up) {
            agent_beat(world, &world->agent[i]);
        }
    }
}

static void send_all(struct world *world)
{
    for (size_t i = 0; i < world->agent_count; i++) {
        while (agent_replicate(world, &world->agent[i])) {
        }
    }
}

static int64_t committed(const struct world *world, const char *id)
{
    return world_job(world, id)->neighbor_version;
}

static void every_stage_has_its_ring_neighbor(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 0);
    for (size_t s = 0; s < 3; s++) {
        const struct assignment *desired = story_assignment(world, &world->agent[s]);
        assert_true(desired->run.has_neighbor);
        assert_string_equal(desired->run.neighbor.device.text, world->agent[(s + 1) % 3].id.text);
        assert_true(desired->run.neighbor.url[0] != '\0');
        assert_true(desired->run.replica_bytes > 0);
        bool let_in = false;
        for (size_t i = 0; i < desired->caller_count; i++) {
            let_in = let_in ||
                     id_equal(desired->caller[i].device.text, world->agent[(s + 2) % 3].id.text);
        }
        assert_true(let_in);
    }
}

static void a_round_is_committed_when_two_devices_hold_every_unit(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 0);
    open_round(world, REPLICA_NEIGHBOR);
    assert_int_equal(world->heartbeat_reply.neighbor.version, 5);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_OPEN);
    catch_up(world);
    beat_all(world); /* the stages hold it: one copy of each unit */
    assert_int_equal(committed(world, id), 0);
    send_all(world);
    assert_int_equal(committed(world, id),
                     0); /* the receivers have not said so: senders decide nothing */
    agent_beat(world, &world->agent[0]);
    agent_beat(world, &world->agent[1]);
    assert_int_equal(committed(world, id), 0);
    agent_beat(world, &world->agent[2]);
    assert_int_equal(committed(world, id), 5);
    agent_beat(world, &world->agent[0]);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_COMMITTED);
    assert_int_equal(agent_round(&world->agent[0], REPLICA_NEIGHBOR), 0);
}

static void only_stage_0_opens_a_round(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 0);
    open_round(world, REPLICA_NEIGHBOR);
    agent_beat(world, &world->agent[1]);
    world->agent[1].heartbeat.round_neighbor = 9;
    agent_beat_again(world, &world->agent[1]);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_ABANDONED);
    agent_beat(world, &world->agent[0]);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_OPEN); /* a's is still open */
}

static void copies_that_differ_commit_nothing(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 0);
    open_round(world, REPLICA_NEIGHBOR);
    catch_up(world);
    send_all(world);
    agent_beat(world, &world->agent[0]);
    agent_beat(world, &world->agent[2]);
    struct agent *b = &world->agent[1];
    b->spoilt = true; /* what it holds of others has another hash */
    agent_beat(world, b);
    assert_int_equal(committed(world, id), 0);
    b->spoilt = false;
    agent_tell_holdings(b);
    agent_beat(world, b);
    assert_int_equal(committed(world, id), 5);
}

static void a_round_that_takes_too_long_is_abandoned_and_the_next_one_may_begin(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 0);
    open_round(world, REPLICA_NEIGHBOR);
    struct agent *a = &world->agent[0];
    int64_t round_ms = world_job(world, id)->deadlines.round_ms;
    assert_in_range(round_ms, 12000, 14000); /* a step, and two leases */
    for (int64_t ms = 0; ms <= round_ms; ms += 500) {
        world_pass(world, 500);
        (void)agent_step(world, a);
        beat_all(world);
    }
    assert_int_equal(outbox_queue_newest(a->outbox, REPLICA_NEIGHBOR), 5);
    assert_int_equal(agent_round(a, REPLICA_NEIGHBOR), 0); /* the reply said so */
    open_round(world, REPLICA_NEIGHBOR);
    assert_true(agent_round(a, REPLICA_NEIGHBOR) > 5);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_OPEN);
}

/* It opens when the step begins, and the snapshots are taken when the step has ended. */
static void a_round_waits_for_a_slow_step(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = story_spec(100);
    spec.center_every = 1;
    spec.expected_step_seconds = 16;
    story_devices(world);
    story_submit(world, id, &spec);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    const struct job_deadlines *deadlines = &world_job(world, id)->deadlines;
    assert_int_equal(deadlines->step_ms, 80000);
    assert_true(deadlines->round_ms > deadlines->step_ms + deadlines->lease_ms);
}

static void a_new_generation_abandons_the_round(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 5);
    while (committed(world, id) == 0 || world_job(world, id)->version == 0) {
        story_round(world, false);
    }
    open_round(world, REPLICA_NEIGHBOR); /* of 10 */
    catch_up(world);
    while (world_units(world, id) == 5) {
        assert_true(agent_replicate(world, &world->agent[0]));
    }
    struct agent *old = &world->agent[0];
    agent_restart(world, &world->agent[1]);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world_units(world, id), 5); /* what had come of it is forgotten */
    agent_beat(world, old);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_ABANDONED);
    assert_int_equal(world->heartbeat_reply.center.state, ROUND_ABANDONED);
    world_settle(world);
    open_round(world, REPLICA_NEIGHBOR); /* the steps come again, and so do their rounds */
    assert_int_equal(world->heartbeat_reply.neighbor.version, 6);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_OPEN);
}

/* A stop leaves one copy of each unit. Were the version committed before it dropped, one loss would
 * cost everything. */
static void snapshots_of_a_stop_do_not_count_as_committed(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 0);
    world_train(world, 12);
    int64_t before = committed(world, id);
    assert_true(before >= 5);
    story_replan(world, id, 1, 2); /* nothing moves */
    world_settle(world);
    int64_t start = core_job_plan(world->core, id)->resume_version;
    assert_true(start > before);
    assert_int_equal(committed(world, id), before);
    for (size_t i = 0; i < 3; i++) {
        agent_follow(world, &world->agent[i]);
    }
    agent_restart(world, &world->agent[1]);
    agent_beat(world, &world->agent[1]); /* what it alone held of the start is gone */
    assert_int_equal(core_job_plan(world->core, id)->resume_version, before);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void the_start_stays_until_a_later_version_is_committed(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 0);
    world_train(world, 12);
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    int64_t start = core_job_plan(world->core, id)->resume_version;
    for (size_t i = 0; i < 3; i++) {
        const struct assignment *desired = story_assignment(world, &world->agent[i]);
        for (size_t d = 0; d < desired->drop_count; d++) {
            assert_true(desired->drop[d].below_version <= start);
        }
    }
    open_round(world, REPLICA_NEIGHBOR); /* of start + 1: redundancy comes back at once */
    assert_int_equal(agent_round(&world->agent[0], REPLICA_NEIGHBOR), start + 1);
    catch_up(world);
    send_all(world);
    beat_all(world);
    assert_int_equal(committed(world, id), start + 1);
    const struct assignment *desired = story_assignment(world, &world->agent[0]);
    assert_int_equal(desired->drop_count, 1);
    assert_int_equal(desired->drop[0].below_version, start + 1);
}

static void a_round_to_the_center_raises_the_jobs_version(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 0, 5);
    world_train(world, 20);
    assert_int_equal(world_job(world, id)->version % 5, 0);
    int64_t version = world_job(world, id)->version;
    assert_true(version >= 5);
    assert_int_equal(world_units(world, id), 5); /* the one before is forgotten */
    for (size_t i = 0; i < 3; i++) {
        agent_kill(&world->agent[i]);
    }
    world_pass(world, 6000);
    for (size_t i = 0; i < 3; i++) {
        agent_restart(world, &world->agent[i]);
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(core_job_plan(world->core, id)->resume_version, version);
    story_finish(world, id);
}

/* The blob may come before the report of what the device holds: only both together commit. */
static void a_round_to_the_center_waits_for_the_devices_word(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 0, 5);
    open_round(world, REPLICA_CENTER);
    catch_up(world);
    send_all(world);
    assert_int_equal(world_units(world, id), 5);
    assert_int_equal(world_job(world, id)->version, 0);
    beat_all(world);
    assert_int_equal(world_job(world, id)->version, 5);
}

static void a_blob_with_another_hash_than_reported_is_refused(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 0, 5);
    struct agent *a = &world->agent[0];
    open_round(world, REPLICA_CENTER);
    struct event event = {.type = EVENT_BLOB_STORED, .blob_stored = {.device = a->id}};
    event.blob_stored.unit =
        (struct center_unit){.generation = 1, .version = 5, .bytes = 1000, .sha256 = "other"};
    memcpy(event.blob_stored.unit.job.text, id, ID_SIZE);
    world_send(world, &event);
    assert_int_equal(world->problem, PROBLEM_INVALID_BLOB);
    assert_int_equal(world_units(world, id), 0);
    event.blob_stored.unit.version = 4; /* not requested */
    world_send(world, &event);
    assert_int_equal(world->problem, PROBLEM_STALE_GENERATION);
}

static void snapshots_under_way_to_the_center_are_not_dropped(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 6, 5);
    struct agent *a = &world->agent[0];
    while (a->step < 6) {
        assert_true(agent_step(world, a));
        catch_up(world);
        agent_beat(world, a);
    }
    for (size_t i = 0; i < 3; i++) {
        world->agent[i].slow = REPLICA_MARK(REPLICA_CENTER);
    }
    send_all(world);
    beat_all(world);
    assert_int_equal(committed(world, id), 6);
    world_settle(world);
    assert_true(agent_holds(a, id, 5, 0));
}

static void a_disk_that_is_nearly_full_pauses_rounds_to_the_center(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 0, 5);
    struct event event = {.type = EVENT_DISK, .disk = {.nearly_full = true}};
    world_send(world, &event);
    world_train(world, 15);
    assert_int_equal(world_units(world, id), 0);
    assert_int_equal(world->heartbeat_reply.center.state, ROUND_PAUSED);
    assert_state(world, id, JOB_RUNNING);
    event.disk.nearly_full = false;
    world_send(world, &event);
    world_train(world, 15);
    assert_true(world_job(world, id)->version >= 15);
}

static void an_open_round_survives_a_restart_of_the_coordinator(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 5);
    open_round(world, REPLICA_NEIGHBOR);
    catch_up(world);
    for (int blob = 0; blob < 3; blob++) {
        assert_true(agent_replicate(world, &world->agent[2]));
    }
    send_all(world);
    world_restart(world);
    assert_int_equal(world_units(world, id), 5);
    world_settle(world);
    assert_int_equal(committed(world, id), 5);
    assert_int_equal(world_job(world, id)->version, 5);
}

static void without_replication_the_start_is_all_that_is_kept(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 0, 0);
    assert_false(story_assignment(world, &world->agent[0])->run.has_neighbor);
    for (int i = 0; i < 3; i++) {
        world_train(world, 5);
        world_verb(world, id, JOB_REPLAN);
        world_settle(world);
    }
    int64_t start = core_job_plan(world->core, id)->resume_version;
    for (size_t k = 0; k < world->agent[0].held_count; k++) {
        assert_int_equal(world->agent[0].held[k].version, start);
    }
}

/* With one device nothing can be committed to a neighbor: what two devices held before stays with
 * both. */
static void a_plan_of_one_device_does_not_drop_the_committed_version(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 5, 0);
    world_train(world, 12);
    int64_t before = committed(world, id);
    const struct replan_request one = {.device = {world->agent[0].id}, .device_count = 1};
    world_replan(world, id, &one);
    world_settle(world);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 1);
    assert_true(core_job_plan(world->core, id)->resume_version > before);
    world_train(world, 5);
    agent_kill(&world->agent[0]); /* it alone had newer versions */
    world_live(world, 6000);
    assert_int_equal(core_job_plan(world->core, id)->resume_version, before);
}

/* Memory is bounded, whatever users do: after some starts without a commit the older ones go. */
static void starts_without_a_commit_do_not_pile_up(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 50, 0);
    struct agent *a = &world->agent[0];
    for (size_t k = 0; k < 3; k++) {
        world->agent[k].slow = REPLICA_MARK(REPLICA_NEIGHBOR);
    }
    for (int i = 0; i < 8; i++) {
        (void)agent_step(world, a);
        catch_up(world);
        world_verb(world, id, JOB_REPLAN);
        world_settle(world);
        assert_state(world, id, JOB_RUNNING);
    }
    int64_t oldest = a->held[0].version, newest = oldest;
    for (size_t k = 0; k < a->held_count; k++) {
        oldest = a->held[k].version < oldest ? a->held[k].version : oldest;
        newest = a->held[k].version > newest ? a->held[k].version : newest;
    }
    assert_int_equal(newest, core_job_plan(world->core, id)->resume_version);
    assert_true(newest - oldest < 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(every_stage_has_its_ring_neighbor),
        STORY(a_round_is_committed_when_two_devices_hold_every_unit),
        STORY(only_stage_0_opens_a_round),
        STORY(copies_that_differ_commit_nothing),
        STORY(a_round_that_takes_too_long_is_abandoned_and_the_next_one_may_begin),
        STORY(a_round_waits_for_a_slow_step),
        STORY(a_new_generation_abandons_the_round),
        STORY(snapshots_of_a_stop_do_not_count_as_committed),
        STORY(the_start_stays_until_a_later_version_is_committed),
        STORY(a_round_to_the_center_raises_the_jobs_version),
        STORY(a_round_to_the_center_waits_for_the_devices_word),
        STORY(a_blob_with_another_hash_than_reported_is_refused),
        STORY(snapshots_under_way_to_the_center_are_not_dropped),
        STORY(a_disk_that_is_nearly_full_pauses_rounds_to_the_center),
        STORY(an_open_round_survives_a_restart_of_the_coordinator),
        STORY(without_replication_the_start_is_all_that_is_kept),
        STORY(a_plan_of_one_device_does_not_drop_the_committed_version),
        STORY(starts_without_a_commit_do_not_pile_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
