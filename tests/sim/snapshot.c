/* The snapshots that a device keeps (agent/copies/snapshot), by job, version and unit. */
#include <inttypes.h>
#include <string.h>

#include "agent/copies/holdings.h"
#include "agent/copies/outbox_queue.h"
#include "tests/sim/check.h"
#include "tests/sim/run.h"
#include "tests/sim/trace.h"

static size_t find(const struct agent *agent, const char *job, int64_t version, int64_t unit)
{
    size_t at = 0;
    while (at < agent->snapshot_count &&
           !(agent->snapshot[at].holding.unit == unit &&
             agent->snapshot[at].holding.version == version &&
             strcmp(agent->snapshot[at].holding.job.text, job) == 0)) {
        at++;
    }
    return at;
}

const struct snapshot *agent_snapshot(const struct agent *agent, const char *job, int64_t version,
                                      int64_t unit)
{
    const size_t at = find(agent, job, version, unit);
    return at < agent->snapshot_count ? &agent->snapshot[at] : NULL;
}

struct kept_bytes agent_count_bytes(const struct agent *agent, bool replica,
                                    const struct job_id *job, int64_t generation)
{
    struct kept_bytes bytes = {0};
    for (size_t i = 0; i < agent->snapshot_count; i++) {
        const struct holding *holding = &agent->snapshot[i].holding;
        if (agent->snapshot[i].replica != replica) {
            continue;
        }
        const bool present =
            holding->generation == generation && strcmp(holding->job.text, job->text) == 0;
        bytes.held += holding->bytes;
        bytes.present += present ? holding->bytes : 0;
    }
    return bytes;
}

/* ---- keeping ---- */

static bool is_cut(const struct agent *agent, const struct holding *holding)
{
    for (size_t i = 0; i < CUTS_MAX; i++) {
        const struct cut *cut = &agent->cut[i];
        if (holding->version > cut->version && holding->generation < cut->generation &&
            strcmp(holding->job.text, cut->job.text) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_whole(const struct agent *agent, const struct holding *holding)
{
    struct holdings_units units = {.of = holding};
    for (size_t i = 0; i < agent->snapshot_count; i++) {
        holdings_units_count(&units, &agent->snapshot[i].holding);
    }
    return holdings_units_are_whole(&units);
}

static void changed(struct world *world, struct agent *agent)
{
    agent->snapshot_revision++;
    agent_poke(world, agent);
}

int agent_keep(struct world *world, struct agent *agent, const struct holding *holding,
               uint64_t digest, bool replica)
{
    const size_t at = find(agent, holding->job.text, holding->version, holding->unit);
    if (is_cut(agent, holding) || (at < agent->snapshot_count &&
                                   agent->snapshot[at].holding.generation > holding->generation)) {
        return ERR_STALE;
    }
    if (at == SNAPSHOTS_MAX) {
        return ERR_LIMIT;
    }
    check_snapshot(world, agent, holding, digest);
    agent->snapshot[at] =
        (struct snapshot){.holding = *holding, .digest = digest, .replica = replica};
    agent->snapshot_count += at == agent->snapshot_count;
    agent->snapshot_whole = agent->snapshot_whole || is_whole(agent, holding);
    changed(world, agent);
    return 0;
}

/* ---- letting go ---- */

typedef bool (*goes_fn)(const struct snapshot *snapshot, const void *arg);

/* Let go of those that `goes` names. Returns how many. */
static size_t remove_all(struct world *world, struct agent *agent, goes_fn goes, const void *arg)
{
    size_t stay = 0;
    for (size_t i = 0; i < agent->snapshot_count; i++) {
        if (!goes(&agent->snapshot[i], arg)) {
            agent->snapshot[stay++] = agent->snapshot[i];
        }
    }
    const size_t gone = agent->snapshot_count - stay;
    agent->snapshot_count = stay;
    if (gone > 0) {
        changed(world, agent);
    }
    return gone;
}

static bool is_dropped(const struct snapshot *snapshot, const void *arg)
{
    const struct drop *drop = arg;
    return snapshot->holding.version < drop->below_version &&
           strcmp(snapshot->holding.job.text, drop->job.text) == 0;
}

void agent_drop(struct world *world, struct agent *agent, const struct drop *drop)
{
    const size_t gone = remove_all(world, agent, is_dropped, drop);
    if (gone > 0) {
        TRACE(world, agent->actor, "drops %zu snapshots of %s below %" PRId64, gone,
              trace_name(world, drop->job.text), drop->below_version);
    }
}

static bool is_cut_off(const struct snapshot *snapshot, const void *arg)
{
    const struct cut *cut = arg;
    return snapshot->holding.version > cut->version &&
           strcmp(snapshot->holding.job.text, cut->job.text) == 0;
}

void agent_cut(struct world *world, struct agent *agent, const struct cut *cut)
{
    agent->cut[agent->cuts++ % CUTS_MAX] = *cut;
    (void)remove_all(world, agent, is_cut_off, cut);
}

struct release {
    const struct run *run;
    bool replica;
};

static bool is_released(const struct snapshot *snapshot, const void *arg)
{
    const struct release *release = arg;
    const struct assignment_run *desired = release->run->desired;
    const struct holding *holding = &snapshot->holding;
    return snapshot->replica == release->replica && holding->generation == desired->generation &&
           strcmp(holding->job.text, desired->job.text) == 0 &&
           outbox_queue_is_expendable(release->run->replicate.book, holding->version);
}

void agent_release(struct world *world, struct agent *agent, const struct run *run, bool replica)
{
    const struct release release = {.run = run, .replica = replica};
    const size_t gone = remove_all(world, agent, is_released, &release);
    if (gone > 0) {
        TRACE(world, agent->actor, "drops %zu snapshots of rounds given up", gone);
    }
}
