#include "tests/sim/offers.h"
#include "tests/sim/sim.h"

#include <stdio.h>
#include <string.h>

#include "libtrain/model/model.h"
#include "schema/job_check.h"
#include "tests/sim/agent.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/deletions.h"
#include "tests/sim/faults.h"
#include "tests/sim/gossip_jobs.h"
#include "tests/sim/operators.h"
#include "tests/sim/speeds.h"
#include "tests/sim/users.h"

#define LIVENESS_US                                                                                \
    (300 * SECOND) /* after the last fault, beside the time that the work itself takes */
#define SEED_EVENTS_MAX 3000000 /* some hundred times what a usual seed needs */
#define LONGER_MAX 4
#define MANY_EPOCHS 10   /* so that planned groups may be divided again */
#define TASK_US_MAX 2500 /* of a unit, there and back, on a good device */

/* ---- a world ---- */

static void store_dataset(struct world *world, const char *name, int64_t samples)
{
    struct rows *rows = &world->coordinator->rows;
    struct dataset *dataset = &rows->dataset[rows->dataset_count++];
    *dataset = (struct dataset){.revision = 1,
                                .bytes = 3072 * samples,
                                .samples = samples,
                                .height = 32,
                                .width = 32,
                                .channels = 3,
                                .classes = 10};
    (void)snprintf(dataset->name, sizeof(dataset->name), "%s", name);
    (void)snprintf(dataset->sha256, sizeof(dataset->sha256), "%s", name);
    (void)snprintf(dataset->dtype, sizeof(dataset->dtype), "U8");
}

/* An uploaded file: jobs may start from it. */
static void store_checkpoint(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    struct checkpoint *checkpoint =
        &coordinator->rows.checkpoint[coordinator->rows.checkpoint_count++];
    *checkpoint = (struct checkpoint){
        .id = {"ckpt_00000000000000000000000000"}, .revision = 1, .bytes = 1 << 20};
    digest_text(digest_mix(1, 2), checkpoint->sha256);
    blobs_add(&coordinator->blobs, checkpoint->sha256);
}

int sim_open(struct world *world, uint64_t seed, const struct models *models, size_t devices,
             struct trace *trace, struct err *err)
{
    world_init(world, seed);
    world->models = models;
    world->events_max = SEED_EVENTS_MAX;
    world->trace = trace;
    int rc = net_new(&world->net, err);
    rc = rc ? rc : coordinator_new(world, err);
    rc = rc ? rc : users_new(world, err);
    rc = rc ? rc : faults_new(world, err);
    rc = rc ? rc : speeds_new(world, err);
    rc = rc ? rc : operators_new(world, err);
    rc = rc ? rc : check_new(world, err);
    for (size_t i = 0; rc == 0 && i < devices; i++) {
        rc = agent_new(world, i, err);
        world->agent_count += rc == 0;
    }
    if (rc != 0) {
        sim_close(world);
        return rc;
    }
    world->net->rates = (struct net_rates){.delay_us = 200, .jitter_us = 100};
    store_dataset(world, "train", 1000);
    store_dataset(world, "test", 100);
    store_checkpoint(world);
    return 0;
}

void sim_close(struct world *world)
{
    for (size_t i = 0; i < SIM_DEVICES_MAX; i++) {
        agent_free(world, i);
    }
    coordinator_free(world);
    users_free(world);
    faults_free(world);
    speeds_free(world);
    operators_free(world);
    check_free(world);
    world_done(world);
    net_free(&world->net);
}

void sim_start(struct world *world)
{
    coordinator_start(world);
    for (size_t i = 0; i < world->agent_count; i++) {
        agent_start(world, world->agent[i]);
    }
}

void sim_pass(struct world *world, int64_t us)
{
    const int64_t until_us = world->now_us + us;
    while (world->check->failure[0] == '\0' && world_step(world, until_us)) {
        if (world_circles(world)) {
            check_fail(world, "something goes round in circles");
        }
    }
}

/* ---- a scenario ---- */

/* Of no draw: in every third world an evaluation takes as long as many steps. */
static void draw_evaluation(struct user_job *job)
{
    struct job_spec *spec = &job->spec;
    const uint64_t bits = digest_mix((uint64_t)spec->seed, 1);
    if (bits % 3 == 0) {
        spec->evaluate_every_epochs = 1 + (int64_t)(bits / 3 % 3);
        job->data.test_samples = spec->batch * (20 + (int64_t)(bits / 9 % 180));
    }
}

/* Of no draw: how often the plan is checked. Where only speeds change, jobs are longer. */
static void draw_changes(const struct world *world, struct job_spec *spec)
{
    static const struct {
        int64_t first, every;
    } periods[] = {{10, 100}, {10, 100}, {0, 0}, {5, 10}, {1, 3}, {0, 7}, {20, 0}, {10, 30}};
    const uint64_t bits = digest_mix((uint64_t)spec->seed, 2);
    spec->replan_first = periods[bits % 8].first;
    spec->replan_every = periods[bits % 8].every;
    if (speeds_alone(world)) {
        spec->steps *= 1 + (int64_t)(bits / 8 % LONGER_MAX);
    }
}

/* In worlds of these seeds the first job consists of groups, */
#define PARENTS_FROM 1000000
/* and from here on most jobs have workers and servers instead. */
#define SERVERS_FROM 2000000
#define LOCAL_PARENTS_FROM 1500000 /* some of them on data that stay on devices */

static bool is_parent(const struct world *world, const struct user_job *job)
{
    return world->seed >= PARENTS_FROM && world->seed < SERVERS_FROM &&
           job == &world->users->job[0];
}

/* The others train some classes in every second world, so that references depend on a view. */
static void draw_view(const struct world *world, struct user_job *job)
{
    const uint64_t bits = digest_mix((uint64_t)job->spec.seed, 6);
    struct job_spec *spec = &job->spec;
    if (world->seed < PARENTS_FROM || is_parent(world, job) || gossip_job_is(world, job) ||
        bits % 2 == 0) {
        return;
    }
    spec->has_view = true;
    spec->view = (struct view){.class_count = 1 + bits / 2 % 4, .negatives = 1, .holdout = 0.1};
    for (size_t c = 0; c < spec->view.class_count; c++) {
        spec->view.class[c] = (int64_t)((bits / 8 + 3 * c) % SIM_CLASSES);
    }
    job->data.epoch_samples = spec->batch * (1 + (int64_t)(bits / 128 % 8));
    job->data.holdout_samples = 1 + (int64_t)(bits / 1024 % 40);
}

/* Of no draw: every second job that is evaluated may stop early, every third stores checkpoints. */
static void draw_stop(const struct world *world, struct user_job *job)
{
    const uint64_t bits = digest_mix((uint64_t)job->spec.seed, 40);
    struct job_spec *spec = &job->spec;
    if (is_parent(world, job)) {
        return;
    }
    spec->has_stop = spec->evaluate_every_epochs > 0 && bits % 2 == 0;
    spec->stop.metric = bits / 2 % 2 == 0 ? JUDGED_TEST_ACCURACY : JUDGED_TEST_LOSS;
    spec->stop.patience = 1 + (int64_t)(bits / 4 % 4);
    spec->has_checkpoint = bits / 16 % 3 == 0;
    const bool best = spec->evaluate_every_epochs > 0 && bits / 64 % 2 == 0;
    const int64_t period = best ? spec->evaluate_every_epochs : 1;
    spec->checkpoint =
        (struct checkpoint_policy){.every_epochs = period * (1 + (int64_t)(bits / 128 % 2)),
                                   .keep = best ? KEEP_BEST : KEEP_LAST,
                                   .count = 1 + (int64_t)(bits / 256 % 3)};
}

/* Of no draw. */
static void serve(const struct world *world, const struct user_job *job, struct job_spec *spec)
{
    const struct model *model = job->model;
    static const int64_t micro_batches[] = {1, 2, 4, 5, 10, 20};
    const uint64_t bits = digest_mix((uint64_t)spec->seed, 50);
    struct server_options *options = &spec->parameter_server;
    if (world->seed < SERVERS_FROM || gossip_job_is(world, job) || bits % 8 == 0) {
        return;
    }
    spec->strategy = STRATEGY_PARAMETER_SERVER;
    spec->pipeline = JOB_SYNC;
    spec->vertical_sync = false;
    spec->aggregate_every = 0;
    spec->compression = CODEC_NONE;
    spec->micro_batches = micro_batches[bits / 8 % 6];
    spec->steps = spec->micro_batches < 10 ? spec->steps : spec->steps / 4 + 1;
    spec->optimizer.clip_norm = bits / 64 % 2 == 0 ? 0 : 1;
    spec->has_parameter_server = true;
    options->servers = bits / 128 % 4 < 2 ? 0 : 1 + (int64_t)(bits / 512 % 3);
    options->servers = options->servers < spec->devices_max ? options->servers : spec->devices_max;
    /* More devices than servers and workers have no work. */
    const int64_t units = (int64_t)model->unit_count;
    const int64_t most = spec->micro_batches + (options->servers > 0 ? options->servers : units);
    spec->devices_min = spec->devices_min < most ? spec->devices_min : most;
    options->shares = bits / 2048 % 3 == 0 ? SHARES_EQUAL : SHARES_SPEED;
    options->transfers = (int)(bits / 8192 % (TRANSFERS_AUTO + 1));
}

/* On data that stay on devices: with the stem of a checkpoint, and a deadline, as a device may be
 * lost for good. */
static void divide_local(struct world *world, struct user_job *job)
{
    const uint64_t bits = digest_mix((uint64_t)job->spec.seed, 9);
    struct submodel_options *options = &job->spec.submodel;
    if (world->seed < LOCAL_PARENTS_FROM || world->agent_count < 3 || bits % 4 == 0) {
        return;
    }
    users_start_from(world, job);
    job->spec.init_except_count = 0;
    options->stem_epochs = 0;
    options->group_count = bits / 4 % 3 == 0 ? 2 : 0;
    options->replicas = world->agent_count < 4 ? 1 : options->replicas; /* else a class is rare */
    options->deadline_seconds = 5 + (int64_t)(bits / 16 % 300);
    offers_divide(job);
}

static void divide(struct world *world, struct user_job *job)
{
    const uint64_t bits = digest_mix((uint64_t)job->spec.seed, 5);
    struct submodel_options *options = &job->spec.submodel;
    if (!is_parent(world, job)) {
        return;
    }
    job->model = world->models->item[1 + bits / 128 % 2]; /* of enough channels */
    (void)snprintf(job->spec.model.name, sizeof(job->spec.model.name), "%s", job->model->name);
    job->spec.batch = 8;
    job->spec.micro_batches = job->spec.pipeline == JOB_ASYNC ? 1 : 4;
    job->data.train_samples = 8 * SIM_CLASSES * (1 + (int64_t)(bits % 4));
    job->spec.init_except_count = 0;
    users_divide(job);
    job->spec.epochs = 1 + (int64_t)(bits / 4 % 3);
    options->group_count = bits / 16 % 2 ? 2 + (int64_t)(bits / 32 % 2) : 0;
    options->replicas = options->group_count != 3 && bits / 64 % 4 == 0 ? 2 : 1;
    options->joint_epochs = bits / 256 % 3 != 0;
    options->deadline_seconds = bits / 1024 % 4 == 0 ? 5 + (int64_t)(bits / 4096 % 300) : 0;
    if (bits / (1 << 20) % 4 == 0) {
        users_start_from(world, job);
        job->spec.init_except_count = 0;
        options->stem_epochs = 0;
    }
    divide_local(world, job);
    if (!job_is_local(&job->spec) && bits / (1 << 24) % 8 == 0) {
        job->spec.epochs *= MANY_EPOCHS;
    }
}

/* Most verbs that a parent rejects become others; a resume may come while it still pauses. */
static void change_wishes(struct user_job *job)
{
    for (size_t i = 0; i < job->wish_count; i++) {
        const uint64_t bits = digest_mix((uint64_t)job->spec.seed, 7 + i);
        struct wish *wish = &job->wish[i];
        const bool rejected =
            wish->kind != WISH_VERB || wish->verb == JOB_REPLAN || wish->verb == JOB_EXPORT;
        if (!rejected || bits % 4 == 0) {
            continue;
        }
        const bool resumes = i > 0 && bits / 4 % 2 == 0;
        const int64_t from_us = resumes ? wish[-1].at_us : 0;
        const int64_t most_us = resumes ? SECOND : 90 * SECOND;
        *wish = (struct wish){.at_us = from_us + (int64_t)(bits / 64 % (uint64_t)most_us),
                              .kind = WISH_VERB,
                              .verb = resumes                ? JOB_RESUME
                                      : bits / 8 % 8 > 0     ? JOB_PAUSE
                                      : bits / (1 << 20) % 2 ? JOB_CANCEL
                                                             : JOB_CANCEL_KEEP};
    }
}

static void draw_job(struct world *world, size_t index)
{
    static const int64_t micro_batches[] = {1, 2, 4, 5};
    static const int64_t periods[] = {0, 1, 3, 10, 50};
    const int64_t most = (int64_t)world->agent_count;
    struct user_job *job = users_add(world, (size_t)world_draw(world, DRAW_SCENARIO, 0, 2),
                                     world_draw(world, DRAW_SCENARIO, 5, 60));
    struct job_spec *spec = &job->spec;
    job->at_us = index == 0 ? 0 : world_draw(world, DRAW_SCENARIO, 0, 10 * SECOND);
    spec->micro_batches = micro_batches[world_draw(world, DRAW_SCENARIO, 0, 3)];
    spec->neighbor_every = periods[world_draw(world, DRAW_SCENARIO, 0, 4)];
    spec->center_every = periods[world_draw(world, DRAW_SCENARIO, 0, 4)];
    spec->optimizer.clip_norm =
        spec->seed % 2 == 0 ? 0 : 1; /* of no draw: what the others come to stays the same */
    if (spec->seed / 2 % 4 == 3) {   /* likewise */
        spec->pipeline = JOB_ASYNC;
        spec->micro_batches = 1;
        spec->optimizer.clip_norm = 0;
        spec->vertical_sync = spec->seed / 64 % 3 == 0;
        spec->aggregate_every = spec->seed / 256 % 2 == 0 ? 1 + spec->seed / 512 % 5 : 0;
    }
    spec->compression = spec->seed % 5 < 2 ? 1 + (int)(spec->seed / 8 % CODECS) : 0; /* likewise */
    spec->compression = spec->seed % 5 == 4 ? COMPRESSION_AUTO : spec->compression;
    spec->evaluate_every_epochs = world_draw(world, DRAW_SCENARIO, 0, 1);
    if (spec->seed % 3 == 0) {
        users_start_from(world, job);
    }
    job->data.train_samples = spec->batch * world_draw(world, DRAW_SCENARIO, 3, 30);
    job->data.test_samples = world_draw(world, DRAW_SCENARIO, 1, 5 * spec->batch);
    draw_evaluation(job);
    draw_changes(world, spec);
    divide(world, job);
    draw_view(world, job);
    draw_stop(world, job);
    spec->devices_max = world_draw(world, DRAW_SCENARIO, 1, most);
    spec->devices_min = world_draw(world, DRAW_SCENARIO, 1, spec->devices_max);
    const int64_t units = (int64_t)job->model->unit_count;
    spec->devices_min = spec->devices_min < units ? spec->devices_min : units;
    serve(world, job, spec);
    gossip_job_draw(world, job);
    if (world_chance(world, DRAW_SCENARIO, 200000)) {
        spec->autonomy_seconds = world_draw(world, DRAW_SCENARIO, 1, 20);
    }
    const int64_t wishes =
        world_chance(world, DRAW_SCENARIO, 300000) ? world_draw(world, DRAW_SCENARIO, 1, 3) : 0;
    for (int64_t i = 0; i < wishes; i++) {
        const int64_t kind = world_draw(world, DRAW_SCENARIO, 0, 20);
        job->wish[job->wish_count++] =
            (struct wish){.at_us = world_draw(world, DRAW_SCENARIO, 0, 20 * SECOND),
                          .verb = kind == 0   ? spec->seed % 2 ? JOB_CANCEL : JOB_CANCEL_KEEP
                                  : kind < 10 ? JOB_PAUSE
                                              : JOB_REPLAN};
    }
    for (int64_t i = 0; i < (int64_t)(digest_mix((uint64_t)spec->seed, 3) % 6) - 2; i++) {
        const uint64_t bits = digest_mix((uint64_t)spec->seed, 4 + (uint64_t)i); /* of no draw */
        job->wish[job->wish_count++] = (struct wish){.at_us = (int64_t)(bits / 2 % (40 * SECOND)),
                                                     .kind = bits % 2 ? WISH_EARLIER : WISH_PATCH};
    }
    for (int64_t i = 0; i < spec->seed % 4 && job->wish_count < WISHES_MAX; i++) { /* of no draw */
        job->wish[job->wish_count++] =
            (struct wish){.at_us = (spec->seed >> 8 * i) % (30 * SECOND), .verb = JOB_EXPORT};
    }
    if (is_parent(world, job) || gossip_job_is(world, job)) {
        change_wishes(job);
    }
}

/* Machines of one seed are of one kind, more or less: jobs of some seeds take a second, of others
 * minutes. */
static void draw_device(struct world *world, size_t index, int64_t kind)
{
    struct agent *agent = world->agent[index];
    agent->usual_slowness = agent->slowness = world_draw(world, DRAW_SCENARIO, 100, 500) << kind;
    agent->keeps = world_chance(world, DRAW_SCENARIO, 400000);
    agent->gflops = 1000.0 / (double)agent->slowness;
    /* Of no draw: in some worlds all devices have a choice of kernels, in some every second one. */
    const bool chooses = world->seed % 4 == 1 || (world->seed % 4 == 3 && index % 2 == 0);
    agent->numeric_class = chooses ? "avx2/onednn-1" : "avx2";
    agent->zstd = world->seed % 5 < 2 || (world->seed % 5 == 2 && index % 2 == 0); /* likewise */
}

static void draw(struct world *world)
{
    const int64_t jobs = world_draw(world, DRAW_SCENARIO, 1, 3);
    const int64_t kind = world_draw(world, DRAW_SCENARIO, 0, 7);
    for (size_t i = 0; i < world->agent_count; i++) {
        draw_device(world, i, kind);
    }
    for (int64_t i = 0; i < jobs; i++) {
        draw_job(world, (size_t)i);
    }
    world->coordinator->fsync_us = world_draw(world, DRAW_SCENARIO, 20, 20000);
}

/* Of a job of sub-models: stem, groups that each train all samples three times, and joint. */
static int64_t steps_of(const struct user_job *job)
{
    const bool divides = job->spec.strategy == STRATEGY_SUBMODEL;
    const int64_t epoch = job->data.train_samples / job->spec.batch;
    return divides ? epoch * (2 + job->spec.epochs * 3 * SIM_CLASSES) : job->spec.steps;
}

/* All jobs one after the other, each on the slowest device alone. */
static int64_t work_us(const struct world *world)
{
    int64_t slowest = 0, us = 0;
    for (size_t i = 0; i < world->agent_count; i++) {
        const int64_t slowness = world->agent[i]->usual_slowness;
        slowest = slowness > slowest ? slowness : slowest;
    }
    for (size_t i = 0; i < world->users->job_count; i++) {
        const struct user_job *job = &world->users->job[i];
        const int64_t every =
            job->spec.evaluate_every_epochs * (job_epoch_samples(&job->data) / job->spec.batch);
        const int64_t steps = steps_of(job);
        const int64_t tests = every > 0 ? steps / every + 1 : 0;
        const int64_t test_batches =
            (job->data.test_samples + job->data.holdout_samples) / job->spec.batch + 1;
        const int64_t tasks =
            steps * (job->spec.micro_batches + 1) + tests * test_batches * job->spec.micro_batches;
        us += tasks * (int64_t)job->model->unit_count * TASK_US_MAX * slowest / 100;
    }
    return us;
}

static void wait_for_jobs(struct world *world)
{
    const int64_t until_us = world->now_us + LIVENESS_US + work_us(world);
    while (world->check->failure[0] == '\0' && !users_served(world)) {
        if (world->now_us >= until_us) {
            for (size_t i = 0; i < world->users->job_count; i++) {
                const struct user_job *job = &world->users->job[i];
                if (!job->ended) {
                    check_fail(world, "%s has not ended: %s", job->spec.name,
                               job_state_names[job->state]);
                }
            }
            return;
        }
        sim_pass(world, 100 * MS);
    }
}

static void count(struct world *world, struct sim_result *out)
{
    for (size_t i = 0; i < world->users->job_count; i++) {
        const struct user_job *job = &world->users->job[i];
        const struct job *row = rows_job(&world->coordinator->rows, job->id.text);
        out->jobs++;
        out->generations += row ? (size_t)row->generation : 0;
        if (job->ended && job->state != JOB_SUCCEEDED) {
            TRACE(world, ACTOR_USER, "%s has %s: %s", job->spec.name, job_state_names[job->state],
                  job->message);
        }
        out->succeeded += job->ended && job->state == JOB_SUCCEEDED;
        out->cancelled += job->ended && job->state == JOB_CANCELLED;
        out->failed += job->ended && job->state == JOB_FAILED;
        /* By the deadline of its groups, none may have been trained. */
        const bool late = row && row->spec.submodel.deadline_seconds > 0 &&
                          strcmp(row->state_reason, "no_groups") == 0;
        if (job->ended && job->state == JOB_FAILED && !late) {
            check_fail(world, "%s has failed for good: %s", job->spec.name, job->message);
        }
        out->repeats = check_repeats(world) > out->repeats ? check_repeats(world) : out->repeats;
    }
    memcpy(out->failure, world->check->failure, sizeof(out->failure));
    out->virtual_us = world->now_us;
    out->events = world->events;
}

int sim_run(uint64_t seed, const struct models *models, struct trace *trace, struct sim_result *out,
            struct err *err)
{
    struct world world;
    memset(out, 0, sizeof(*out));
    const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, DRAW_COUNT, 0);
    int rc = sim_open(&world, seed, models,
                      (seed < GOSSIP_FROM ? 1 : 2) +
                          (size_t)rng_below(&stream, 0, SIM_DEVICES_DRAWN - 1),
                      trace, err);
    if (rc != 0) {
        return rc;
    }
    draw(&world);
    operators_install(&world);
    sim_start(&world);
    rc = users_begin(&world, err);
    if (rc == 0) {
        speeds_begin(&world);
        faults_begin(&world);
        operators_begin(&world);
        deletions_begin(&world);
        sim_pass(&world, world.faults->end_us);
        faults_heal(&world);
        operators_end(&world);
        if (gossip_devices_left(&world) < world.agent_count) {
            faults_leave(&world, gossip_devices_left(&world));
        }
        world.users->insist = true;
        wait_for_jobs(&world);
        count(&world, out);
    }
    sim_close(&world);
    return rc;
}
