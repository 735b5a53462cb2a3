#include "tests/unit/coordinator_core/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_step(struct bench *bench, struct event *event)
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

size_t bench_tick(struct bench *bench, size_t most)
{
    size_t ticks = 0;
    while (ticks < most && core_deadline_ms(bench->core) <= bench->now_ms) {
        struct event event = {.type = EVENT_TICK};
        bench_step(bench, &event);
        ticks++;
    }
    return ticks;
}

/* Neighbouring classes share a group. */
static void divide(struct bench *bench, size_t groups)
{
    for (size_t g = 0; g < groups; g++) {
        const size_t first = g * BENCH_CLASSES / groups, next = (g + 1) * BENCH_CLASSES / groups;
        bench->groups.group[g] = (struct class_group){.class_first = (int64_t)first,
                                                      .class_count = (int64_t)(next - first),
                                                      .width = 1 / (double)groups};
    }
    for (size_t c = 0; c < BENCH_CLASSES; c++) {
        bench->groups.class_of[c] = (int64_t)c;
    }
    bench->groups.class_count = BENCH_CLASSES;
    bench->groups.count = groups;
}

static void submit(struct bench *bench)
{
    const struct job_data data = {
        .train_samples = 1000, .checkpoint_sha256 = "stem", .checkpoint_bytes = 1 << 20};
    const struct event_classes classes = {
        .samples = bench->samples, .count = BENCH_CLASSES, .groups = &bench->groups};
    struct event event = {
        .type = EVENT_JOB_SUBMIT,
        .request = 1,
        .job_submit = {
            .spec = &bench->spec, .data = &data, .model = bench->model, .classes = &classes}};
    bench_step(bench, &event);
    for (size_t i = 0; i < bench->actions.count; i++) {
        const struct action *action = &bench->actions.item[i];
        assert_int_not_equal(action->type, ACTION_PROBLEM);
        if (action->type == ACTION_REPLY) {
            bench->job = ((const struct job *)action->object)->id;
        }
    }
}

void bench_begin(struct bench *bench, size_t jobs_max, size_t groups)
{
    struct core_config config = core_config_default;
    const struct model_fit fit = {
        .input = {28, 28, 1}, .dtype = DTYPE_U8, .classes = BENCH_CLASSES};
    struct err err = {0};
    memset(bench, 0, sizeof(*bench));
    bench->now_ms = 1000;
    bench->actions.item = calloc(ACTIONS_MAX, sizeof(struct action));
    assert_non_null(bench->actions.item);
    bench->model = world_zoo_model("mlp", &fit);
    config.jobs_max = jobs_max;
    assert_ok(core_new(&config, &bench->core, &err), &err);
    struct event event = {.type = EVENT_RESTORED};
    bench_step(bench, &event);
    bench->spec = world_spec("divided", 0);
    bench->spec.epochs = 2;
    bench->spec.strategy = STRATEGY_SUBMODEL;
    bench->spec.submodel = (struct submodel_options){.stem = 1,
                                                     .stem_epochs = 0,
                                                     .negatives = 1,
                                                     .replicas = 1,
                                                     .joint_epochs = 1,
                                                     .deadline_seconds = BENCH_DEADLINE_MS / 1000};
    (void)snprintf(bench->spec.init_checkpoint.text, ID_SIZE, "ckpt_00000000000000000000000000");
    for (size_t c = 0; c < BENCH_CLASSES; c++) {
        bench->samples[c] = 100;
    }
    divide(bench, groups);
    submit(bench);
}

void bench_end(struct bench *bench)
{
    core_free(&bench->core);
    model_free(&bench->model);
    free(bench->actions.item);
}

void bench_derive(struct bench *bench, int phase, size_t count)
{
    struct derived_model model[GROUPS_MAX];
    for (size_t i = 0; i < count; i++) {
        model[i].model = bench->model;
        (void)snprintf(model[i].sha256, SHA256_SIZE, "slice-%zu", i);
    }
    struct event event = {
        .type = EVENT_DERIVED,
        .derived = {.job = bench->job, .phase = phase, .model = model, .model_count = count}};
    bench_step(bench, &event);
}

void bench_verb(struct bench *bench, enum job_verb wanted)
{
    struct event event = {
        .type = EVENT_JOB_VERB, .request = 1, .job_verb = {.job = bench->job, .verb = wanted}};
    bench_step(bench, &event);
}

struct parent_slot *bench_parent(const struct bench *bench)
{
    struct parent_slot *parent = slots_parent(bench->core, bench->job.text);
    assert_non_null(parent);
    return parent;
}
