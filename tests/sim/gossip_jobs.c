#include "tests/sim/gossip_jobs.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/coordinator.h"
#include "tests/sim/offers.h"

#define BATCH 8 /* of users_mix */
#define ROUNDS_STEPS 120
#define SPOILS 601
#define FEW 5814        /* in no world of seeds.txt */
#define SALT 0x676f7373 /* of numbers of no draw: what else a seed does stays the same */

static uint64_t bits_of(uint64_t seed, int64_t number)
{
    return digest_mix(digest_mix(seed, SALT), (uint64_t)number);
}

bool gossip_seed(const struct world *world)
{
    return world->seed >= GOSSIP_FROM;
}

bool gossip_job_is(const struct world *world, const struct user_job *job)
{
    return gossip_seed(world) && (world->seed < MIXED_FROM || job == &world->users->job[0]);
}

/* One device alone stays at last. */
static bool leaves_one(const struct world *world)
{
    return bits_of(world->seed, 3) % 6 == 0;
}

/* Every second world draws jobs in rounds as well. The number leaves the worlds of seeds.txt that
 * were found before as they are. */
static bool draws_rounds(const struct world *world)
{
    return bits_of(world->seed, 523) % 2 == 1;
}

/* Groups of so few samples that a fast one slows down before its mix. */
static bool draws_few(const struct world *world)
{
    return bits_of(world->seed, FEW) % 4 == 0;
}

static void draw_rounds(uint64_t bits, struct gossip_options *options)
{
    options->schedule = bits % 4 > 0 ? SCHEDULE_ROUNDS : SCHEDULE_ASYNC;
    options->level = options->schedule == SCHEDULE_ASYNC || bits / 4 % 3 > 0;
    options->critical = bits / 16 % 3 == 0 ? 0.3 : 0;
    options->weights = options->average_by == AVERAGE_GROUPS && bits / 64 % 2 == 0
                           ? WEIGHTS_ACCURACY
                           : WEIGHTS_EQUAL;
}

static void draw_options(uint64_t bits, struct gossip_options *options)
{
    static const int64_t every[] = {1, 2, 3, 4, 8, 16};
    *options = (struct gossip_options)GOSSIP_OPTIONS_DEFAULT;
    options->split = (int)(bits % 4);
    options->pairs = (int)(bits / 4 % 2);
    options->average_by = (int)(bits / 8 % 2);
    options->has_average_by = true;
    options->average_every = every[bits / 16 % 6];
    options->adopt = bits / 128 % 4 > 0;
    options->target_accuracy = bits / 512 % 8 == 0 ? 0.2 : 0;
    options->classes_per_shard = 5 + (int64_t)(bits / 4096 % 3);
}

/* Two of three jobs on local data are judged by what their devices hold out, too. */
static void draw_test(uint64_t bits, struct user_job *job)
{
    static const double share[] = {0.01, 0.1, 0.5};
    struct job_data *data = &job->data;
    if (bits % 3 == 0) {
        return;
    }
    job->spec.dataset_test[0] = data->test_sha256[0] = '\0';
    job->spec.test_local.holdout = share[bits / 3 % 3];
    data->test_samples = 1 + (int64_t)(share[bits / 3 % 3] * (double)(data->train_samples - 1));
    data->epoch_samples = data->train_samples - data->test_samples;
}

void gossip_job_draw(const struct world *world, struct user_job *job)
{
    const uint64_t bits = bits_of((uint64_t)job->spec.seed, 1);
    struct job_spec *spec = &job->spec;
    if (!gossip_job_is(world, job)) {
        return;
    }
    struct gossip_options options;
    draw_options(bits_of((uint64_t)spec->seed, 2), &options);
    spec->micro_batches = 1 + (int64_t)(bits % 2);
    spec->optimizer.clip_norm = bits / 2 % 2 == 0 ? 0 : 1;
    spec->steps = 40 + (int64_t)(bits / 4 % 160);
    if (draws_rounds(world)) {
        draw_rounds(bits_of((uint64_t)spec->seed, 3), &options);
        spec->steps += options.level ? 0 : ROUNDS_STEPS; /* a round is a pass of all samples */
    }
    const int64_t most = (int64_t)world->agent_count;
    spec->devices_min = 2;
    spec->devices_max = 2 + (int64_t)(bits / 1024 % (uint64_t)(most - 1));
    /* Each of so many groups has a batch, whatever the split. */
    job->data.train_samples = SIM_CLASSES * BATCH * (6 + (int64_t)(bits / 65536 % 8));
    if (draws_few(world)) {
        options.split = SHARDS_EVEN;
        job->data.train_samples = SIM_CLASSES * BATCH;
    }
    const bool local = draws_rounds(world) && bits_of((uint64_t)spec->seed, 4) % 4 == 0;
    if (local) {
        options.split = SHARDS_EVEN;
        options.critical = 0;
        options.weights = WEIGHTS_EQUAL;
    }
    if (options.split != SHARDS_BY_CLASS) {
        options.classes_per_shard = job_spec_default.gossip.classes_per_shard;
    }
    users_mix(job, &options);
    if (local) {
        offers_use(job);
        draw_test(bits_of((uint64_t)spec->seed, 5), job);
    }
}

bool gossip_spoils(const struct world *world, const struct agent *agent)
{
    const uint64_t bits = bits_of(world->seed, SPOILS);
    return gossip_seed(world) && bits % 6 == 0 && !leaves_one(world) &&
           world->agent[bits / 64 % world->agent_count] == agent;
}

size_t gossip_devices_left(const struct world *world)
{
    const struct rows *rows = &world->coordinator->rows;
    const uint64_t bits = bits_of(world->seed, 3);
    bool begun = gossip_seed(world) && world->seed < MIXED_FROM &&
                 rows->parent_count == world->users->job_count;
    for (size_t i = 0; i < rows->parent_count; i++) {
        begun = begun && rows->parent[i].gossip.member_count > 0;
    }
    return !begun                                     ? world->agent_count
           : leaves_one(world) && !offers_used(world) ? 1
           : draws_rounds(world) && bits / 64 % 3 > 0 ? world->agent_count - 1
                                                      : world->agent_count;
}
