/* Jobs of sub-models: devices and groups fail in each phase, users pause and cancel in each phase,
 * and the model stays the same. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/digest.h"
#include "tests/sim/operators.h"
#include "tests/sim/stories/story.h"

#define STEPS 40

static const struct submodel_options usual = {
    .stem = 1, .stem_epochs = 1, .negatives = 1, .replicas = 1, .joint_epochs = 1};

/* A job of three given groups, or of as many planned ones as the options say. */
static struct story *begin(size_t devices, const struct submodel_options *options)
{
    return story_new_as(
        &(struct story_setting){.devices = devices,
                                .devices_min = 1,
                                .steps = STEPS,
                                .submodel = options,
                                .groups = options->group_count == 0 ? &story_thirds : NULL});
}

static const struct parent *parts_of(const struct story *story)
{
    const struct parent *parent = rows_parent(&story->world.coordinator->rows, story->job->id.text);
    assert_non_null(parent);
    return parent;
}

/* The device that the part's plan has. */
static size_t device_of(const struct story *story, const struct parent_part *part)
{
    const struct plan *plan = rows_plan(&story->world.coordinator->rows, part->job.text);
    assert_non_null(plan);
    for (size_t i = 0; i < story->world.agent_count; i++) {
        if (strcmp(trace_name(&story->world, plan->stage[0].device.text),
                   story->world.agent[i]->name) == 0) {
            return i;
        }
    }
    fail_msg("the part has no device");
    return 0;
}

static void end(struct story *story, int state)
{
    for (int second = 0; second < 600 && !users_served(&story->world); second++) {
        story_pass(story, SECOND);
    }
    assert_true(users_served(&story->world));
    assert_int_equal(story_job(story)->state, state);
    for (size_t i = 0; i < story->world.coordinator->rows.job_count; i++) {
        assert_true(job_state_ended(story->world.coordinator->rows.job[i].state));
    }
}

/* The model of a job of three groups that nothing disturbs. */
static void model_undisturbed(size_t devices, char out[SHA256_SIZE])
{
    struct story *story = begin(devices, &usual);
    end(story, JOB_SUCCEEDED);
    memcpy(out, story_model(story), SHA256_SIZE);
    story_free(story);
}

static void phases_follow_each_other(void **state)
{
    (void)state;
    struct story *story = begin(4, &usual);
    story_until(story, "center: job_running: phase stem");
    story_until(story, "center: job_phase: 'job1' is in the phase groups");
    story_until(story, "center: job_phase: 'job1' is in the phase harvest");
    story_until(story, "center: job_phase: 'job1' is in the phase joint");
    story_until(story, "center: job_succeeded: trained");
    end(story, JOB_SUCCEEDED);
    assert_string_equal(story_job(story)->state_reason, "");
    assert_int_equal(parts_of(story)->groups.count, 3);
    story_free(story);
}

static void classes_are_divided_among_devices_that_know_views(void **state)
{
    (void)state;
    struct story *story = story_new_as(&(struct story_setting){
        .devices = 4, .devices_min = 1, .steps = STEPS, .submodel = &usual, .old = 1});
    story_until(story, "center: job_phase: 'job1' is in the phase groups");
    end(story, JOB_SUCCEEDED);
    assert_int_equal(parts_of(story)->groups.count, 3);
    story_free(story);
}

static void the_model_depends_on_the_groups_alone(void **state)
{
    (void)state;
    char two[SHA256_SIZE], three[SHA256_SIZE], six[SHA256_SIZE];
    model_undisturbed(2, two);
    model_undisturbed(3, three);
    model_undisturbed(6, six);
    assert_string_equal(two, three);
    assert_string_equal(two, six);
}

static void groups_queue_for_one_device(void **state)
{
    (void)state;
    char one[SHA256_SIZE], three[SHA256_SIZE];
    model_undisturbed(1, one);
    model_undisturbed(3, three);
    assert_string_equal(one, three);
}

/* A device is killed in the phase; the model is the same. */
static void loses_a_device(const char *line, bool in_group)
{
    char right[SHA256_SIZE];
    model_undisturbed(4, right);
    struct story *story = begin(4, &usual);
    story_until(story, line);
    const struct parent *parent = parts_of(story);
    const struct parent_part *part = in_group                        ? &parent->part[1]
                                     : parent->phase == PARENT_JOINT ? &parent->joint
                                                                     : &parent->stem;
    const size_t device = device_of(story, part);
    faults_kill_device(&story->world, device, FOREVER);
    end(story, JOB_SUCCEEDED);
    assert_string_equal(story_model(story), right);
    story_free(story);
}

static void a_device_lost_in_the_stem_changes_no_bit(void **state)
{
    (void)state;
    loses_a_device("center: job_running: phase stem", false);
}

static void a_group_continues_elsewhere_with_the_same_bits(void **state)
{
    (void)state;
    loses_a_device("center: job job1.group1 running", true);
}

static void a_device_lost_in_the_joint_phase_changes_no_bit(void **state)
{
    (void)state;
    loses_a_device("center: job_running: phase joint", false);
}

static void groups_of_other_numeric_classes_make_no_exact_model(void **state)
{
    (void)state;
    struct submodel_options two = usual;
    two.group_count = 2;
    struct story *story = begin(2, &two);
    story->job->spec.devices_max = 1; /* of stem and joint phase */
    story->world.agent[1]->numeric_class = "avx512";
    faults_kill_device(&story->world, 1, 10 * MS);
    end(story, JOB_SUCCEEDED);
    assert_string_equal(story_job(story)->numeric_class, "mixed");
    assert_false(story_job(story)->exact);
    story_free(story);
}

static void parts_of_one_numeric_class_make_an_exact_model(void **state)
{
    (void)state;
    struct story *story = begin(3, &usual);
    end(story, JOB_SUCCEEDED);
    assert_string_not_equal(story_job(story)->numeric_class, "");
    assert_true(story_job(story)->exact);
    story_free(story);
}

static void a_drained_device_hands_its_group_on(void **state)
{
    (void)state;
    char right[SHA256_SIZE];
    model_undisturbed(4, right);
    struct story *story = begin(4, &usual);
    story_until(story, "center: job job1.group1 running");
    story_pass(story, SECOND);
    operators_ask(&story->world, device_of(story, &parts_of(story)->part[1]), true);
    story_until(story, "center: device_drained");
    end(story, JOB_SUCCEEDED);
    assert_string_equal(story_model(story), right);
    story_free(story);
}

/* ---- users ---- */

static void pauses_at(const char *line, const char *paused)
{
    char right[SHA256_SIZE];
    model_undisturbed(3, right);
    struct story *story = begin(3, &usual);
    story_until(story, line);
    users_ask(&story->world, story->job, JOB_PAUSE);
    story_until(story, paused);
    story_pass(story, 20 * MS); /* its rows are committed */
    for (size_t i = 0; i < story->world.coordinator->rows.device_count; i++) {
        assert_string_equal(story->world.coordinator->rows.device[i].job.text, "");
    }
    end(story, JOB_SUCCEEDED); /* its user resumes it */
    assert_string_equal(story_model(story), right);
    story_free(story);
}

static void every_phase_with_parts_can_be_paused(void **state)
{
    (void)state;
    pauses_at("center: job_running: phase stem", "center: job_paused: paused in the phase stem");
    pauses_at("center: job job1.group1 running", "center: job_paused: paused in the phase groups");
    pauses_at("center: job_running: phase joint", "center: job_paused: paused in the phase joint");
}

static void cancels_at(const char *line, enum job_verb verb)
{
    struct story *story = begin(3, &usual);
    story_until(story, line);
    users_ask(&story->world, story->job, verb);
    end(story, JOB_CANCELLED);
    assert_int_equal(parts_of(story)->phase, PARENT_ENDED);
    assert_true((story_job(story)->checkpoint.text[0] != '\0') == (verb == JOB_CANCEL_KEEP));
    story_free(story);
}

static void every_phase_can_be_cancelled(void **state)
{
    (void)state;
    cancels_at("center: job_running: phase stem", JOB_CANCEL);
    cancels_at("center: job job1.group1 running", JOB_CANCEL);
    cancels_at("center: job_phase: 'job1' is in the phase harvest", JOB_CANCEL);
    cancels_at("center: job_running: phase joint", JOB_CANCEL);
    cancels_at("center: job_running: phase joint", JOB_CANCEL_KEEP);
}

static void a_model_is_kept_only_when_it_is_harvested(void **state)
{
    (void)state;
    struct story *story = begin(3, &usual);
    story_until(story, "center: job job1.group1 running");
    users_ask(&story->world, story->job, JOB_CANCEL_KEEP);
    story_until(story,
                "user: job1: 409 cannot cancel and keep a job of strategy 'submodel' in the phase");
    end(story, JOB_SUCCEEDED);
    story_free(story);
}

static void verbs_on_a_group_are_rejected(void **state)
{
    (void)state;
    struct story *story = begin(3, &usual);
    story_until(story, "center: job job1.group1 running");
    const struct job_id parent = story->job->id;
    story->job->id = parts_of(story)->part[1].job;
    users_ask(&story->world, story->job, JOB_PAUSE);
    story->job->id = parent;
    story_until(story, "user: job1: 409 job 'job_");
    end(story, JOB_SUCCEEDED);
    story_free(story);
}

/* ---- missing groups ---- */

static void groups_that_miss_the_deadline_are_left_out(void **state)
{
    (void)state;
    struct submodel_options late = usual;
    late.deadline_seconds = 4;
    struct story *story = begin(1, &late); /* groups queue for it */
    story_until(story, "center: job_cancelled: not trained by the deadline of the groups");
    end(story, JOB_SUCCEEDED);
    assert_string_equal(story_job(story)->state_reason, "degraded");
    story_free(story);
}

/* The joint phase of a job whose last groups miss the deadline. */
static struct story *begin_joint_without_classes(void)
{
    struct submodel_options late = usual;
    late.deadline_seconds = 4;
    struct story *story = begin(1, &late);
    story_until(story, "center: job_cancelled: not trained by the deadline of the groups");
    story_until(story, "center: job_running: phase joint");
    story_pass(story, 20 * MS);
    return story;
}

static void the_joint_phase_leaves_missing_classes_out(void **state)
{
    (void)state;
    struct story *story = begin_joint_without_classes();
    int64_t missing[COUNTED_CLASSES_MAX];
    const struct parent *parent = parts_of(story);
    const struct job *joint = rows_job(&story->world.coordinator->rows, parent->joint.job.text);
    const size_t count = parent_missing(parent, missing);
    assert_true(count > 0 && joint->spec.has_view);
    assert_int_equal(joint->spec.view.numbers, VIEW_NUMBERS_DATA);
    assert_int_equal(joint->spec.view.class_count, parent->class_count - count);
    int64_t samples = 0;
    for (size_t i = 0; i < joint->spec.view.class_count; i++) {
        for (size_t m = 0; m < count; m++) {
            assert_true(joint->spec.view.class[i] != missing[m]);
        }
        samples += parent->class_samples[joint->spec.view.class[i]];
    }
    assert_int_equal(joint->data.epoch_samples, samples);
    end(story, JOB_SUCCEEDED);
    assert_int_equal(parts_of(story)->joint.state, PART_TRAINED);
    assert_true(
        !id_equal(story_job(story)->checkpoint.text, parts_of(story)->joint.checkpoint.text));
    story_free(story);
}

/* The rows of missing classes are written again: the disk is full, the coordinator dies, and a user
 * pauses the job meanwhile. */
static void the_last_file_is_written_after_a_full_disk_and_a_restart(void **state)
{
    (void)state;
    struct story *story = begin_joint_without_classes();
    story_until(story, "center: job_succeeded: trained");
    story->world.coordinator->disk_full = true;
    story_until(story, "center: export_failed: could not assemble the model of 'job1'");
    users_ask(&story->world, story->job, JOB_PAUSE);
    story_until(story, "center: job_paused: paused in the phase joint");
    faults_kill_coordinator(&story->world, SECOND);
    story_pass(story, 2 * SECOND);
    story->world.coordinator->disk_full = false;
    end(story, JOB_SUCCEEDED); /* its user resumes it */
    story_free(story);
}

/* The gate of the first attempt fails, that of the next seed passes. */
static void collapses_once(size_t group, const char *line)
{
    struct story *story = begin(3, &usual);
    story_until(story, "center: job_phase: 'job1' is in the phase groups");
    story_pass(story, 100 * MS);
    story->world.users->collapses = story->job->spec.seed;
    story->world.users->collapsing_class =
        story_thirds.class_of[story_thirds.group[group].class_first];
    story_until(story, line);
    end(story, JOB_SUCCEEDED);
    assert_int_equal(parts_of(story)->part[group].attempts, 2);
    assert_string_equal(story_job(story)->state_reason, "");
    story_free(story);
}

static void a_collapsed_group_is_trained_again_with_the_next_seed(void **state)
{
    (void)state;
    collapses_once(2, "center: group_refused: group 2 of 'job1' recognises its classes in 10 %");
}

/* Its mean recall alone would pass. */
static void a_group_that_misses_one_of_its_classes_is_trained_again(void **state)
{
    (void)state;
    collapses_once(1, "center: group_refused: group 1 of 'job1' recognises its classes in 60 % of "
                      "held-out samples, those of one class in 0 %");
}

/* A group that fails the gate three times is left out; with replicas its classes are not missing.
 */
static void replicas_serve_the_classes_of_a_group_that_is_left_out(void **state)
{
    (void)state;
    struct submodel_options twice = usual;
    twice.replicas = 2;
    twice.group_count = 2;
    struct story *story = begin(3, &twice);
    story_until(story, "center: job_phase: 'job1' is in the phase groups");
    for (int64_t attempt = 0; attempt < 3; attempt++) {
        story_pass(story, 100 * MS);
        const struct class_groups *groups = &parts_of(story)->groups;
        story->world.users->collapses = story->job->spec.seed + attempt;
        story->world.users->collapsing_class = groups->class_of[groups->group[1].class_first];
        story_until(story, "center: group_refused: group 1 of 'job1'");
    }
    end(story, JOB_SUCCEEDED);
    assert_int_equal(parts_of(story)->part[1].state, PART_MISSING);
    assert_string_equal(story_job(story)->state_reason, "degraded");
    assert_int_equal(parts_of(story)->joint.state, PART_TRAINED);
    story_free(story);
}

static void a_full_disk_delays_the_harvest(void **state)
{
    (void)state;
    struct story *story = begin(3, &usual);
    story_until(story, "center: job_phase: 'job1' is in the phase harvest");
    story->world.coordinator->disk_full = true;
    story_until(story, "center: export_failed: could not assemble the model of 'job1'");
    story_pass(story, 100 * MS);
    assert_string_equal(story_job(story)->state_reason, "export_failed");
    story->world.coordinator->disk_full = false;
    story_until(story, "center: job_phase: 'job1' is in the phase joint");
    end(story, JOB_SUCCEEDED);
    story_free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_follow_each_other),
        cmocka_unit_test(classes_are_divided_among_devices_that_know_views),
        cmocka_unit_test(the_model_depends_on_the_groups_alone),
        cmocka_unit_test(groups_queue_for_one_device),
        cmocka_unit_test(a_device_lost_in_the_stem_changes_no_bit),
        cmocka_unit_test(a_group_continues_elsewhere_with_the_same_bits),
        cmocka_unit_test(a_device_lost_in_the_joint_phase_changes_no_bit),
        cmocka_unit_test(groups_of_other_numeric_classes_make_no_exact_model),
        cmocka_unit_test(parts_of_one_numeric_class_make_an_exact_model),
        cmocka_unit_test(a_drained_device_hands_its_group_on),
        cmocka_unit_test(every_phase_with_parts_can_be_paused),
        cmocka_unit_test(every_phase_can_be_cancelled),
        cmocka_unit_test(a_model_is_kept_only_when_it_is_harvested),
        cmocka_unit_test(verbs_on_a_group_are_rejected),
        cmocka_unit_test(groups_that_miss_the_deadline_are_left_out),
        cmocka_unit_test(the_joint_phase_leaves_missing_classes_out),
        cmocka_unit_test(the_last_file_is_written_after_a_full_disk_and_a_restart),
        cmocka_unit_test(a_collapsed_group_is_trained_again_with_the_next_seed),
        cmocka_unit_test(a_group_that_misses_one_of_its_classes_is_trained_again),
        cmocka_unit_test(replicas_serve_the_classes_of_a_group_that_is_left_out),
        cmocka_unit_test(a_full_disk_delays_the_harvest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
