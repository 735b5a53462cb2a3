#include "tests/sim/stories/story.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 40
#define STAGES 3
#define EVERY_EPOCHS 3 /* of 10 steps: after step 30, and after the last one */
#define PATIENCE_US (200 * SECOND)
#define LOOK_US (1 * MS)

const struct class_groups story_thirds = {
    .group = {{.class_first = 0, .class_count = 3, .width = 0.3},
              {.class_first = 3, .class_count = 3, .width = 0.3},
              {.class_first = 6, .class_count = 4, .width = 0.4}},
    .count = 3,
    .class_of = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
    .class_count = 10};

struct story *story_new_as(const struct story_setting *setting)
{
    struct err err = {0};
    struct story *story = calloc(1, sizeof(*story));
    assert_non_null(story);
    buf_init(&story->trace.text, 1 << 24);
    assert_ok(sim_models_new(&story->models, &err), &err);
    for (size_t u = 0; u < setting->frozen; u++) {
        story->models.item[0]->unit[u].frozen = story->models.tuned[0]->unit[u].frozen = true;
    }
    assert_ok(sim_open(&story->world, 1, &story->models, setting->devices, &story->trace, &err),
              &err);
    story->job = users_add(&story->world, 0, setting->steps);
    struct job_spec *spec = &story->job->spec;
    spec->pipeline = setting->async ? JOB_ASYNC : JOB_SYNC;
    spec->micro_batches = setting->async ? 1 : spec->micro_batches;
    spec->devices_min = setting->devices_min;
    spec->replan_first = setting->check_every > 0 ? job_spec_default.replan_first : 0;
    spec->replan_every = setting->check_every;
    spec->evaluate_every_epochs = setting->test_samples > 0  ? EVERY_EPOCHS
                                  : setting->check_every > 0 ? 0
                                                             : spec->evaluate_every_epochs;
    if (setting->test_samples > 0) {
        story->job->data.test_samples = setting->test_samples;
    }
    if (setting->view) {
        spec->has_view = true;
        spec->view = (struct view){.class = {1}, .class_count = 1, .negatives = 1, .holdout = 0.1};
        story->job->data.epoch_samples = 5 * spec->batch;
        story->job->data.holdout_samples = spec->batch + 1;
    }
    if (setting->neighbor_every > 0) {
        spec->neighbor_every = setting->neighbor_every;
    }
    if (setting->servers > 0) {
        spec->strategy = STRATEGY_PARAMETER_SERVER;
        spec->has_parameter_server = true;
        spec->parameter_server.servers = setting->servers;
        spec->parameter_server.shares = SHARES_EQUAL;
        spec->micro_batches = 20;
    }
    if (setting->submodel) {
        story->job->model = story->world.models->item[2]; /* of channels enough for four groups */
        (void)snprintf(spec->model.name, sizeof(spec->model.name), "%s", story->job->model->name);
        users_divide(story->job);
        spec->submodel = *setting->submodel;
        spec->epochs = setting->epochs > 0 ? setting->epochs : spec->epochs;
    }
    if (setting->groups) {
        story->job->groups = *setting->groups;
        story->job->classes.groups = &story->job->groups;
    }
    if (setting->gossip) {
        spec->micro_batches = 1;
        story->job->data.train_samples = setting->samples;
        users_mix(story->job, setting->gossip);
    }
    const int64_t stages = setting->gossip       ? (int64_t)setting->devices
                           : setting->stages > 0 ? setting->stages
                                                 : STAGES;
    spec->devices_max = (int64_t)setting->devices < stages ? (int64_t)setting->devices : stages;
    const bool cuts =
        setting->stages == 0 && setting->servers == 0 && !setting->submodel && !setting->gossip;
    for (int64_t cut = 1; cuts && cut < spec->devices_max; cut++) {
        spec->cut[spec->cut_count++] = cut + 1;
    }
    for (size_t i = 0; i < setting->devices; i++) {
        story->world.agent[i]->slowness = story->world.agent[i]->usual_slowness = 1000;
        if (setting->servers > 0) {
            story->world.agent[i]->gflops = 1; /* as slow as they are: it pays to share */
        }
        story->world.agent[i]->protocol =
            i < setting->old ? PROTOCOL_BEFORE_VIEWS : story->world.agent[i]->protocol;
    }
    sim_start(&story->world);
    story_pass(story, 100 * MS); /* all devices are known before the job is */
    assert_ok(users_begin(&story->world, &err), &err);
    return story;
}

struct story *story_new(size_t devices)
{
    return story_new_min(devices, 1);
}

struct story *story_new_min(size_t devices, int64_t devices_min)
{
    return story_new_as(
        &(struct story_setting){.devices = devices, .devices_min = devices_min, .steps = STEPS});
}

struct story *story_new_evaluated(size_t devices, int64_t test_samples)
{
    return story_new_as(&(struct story_setting){
        .devices = devices, .devices_min = 1, .steps = STEPS, .test_samples = test_samples});
}

struct story *story_new_checked(size_t devices, int64_t steps, int64_t check_every)
{
    return story_new_as(&(struct story_setting){
        .devices = devices, .devices_min = 1, .steps = steps, .check_every = check_every});
}

void story_free(struct story *story)
{
    sim_close(&story->world);
    sim_models_free(&story->models);
    buf_done(&story->trace.text);
    free(story);
}

/* ---- time ---- */

void story_pass(struct story *story, int64_t us)
{
    sim_pass(&story->world, us);
    if (story->world.check->failure[0] != '\0') {
        fail_msg("%s", story->world.check->failure);
    }
}

/* Where the line begins, from `at` on; SIZE_MAX. */
static size_t find_line(const struct story *story, const char *line, size_t at)
{
    const char *text = story->trace.text.data;
    const size_t length = strlen(line);
    while (text && at < story->trace.text.size) {
        if (strncmp(text + at, line, length) == 0) {
            return at;
        }
        at += strcspn(text + at, "\n") + 1;
    }
    return SIZE_MAX;
}

static void tell_trace(const struct story *story, const char *line)
{
    fail_msg("the trace does not go on with '%s' but:\n%s", line,
             story->trace.text.data + story->desired);
}

void story_until(struct story *story, const char *line)
{
    const int64_t until_us = story->world.now_us + PATIENCE_US;
    while (find_line(story, line, story->desired) == SIZE_MAX) {
        if (story->world.now_us >= until_us) {
            tell_trace(story, line);
        }
        story_pass(story, LOOK_US);
    }
    story->desired = find_line(story, line, story->desired) + strlen(line);
    story->desired += strcspn(story->trace.text.data + story->desired, "\n") + 1;
}

void story_step(struct story *story, int64_t step)
{
    const int64_t until_us = story->world.now_us + PATIENCE_US;
    for (;;) {
        for (size_t i = 0; i < story->world.agent_count; i++) {
            const struct run *run = story->world.agent[i]->run;
            if (run && run->step >= step) {
                return;
            }
        }
        assert_true(story->world.now_us < until_us);
        story_pass(story, LOOK_US);
    }
}

/* ---- the trace ---- */

void story_never(const struct story *story, const char *line)
{
    if (find_line(story, line, 0) != SIZE_MAX) {
        fail_msg("the trace has '%s':\n%s", line, story->trace.text.data);
    }
}

size_t story_stage(const struct story *story, size_t stage)
{
    const struct coordinator *coordinator = story->world.coordinator;
    const struct plan *plan = rows_plan(&coordinator->rows, story->job->id.text);
    assert_non_null(plan);
    assert_true(stage < plan->stage_count);
    for (size_t i = 0; i < story->world.agent_count; i++) {
        if (strcmp(trace_name(&story->world, plan->stage[stage].device.text),
                   story->world.agent[i]->name) == 0) {
            return i;
        }
    }
    fail_msg("no device of stage %zu", stage);
    return 0;
}

const struct job *story_job(const struct story *story)
{
    const struct job *job = rows_job(&story->world.coordinator->rows, story->job->id.text);
    assert_non_null(job);
    return job;
}

const char *story_model(const struct story *story)
{
    const struct rows *rows = &story->world.coordinator->rows;
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        if (id_equal(rows->checkpoint[i].id.text, story_job(story)->checkpoint.text)) {
            return rows->checkpoint[i].sha256;
        }
    }
    fail_msg("the job has no model");
    return "";
}

void story_succeeds(struct story *story, int64_t generation)
{
    story_until(story, "center: job job1 succeeded");
    story_pass(story, SECOND);
    assert_int_equal(story_job(story)->state, JOB_SUCCEEDED);
    assert_int_equal(story_job(story)->generation, generation);
}
