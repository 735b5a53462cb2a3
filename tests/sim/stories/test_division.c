/* Groups of sub-models are divided again when their first steps show that slices take other times
 * than predicted. */
#include <math.h>
#include <string.h>

#include "schema/job_check.h"
#include "tests/sim/operators.h"
#include "tests/sim/speeds.h"
#include "tests/sim/stories/story.h"

#define DEVICES 3
#define EPOCHS 200
#define DIVIDED "center: groups_divided: the groups of 'job1' are divided again"

static const struct submodel_options planned = {
    .stem = 1, .stem_epochs = 1, .group_count = DEVICES, .negatives = 1, .replicas = 1};

static struct story *begin(const struct submodel_options *options, const struct class_groups *given)
{
    struct story *story = story_new_as(&(struct story_setting){.devices = DEVICES,
                                                               .devices_min = 1,
                                                               .submodel = options,
                                                               .epochs = EPOCHS,
                                                               .groups = given});
    story_until(story, "center: job_phase: 'job1' is in the phase groups");
    story_pass(story, 100 * MS); /* the row is stored */
    return story;
}

static const struct parent *parts_of(const struct story *story)
{
    const struct parent *parent = rows_parent(&story->world.coordinator->rows, story->job->id.text);
    assert_non_null(parent);
    return parent;
}

static void end(struct story *story)
{
    for (int second = 0; second < 3600 && !users_served(&story->world); second++) {
        story_pass(story, SECOND);
    }
    assert_int_equal(story_job(story)->state, JOB_SUCCEEDED);
    assert_string_equal(story_job(story)->state_reason, "");
}

/* The width of the device's group. */
static double width_of(const struct story *story, size_t device)
{
    const struct class_groups *groups = &parts_of(story)->groups;
    for (size_t g = 0; g < groups->count; g++) {
        if (strcmp(trace_name(&story->world, groups->group[g].device.text),
                   story->world.agent[device]->name) == 0) {
            return groups->group[g].width;
        }
    }
    fail_msg("the device has no group");
    return 0;
}

/* The smallest share of its steps that a group had done when it was ended. */
static double least_done(const struct story *story)
{
    const struct rows *rows = &story->world.coordinator->rows;
    double least = 1;
    for (size_t i = 0; i < rows->job_count; i++) {
        const struct job *job = &rows->job[i];
        if (job->part == JOB_GROUP && job->state == JOB_CANCELLED) {
            const double all = (double)job_total_steps(&job->spec, job_epoch_samples(&job->data));
            least = fmin(least, (double)job->progress.step / all);
        }
    }
    return least;
}

static void slows_down(struct story *story)
{
    speeds_slow(&story->world, 0, 300);
    story_until(story, DIVIDED);
}

static void a_slower_slice_divides_the_groups_again(void **state)
{
    (void)state;
    struct story *story = begin(&planned, NULL);
    const double width = width_of(story, 0), work = parts_of(story)->work.flops;
    slows_down(story);
    story_pass(story, SECOND);
    assert_true(parts_of(story)->work.flops > work); /* the steps that are lost count */
    assert_true(least_done(story) >= 0.05);          /* fewer would measure badly */
    assert_true(width_of(story, 0) < width);
    end(story);
    assert_in_range(parts_of(story)->divisions, 2, 3);
    story_free(story);
}

static void given_groups_keep_their_division(void **state)
{
    (void)state;
    struct submodel_options options = planned;
    options.group_count = 0;
    struct story *story = begin(&options, &story_thirds);
    speeds_slow(&story->world, 0, 300);
    end(story);
    assert_int_equal(parts_of(story)->divisions, 0);
    assert_memory_equal(&parts_of(story)->groups.group[0].width, &story_thirds.group[0].width,
                        sizeof(double));
    story_free(story);
}

static void groups_are_divided_three_times_at_most(void **state)
{
    (void)state;
    struct story *story = begin(&planned, NULL);
    slows_down(story);
    speeds_slow(&story->world, 0, 100);
    speeds_slow(&story->world, 1, 300);
    story_until(story, DIVIDED);
    speeds_slow(&story->world, 1, 100);
    speeds_slow(&story->world, 2, 300);
    end(story);
    assert_int_equal(parts_of(story)->divisions, 3);
    story_free(story);
}

static void a_restart_keeps_the_new_division(void **state)
{
    (void)state;
    struct story *story = begin(&planned, NULL);
    slows_down(story);
    faults_kill_coordinator(&story->world, SECOND);
    story_pass(story, 3 * SECOND);
    assert_in_range(parts_of(story)->divisions, 1, 3); /* the last commit may be lost */
    end(story);
    assert_in_range(parts_of(story)->divisions, 2, 3);
    story_free(story);
}

static void a_pause_between_the_divisions_loses_no_group(void **state)
{
    (void)state;
    struct story *story = begin(&planned, NULL);
    slows_down(story);
    users_ask(&story->world, story->job, JOB_PAUSE);
    story_until(story, "center: job_paused: paused in the phase groups");
    users_ask(&story->world, story->job, JOB_RESUME);
    end(story);
    assert_int_equal(parts_of(story)->groups.count, DEVICES);
    story_free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slower_slice_divides_the_groups_again),
        cmocka_unit_test(given_groups_keep_their_division),
        cmocka_unit_test(groups_are_divided_three_times_at_most),
        cmocka_unit_test(a_restart_keeps_the_new_division),
        cmocka_unit_test(a_pause_between_the_divisions_loses_no_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
