/* The snapshots that a device keeps, by the rules of agent/copies/snapshot_list. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "tests/sim/check.h"
#include "tests/sim/digest.h"
#include "tests/sim/run.h"
#include "tests/sim/trace.h"

const struct snapshot *agent_snapshot(const struct agent *agent, const char *job, int64_t version,
                                      int64_t unit)
{
    return snapshot_list_find(&agent->held, job, version, unit);
}

struct snapshot_bytes agent_count_bytes(const struct agent *agent, enum snapshot_origin origin,
                                        const struct job_id *job, int64_t generation)
{
    struct snapshot_bytes bytes = {0};
    for (size_t i = 0; i < agent->held.count; i++) {
        if (agent->held.item[i]->origin == origin) {
            snapshot_bytes_add(&bytes, &agent->held.item[i]->holding, job, generation);
        }
    }
    return bytes;
}

int agent_keep(struct world *world, struct agent *agent, const struct holding *holding,
               enum snapshot_origin origin)
{
    struct err err = {0};
    struct snapshot *old = NULL;
    struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
    ASSERT(snapshot);
    *snapshot = (struct snapshot){.holding = *holding, .origin = origin};
    const int rc = snapshot_list_insert(&agent->held, snapshot, &old, &err);
    free(rc == 0 ? old : snapshot);
    if (rc == 0) {
        check_snapshot(world, agent, holding, digest_of_text(holding->sha256));
        agent_poke(world, agent);
    }
    return rc;
}

/* They left the list. */
static void let_go(struct world *world, struct agent *agent, struct snapshot *gone[HOLDINGS_MAX],
                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(gone[i]);
    }
    if (count > 0) {
        agent_poke(world, agent);
    }
}

void agent_drop(struct world *world, struct agent *agent, const struct drop *drop)
{
    struct snapshot *gone[HOLDINGS_MAX];
    const size_t count = snapshot_list_drop(&agent->held, drop, gone);
    let_go(world, agent, gone, count);
    if (count > 0) {
        TRACE(world, agent->actor, "drops %zu snapshots of %s below %" PRId64, count,
              trace_name(world, drop->job.text), drop->below_version);
    }
}

void agent_cut(struct world *world, struct agent *agent, const struct snapshot_start *start)
{
    struct snapshot *gone[HOLDINGS_MAX];
    let_go(world, agent, gone, snapshot_list_start(&agent->held, start, gone));
}

void agent_release(struct world *world, struct agent *agent, const struct run *run,
                   enum snapshot_origin origin)
{
    struct snapshot *gone[HOLDINGS_MAX];
    const size_t count =
        snapshot_list_release(&agent->held, origin, &run->desired->job, run->desired->generation,
                              outbox_tasks_queue(run->outbox.tasks), gone);
    let_go(world, agent, gone, count);
    if (count > 0) {
        TRACE(world, agent->actor, "drops %zu snapshots of abandoned rounds", count);
    }
}

void agent_forget_snapshots(struct agent *agent, bool keeps)
{
    struct snapshot_list *held = &agent->held;
    const struct snapshot_list before = *held;
    *held = (struct snapshot_list){0};
    for (size_t i = 0; i < before.count; i++) {
        if (keeps) { /* a file does not tell whose it was */
            before.item[i]->origin = SNAPSHOT_REPLICA;
            held->item[held->count++] = before.item[i];
        } else {
            free(before.item[i]);
        }
    }
}
