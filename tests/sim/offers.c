#include "tests/sim/offers.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/digest.h"
#include "tests/sim/gossip_jobs.h"

#define SALT 0x6f666672
#define CHANGES 4  /* one start in so many finds other data */
#define APPENDS 40 /* one look in so many finds more samples */
#define LOOKS 1000000
#define NAME "own"

static uint64_t bits_of(const struct world *world, const struct agent *agent, int64_t number)
{
    return digest_mix(digest_mix(world->seed, SALT + agent->index), (uint64_t)number);
}

/* Since the first start. */
static int64_t changes_of(const struct world *world, const struct agent *agent)
{
    int64_t changes = 0;
    for (int64_t boot = 2; boot <= agent->boots; boot++) {
        changes += bits_of(world, agent, boot) % CHANGES == 0;
    }
    return changes;
}

static int64_t appended_to(const struct world *world, const struct agent *agent)
{
    return agent->appended.changes == changes_of(world, agent) ? agent->appended.count : 0;
}

bool offers_used(const struct world *world)
{
    bool local = false;
    for (size_t i = 0; i < world->users->job_count; i++) {
        local = local || job_is_local(&world->users->job[i].spec);
    }
    return local;
}

bool offers_append(const struct world *world, struct agent *agent)
{
    if (!offers_used(world) ||
        bits_of(world, agent, LOOKS + agent->appended.looks++) % APPENDS != 0) {
        return false;
    }
    agent->appended.count = appended_to(world, agent) + 1;
    agent->appended.changes = changes_of(world, agent);
    return true;
}

/* Of the present data when samples had been appended so many times. */
static uint64_t digest_at(uint64_t bits, int64_t appended)
{
    return appended == 0 ? bits : digest_mix(bits, (uint64_t)appended);
}

static int64_t samples_at(uint64_t bits, int64_t appended)
{
    int64_t samples = 80 + (int64_t)(bits % 400);
    for (int64_t i = 1; i <= appended; i++) {
        samples += 1 + (int64_t)(digest_at(bits, i) % 60);
    }
    return samples;
}

static void fill(struct offer *out)
{
    *out = (struct offer){
        .name = NAME, .height = 32, .width = 32, .channels = 3, .dtype = "U8", .classes = 10};
}

/* Samples of each class for jobs that divide classes: a device lacks some that each other device
 * has. */
static void count_classes(uint64_t bits, const struct agent *agent, struct offer *offer)
{
    int64_t left = offer->samples - SIM_CLASSES;
    offer->class_count_count = SIM_CLASSES;
    for (size_t c = 0; c < SIM_CLASSES; c++) {
        const uint64_t own = digest_mix(bits, 100 + c);
        const bool lacks = (agent->index + c) % 2 == 0 && own % 3 == 0;
        const int64_t most = 1 + left / (int64_t)(SIM_CLASSES - c);
        offer->class_count[c] = lacks ? 0 : 1 + (int64_t)(own / 8 % (uint64_t)most);
        left -= lacks ? -1 : offer->class_count[c] - 1;
    }
    offer->class_count[(agent->index + 1) % 2] += left; /* of one that it has */
}

void offers_fill(const struct world *world, const struct agent *agent, struct enroll_request *out)
{
    if (!gossip_seed(world) && !offers_used(world)) {
        return;
    }
    const uint64_t bits = bits_of(world, agent, -1 - changes_of(world, agent));
    struct offer *offer = &out->offer[out->offer_count++];
    const int64_t appended = appended_to(world, agent);
    fill(offer);
    offer->samples = samples_at(bits, appended);
    digest_text(digest_at(bits, appended), offer->sha256);
    if (!gossip_seed(world)) {
        count_classes(bits, agent, offer);
    }
    for (int64_t i = appended > OFFER_PARTS_MAX ? appended - OFFER_PARTS_MAX : 0; i < appended;
         i++) {
        struct offer_part *part = &offer->part[offer->part_count++];
        part->samples = samples_at(bits, i);
        digest_text(digest_at(bits, i), part->sha256);
    }
}

bool offers_has(const struct world *world, const struct agent *agent,
                const struct local_train *local, int64_t samples)
{
    const uint64_t bits = bits_of(world, agent, -1 - changes_of(world, agent));
    bool has = false;
    for (int64_t i = 0; i <= appended_to(world, agent); i++) {
        has = has || (digest_of_text(local->sha256) == digest_at(bits, i) &&
                      samples == samples_at(bits, i));
    }
    return has && id_equal(local->device.text, agent->id.text);
}

void offers_use(struct user_job *job)
{
    struct job_spec *spec = &job->spec;
    struct offer offer;
    fill(&offer);
    spec->dataset_train[0] = job->data.train_sha256[0] = '\0';
    (void)snprintf(spec->train_local.name, sizeof(spec->train_local.name), "%s", offer.name);
    offer_form(&offer, spec->train_local.form);
    spec->train_local.classes = offer.classes;
    job->classes.count = 0; /* there is nothing to divide */
}

void offers_divide(struct user_job *job)
{
    struct job_spec *spec = &job->spec;
    const struct event_classes classes = job->classes;
    if (spec->submodel.joint_epochs > 0) {
        (void)snprintf(spec->submodel.joint_dataset, NAME_SIZE, "train");
        memcpy(job->data.joint_sha256, job->data.train_sha256, SHA256_SIZE);
        job->data.joint_samples = job->data.train_samples;
    }
    offers_use(job);
    job->classes = classes;
    job->classes.joint = spec->submodel.joint_epochs > 0 ? job->samples : NULL;
}
