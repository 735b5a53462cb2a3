/* Models of the parts of a job of sub-models, damaged or deleted: what is trained again, and what
 * stays. */
#include <stdio.h>
#include <string.h>

#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/mark.h"
#include "tests/unit/coordinator_core/bench.h"

/* The models of the stem and of all groups, "model-0" and so on, are about to be harvested. */
static struct parent_slot *train_groups(struct bench *bench)
{
    bench_derive(bench, PARENT_GROUPS, 3);
    struct parent_slot *parent = bench_parent(bench);
    for (size_t g = 0; g < 3; g++) {
        parent->parent.part[g].state = PART_TRAINED;
        (void)snprintf(parent->parent.part[g].sha256, SHA256_SIZE, "model-%zu", g);
    }
    parent->work.touched = true;
    struct event event = {.type = EVENT_TICK};
    bench_step(bench, &event);
    assert_int_equal(parent->parent.phase, PARENT_HARVEST);
    return parent;
}

static void damage(struct bench *bench, const char *sha256)
{
    struct event event = {.type = EVENT_BLOB_DAMAGED};
    (void)snprintf(event.blob_damaged.sha256, SHA256_SIZE, "%s", sha256);
    bench_step(bench, &event);
}

/* The model of a group is read when it is harvested. */
static void a_group_whose_model_is_damaged_is_trained_again_from_its_seed(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    const struct parent_slot *parent = train_groups(&bench);
    damage(&bench, "model-1");
    assert_int_equal(parent->parent.phase, PARENT_GROUPS);
    assert_int_equal(bench.derives, 2);
    bench_derive(&bench, PARENT_GROUPS, 3);
    const struct parent_part *part = &parent->parent.part[1];
    assert_int_equal(part->state, PART_TRAINS);
    assert_int_equal(slots_job(bench.core, part->job.text)->job.spec.seed, bench.spec.seed);
    bench_end(&bench);
}

/* A group on data of its device may have to wait for that one. */
static void groups_that_are_repeated_have_the_deadline_again(void **state)
{
    (void)state;
    for (int paused = 0; paused <= 1; paused++) {
        struct bench bench;
        bench_begin(&bench, 8, 3);
        struct parent_slot *parent = train_groups(&bench);
        parent->job.spec.submodel.deadline_seconds = 60;
        parent->parent.groups_until_ms = 1; /* of the first time */
        parent->parent.paused = paused;
        damage(&bench, "model-1");
        assert_int_equal(parent->parent.phase, PARENT_GROUPS);
        assert_int_equal(parent->parent.groups_left_ms, paused ? 60000 : 0);
        assert_int_equal(parent->parent.groups_until_ms, paused ? 0 : bench.core->wall_ms + 60000);
        assert_int_equal(parent->work.deadline_ms, paused ? NEVER : bench.core->now_ms + 60000);
        bench_end(&bench);
    }
}

/* As if the job had trained its stem itself. */
static void own_stem(struct parent_slot *parent)
{
    parent->job.spec.submodel.stem_epochs = 1;
    parent->parent.stem.attempts = 1;
}

/* The job of the stem has ended with this model. */
static void train_stem(struct bench *bench, const char *sha256)
{
    struct parent_part *stem = &bench_parent(bench)->parent.stem;
    struct job_slot *job = slots_job(bench->core, stem->job.text);
    struct event event = {.type = EVENT_TICK};
    ids_new(bench->core, bench->core->checkpoint.id.text, "ckpt_");
    (void)snprintf(bench->core->checkpoint.sha256, SHA256_SIZE, "%s", sha256);
    job->job.state = JOB_SUCCEEDED;
    job->job.checkpoint = bench->core->checkpoint.id;
    job->mark.ended = true;
    mark_job(bench->core, job);
    bench_step(bench, &event);
}

static void a_damaged_stem_is_trained_again_and_the_groups_keep_their_models(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    struct parent_slot *parent = train_groups(&bench);
    own_stem(parent);
    damage(&bench, "stem");
    assert_int_equal(parent->parent.phase, PARENT_STEM);
    assert_int_equal(parent->parent.stem.state, PART_TRAINS);
    train_stem(&bench, "stem");
    assert_int_equal(parent->parent.phase, PARENT_HARVEST);
    assert_int_equal(bench.harvests, 2);
    bench_end(&bench);
}

static void groups_of_another_stem_are_trained_again(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    struct parent_slot *parent = train_groups(&bench);
    own_stem(parent);
    damage(&bench, "stem");
    train_stem(&bench, "stem of another numeric class");
    assert_int_equal(parent->parent.phase, PARENT_GROUPS);
    for (size_t g = 0; g < 3; g++) {
        assert_int_equal(parent->parent.part[g].state, PART_WAITING);
        assert_int_equal(parent->parent.part[g].attempts, 0);
    }
    bench_end(&bench);
}

/* One group trains, another has no step yet: it cannot load the stem. */
static void groups_that_train_go_on_while_the_stem_is_damaged(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    bench_derive(&bench, PARENT_GROUPS, 3);
    struct parent_slot *parent = bench_parent(&bench);
    own_stem(parent);
    parent->parent.part[2].state = PART_TRAINED;
    struct job_slot *trains = slots_job(bench.core, parent->parent.part[0].job.text);
    trains->job.progress.step = 1;
    damage(&bench, "stem");
    assert_int_equal(parent->parent.phase, PARENT_GROUPS);
    assert_int_equal(parent->parent.part[0].state, PART_TRAINS);
    assert_int_equal(parent->parent.part[1].state, PART_WAITING);
    trains->job.progress.step = 0; /* it has failed, and starts again */
    mark_job(bench.core, trains);
    struct event event = {.type = EVENT_TICK};
    bench_step(&bench, &event);
    assert_int_equal(parent->parent.phase, PARENT_STEM);
    train_stem(&bench, "stem");
    assert_int_equal(parent->parent.phase, PARENT_GROUPS);
    bench_derive(&bench, PARENT_GROUPS, 3);
    assert_int_equal(parent->parent.part[1].state, PART_TRAINS);
    assert_int_equal(parent->parent.part[1].attempts, 1);
    bench_end(&bench);
}

static void a_stem_that_the_user_gave_waits_for_its_upload(void **state)
{
    (void)state;
    struct bench bench;
    bench_begin(&bench, 8, 3);
    const struct parent_slot *parent = train_groups(&bench);
    damage(&bench, "stem");
    assert_int_equal(parent->parent.phase, PARENT_HARVEST);
    assert_int_equal(parent->parent.stem.state, PART_TRAINED);
    bench_end(&bench);
}

/* The jobs that made them have ended, and the harvest reads their models. */
static void a_model_that_the_next_phase_needs_cannot_be_deleted(void **state)
{
    (void)state;
    static const struct {
        char sha256[SHA256_SIZE];
        int status;
    } rows[] = {{"model-0", 409}, {"model-2", 409}, {"stem", 409},
                {"harvest", 409}, {"joint", 409},   {"model-3", 204}};
    struct bench bench;
    bench_begin(&bench, 8, 3);
    struct parent_slot *parent = train_groups(&bench);
    (void)snprintf(parent->parent.stem.sha256, SHA256_SIZE, "stem");
    (void)snprintf(parent->parent.joint.sha256, SHA256_SIZE, "joint");
    (void)snprintf(parent->parent.harvest_sha256, SHA256_SIZE, "harvest");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct event event = {.type = EVENT_DELETE,
                              .request = 1,
                              .delete = {.kind = DELETE_CHECKPOINT,
                                         .id = "ckpt_00000000000000000000000007",
                                         .revision = 1,
                                         .sha256 = &rows[i].sha256,
                                         .sha256_count = 1}};
        bench_step(&bench, &event);
        size_t answers = 0;
        for (size_t a = 0; a < bench.actions.count; a++) {
            const struct action *action = &bench.actions.item[a];
            assert_false(rows[i].status == 409 && action->type == ACTION_FORGET);
            if (action->type == ACTION_PROBLEM) {
                assert_int_equal(rows[i].status, 409);
                assert_int_equal(action->problem, PROBLEM_IN_USE);
                assert_non_null(strstr(action->text, bench.job.text));
                answers++;
            } else if (action->type == ACTION_REPLY) {
                assert_int_equal(action->status, rows[i].status);
                answers++;
            }
        }
        assert_int_equal(answers, 1);
    }
    bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_whose_model_is_damaged_is_trained_again_from_its_seed),
        cmocka_unit_test(groups_that_are_repeated_have_the_deadline_again),
        cmocka_unit_test(a_damaged_stem_is_trained_again_and_the_groups_keep_their_models),
        cmocka_unit_test(groups_of_another_stem_are_trained_again),
        cmocka_unit_test(groups_that_train_go_on_while_the_stem_is_damaged),
        cmocka_unit_test(a_stem_that_the_user_gave_waits_for_its_upload),
        cmocka_unit_test(a_model_that_the_next_phase_needs_cannot_be_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
