/* Jobs of sub-models in the core alone: room among the live jobs, answers that come late, pauses,
 * and as many groups as there may be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/core/state/mark.h"
#include "coordinator/core/submodel/savings.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "tests/unit/coordinator_core/bench.h"

/* The part of the n-th group that begins. */
static struct parent_part *part_at(const struct bench *bench, size_t n)
{
    size_t order[GROUPS_MAX];
    submodel_begin_order(bench_parent(bench), order);
    return &bench_parent(bench)->parent.part[order[n]];
}

static void a_group_without_room_waits_and_is_not_described_again(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 2, 3);
    assert_int_equal(bench.derives, 1);
    bench_derive(&bench, PARENT_GROUPS, 3);
    assert_int_equal(part_at(&bench, 1)->state, PART_TRAINS);
    assert_int_equal(part_at(&bench, 2)->state, PART_WAITING);
    assert_int_equal(bench.derives, 1);
    assert_true(bench_tick(&bench, 100) < 100);
    bench_end(&bench);
}

static void a_group_begins_when_another_job_has_ended(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 2, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    struct job_slot *job = slots_job(bench.core, part_at(&bench, 0)->job.text);
    job->job.state = JOB_FAILED; /* as if it had failed for good */
    part_at(&bench, 0)->state = PART_MISSING;
    job->mark.ended = true;
    mark_job(bench.core, job);
    (void)bench_tick(&bench, 100);
    struct event event = {.type = EVENT_TICK};
    bench_step(&bench, &event);
    assert_true(bench_tick(&bench, 100) < 100);
    assert_int_equal(bench.derives, 2);
    bench_derive(&bench, PARENT_GROUPS, 3);
    assert_int_equal(part_at(&bench, 2)->state, PART_TRAINS);
    bench_end(&bench);
}

static void a_paused_parent_without_room_does_not_keep_the_core_busy(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 2, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    bench_verb(&bench, JOB_PAUSE);
    (void)bench_tick(&bench, 100);
    bench.core->jobs.max = 4; /* room */
    struct event event = {.type = EVENT_TICK};
    bench_step(&bench, &event);
    assert_true(bench_tick(&bench, 100) < 100);
    bench_end(&bench);
}

static void a_description_that_comes_after_the_deadline_changes_nothing(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    struct parent_slot *parent = bench_parent(&bench);
    parent->parent.part[0].state = PART_TRAINED;
    bench.now_ms += BENCH_DEADLINE_MS;
    (void)bench_tick(&bench, 100);
    assert_int_equal(parent->parent.phase, PARENT_HARVEST);
    assert_int_equal(bench.harvests, 1);
    struct event event = {.type = EVENT_DERIVED,
                          .derived = {.job = bench.job, .phase = PARENT_HARVEST, .failed = true}};
    bench_step(&bench, &event);
    assert_int_equal(bench_parent(&bench)->parent.phase, PARENT_HARVEST);
    assert_int_equal(bench.harvests, 1);
    bench_end(&bench);
}

static void the_time_of_a_pause_does_not_count_towards_the_deadline(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    bench.now_ms += BENCH_DEADLINE_MS / 2;
    bench_verb(&bench, JOB_PAUSE);
    bench.now_ms += 2 * BENCH_DEADLINE_MS;
    (void)bench_tick(&bench, 100);
    bench_verb(&bench, JOB_PAUSE); /* again: nothing is lost */
    assert_int_equal(bench_parent(&bench)->parent.part[0].state, PART_TRAINS);
    bench_verb(&bench, JOB_RESUME);
    bench.now_ms += BENCH_DEADLINE_MS / 2 - 1;
    (void)bench_tick(&bench, 100);
    assert_int_equal(bench_parent(&bench)->parent.part[0].state, PART_TRAINS);
    bench.now_ms += 1;
    (void)bench_tick(&bench, 100);
    assert_null(slots_parent(bench.core, bench.job.text)); /* no group was trained in time */
    bench_end(&bench);
}

static void a_part_that_pauses_after_its_parent_was_resumed_goes_on(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    struct job_slot *job = slots_job(bench.core, bench_parent(&bench)->parent.part[1].job.text);
    job->job.state = JOB_PAUSING; /* its devices store its state */
    bench_verb(&bench, JOB_PAUSE);
    bench_verb(&bench, JOB_RESUME);
    job->job.state = JOB_PAUSED;
    mark_job(bench.core, job);
    struct event event = {.type = EVENT_TICK};
    bench_step(&bench, &event);
    assert_int_equal(job->job.state, JOB_QUEUED);
    bench_end(&bench);
}

static void the_seed_after_the_last_one_is_the_first(void **state)
{
    (void)state;
    static struct parent_slot parent;
    struct bench bench;
    struct job_spec spec;
    struct job_data data = {0};
    bench_begin(&bench, 8, 3);
    parent = *bench_parent(&bench);
    parent.job.spec.seed = (int64_t)INTEGER_MAX;
    submodel_group_job(&parent, 1, &spec, &data);
    assert_int_equal(spec.seed, (int64_t)INTEGER_MAX);
    parent.parent.part[1].reseeded = 2;
    submodel_group_job(&parent, 1, &spec, &data);
    assert_int_equal(spec.seed, 1);
    bench_end(&bench);
}

static void fail_group(struct bench *bench, size_t group, const char *reason)
{
    struct parent_part *part = &bench_parent(bench)->parent.part[group];
    struct job_slot *job = slots_job(bench->core, part->job.text);
    struct event event = {.type = EVENT_TICK};
    job->job.state = JOB_FAILED;
    (void)snprintf(job->job.state_reason, sizeof(job->job.state_reason), "%s", reason);
    job->mark.ended = true;
    mark_job(bench->core, job);
    bench_step(bench, &event);
    bench_derive(bench, PARENT_GROUPS, 3);
    assert_int_equal(part->state, PART_TRAINS);
}

static void only_a_group_that_diverges_is_given_another_seed(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    const struct parent_part *part = &bench_parent(&bench)->parent.part[1];
    fail_group(&bench, 1, "no_progress");
    assert_int_equal(slots_job(bench.core, part->job.text)->job.spec.seed, bench.spec.seed);
    fail_group(&bench, 1, "diverged");
    assert_int_equal(slots_job(bench.core, part->job.text)->job.spec.seed, bench.spec.seed + 1);
    assert_int_equal(part->attempts, 3);
    bench_end(&bench);
}

/* A failure keeps no version of the steps that were made since the last replica. */
static void the_steps_of_a_failed_group_count_as_work(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    const struct parent *parent = &bench_parent(&bench)->parent;
    struct job_slot *job = slots_job(bench.core, parent->part[1].job.text);
    assert_true(parent->work.flops == 0);
    job->has_plan = true;
    job->plan = (struct plan){.stage_count = 1};
    job->plan.stage[0] = (struct plan_stage){.end = (int64_t)job->model->unit_count};
    job->progress.reached_step = 12;
    const double sample = savings_flops(job->model, 0, job->model->unit_count);
    const double flops = 12 * (double)job->job.spec.batch * sample;
    fail_group(&bench, 1, "diverged");
    assert_true(flops > 0 && parent->work.flops == flops);
    bench_end(&bench);
}

/* Three groups of 3, 3 and 4 classes with as many other samples: 600, 600 and 800 less the
 * hold-out, in batches and two epochs. */
static void progress_never_goes_back(void **state)
{
    (void)state;
    struct bench bench;
    struct event event = {.type = EVENT_TICK};
    bench_begin(&bench, 8, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    struct parent_slot *parent = bench_parent(&bench);
    const struct job_progress *progress = &parent->job.progress;
    int64_t steps = 0;
    for (size_t g = 0; g < 3; g++) {
        struct job_slot *job = slots_job(bench.core, parent->parent.part[g].job.text);
        steps += job->total_steps;
        job->job.progress.step = 5;
        mark_job(bench.core, job);
    }
    bench_step(&bench, &event);
    assert_true(progress->steps >= steps);
    assert_int_equal(progress->step, 15);
    const double before = progress->fraction;
    fail_group(&bench, 1, "no_progress"); /* it begins again */
    assert_int_equal(progress->step, 15);
    assert_true(progress->fraction >= before && before > 0);
    parent->parent.part[0].state = parent->parent.part[1].state = PART_TRAINED;
    parent->work.touched = true;
    bench_step(&bench, &event);
    assert_true(progress->step > 15 && progress->step < progress->steps);
    bench_end(&bench);
}

static void the_accuracy_is_that_of_the_joint_phase(void **state)
{
    (void)state;
    struct bench bench;
    struct event event = {.type = EVENT_TICK};
    bench_begin(&bench, 8, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    struct parent_slot *parent = bench_parent(&bench);
    struct job_slot *job = slots_job(bench.core, parent->parent.part[0].job.text);
    job->job.progress.has_accuracy = true;
    job->job.progress.accuracy = 0.75;
    mark_job(bench.core, job);
    bench_step(&bench, &event);
    assert_false(parent->job.progress.has_accuracy);
    parent->parent.joint.job = job->job.id;
    parent->work.touched = true;
    bench_step(&bench, &event);
    assert_true(parent->job.progress.has_accuracy && parent->job.progress.accuracy == 0.75);
    bench_end(&bench);
}

/* 100 steps of the job, 38 of the group. */
static void a_warm_up_ends_before_its_part(void **state)
{
    (void)state;
    struct bench bench;
    struct job_spec spec;
    struct job_data data = {.train_samples = 1000};
    bench_begin(&bench, 8, 5);
    bench_parent(&bench)->job.spec.learning_rate.warmup_steps = 90;
    submodel_group_job(bench_parent(&bench), 1, &spec, &data);
    assert_int_equal(data.epoch_samples, 380);
    assert_int_equal(spec.learning_rate.warmup_steps, 37);
    submodel_stem_job(bench_parent(&bench), &spec);
    assert_int_equal(spec.epochs, 0);
    submodel_joint_job(bench_parent(&bench), &spec, &data);
    assert_true(spec.learning_rate.warmup_steps < 90);
    bench_end(&bench);
}

/* Versions of as many units as a model may have, all of different content. */
static void fill_center(struct job_slot *job, size_t number)
{
    job->unit_count = UNITS_MAX;
    for (size_t v = 0; v < 2; v++) {
        struct center_version *version = &job->center.version[v];
        version->version = 1 + (int64_t)v;
        version->count = UNITS_MAX;
        for (size_t u = 0; u < UNITS_MAX; u++) {
            version->present[u] = true;
            (void)snprintf(version->unit[u].sha256, SHA256_SIZE, "%zu-%zu-%zu", number, v, u);
        }
    }
}

static void as_many_groups_as_there_may_be_end_in_one_step(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 2 * GROUPS_MAX, 5);
    struct parent_slot *parent = bench_parent(&bench);
    for (size_t g = 5; g < GROUPS_MAX; g++) { /* more than this model has channels for */
        parent->parent.groups.group[g] = parent->parent.groups.group[g % 5];
    }
    parent->parent.groups.count = GROUPS_MAX;
    bench_derive(&bench, PARENT_GROUPS, GROUPS_MAX);
    for (size_t g = 0; g < GROUPS_MAX; g++) {
        fill_center(slots_job(bench.core, parent->parent.part[g].job.text), g);
    }
    bench_verb(&bench, JOB_CANCEL);
    assert_true(bench.most < ACTIONS_MAX);
    assert_int_equal(core_job_count(bench.core), 0);
    bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_without_room_waits_and_is_not_described_again),
        cmocka_unit_test(a_group_begins_when_another_job_has_ended),
        cmocka_unit_test(a_paused_parent_without_room_does_not_keep_the_core_busy),
        cmocka_unit_test(a_description_that_comes_after_the_deadline_changes_nothing),
        cmocka_unit_test(the_time_of_a_pause_does_not_count_towards_the_deadline),
        cmocka_unit_test(a_part_that_pauses_after_its_parent_was_resumed_goes_on),
        cmocka_unit_test(the_seed_after_the_last_one_is_the_first),
        cmocka_unit_test(only_a_group_that_diverges_is_given_another_seed),
        cmocka_unit_test(the_steps_of_a_failed_group_count_as_work),
        cmocka_unit_test(progress_never_goes_back),
        cmocka_unit_test(the_accuracy_is_that_of_the_joint_phase),
        cmocka_unit_test(a_warm_up_ends_before_its_part),
        cmocka_unit_test(as_many_groups_as_there_may_be_end_in_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
