/* Requests of users, and reads of the world's state. */
#include "tests/unit/coordinator_core/world.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/core/placement/placement.h"

struct job_spec world_spec(const char *name, int64_t steps)
{
    struct job_spec spec = job_spec_default;
    (void)snprintf(spec.name, sizeof(spec.name), "%s", name);
    (void)snprintf(spec.model.name, sizeof(spec.model.name), WORLD_MODEL);
    (void)snprintf(spec.dataset_train, sizeof(spec.dataset_train), "train");
    (void)snprintf(spec.dataset_test, sizeof(spec.dataset_test), "test");
    spec.batch = 20;
    spec.micro_batches = 4;
    spec.epochs = 1000;
    spec.steps = steps;
    spec.expected_step_seconds = 10; /* most stories let time pass without a step */
    return spec;
}

/* The answer to the question in world->planning. */
static struct event_planned solve(struct world *world)
{
    struct err err = {0};
    struct event_planned answer = {.planned = &world->planned};
    answer.code = placement_solve(world->planning, &world->planned, &err);
    (void)snprintf(answer.message, MESSAGE_SIZE, "%.250s", err.text);
    return answer;
}

static void submit(struct world *world, const struct job_spec *spec, bool dry_run)
{
    const struct rows *rows = &world->rows;
    struct job_data data = {.train_sha256 = "train",
                            .test_sha256 = "test",
                            .train_samples = 1000,
                            .test_samples = 100,
                            .tune = true,
                            .epoch_samples = spec->has_view ? 500 : 0,
                            .holdout_samples = spec->view.holdout > 0 ? 50 : 0};
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        if (id_equal(rows->checkpoint[i].id.text, spec->init_checkpoint.text)) {
            memcpy(data.checkpoint_sha256, rows->checkpoint[i].sha256, SHA256_SIZE);
            data.checkpoint_bytes = rows->checkpoint[i].bytes;
        }
    }
    struct event event = {
        .type = EVENT_JOB_SUBMIT,
        .job_submit = {.spec = spec, .data = &data, .model = world->model, .dry_run = dry_run}};
    struct event_planned answer;
    if (dry_run) {
        core_plan_submission(world->core, &event.job_submit, world->planning);
        answer = solve(world);
        event.job_submit.planned = &answer;
    }
    world_send(world, &event);
}

void world_ask(struct world *world, const struct plan_question *question)
{
    struct event_planned answer = {.code = ERR_STATE};
    struct event event = {.type = EVENT_PLAN_QUESTION,
                          .plan_question = {.question = question, .planned = &answer}};
    const struct job *job = core_job(world->core, question->job.text);
    if (core_plan_question(world->core, &event.plan_question, job ? &job->spec : NULL,
                           world->planning)) {
        answer = solve(world);
    }
    world_send(world, &event);
}

void world_submit(struct world *world, const struct job_spec *spec)
{
    submit(world, spec, false);
}

void world_dry_run(struct world *world, const struct job_spec *spec)
{
    submit(world, spec, true);
}

static void send_verb(struct world *world, const char *job, enum job_verb verb,
                      const struct replan_request *replan)
{
    struct event event = {.type = EVENT_JOB_VERB, .job_verb = {.verb = verb, .replan = replan}};
    (void)snprintf(event.job_verb.job.text, ID_SIZE, "%s", job);
    world_send(world, &event);
}

void world_verb(struct world *world, const char *job, enum job_verb verb)
{
    const struct replan_request none = {0};
    send_verb(world, job, verb, &none);
}

void world_replan(struct world *world, const char *job, const struct replan_request *request)
{
    send_verb(world, job, JOB_REPLAN, request);
}

void world_device_verb(struct world *world, const struct agent *agent, enum device_verb verb)
{
    struct event event = {.type = EVENT_DEVICE_VERB,
                          .device_verb = {.device = agent->id, .verb = verb}};
    world_send(world, &event);
}

const struct job *world_job(const struct world *world, const char *id)
{
    const struct job *live = core_job(world->core, id);
    for (size_t i = 0; !live && i < world->rows.job_count; i++) {
        live = id_equal(world->rows.job[i].id.text, id) ? &world->rows.job[i] : NULL;
    }
    assert_non_null(live);
    return live;
}

const struct plan *world_plan(const struct world *world, const char *job, int64_t generation)
{
    for (size_t i = 0; i < world->rows.plan_count; i++) {
        const struct plan *plan = &world->rows.plan[i];
        if (plan->generation == generation && id_equal(plan->job.text, job)) {
            return plan;
        }
    }
    return NULL;
}

size_t world_units(const struct world *world, const char *job)
{
    size_t count = 0;
    for (size_t i = 0; i < world->rows.unit_count; i++) {
        count += id_equal(world->rows.unit[i].job.text, job);
    }
    return count;
}

void world_exported(struct world *world, bool failed)
{
    struct event event = {
        .type = EVENT_EXPORTED,
        .exported = {.version = world->export_version, .failed = failed, .bytes = 1000}};
    memcpy(event.exported.job.text, world->export_job, ID_SIZE);
    (void)snprintf(event.exported.message, MESSAGE_SIZE, "the disk is full");
    (void)snprintf(event.exported.sha256, SHA256_SIZE, "export-%s", world->export_job);
    world_send(world, &event);
}

void world_tuned(struct world *world, bool failed)
{
    struct event event = {.type = EVENT_TUNED, .tuned = {.sha256 = "tuned"}};
    char wanted[KERNEL_TEXT_SIZE];
    memcpy(event.tuned.job.text, world->tune_job, ID_SIZE);
    const char *kernels = core_job_kernels(world->core, world->tune_job, &event.tuned.generation);
    world->tune_job[0] = '\0';
    if (!kernels) {
        return; /* what measured is over */
    }
    kernel_text_write(world->tuned, 0, world->tuned->unit_count, wanted);
    assert_string_equal(kernels, wanted);
    event.tuned.model = failed ? NULL : world->tuned;
    (void)snprintf(event.tuned.message, MESSAGE_SIZE, "out of memory");
    world_send(world, &event);
}

void world_planned(struct world *world)
{
    const int status = world->status;
    const enum problem_code problem = world->problem;
    char text[MESSAGE_SIZE];
    memcpy(text, world->text, sizeof(text));
    const uint64_t question = world->question;
    world->question = 0;
    if (core_planning(world->core, question, world->planning)) {
        struct event event = {.type = EVENT_PLANNED, .planned = solve(world)};
        event.planned.question = question;
        world_send(world, &event);
    }
    world->status = status; /* of the request that came before */
    world->problem = problem;
    memcpy(world->text, text, sizeof(text));
}
