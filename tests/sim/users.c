#include "tests/sim/users.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/evaluations.h"
#include "base/assert.h"
#include "schema/job_check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/run.h"
#include "tests/sim/trace.h"

#define LOOK_US (200 * MS)
#define PAUSE_US (3 * SECOND)
#define BATCH 20
#define COLLAPSES 16 /* one group in so many */

static const struct replan_request no_wish;

bool users_collapse(const struct users *users, const struct job_spec *spec)
{
    return (uint64_t)digest_samples_seed(spec) % COLLAPSES == 0 ||
           (users->collapses && spec->seed == users->collapses &&
            spec->view.class[0] == users->collapsing_class);
}

int users_new(struct world *world, struct err *err)
{
    world->users = calloc(1, sizeof(*world->users));
    world->actor[ACTOR_USER].label = "user";
    return world->users ? 0 : err_set(err, ERR_MEMORY, "users");
}

void users_free(struct world *world)
{
    if (world->users) {
        for (size_t i = 0; i < world->users->job_count; i++) {
            reference_free(&world->users->job[i].reference);
            course_free(&world->users->job[i].course);
        }
        free(world->users);
        world->users = NULL;
    }
}

struct user_job *users_add(struct world *world, size_t model, int64_t steps)
{
    struct users *users = world->users;
    ASSERT(users->job_count < SIM_JOBS_MAX);
    const size_t index = users->job_count++;
    struct user_job *job = &users->job[index];
    job->model = world->models->item[model % world->models->count];
    job->spec = job_spec_default;
    (void)snprintf(job->spec.name, sizeof(job->spec.name), "job%zu", index + 1);
    (void)snprintf(job->spec.model.name, sizeof(job->spec.model.name), "%s", job->model->name);
    (void)snprintf(job->spec.dataset_train, sizeof(job->spec.dataset_train), "train");
    (void)snprintf(job->spec.dataset_test, sizeof(job->spec.dataset_test), "test");
    job->spec.seed = (int64_t)(digest_mix(world->seed, index) >> 16);
    job->spec.batch = BATCH;
    job->spec.micro_batches = 4;
    job->spec.epochs = 1000;
    job->spec.steps = steps;
    job->data = (struct job_data){.train_samples = 10 * BATCH, .test_samples = BATCH, .tune = true};
    (void)snprintf(job->data.train_sha256, SHA256_SIZE, "train");
    (void)snprintf(job->data.test_sha256, SHA256_SIZE, "test");
    job->resume_us = INT64_MAX;
    return job;
}

void users_start_from(const struct world *world, struct user_job *job)
{
    const struct checkpoint *checkpoint = &world->coordinator->rows.checkpoint[0];
    struct job_spec *spec = &job->spec;
    spec->init_checkpoint = checkpoint->id;
    (void)snprintf(spec->init_except[0].text, NAME_SIZE, "%s",
                   job->model->unit[job->model->unit_count - 1].name);
    spec->init_except_count = 1;
    memcpy(job->data.checkpoint_sha256, checkpoint->sha256, SHA256_SIZE);
    job->data.checkpoint_bytes = checkpoint->bytes;
}

void users_divide(struct user_job *job)
{
    job->spec.strategy = STRATEGY_SUBMODEL;
    job->spec.submodel = (struct submodel_options){
        .stem = 1, .stem_epochs = 1, .negatives = 1, .replicas = 1, .joint_epochs = 1};
    job->spec.steps = 0;
    job->spec.epochs = 1;
    for (size_t c = 0; c < SIM_CLASSES; c++) {
        job->samples[c] = job->data.train_samples / SIM_CLASSES;
    }
    job->classes = (struct event_classes){.samples = job->samples, .count = SIM_CLASSES};
}

void users_mix(struct user_job *job, const struct gossip_options *options)
{
    struct job_spec *spec = &job->spec;
    spec->strategy = STRATEGY_GOSSIP;
    spec->pipeline = JOB_SYNC;
    spec->vertical_sync = false;
    spec->aggregate_every = 0;
    spec->compression = CODEC_NONE;
    spec->has_view = spec->has_stop = spec->has_checkpoint = false;
    spec->batch = 8;
    spec->has_gossip = true;
    spec->gossip = *options;
    for (size_t c = 0; c < SIM_CLASSES; c++) {
        job->samples[c] = job->data.train_samples / SIM_CLASSES;
    }
    job->classes = (struct event_classes){.samples = job->samples, .count = SIM_CLASSES};
}

/* ---- calls ---- */

static void answered(struct world *world, struct call *call)
{
    struct user_job *job = call->owner;
    job->asking = false;
    if (call->network == 0 && call->status == 201) {
        job->id = call->job;
    } else if (call->network == 0 && call->status >= 300) {
        TRACE(world, ACTOR_USER, "%s: %d %s", job->spec.name, call->status, call->text);
    }
}

struct call *users_send(struct world *world, const struct event *event, call_fn ended, void *owner)
{
    struct call *call = net_call(world, CALL_USER, ACTOR_USER, ACTOR_COORDINATOR);
    call->event = malloc(sizeof(*call->event));
    ASSERT(call->event);
    *call->event = *event;
    call->done = ended;
    call->owner = owner;
    net_send(world, call);
    return call;
}

static void send(struct world *world, struct user_job *job, const struct event *event)
{
    job->asking = true;
    (void)users_send(world, event, answered, job);
}

static void submit(struct world *world, struct user_job *job)
{
    const struct event event = {
        .type = EVENT_JOB_SUBMIT,
        .job_submit = {.spec = &job->spec,
                       .data = &job->data,
                       .model = job->model,
                       .classes = job->classes.count > 0 ? &job->classes : NULL}};
    TRACE(world, ACTOR_USER, "submits %s: %" PRId64 " steps", job->spec.name, job->spec.steps);
    send(world, job, &event);
}

void users_ask(struct world *world, struct user_job *job, enum job_verb verb)
{
    static const char *const words[] = {[JOB_PAUSE] = "pauses",
                                        [JOB_RESUME] = "resumes",
                                        [JOB_CANCEL] = "cancels",
                                        [JOB_EXPORT] = "exports",
                                        [JOB_CANCEL_KEEP] = "cancels and keeps",
                                        [JOB_REPLAN] = "replans"};
    const struct event event = {.type = EVENT_JOB_VERB,
                                .job_verb = {.job = job->id, .verb = verb, .replan = &no_wish}};
    TRACE(world, ACTOR_USER, "%s %s", words[verb], job->spec.name);
    send(world, job, &event);
}

/* ---- wishes ---- */

static void see_plan(struct user_job *job, const struct plan *plan)
{
    if (!plan || plan->started_ms == 0) {
        return; /* it has not trained yet */
    }
    if (job->seen_count == 0 ||
        job->seen[(job->seen_count - 1) % PLANS_SEEN_MAX].generation != plan->generation) {
        job->seen_count++;
    }
    job->seen[(job->seen_count - 1) % PLANS_SEEN_MAX] = *plan;
}

static void ask_for_earlier(struct world *world, struct user_job *job)
{
    if (job->seen_count < 2) {
        return;
    }
    const size_t back = job->seen_count < PLANS_SEEN_MAX ? job->seen_count : PLANS_SEEN_MAX;
    job->earlier = job->seen[(job->seen_count - back) % PLANS_SEEN_MAX];
    job->replan = (struct replan_request){.generation = job->earlier.generation};
    const struct event event = {
        .type = EVENT_JOB_VERB,
        .job_verb = {
            .job = job->id, .verb = JOB_REPLAN, .replan = &job->replan, .plan = &job->earlier}};
    TRACE(world, ACTOR_USER, "replans %s as in generation %" PRId64, job->spec.name,
          job->earlier.generation);
    send(world, job, &event);
}

/* Of no draw: which periods. */
static void patch(struct world *world, struct user_job *job, int64_t at_us)
{
    static const int64_t periods[] = {0, 1, 3, 10, 50};
    const uint64_t bits = digest_mix((uint64_t)job->spec.seed, (uint64_t)at_us);
    const struct event event = {
        .type = EVENT_JOB_PATCH,
        .job_patch = {.job = job->id,
                      .replication = {.neighbor_every = periods[bits % 5],
                                      .center_every = periods[bits / 8 % 5]},
                      .replan_first = periods[bits / 64 % 5],
                      .replan_every = periods[bits / 512 % 5]}};
    TRACE(world, ACTOR_USER, "patches %s", job->spec.name);
    send(world, job, &event);
}

static void fulfil(struct world *world, struct user_job *job, const struct wish *wish)
{
    switch (wish->kind) {
    case WISH_VERB: users_ask(world, job, wish->verb); break;
    case WISH_EARLIER: ask_for_earlier(world, job); break;
    case WISH_PATCH: patch(world, job, wish->at_us); break;
    }
}

/* ---- looking after jobs ---- */

static void resume(struct world *world, struct user_job *job)
{
    if (job->resume_us == INT64_MAX) {
        job->resume_us =
            world->now_us + (world->users->insist ? 0 : world_draw(world, DRAW_USER, 0, PAUSE_US));
    }
    if (job->resume_us <= world->now_us) {
        job->resume_us = INT64_MAX;
        users_ask(world, job, JOB_RESUME);
    }
}

static void look_after(struct world *world, struct user_job *job)
{
    /* A user who got no answer looks whether the job is there before it is submitted again. */
    const struct job *row = rows_job_named(&world->coordinator->rows, job->spec.name);
    if (job->asking || job->at_us > world->now_us) {
        return;
    }
    if (!row) {
        job->ended = false;
        submit(world, job);
        return;
    }
    job->id = row->id;
    if (job_state_ended(row->state) && !job->ended) {
        memcpy(job->message, row->message, sizeof(job->message));
    }
    job->ended = job_state_ended(row->state);
    job->state = row->state;
    see_plan(job, rows_plan(&world->coordinator->rows, job->id.text));
    if (row->state == JOB_PAUSED) {
        resume(world, job);
        return;
    }
    for (size_t i = 0; i < job->wish_count && !job->ended; i++) {
        struct wish *wish = &job->wish[i];
        if (!wish->done && wish->at_us <= world->now_us) {
            wish->done = true;
            fulfil(world, job, wish);
            return;
        }
    }
}

static void look(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    (void)number;
    for (size_t i = 0; i < world->users->job_count; i++) {
        look_after(world, &world->users->job[i]);
    }
    world_at(world, ACTOR_USER, world->now_us + LOOK_US, look, NULL, 0);
}

/* The first units that start from the checkpoint: users_start_from, and parts of parents. */
static size_t count_taken(const struct model *model, const struct job_spec *spec)
{
    size_t taken = 0;
    while (taken < model->unit_count && job_from_checkpoint(spec, model->unit[taken].name)) {
        taken++;
    }
    return taken;
}

int users_reference(const struct model *model, const struct job_spec *spec,
                    const struct job_data *data, struct reference **reference_out,
                    struct course **course, struct err *err)
{
    const size_t micro_batch = (size_t)(spec->batch / spec->micro_batches);
    const struct run_row *row = run_row_of((enum job_strategy)spec->strategy);
    const struct reference_job reference = {
        .seed = spec->seed,
        .samples_seed = digest_samples_seed(spec),
        .steps = job_total_steps(spec, job_epoch_samples(data)),
        .units = model->unit_count,
        .micro_batches = (size_t)spec->micro_batches,
        .test_batches = evaluations_batches(spec, data, micro_batch),
        .clips = spec->optimizer.clip_norm > 0,
        .checkpoint = data->checkpoint_sha256[0] ? digest_of_text(data->checkpoint_sha256) : 0,
        .taken = count_taken(model, spec),
        .model = model,
        .train_step = row->train_step,
        .test = row->test,
    };
    int rc = reference_new(&reference, reference_out, err);
    if (rc != 0 || spec->pipeline != JOB_ASYNC) {
        return rc;
    }
    return course_new(&reference, spec, (*reference_out)->state, course, err);
}

static int make_reference(struct user_job *job, struct err *err)
{
    if (strategy_has_parts(job->spec.strategy)) {
        return 0; /* its parts have references, or a log */
    }
    return users_reference(job->model, &job->spec, &job->data, &job->reference, &job->course, err);
}

int users_begin(struct world *world, struct err *err)
{
    world_start(world, ACTOR_USER);
    for (size_t i = 0; i < world->users->job_count; i++) {
        struct user_job *job = &world->users->job[i];
        int rc = job_spec_check(&job->spec, NULL, err);
        rc = rc ? rc : make_reference(job, err);
        if (rc != 0) {
            return rc;
        }
        digest_text(i + 1, job->spec.model.sha256); /* as the coordinator's edge resolves it */
    }
    world_at(world, ACTOR_USER, world->now_us, look, NULL, 0);
    return 0;
}

bool users_served(const struct world *world)
{
    for (size_t i = 0; i < world->users->job_count; i++) {
        const struct user_job *job = &world->users->job[i];
        const struct job *row = rows_job_named(&world->coordinator->rows, job->spec.name);
        if (!job->ended || !row || !job_state_ended(row->state)) {
            return false;
        }
    }
    return true;
}
