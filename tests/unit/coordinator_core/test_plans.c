/* Plans: their predictions, the measurements they use, and the assignments that carry them. */
#include <string.h>

#include "libtrain/memory/memory.h"
#include "tests/unit/coordinator_core/story.h"

static void a_dry_run_shows_the_plan_and_leaves_nothing(void **state)
{
    struct world *world = *state;
    story_devices(world);
    world_clear(world);
    struct job_spec spec = world_spec("j", 40);
    world_dry_run(world, &spec);
    assert_trace(world, "reply 200 job_preview\n");
    const struct job_preview *preview = world->preview;
    assert_int_equal(preview->stage_count, 3);
    assert_int_equal(preview->steps, 40);
    assert_string_equal(preview->waiting_for, "");
    assert_int_equal(preview->stage[0].first, 0);
    assert_string_equal(preview->stage[0].unit[0], "conv1");
    assert_int_equal(preview->stage[2].end, 5);
    assert_true(preview->predicted_step_seconds > 0);
    assert_close(&preview->predicted_total_seconds, &(double){40 * preview->predicted_step_seconds},
                 1, 1e-12);
    assert_true(preview->predicted_efficiency > 0 && preview->predicted_efficiency <= 1);
    assert_true(preview->stage[0].memory_bytes > 0);
    assert_int_equal(core_job_count(world->core), 0);
}

static void a_dry_run_says_why_the_job_would_wait(void **state)
{
    struct world *world = *state;
    struct job_spec spec = world_spec("j", 40);
    spec.devices_min = 2;
    (void)world_agent(world, "a", 10);
    world_dry_run(world, &spec);
    assert_int_equal(world->preview->stage_count, 0);
    assert_string_equal(world->preview->waiting_for,
                        "waits for 1 more device: 1 of 2 are available");
    spec.numeric_class[0] = 'x';
    world_dry_run(world, &spec);
    assert_string_equal(world->preview->waiting_for,
                        "waits for 2 more devices: no device has the numeric class 'x' (1 online)");
}

static void check_parts(const struct plan_stage *stage, const struct memory_bytes *bytes)
{
    const struct plan_memory *parts = &stage->memory;
    assert_int_equal(parts->parameters_bytes, bytes->parameters);
    assert_int_equal(parts->gradients_bytes, bytes->gradients);
    assert_int_equal(parts->optimizer_bytes, bytes->optimizer);
    assert_int_equal(parts->activations_bytes, bytes->activations);
    assert_int_equal(parts->workspace_bytes, bytes->workspace);
    assert_int_equal(parts->borders_bytes, bytes->borders);
    assert_int_equal(parts->snapshots_bytes, 4 * bytes->snapshot);
    assert_int_equal(parts->replicas_bytes, stage->replica_bytes);
    assert_int_equal(stage->memory_bytes, parts->parameters_bytes + parts->gradients_bytes +
                                              parts->optimizer_bytes + parts->activations_bytes +
                                              parts->workspace_bytes + parts->borders_bytes +
                                              parts->snapshots_bytes + parts->replicas_bytes);
}

static void a_plan_promises_the_memory_that_the_stage_will_plan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct err err = {0};
    story_devices(world);
    story_run(world, id, 10);
    const struct plan *plan = world_plan(world, id, 1);
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stage[s];
        struct memory_bytes bytes;
        const struct memory_request request = {.first = (size_t)stage->first,
                                               .end = (size_t)stage->end,
                                               .micro_batch = 5,
                                               .in_flight = (size_t)stage->in_flight,
                                               .threads = 1};
        assert_ok(
            memory_of_stage(world->model, &job_spec_default.optimizer, &request, &bytes, &err),
            &err);
        /* Four copies of its own state, of which the stage plans one, and two of the stage before
         * it in the ring. */
        const struct plan_stage *before =
            &plan->stage[(s + plan->stage_count - 1) % plan->stage_count];
        struct memory_bytes ring;
        const struct memory_request of_ring = {.first = (size_t)before->first,
                                               .end = (size_t)before->end,
                                               .micro_batch = 5,
                                               .in_flight = 1,
                                               .threads = 1};
        assert_ok(memory_of_stage(world->model, &job_spec_default.optimizer, &of_ring, &ring, &err),
                  &err);
        uint64_t headers = (uint64_t)(before->end - before->first) * 16384;
        assert_int_equal(stage->replica_bytes, 2 * (ring.snapshot + headers));
        assert_int_equal(stage->memory_bytes,
                         bytes.total + 3 * bytes.snapshot + stage->replica_bytes);
        check_parts(stage, &bytes);
    }
}

/* Devices of which one is forty times slower, which enrols as number `slow`. */
static void enrol_unequal(struct world *world, size_t slow)
{
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        (void)world_agent(world, names[i], i == slow ? 1 : 40);
    }
    struct job_spec spec = world_spec("j", 40);
    world_dry_run(world, &spec);
    assert_int_equal(world->preview->stage_count, 2);
    for (size_t s = 0; s < 2; s++) {
        assert_string_not_equal(world->preview->stage[s].device.text, world->agent[slow].id.text);
    }
}

static void the_order_of_enrolment_does_not_change_the_plan(void **state)
{
    double seconds[3];
    for (size_t slow = 0; slow < 3; slow++) {
        assert_int_equal(story_setup(state), 0);
        enrol_unequal(*state, slow);
        seconds[slow] = ((struct world *)*state)->preview->predicted_step_seconds;
        assert_int_equal(story_teardown(state), 0);
        assert_close(&seconds[slow], &seconds[0], 1, 0.01);
    }
}

static void a_model_that_never_fits_is_refused(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 2; i++) {
        struct agent *agent = world_agent(world, i == 0 ? "a" : "b", 10);
        agent->memory_bytes = 1000;
        agent_enroll(world, agent);
    }
    struct job_spec spec = world_spec("j", 40);
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_MODEL_TOO_LARGE);
    assert_holds(world->text, "does not fit on device 'a'");
    assert_holds(world->text, "unit '");
    assert_int_equal(core_job_count(world->core), 0);
    world->agent[0].memory_bytes = 1 << 30;
    agent_enroll(world, &world->agent[0]);
    world_submit(world, &spec);
    assert_int_equal(world->status, 201);
    assert_int_equal(world_plan(world, world->job.id.text, 1)->stage_count,
                     1); /* b is too small for any unit */
}

static void a_device_with_little_memory_is_planned_only_where_the_job_recomputes(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct preview_stage stage[2];
    struct agent *agent = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 40);
    for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_UNIT; recompute++) {
        spec.recompute = recompute;
        world_dry_run(world, &spec);
        assert_int_equal(world->preview->stage_count, 1);
        stage[recompute] = world->preview->stage[0];
    }
    assert_true(stage[RECOMPUTE_UNIT].memory_bytes < stage[RECOMPUTE_NONE].memory_bytes);
    assert_true(stage[RECOMPUTE_UNIT].memory.activations_bytes <
                stage[RECOMPUTE_NONE].memory.activations_bytes);
    assert_true(stage[RECOMPUTE_UNIT].predicted_backward_seconds >
                stage[RECOMPUTE_NONE].predicted_backward_seconds);
    assert_true(stage[RECOMPUTE_UNIT].predicted_backward_seconds <=
                stage[RECOMPUTE_NONE].predicted_backward_seconds +
                    stage[RECOMPUTE_NONE].predicted_forward_seconds);

    agent->memory_bytes = stage[RECOMPUTE_UNIT].memory_bytes;
    agent_enroll(world, agent);
    spec.recompute = RECOMPUTE_NONE;
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_MODEL_TOO_LARGE);
    assert_holds(world->text, "it fits with \"recompute\": \"unit\": unit '");
    spec.recompute = RECOMPUTE_UNIT;
    story_submit(world, id, &spec);
    assert_state(world, id, JOB_PREPARING);
    assert_int_equal(world_plan(world, id, 1)->stage[0].memory_bytes, agent->memory_bytes);

    /* And where that does not help, nothing is promised. */
    agent->memory_bytes = 1000;
    agent_enroll(world, agent);
    spec.recompute = RECOMPUTE_NONE;
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_MODEL_TOO_LARGE);
    assert_null(strstr(world->text, "recompute"));
}

static void an_asynchronous_job_too_large_for_its_devices_fits_as_a_synchronous_one(void **state)
{
    struct world *world = *state;
    struct agent *agent[] = {world_agent(world, "a", 10), world_agent(world, "b", 10)};
    struct job_spec spec = world_spec("j", 40);
    int64_t bytes[2] = {0};
    spec.micro_batches = 1;
    spec.recompute = RECOMPUTE_UNIT;
    spec.devices_min = 2;
    spec.cut[0] = 4;
    spec.cut_count = 1;
    for (int pipeline = JOB_SYNC; pipeline <= JOB_ASYNC; pipeline++) {
        spec.pipeline = pipeline;
        world_dry_run(world, &spec);
        assert_int_equal(world->preview->stage_count, 2);
        assert_int_equal(world->preview->stage[0].in_flight, pipeline == JOB_ASYNC ? 2 : 1);
        assert_int_equal(world->preview->stage[1].in_flight, 1);
        const struct preview_stage *first = &world->preview->stage[0];
        bytes[pipeline] = first->memory_bytes - first->memory.replicas_bytes;
    }
    assert_true(bytes[JOB_ASYNC] > bytes[JOB_SYNC]);
    for (size_t i = 0; i < 2; i++) {
        agent[i]->memory_bytes = bytes[JOB_ASYNC] - 1;
        agent_enroll(world, agent[i]);
    }
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_MODEL_TOO_LARGE);
    assert_holds(world->text, "it fits with \"pipeline\": \"sync\": ");
}

static void an_asynchronous_job_is_exact_on_one_device_alone(void **state)
{
    struct world *world = *state;
    story_devices(world);
    struct job_spec spec = world_spec("j", 40);
    spec.pipeline = JOB_ASYNC;
    spec.micro_batches = 1;
    char id[ID_SIZE];
    for (int64_t devices = 1; devices <= 2; devices++) {
        spec.devices_min = spec.devices_max = devices;
        story_submit(world, id, &spec);
        assert_int_equal(world_plan(world, id, 1)->stage_count, devices);
        assert_int_equal(world_job(world, id)->exact, devices == 1);
    }
}

static void a_job_that_asks_too_much_is_refused(void **state)
{
    struct world *world = *state;
    story_devices(world);
    struct job_spec spec = world_spec("j", 40);
    spec.devices_min = 6;
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_INVALID_FIELDS);
    spec = world_spec("j", 40);
    spec.cut[0] = 5;
    spec.cut_count = 1;
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_INVALID_FIELDS);
    spec = world_spec("j", 40);
    spec.cut[0] = 2;
    spec.cut_count = 1;
    spec.devices_min = 3;
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_INVALID_FIELDS);
    spec = world_spec("j", 40);
    spec.batch = 2000;
    spec.micro_batches = 1;
    world_submit(world, &spec);
    assert_int_equal(world->problem, PROBLEM_INVALID_FIELDS);
    assert_int_equal(world->rows.job_count, 0);
}

static void first_stage_boundaries_need_one_device_per_stage(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 40);
    spec.cut[0] = 2;
    spec.cut_count = 1;
    story_submit(world, id, &spec);
    assert_state(world, id, JOB_QUEUED);
    (void)world_agent(world, "b", 10);
    assert_state(world, id, JOB_PREPARING);
    assert_int_equal(world_plan(world, id, 1)->stage[0].end, 2);
}

static void an_assignment_says_everything_a_stage_needs(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    static struct assignment desired;
    story_devices(world);
    struct job_spec spec = story_spec(100);
    story_submit(world, id, &spec);
    struct agent *b = &world->agent[1];
    assert_true(core_assignment(world->core, b->id.text, b->boot, &desired));
    assert_true(desired.has_run);
    assert_int_equal(desired.revision, core_assignment_revision(world->core, b->id.text));
    assert_int_equal(desired.interval_ms, 1000);
    const struct assignment_run *run = &desired.run;
    assert_string_equal(run->job.text, id);
    assert_int_equal(run->generation, 1);
    assert_int_equal(run->phase, PHASE_PREPARE);
    assert_int_equal(run->stage_index, 1);
    assert_int_equal(run->stage_count, 3);
    assert_int_equal(run->first, 1);
    assert_int_equal(run->end, 2);
    assert_int_equal(run->source_count, 1);
    assert_int_equal(run->source[0].unit, 1);
    assert_int_equal(run->source[0].from, SOURCE_SEED);
    assert_true(run->has_previous && run->has_next);
    assert_string_equal(run->previous.device.text, world->agent[0].id.text);
    assert_string_equal(run->previous.url, "http://a:7411");
    assert_string_equal(run->next.device.text, world->agent[2].id.text);
    assert_string_equal(run->next.codec, "none");
    assert_int_equal(run->previous_in_flight, world_plan(world, id, 1)->stage[0].in_flight);
    assert_int_equal(run->total_steps, 100);
    assert_string_equal(run->data.train_sha256, "train");
    assert_string_equal(run->job_spec.name, "j");
    assert_true(run->step_ms >= 2000 && run->peer_ms >= 500 && run->lease_ms == 5000);
    assert_int_equal(desired.caller_count, 2);
    assert_string_equal(desired.caller[0].device.text, world->agent[0].id.text);
    assert_int_equal(desired.caller[0].generation, 1);
    assert_int_equal(desired.drop_count, 0);
    assert_false(core_assignment(world->core, "dev_unknown", b->boot, &desired));
    assert_int_equal(core_assignment_revision(world->core, "dev_unknown"), 0);
}

static bool is_strict(struct world *world, const struct agent *agent)
{
    static struct assignment desired;
    assert_true(core_assignment(world->core, agent->id.text, agent->boot, &desired));
    return desired.run.strict;
}

static void agents_that_know_the_strict_order_get_it_where_it_is_faster(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10), *b = world_agent(world, "b", 8);
    struct job_spec spec = world_spec("j", 100);
    spec.devices_min = 2;
    spec.micro_batches = 10;
    story_submit(world, id, &spec);
    const struct plan *strict = world_plan(world, id, 1);
    assert_true(strict->strict && is_strict(world, a) && is_strict(world, b));
    const double seconds = strict->predicted_step_seconds;

    b->versions_behind = PROTOCOL_VERSION - 1;
    agent_enroll(world, b);
    assert_false(is_strict(world, b));
    world_verb(world, id, JOB_CANCEL);
    world_settle(world);
    story_submit(world, id, &spec);
    const struct plan *greedy = world_plan(world, id, 1);
    assert_false(greedy->strict || is_strict(world, a) || is_strict(world, b));
    assert_true(greedy->predicted_step_seconds > seconds * 1.01);
}

static void a_link_has_the_wanted_codec_where_both_devices_have_it(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    static struct assignment desired;
    story_devices(world);
    struct job_spec spec = story_spec(100);
    spec.compression = CODEC_Q8_ZSTD;
    story_submit(world, id, &spec);
    const struct plan *plan = world_plan(world, id, 1);
    assert_int_equal(plan->stage[0].codec, CODEC_Q8); /* no device here has zstd */
    assert_int_equal(plan->stage[1].codec, CODEC_Q8);
    assert_int_equal(plan->stage[2].codec, CODEC_NONE);
    const struct agent *b = &world->agent[1];
    assert_true(core_assignment(world->core, b->id.text, b->boot, &desired));
    assert_string_equal(desired.run.previous.codec, "q8");
    assert_string_equal(desired.run.next.codec, "q8");
    assert_string_equal(desired.run.neighbor.codec, "none");
    assert_int_equal(desired.run.job_spec.compression, CODEC_NONE);
    assert_false(core_job(world->core, id)->exact);
}

static void blobs_are_for_those_whose_assignment_names_them(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE], sha256[SHA256_SIZE];
    story_devices(world);
    struct agent *d = world_agent(world, "d", 1);
    story_run(world, id, 100);
    world_train(world, 5);
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    unit_sha256(sha256, world_job(world, id)->version, 0);
    struct agent *a = &world->agent[0];
    assert_false(core_may_read_blob(world->core, a->id.text, sha256));
    world_device_verb(world, d, DEVICE_CORDON);
    world_verb(world, id, JOB_RESUME);
    assert_true(core_may_read_blob(world->core, a->id.text, sha256));
    assert_false(core_may_read_blob(world->core, a->id.text, "another"));
    assert_false(core_may_read_blob(world->core, d->id.text, sha256));
    assert_false(core_may_read_blob(world->core, "dev_unknown", sha256));
    world_settle(world);
    assert_false(core_may_read_blob(world->core, a->id.text, sha256)); /* it runs */
}

static void a_unit_with_another_hash_than_reported_is_refused(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 3);
    for (int i = 0; i < 6; i++) {
        story_round(world, false);
    }
    struct event event = {.type = EVENT_BLOB_STORED, .blob_stored = {.device = world->agent[0].id}};
    event.blob_stored.unit =
        (struct center_unit){.version = 3, .generation = 1, .sha256 = "forged"};
    memcpy(event.blob_stored.unit.job.text, id, ID_SIZE);
    assert_true(core_may_store_unit(world->core, world->agent[0].id.text, &event.blob_stored.unit));
    assert_false(
        core_may_store_unit(world->core, world->agent[1].id.text, &event.blob_stored.unit));
    world_send(world, &event);
    assert_int_equal(world->problem, PROBLEM_INVALID_BLOB);
    unit_sha256(event.blob_stored.unit.sha256, 3, 0);
    world_send(world, &event);
    assert_int_equal(world->status, 204);
    world_send(world, &event); /* twice */
    assert_int_equal(world->status, 204);
    assert_int_equal(world_units(world, id), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_dry_run_shows_the_plan_and_leaves_nothing),
        STORY(a_dry_run_says_why_the_job_would_wait),
        STORY(a_plan_promises_the_memory_that_the_stage_will_plan),
        cmocka_unit_test(the_order_of_enrolment_does_not_change_the_plan),
        STORY(a_model_that_never_fits_is_refused),
        STORY(a_device_with_little_memory_is_planned_only_where_the_job_recomputes),
        STORY(an_asynchronous_job_too_large_for_its_devices_fits_as_a_synchronous_one),
        STORY(an_asynchronous_job_is_exact_on_one_device_alone),
        STORY(a_job_that_asks_too_much_is_refused),
        STORY(first_stage_boundaries_need_one_device_per_stage),
        STORY(an_assignment_says_everything_a_stage_needs),
        STORY(agents_that_know_the_strict_order_get_it_where_it_is_faster),
        STORY(a_link_has_the_wanted_codec_where_both_devices_have_it),
        STORY(blobs_are_for_those_whose_assignment_names_them),
        STORY(a_unit_with_another_hash_than_reported_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
