#include "tests/sim/offers.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/digest.h"
#include "tests/sim/gossip_jobs.h"

#define SALT 0x6f666672
#define CHANGES 4 /* one start in so many finds other data */
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

static void fill(struct offer *out)
{
    *out = (struct offer){
        .name = NAME, .height = 32, .width = 32, .channels = 3, .dtype = "U8", .classes = 10};
}

void offers_fill(const struct world *world, const struct agent *agent, struct enroll_request *out)
{
    if (!gossip_seed(world)) {
        return;
    }
    const uint64_t bits = bits_of(world, agent, -1 - changes_of(world, agent));
    struct offer *offer = &out->offer[out->offer_count++];
    fill(offer);
    offer->samples = 80 + (int64_t)(bits % 400);
    digest_text(bits, offer->sha256);
}

bool offers_has(const struct world *world, const struct agent *agent,
                const struct local_train *local)
{
    const uint64_t bits = bits_of(world, agent, -1 - changes_of(world, agent));
    return id_equal(local->device.text, agent->id.text) && digest_of_text(local->sha256) == bits;
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
