/* The snapshots that agents hold. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/world.h"

/* By the law a unit has the same bits at a version wherever it was computed. */
void unit_sha256(char out[SHA256_SIZE], int64_t version, int64_t unit)
{
    memset(out, 0, SHA256_SIZE);
    (void)snprintf(out, SHA256_SIZE, "state-%" PRId64 "-of-unit-%" PRId64, version, unit);
}

static size_t find(const struct agent *agent, const char *job, int64_t version, int64_t unit)
{
    size_t at = 0;
    while (at < agent->held_count &&
           (agent->held[at].version != version || agent->held[at].unit != unit ||
            !id_equal(agent->held[at].job.text, job))) {
        at++;
    }
    return at;
}

bool agent_holds(const struct agent *agent, const char *job, int64_t version, int64_t unit)
{
    return find(agent, job, version, unit) < agent->held_count;
}

void agent_hold(struct agent *agent, const struct agent *sender, int64_t version, int64_t unit)
{
    const size_t at = find(agent, sender->job.text, version, unit);
    assert_true(at < AGENT_HELD);
    struct holding *held = &agent->held[at];
    if (at < agent->held_count && held->generation >= sender->generation) {
        return;
    }
    *held = (struct holding){.job = sender->job,
                             .generation = sender->generation,
                             .version = version,
                             .unit = unit,
                             .bytes = SNAPSHOT_BYTES};
    unit_sha256(held->sha256, version, unit);
    agent->held_count += at == agent->held_count;
    agent->held_changed = true;
}

/* Discard the snapshots of the job from version `first` to `last`. */
static void discard(struct agent *agent, const char *job, int64_t first, int64_t last)
{
    size_t kept = 0;
    for (size_t i = 0; i < agent->held_count; i++) {
        const struct holding *held = &agent->held[i];
        const bool goes =
            held->version >= first && held->version <= last && id_equal(held->job.text, job);
        if (!goes) {
            agent->held[kept++] = *held;
        }
    }
    agent->held_changed = agent->held_changed || kept != agent->held_count;
    agent->held_count = kept;
}

void agent_cut_off(struct agent *agent, const char *job, int64_t version)
{
    discard(agent, job, version + 1, INT64_MAX);
}

void agent_drop(struct agent *agent, const struct drop *drop)
{
    discard(agent, drop->job.text, 0, drop->below_version - 1);
    if (agent->outbox && id_equal(drop->job.text, agent->job.text)) {
        outbox_queue_drop(agent->outbox, drop->below_version);
    }
}
