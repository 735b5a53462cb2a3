/* The order in which jobs get devices. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static void two_jobs_run_on_disjoint_devices(void **state)
{
    struct world *world = *state;
    char first[ID_SIZE], second[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("first", 30);
    spec.devices_max = 2;
    story_submit(world, first, &spec);
    spec = world_spec("second", 60);
    story_submit(world, second, &spec);
    world_settle(world);
    assert_state(world, first, JOB_RUNNING);
    assert_state(world, second, JOB_RUNNING);
    assert_int_equal(world_plan(world, first, 1)->stage_count, 2);
    assert_int_equal(world_plan(world, second, 1)->stage_count, 1);
    while (world->exports == 0) {
        world_train(world, 1);
    }
    world_exported(world, false);
    while (world->exports == 1) {
        world_train(world, 1);
    }
    world_exported(world, false);
    assert_state(world, first, JOB_SUCCEEDED);
    assert_state(world, second, JOB_SUCCEEDED);
    assert_int_equal(world->rows.checkpoint_count, 2);
}

/* The same job twice: its blobs are the same, and stay as long as one of the two needs them. */
static void equal_jobs_share_their_blobs(void **state)
{
    struct world *world = *state;
    char first[ID_SIZE], second[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("first", 4);
    spec.devices_max = 1;
    story_submit(world, first, &spec);
    story_submit(world, second, &spec);
    world_train(world, 10);
    assert_int_equal(world->exports, 2);
    world_exported(world, false); /* the second one */
    assert_int_equal(world->deleted, 0);
    memcpy(world->export_job, first, ID_SIZE);
    world_exported(world, false);
    assert_int_equal(world->deleted, 5);
}

static void jobs_queue_by_priority_then_age(void **state)
{
    struct world *world = *state;
    char running[ID_SIZE], old[ID_SIZE], young[ID_SIZE], urgent[ID_SIZE];
    (void)world_agent(world, "a", 10);
    struct job_spec spec = world_spec("running", 5);
    story_submit(world, running, &spec);
    spec = world_spec("old", 5);
    story_submit(world, old, &spec);
    spec = world_spec("young", 5);
    story_submit(world, young, &spec);
    spec = world_spec("urgent", 5);
    spec.priority = 3;
    story_submit(world, urgent, &spec);
    assert_state(world, urgent, JOB_QUEUED);
    assert_string_equal(world_job(world, old)->message,
                        "waits for 1 more device: 1 device matches, but is busy");
    const char *const order[] = {running, urgent, old, young};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 4; k++) {
            enum job_state expected = k < i ? JOB_SUCCEEDED : k == i ? JOB_RUNNING : JOB_QUEUED;
            world_settle(world);
            assert_state(world, order[k], expected);
        }
        world_train(world, 10);
        world_exported(world, false);
    }
}

static void a_job_says_why_it_waits(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 5);
    spec.devices_min = 4;
    story_submit(world, id, &spec);
    assert_string_equal(world_job(world, id)->message,
                        "waits for 1 more device: 3 of 4 are available");
    world_device_verb(world, &world->agent[0], DEVICE_CORDON);
    assert_string_equal(world_job(world, id)->message,
                        "waits for 2 more devices: 2 of 4 are available (1 cordoned)");
    world->agent[2].up = false;
    world_live(world, 6000);
    assert_string_equal(
        world_job(world, id)->message,
        "waits for 3 more devices: 1 of 4 are available (1 cordoned, 1 not online)");
    world->agent[0].up = world->agent[1].up = false;
    world_live(world, 6000);
    assert_string_equal(world_job(world, id)->message,
                        "waits for 4 more devices: no device is online");
}

static void a_job_that_waits_for_its_stage_boundaries_names_them(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 5);
    for (int64_t cut = 1; cut < 4; cut++) {
        spec.cut[spec.cut_count++] = cut;
    }
    story_submit(world, id, &spec);
    assert_string_equal(
        world_job(world, id)->message,
        "waits for 1 more device, because 'cuts' defines 4 stages: 3 of 4 are available");
    (void)world_agent(world, "d", 10);
    assert_int_equal(world_plan(world, id, 1)->stage_count, 4);
}

/* While every device works, the search for a plan is short, but the reported reason stays true. */
static void a_job_that_waits_for_busy_devices_starts_when_they_are_free(void **state)
{
    struct world *world = *state;
    char running[ID_SIZE], id[ID_SIZE];
    story_devices(world);
    story_run(world, running, 100);
    struct job_spec spec = world_spec("j", 5);
    story_submit(world, id, &spec);
    assert_string_equal(world_job(world, id)->message,
                        "waits for 1 more device: 3 devices match, all busy");
    world->agent[2].up = false;
    world_live(world, 6000);
    assert_string_equal(world_job(world, id)->message,
                        "waits for 1 more device: 2 devices match, all busy");
}

/* b and c are free, the large job waits for a: a small younger job does not take them. */
static void a_job_that_waits_for_busy_devices_keeps_the_free_ones(void **state)
{
    struct world *world = *state;
    char running[ID_SIZE], large[ID_SIZE], small[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("running", 5);
    spec.devices_max = 1;
    story_submit(world, running, &spec);
    spec = world_spec("large", 5);
    spec.devices_min = 3;
    story_submit(world, large, &spec);
    spec = world_spec("small", 5);
    spec.devices_max = 1;
    story_submit(world, small, &spec);
    world_settle(world);
    assert_state(world, large, JOB_QUEUED);
    assert_state(world, small, JOB_QUEUED);
    world_train(world, 10);
    world_exported(world, false);
    assert_state(world, large, JOB_PREPARING);
    assert_int_equal(world_plan(world, large, 1)->stage_count, 3);
}

static void a_job_that_waits_for_missing_devices_is_overtaken(void **state)
{
    struct world *world = *state;
    char huge[ID_SIZE], small[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("huge", 5);
    spec.devices_min = 4;
    story_submit(world, huge, &spec);
    spec = world_spec("small", 5);
    story_submit(world, small, &spec);
    assert_state(world, huge, JOB_QUEUED);
    assert_string_equal(world_job(world, huge)->state_reason, "waiting_for_devices");
    assert_state(world, small, JOB_PREPARING);
    (void)world_agent(world, "d", 10);
    assert_state(world, huge, JOB_QUEUED);
    world_verb(world, small, JOB_CANCEL);
    assert_state(world, huge, JOB_PREPARING);
}

static void the_fastest_devices_are_taken(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *slow = world_agent(world, "slow", 1), *fast = world_agent(world, "fast", 20),
                 *middle = world_agent(world, "middle", 10);
    struct job_spec spec = world_spec("j", 5);
    spec.devices_max = 2;
    story_submit(world, id, &spec);
    assert_string_equal(core_device(world->core, slow->id.text)->job.text, "");
    assert_string_equal(core_device(world->core, fast->id.text)->job.text, id);
    assert_string_equal(core_device(world->core, middle->id.text)->job.text, id);
}

static void labels_and_cordons_are_respected(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 5);
    spec.device_label_count = 1;
    (void)snprintf(spec.device_label[0].key, NAME_SIZE, "room");
    (void)snprintf(spec.device_label[0].value, NAME_SIZE, "attic");
    story_submit(world, id, &spec);
    assert_state(world, id, JOB_QUEUED);
    assert_string_equal(world_job(world, id)->message,
                        "waits for 1 more device: no device has the label room=attic (3 online)");
    world_verb(world, id, JOB_CANCEL);
    world_device_verb(world, &world->agent[0], DEVICE_CORDON);
    assert_int_equal(world->status, 202);
    world_device_verb(world, &world->agent[0], DEVICE_CORDON);
    assert_int_equal(world->status, 202);
    spec = world_spec("j", 5);
    story_submit(world, id, &spec);
    assert_int_equal(world_plan(world, id, 1)->stage_count, 2);
    assert_string_equal(core_device(world->core, world->agent[0].id.text)->job.text, "");
}

static void a_cordoned_device_leaves_at_the_next_replan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    world_device_verb(world, &world->agent[1], DEVICE_CORDON);
    assert_state(world, id, JOB_RUNNING);
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_plan(world, id, 2)->stage_count, 2);
    assert_string_equal(core_device(world->core, world->agent[1].id.text)->job.text, "");
    assert_true(world_plan(world, id, 2)->bytes_moved >= 1000); /* from it, while it was idle */
    world_device_verb(world, &world->agent[1], DEVICE_UNCORDON);
    assert_int_equal(core_device(world->core, world->agent[1].id.text)->cordoned, false);
}

static void a_device_is_deleted_only_when_no_job_needs_it(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct agent *b = &world->agent[1];
    world_device_verb(world, b, DEVICE_DELETE);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE); /* it works */
    world_device_verb(world, b, DEVICE_CORDON);
    world_verb(world, id, JOB_REPLAN);
    story_next(world, id);
    assert_string_equal(core_device(world->core, b->id.text)->job.text, "");
    world_device_verb(world, b, DEVICE_DELETE);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE); /* others fetch from it */
    world_settle(world);
    world_device_verb(world, b, DEVICE_DELETE);
    assert_int_equal(world->status, 204);
    assert_null(core_device(world->core, b->id.text));
    world_device_verb(world, b, DEVICE_DELETE);
    assert_int_equal(world->problem, PROBLEM_UNKNOWN_DEVICE);
    world->agent[1].up = false;
    story_finish(world, id);
}

static void one_numeric_class_is_enough_if_it_can_be(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct agent *d = world_agent(world, "d", 100);
    d->numeric_class = "neon";
    agent_enroll(world, d);
    struct job_spec spec = world_spec("j", 5);
    spec.devices_min = 2;
    story_submit(world, id, &spec);
    assert_int_equal(world_plan(world, id, 1)->stage_count, 3);
    assert_true(world_job(world, id)->exact);
    assert_string_equal(world_job(world, id)->numeric_class, "avx2");
    world_verb(world, id, JOB_CANCEL);
    spec.devices_min = 4;
    story_submit(world, id, &spec);
    assert_int_equal(world_plan(world, id, 1)->stage_count, 4);
    assert_false(world_job(world, id)->exact);
    assert_string_equal(world_job(world, id)->numeric_class, "mixed");
}

static void an_unknown_protocol_is_refused(void **state)
{
    struct world *world = *state;
    struct enroll_request request = {.protocol = PROTOCOL_VERSION + 1};
    struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request}};
    world_send(world, &event);
    assert_int_equal(world->problem, PROBLEM_PROTOCOL_VERSION);
    assert_string_equal(
        world->text,
        "the agent speaks protocol 7, this coordinator 1 to 6: upgrade the coordinator");
    request.protocol = PROTOCOL_VERSION_MIN - 1;
    world_send(world, &event);
    assert_int_equal(world->problem, PROBLEM_PROTOCOL_VERSION);
    assert_int_equal(core_device_count(world->core), 0);
}

static void names_of_data_sets_and_models_are_taken_once(void **state)
{
    struct world *world = *state;
    struct dataset dataset = {.name = "train", .sha256 = "other"};
    struct event event = {.type = EVENT_DATASET_STORED, .dataset_stored = {.dataset = &dataset}};
    world_send(world, &event);
    assert_int_equal(world->problem, PROBLEM_NAME_TAKEN);
    (void)snprintf(dataset.sha256, SHA256_SIZE, "train");
    world_send(world, &event);
    assert_int_equal(world->status, 200);
    struct model_row model = {.name = "mine", .sha256 = "one"};
    struct event stored = {.type = EVENT_MODEL_STORED, .model_stored = {.model = &model}};
    world_send(world, &stored);
    assert_int_equal(world->status, 201);
    world_send(world, &stored);
    assert_int_equal(world->status, 200);
    assert_int_equal(core_model(world->core, "mine")->revision, 1);
    assert_int_equal(core_model_count(world->core), 1);
    (void)snprintf(model.sha256, SHA256_SIZE, "two");
    world_send(world, &stored);
    assert_int_equal(world->problem, PROBLEM_NAME_TAKEN);
}

static void there_is_a_bound_on_jobs_and_devices(void **state)
{
    struct world *world = *state;
    struct job_spec spec = world_spec("j", 5);
    for (size_t i = 0; i < world->config.jobs_max; i++) {
        world_submit(world, &spec);
        assert_int_equal(world->status, 201);
    }
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_TOO_MANY);
    struct enroll_request request = {.protocol = PROTOCOL_VERSION};
    struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request}};
    for (size_t i = 0; i <= world->config.devices_max; i++) {
        (void)snprintf(request.public_key, SHA256_SIZE, "key-%zu", i);
        (void)snprintf(request.name, NAME_SIZE, "device-%zu", i);
        world_send(world, &event);
    }
    assert_int_equal(world->problem, PROBLEM_TOO_MANY);
}

/* The device is kept for a job that waits to try it again, and waits no more. */
static void devices_reserved_for_a_waiting_job_are_freed_with_it(void **state)
{
    static const enum job_verb verbs[] = {JOB_CANCEL, JOB_PAUSE};
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        char first[ID_SIZE], second[ID_SIZE];
        struct job_spec spec = world_spec("first", 50);
        story_submit(world, first, &spec);
        agent_follow(world, a);
        agent_fail(world, a, "data");
        agent_beat(world, a);
        assert_state(world, first, JOB_WAITING_FOR_DEVICES);
        spec = world_spec("second", 50);
        story_submit(world, second, &spec);
        assert_state(world, second, JOB_QUEUED);
        world_verb(world, first, verbs[i]);
        assert_state(world, second, JOB_PREPARING);
        story_finish(world, second);
    }
}

static void a_data_set_stored_again_gets_the_class_counts_that_it_lacks(void **state)
{
    struct world *world = *state;
    struct dataset dataset = {.name = "train",
                              .sha256 = "train",
                              .classes = 2,
                              .class_count = {5, 7},
                              .class_count_count = 2};
    struct event event = {.type = EVENT_DATASET_STORED, .dataset_stored = {.dataset = &dataset}};
    assert_int_equal(core_dataset(world->core, "train")->class_count_count, 0);
    for (int i = 0; i < 2; i++) {
        world_send(world, &event);
        assert_int_equal(world->status, 200);
        assert_int_equal(core_dataset(world->core, "train")->revision, 2);
        assert_int_equal(core_dataset(world->core, "train")->class_count[1], 7);
    }
    world_restart(world);
    assert_int_equal(core_dataset(world->core, "train")->class_count_count, 2);
    assert_int_equal(core_dataset(world->core, "train")->class_count[0], 5);
}

#define PROTOCOL_BEFORE_VIEWS 2
#define PROTOCOL_BEFORE_SHARDS 5

static void jobs_with_a_view_leave_out_older_agents_and_say_so(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    for (int64_t protocol = 1; protocol <= PROTOCOL_BEFORE_VIEWS; protocol++) {
        struct agent *old = world_agent(world, protocol == 1 ? "a" : "b", 10);
        old->versions_behind = PROTOCOL_VERSION - protocol;
        agent_enroll(world, old);
    }
    struct job_spec spec = world_spec("j", 50);
    spec.view = (struct view){.class = {1}, .class_count = 1, .negatives = 1};
    spec.has_view = true;
    story_submit(world, id, &spec);
    assert_state(world, id, JOB_QUEUED);
    assert_holds(world_job(world, id)->message,
                 "no device has an agent that trains with a view (2 online)");
    struct agent *present = world_agent(world, "c", 10);
    world_settle(world);
    const struct plan *plan = world_plan(world, id, 1);
    assert_int_equal(plan->stage_count, 1);
    assert_true(id_equal(plan->stage[0].device.text, present->id.text));
    spec.devices_min = 2;
    story_submit(world, id, &spec);
    assert_holds(world_job(world, id)->message, "2 with an older agent");
}

static void jobs_on_a_shard_leave_out_agents_that_know_other_views_only(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *old = world_agent(world, "a", 10);
    old->versions_behind = PROTOCOL_VERSION - PROTOCOL_BEFORE_SHARDS;
    agent_enroll(world, old);
    struct job_spec spec = world_spec("j", 50);
    spec.view =
        (struct view){.is_shard = true, .range = {{1, 0, 100}}, .range_count = 1, .shard_count = 2};
    spec.has_view = true;
    story_submit(world, id, &spec);
    assert_holds(world_job(world, id)->message,
                 "no device has an agent that trains on a shard of a data set (1 online)");
    struct agent *present = world_agent(world, "b", 10);
    world_settle(world);
    const struct plan *plan = world_plan(world, id, 1);
    assert_int_equal(plan->stage_count, 1);
    assert_true(id_equal(plan->stage[0].device.text, present->id.text));
}

/* A relu becomes the selection of all channels. */
static void models_with_a_select_leave_out_older_agents_and_say_so(void **state)
{
    struct world *world = *state;
    struct unit *unit = &world->model->unit[0];
    char id[ID_SIZE];
    size_t k = 0;
    while (k < unit->op_count && unit->op[k].type != OP_RELU) {
        k++;
    }
    assert_true(k < unit->op_count);
    unit->op[k].type = OP_SELECT;
    struct agent *old = world_agent(world, "a", 10);
    old->versions_behind = PROTOCOL_VERSION - PROTOCOL_BEFORE_VIEWS;
    agent_enroll(world, old);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    assert_holds(world_job(world, id)->message,
                 "no device has an agent that trains slices of models (1 online)");
    struct agent *present = world_agent(world, "b", 10);
    world_settle(world);
    assert_true(id_equal(world_plan(world, id, 1)->stage[0].device.text, present->id.text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(two_jobs_run_on_disjoint_devices),
        STORY(equal_jobs_share_their_blobs),
        STORY(jobs_queue_by_priority_then_age),
        STORY(a_job_says_why_it_waits),
        STORY(a_job_that_waits_for_its_stage_boundaries_names_them),
        STORY(a_job_that_waits_for_busy_devices_starts_when_they_are_free),
        STORY(a_job_that_waits_for_busy_devices_keeps_the_free_ones),
        STORY(a_job_that_waits_for_missing_devices_is_overtaken),
        STORY(the_fastest_devices_are_taken),
        STORY(labels_and_cordons_are_respected),
        STORY(a_cordoned_device_leaves_at_the_next_replan),
        STORY(a_device_is_deleted_only_when_no_job_needs_it),
        STORY(one_numeric_class_is_enough_if_it_can_be),
        STORY(an_unknown_protocol_is_refused),
        STORY(names_of_data_sets_and_models_are_taken_once),
        STORY(there_is_a_bound_on_jobs_and_devices),
        STORY(devices_reserved_for_a_waiting_job_are_freed_with_it),
        STORY(a_data_set_stored_again_gets_the_class_counts_that_it_lacks),
        STORY(jobs_with_a_view_leave_out_older_agents_and_say_so),
        STORY(jobs_on_a_shard_leave_out_agents_that_know_other_views_only),
        STORY(models_with_a_select_leave_out_older_agents_and_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
