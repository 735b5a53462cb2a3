/* Jobs of sub-models in the core alone: room among the live jobs, answers that come late, pauses,
 * and as many groups as there may be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "coordinator/core/ids.h"
#include "coordinator/core/mark.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "coordinator/core/submodel_parts.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "tests/unit/coordinator_core/world.h"

#define CLASSES 10
#define DEADLINE_MS 60000

/* A core with a parent whose stem is given, so that its groups begin at once. */
struct bench {
    struct core *core;
    struct actions actions;
    struct model *model;
    struct job_spec spec;
    struct class_groups groups;
    int64_t samples[CLASSES];
    int64_t now_ms;
    struct job_id job;
    size_t derives, harvests, most;
};

static void step(struct bench *bench, struct event *event)
{
    event->now_ms = bench->now_ms;
    event->wall_ms = 1700000000000 + bench->now_ms;
    bench->actions.count = 0;
    core_step(bench->core, event, &bench->actions);
    for (size_t i = 0; i < bench->actions.count; i++) {
        bench->derives += bench->actions.item[i].type == ACTION_DERIVE;
        bench->harvests += bench->actions.item[i].type == ACTION_HARVEST;
    }
    bench->most = bench->actions.count > bench->most ? bench->actions.count : bench->most;
}

/* Ticks while the core wants one now; returns how many. */
static size_t tick(struct bench *bench, size_t most)
{
    size_t ticks = 0;
    while (ticks < most && core_deadline_ms(bench->core) <= bench->now_ms) {
        struct event event = {.type = EVENT_TICK};
        step(bench, &event);
        ticks++;
    }
    return ticks;
}

static struct model *parse_mlp(void)
{
    const char *text = zoo_text("mlp");
    const struct model_fit fit = {.input = {28, 28, 1}, .dtype = DTYPE_U8, .classes = CLASSES};
    json_auto_t *description = NULL;
    struct model *model = NULL;
    struct err err = {0};
    assert_ok(json_parse(text, strlen(text), &description, &err), &err);
    assert_ok(description_parse(description, &fit, &model, NULL, &err), &err);
    return model;
}

/* Neighbouring classes share a group. */
static void divide(struct bench *bench, size_t groups)
{
    for (size_t g = 0; g < groups; g++) {
        const size_t first = g * CLASSES / groups, next = (g + 1) * CLASSES / groups;
        bench->groups.group[g] = (struct class_group){.class_first = (int64_t)first,
                                                      .class_count = (int64_t)(next - first),
                                                      .width = 1 / (double)groups};
    }
    for (size_t c = 0; c < CLASSES; c++) {
        bench->groups.class_of[c] = (int64_t)c;
    }
    bench->groups.class_count = CLASSES;
    bench->groups.count = groups;
}

static void submit(struct bench *bench)
{
    const struct job_data data = {
        .train_samples = 1000, .checkpoint_sha256 = "stem", .checkpoint_bytes = 1 << 20};
    const struct event_classes classes = {
        .samples = bench->samples, .count = CLASSES, .groups = &bench->groups};
    struct event event = {
        .type = EVENT_JOB_SUBMIT,
        .request = 1,
        .job_submit = {
            .spec = &bench->spec, .data = &data, .model = bench->model, .classes = &classes}};
    step(bench, &event);
    for (size_t i = 0; i < bench->actions.count; i++) {
        const struct action *action = &bench->actions.item[i];
        assert_int_not_equal(action->type, ACTION_PROBLEM);
        if (action->type == ACTION_REPLY) {
            bench->job = ((const struct job *)action->object)->id;
        }
    }
}

static void begin(struct bench *bench, size_t jobs_max, size_t groups)
{
    struct core_config config = core_config_default;
    struct err err = {0};
    memset(bench, 0, sizeof(*bench));
    bench->now_ms = 1000;
    bench->actions.item = calloc(ACTIONS_MAX, sizeof(struct action));
    assert_non_null(bench->actions.item);
    bench->model = parse_mlp();
    config.jobs_max = jobs_max;
    assert_ok(core_new(&config, &bench->core, &err), &err);
    struct event event = {.type = EVENT_RESTORED};
    step(bench, &event);
    bench->spec = world_spec("divided", 0);
    bench->spec.epochs = 2;
    bench->spec.strategy = STRATEGY_SUBMODEL;
    bench->spec.submodel = (struct submodel_options){.stem = 1,
                                                     .stem_epochs = 0,
                                                     .negatives = 1,
                                                     .replicas = 1,
                                                     .joint_epochs = 1,
                                                     .deadline_seconds = DEADLINE_MS / 1000};
    (void)snprintf(bench->spec.init_checkpoint.text, ID_SIZE, "ckpt_00000000000000000000000000");
    for (size_t c = 0; c < CLASSES; c++) {
        bench->samples[c] = 100;
    }
    divide(bench, groups);
    submit(bench);
}

static void end(struct bench *bench)
{
    core_free(&bench->core);
    model_free(&bench->model);
    free(bench->actions.item);
}

static void answer_derive(struct bench *bench, int phase, size_t count)
{
    struct derived_model model[GROUPS_MAX];
    for (size_t i = 0; i < count; i++) {
        model[i].model = bench->model;
        (void)snprintf(model[i].sha256, SHA256_SIZE, "slice-%zu", i);
    }
    struct event event = {
        .type = EVENT_DERIVED,
        .derived = {.job = bench->job, .phase = phase, .model = model, .model_count = count}};
    step(bench, &event);
}

static void verb(struct bench *bench, enum job_verb wanted)
{
    struct event event = {
        .type = EVENT_JOB_VERB, .request = 1, .job_verb = {.job = bench->job, .verb = wanted}};
    step(bench, &event);
}

static struct parent_slot *parent_of(const struct bench *bench)
{
    struct parent_slot *parent = slots_parent(bench->core, bench->job.text);
    assert_non_null(parent);
    return parent;
}

static void a_group_without_room_waits_and_is_not_described_again(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 2, 3);
    assert_int_equal(bench.derives, 1);
    answer_derive(&bench, PARENT_GROUPS, 3);
    assert_int_equal(parent_of(&bench)->parent.part[1].state, PART_TRAINS);
    assert_int_equal(parent_of(&bench)->parent.part[2].state, PART_WAITING);
    assert_int_equal(bench.derives, 1);
    assert_true(tick(&bench, 100) < 100);
    end(&bench);
}

static void a_group_begins_when_another_job_has_ended(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 2, 3);
    answer_derive(&bench, PARENT_GROUPS, 3);
    struct job_slot *job = slots_job(bench.core, parent_of(&bench)->parent.part[0].job.text);
    job->job.state = JOB_FAILED; /* as if it had failed for good */
    parent_of(&bench)->parent.part[0].state = PART_MISSING;
    job->mark.ended = true;
    mark_job(bench.core, job);
    (void)tick(&bench, 100);
    struct event event = {.type = EVENT_TICK};
    step(&bench, &event);
    assert_true(tick(&bench, 100) < 100);
    assert_int_equal(bench.derives, 2);
    answer_derive(&bench, PARENT_GROUPS, 3);
    assert_int_equal(parent_of(&bench)->parent.part[2].state, PART_TRAINS);
    end(&bench);
}

static void a_paused_parent_without_room_does_not_keep_the_core_busy(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 2, 3);
    answer_derive(&bench, PARENT_GROUPS, 3);
    verb(&bench, JOB_PAUSE);
    (void)tick(&bench, 100);
    bench.core->jobs.max = 4; /* room */
    struct event event = {.type = EVENT_TICK};
    step(&bench, &event);
    assert_true(tick(&bench, 100) < 100);
    end(&bench);
}

static void a_description_that_comes_after_the_deadline_changes_nothing(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 8, 3);
    answer_derive(&bench, PARENT_GROUPS, 3);
    struct parent_slot *parent = parent_of(&bench);
    parent->parent.part[0].state = PART_TRAINED;
    bench.now_ms += DEADLINE_MS;
    (void)tick(&bench, 100);
    assert_int_equal(parent->parent.phase, PARENT_HARVEST);
    assert_int_equal(bench.harvests, 1);
    struct event event = {.type = EVENT_DERIVED,
                          .derived = {.job = bench.job, .phase = PARENT_HARVEST, .failed = true}};
    step(&bench, &event);
    assert_int_equal(parent_of(&bench)->parent.phase, PARENT_HARVEST);
    assert_int_equal(bench.harvests, 1);
    end(&bench);
}

/* The models of the stem and of all groups, "model-0" and so on, are about to be harvested. */
static struct parent_slot *train_groups(struct bench *bench)
{
    answer_derive(bench, PARENT_GROUPS, 3);
    struct parent_slot *parent = parent_of(bench);
    for (size_t g = 0; g < 3; g++) {
        parent->parent.part[g].state = PART_TRAINED;
        (void)snprintf(parent->parent.part[g].sha256, SHA256_SIZE, "model-%zu", g);
    }
    parent->work.touched = true;
    struct event event = {.type = EVENT_TICK};
    step(bench, &event);
    assert_int_equal(parent->parent.phase, PARENT_HARVEST);
    return parent;
}

static void damage(struct bench *bench, const char *sha256)
{
    struct event event = {.type = EVENT_BLOB_DAMAGED};
    (void)snprintf(event.blob_damaged.sha256, SHA256_SIZE, "%s", sha256);
    step(bench, &event);
}

/* The model of a group is read when it is harvested. */
static void a_group_whose_model_is_damaged_is_trained_again_from_its_seed(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 8, 3);
    const struct parent_slot *parent = train_groups(&bench);
    damage(&bench, "model-1");
    assert_int_equal(parent->parent.phase, PARENT_GROUPS);
    assert_int_equal(bench.derives, 2);
    answer_derive(&bench, PARENT_GROUPS, 3);
    const struct parent_part *part = &parent->parent.part[1];
    assert_int_equal(part->state, PART_TRAINS);
    assert_int_equal(slots_job(bench.core, part->job.text)->job.spec.seed, bench.spec.seed);
    end(&bench);
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
    struct parent_part *stem = &parent_of(bench)->parent.stem;
    struct job_slot *job = slots_job(bench->core, stem->job.text);
    struct event event = {.type = EVENT_TICK};
    ids_new(bench->core, bench->core->checkpoint.id.text, "ckpt_");
    (void)snprintf(bench->core->checkpoint.sha256, SHA256_SIZE, "%s", sha256);
    job->job.state = JOB_SUCCEEDED;
    job->job.checkpoint = bench->core->checkpoint.id;
    job->mark.ended = true;
    mark_job(bench->core, job);
    step(bench, &event);
}

static void a_damaged_stem_is_trained_again_and_the_groups_keep_their_models(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 8, 3);
    struct parent_slot *parent = train_groups(&bench);
    own_stem(parent);
    damage(&bench, "stem");
    assert_int_equal(parent->parent.phase, PARENT_STEM);
    assert_int_equal(parent->parent.stem.state, PART_TRAINS);
    train_stem(&bench, "stem");
    assert_int_equal(parent->parent.phase, PARENT_HARVEST);
    assert_int_equal(bench.harvests, 2);
    end(&bench);
}

static void groups_of_another_stem_are_trained_again(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 8, 3);
    struct parent_slot *parent = train_groups(&bench);
    own_stem(parent);
    damage(&bench, "stem");
    train_stem(&bench, "stem of another numeric class");
    assert_int_equal(parent->parent.phase, PARENT_GROUPS);
    for (size_t g = 0; g < 3; g++) {
        assert_int_equal(parent->parent.part[g].state, PART_WAITING);
        assert_int_equal(parent->parent.part[g].attempts, 0);
    }
    end(&bench);
}

/* One group trains, another has no step yet: it cannot load the stem. */
static void groups_that_train_go_on_while_the_stem_is_damaged(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 8, 3);
    answer_derive(&bench, PARENT_GROUPS, 3);
    struct parent_slot *parent = parent_of(&bench);
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
    step(&bench, &event);
    assert_int_equal(parent->parent.phase, PARENT_STEM);
    train_stem(&bench, "stem");
    assert_int_equal(parent->parent.phase, PARENT_GROUPS);
    answer_derive(&bench, PARENT_GROUPS, 3);
    assert_int_equal(parent->parent.part[1].state, PART_TRAINS);
    assert_int_equal(parent->parent.part[1].attempts, 1);
    end(&bench);
}

static void a_stem_that_the_user_gave_waits_for_its_upload(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 8, 3);
    const struct parent_slot *parent = train_groups(&bench);
    damage(&bench, "stem");
    assert_int_equal(parent->parent.phase, PARENT_HARVEST);
    assert_int_equal(parent->parent.stem.state, PART_TRAINED);
    end(&bench);
}

static void the_time_of_a_pause_does_not_count_towards_the_deadline(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 8, 3);
    answer_derive(&bench, PARENT_GROUPS, 3);
    bench.now_ms += DEADLINE_MS / 2;
    verb(&bench, JOB_PAUSE);
    bench.now_ms += 2 * DEADLINE_MS;
    (void)tick(&bench, 100);
    verb(&bench, JOB_PAUSE); /* again: nothing is lost */
    assert_int_equal(parent_of(&bench)->parent.part[0].state, PART_TRAINS);
    verb(&bench, JOB_RESUME);
    bench.now_ms += DEADLINE_MS / 2 - 1;
    (void)tick(&bench, 100);
    assert_int_equal(parent_of(&bench)->parent.part[0].state, PART_TRAINS);
    bench.now_ms += 1;
    (void)tick(&bench, 100);
    assert_null(slots_parent(bench.core, bench.job.text)); /* no group was trained in time */
    end(&bench);
}

static void a_part_that_pauses_after_its_parent_was_resumed_goes_on(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 8, 3);
    answer_derive(&bench, PARENT_GROUPS, 3);
    struct job_slot *job = slots_job(bench.core, parent_of(&bench)->parent.part[1].job.text);
    job->job.state = JOB_PAUSING; /* its devices store its state */
    verb(&bench, JOB_PAUSE);
    verb(&bench, JOB_RESUME);
    job->job.state = JOB_PAUSED;
    mark_job(bench.core, job);
    struct event event = {.type = EVENT_TICK};
    step(&bench, &event);
    assert_int_equal(job->job.state, JOB_QUEUED);
    end(&bench);
}

static void the_seed_after_the_last_one_is_the_first(void **state)
{
    (void)state;
    static struct parent_slot parent;
    struct bench bench;
    struct job_spec spec;
    struct job_data data = {0};
    begin(&bench, 8, 3);
    parent = *parent_of(&bench);
    parent.job.spec.seed = (int64_t)INTEGER_MAX;
    submodel_group_job(&parent, 1, &spec, &data);
    assert_int_equal(spec.seed, (int64_t)INTEGER_MAX);
    parent.parent.part[1].reseeded = 2;
    submodel_group_job(&parent, 1, &spec, &data);
    assert_int_equal(spec.seed, 1);
    end(&bench);
}

static void fail_group(struct bench *bench, size_t group, const char *reason)
{
    struct parent_part *part = &parent_of(bench)->parent.part[group];
    struct job_slot *job = slots_job(bench->core, part->job.text);
    struct event event = {.type = EVENT_TICK};
    job->job.state = JOB_FAILED;
    (void)snprintf(job->job.state_reason, sizeof(job->job.state_reason), "%s", reason);
    job->mark.ended = true;
    mark_job(bench->core, job);
    step(bench, &event);
    answer_derive(bench, PARENT_GROUPS, 3);
    assert_int_equal(part->state, PART_TRAINS);
}

static void only_a_group_that_diverges_is_given_another_seed(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 8, 3);
    answer_derive(&bench, PARENT_GROUPS, 3);
    const struct parent_part *part = &parent_of(&bench)->parent.part[1];
    fail_group(&bench, 1, "no_progress");
    assert_int_equal(slots_job(bench.core, part->job.text)->job.spec.seed, bench.spec.seed);
    fail_group(&bench, 1, "diverged");
    assert_int_equal(slots_job(bench.core, part->job.text)->job.spec.seed, bench.spec.seed + 1);
    assert_int_equal(part->attempts, 3);
    end(&bench);
}

/* 100 steps of the job, 38 of the group. */
static void a_warm_up_ends_before_its_part(void **state)
{
    (void)state;
    struct bench bench;
    struct job_spec spec;
    struct job_data data = {.train_samples = 1000};
    begin(&bench, 8, 5);
    parent_of(&bench)->job.spec.learning_rate.warmup_steps = 90;
    submodel_group_job(parent_of(&bench), 1, &spec, &data);
    assert_int_equal(data.epoch_samples, 380);
    assert_int_equal(spec.learning_rate.warmup_steps, 37);
    submodel_stem_job(parent_of(&bench), &spec);
    assert_int_equal(spec.epochs, 0);
    submodel_joint_job(parent_of(&bench), &spec, &data);
    assert_true(spec.learning_rate.warmup_steps < 90);
    end(&bench);
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
    begin(&bench, 2 * GROUPS_MAX, 5);
    struct parent_slot *parent = parent_of(&bench);
    for (size_t g = 5; g < GROUPS_MAX; g++) { /* more than this model has channels for */
        parent->parent.groups.group[g] = parent->parent.groups.group[g % 5];
    }
    parent->parent.groups.count = GROUPS_MAX;
    answer_derive(&bench, PARENT_GROUPS, GROUPS_MAX);
    for (size_t g = 0; g < GROUPS_MAX; g++) {
        fill_center(slots_job(bench.core, parent->parent.part[g].job.text), g);
    }
    verb(&bench, JOB_CANCEL);
    assert_true(bench.most < ACTIONS_MAX);
    assert_int_equal(core_job_count(bench.core), 0);
    end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_without_room_waits_and_is_not_described_again),
        cmocka_unit_test(a_group_begins_when_another_job_has_ended),
        cmocka_unit_test(a_paused_parent_without_room_does_not_keep_the_core_busy),
        cmocka_unit_test(a_description_that_comes_after_the_deadline_changes_nothing),
        cmocka_unit_test(a_group_whose_model_is_damaged_is_trained_again_from_its_seed),
        cmocka_unit_test(a_damaged_stem_is_trained_again_and_the_groups_keep_their_models),
        cmocka_unit_test(groups_of_another_stem_are_trained_again),
        cmocka_unit_test(groups_that_train_go_on_while_the_stem_is_damaged),
        cmocka_unit_test(a_stem_that_the_user_gave_waits_for_its_upload),
        cmocka_unit_test(the_time_of_a_pause_does_not_count_towards_the_deadline),
        cmocka_unit_test(a_part_that_pauses_after_its_parent_was_resumed_goes_on),
        cmocka_unit_test(the_seed_after_the_last_one_is_the_first),
        cmocka_unit_test(only_a_group_that_diverges_is_given_another_seed),
        cmocka_unit_test(a_warm_up_ends_before_its_part),
        cmocka_unit_test(as_many_groups_as_there_may_be_end_in_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
