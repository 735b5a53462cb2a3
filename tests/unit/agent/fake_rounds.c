#include <string.h>
#include <sys/eventfd.h>

#include "tests/unit/agent/fake_parts.h"

/* How many agents hold the unit at the version; all of them must mean the same bytes. */
static size_t count_copies(struct fake_coordinator *fake, int64_t version, int64_t unit)
{
    const char *sha256 = NULL;
    size_t count = 0;
    for (size_t a = 0; a < fake->script.agent_count; a++) {
        const struct fake_agent *agent = &fake->agent[a];
        for (size_t i = 0; !agent->lost && i < agent->holding_count; i++) {
            const struct holding *holding = &agent->holding[i];
            if (holding->unit != unit || holding->version != version) {
                continue;
            }
            if (sha256 && strcmp(sha256, holding->sha256) != 0) {
                fake_over(fake, "two copies of a unit differ");
            }
            sha256 = holding->sha256;
            count++;
        }
    }
    return count;
}

bool fake_is_whole(struct fake_coordinator *fake, enum replica_kind kind, int64_t version)
{
    for (int64_t unit = 0; unit < TINY_UNITS; unit++) {
        const bool there = kind == REPLICA_NEIGHBOR
                               ? count_copies(fake, version, unit) >= 2
                               : version == 0 || (fake->center[unit].versions >> version & 1);
        if (!there) {
            return false;
        }
    }
    return true;
}

static struct round take_round(struct fake_coordinator *fake, enum replica_kind kind,
                               int64_t version)
{
    struct round round = {.version = version, .state = ROUND_NONE};
    if (version == 0) {
        return round;
    }
    round.state = ROUND_OPEN;
    if (version <= fake->committed[kind]) {
        round.state = ROUND_COMMITTED;
    } else if (fake_is_whole(fake, kind, version)) {
        round.state = ROUND_COMMITTED;
        fake->committed[kind] = version;
        fake->commits[kind]++;
        (void)eventfd_write(fake->commit_fd, 1);
        fake_wake_all(fake);
    }
    return round;
}

void fake_take_rounds(struct fake_coordinator *fake, const struct heartbeat *beat,
                      struct heartbeat_reply *reply)
{
    const bool runs = fake->state == FAKE_RUNNING || fake->state == FAKE_STOPPING ||
                      fake->state == FAKE_FINISHING;
    if (runs && beat->generation == (int64_t)fake->generation + 1) {
        reply->neighbor = take_round(fake, REPLICA_NEIGHBOR, beat->round_neighbor);
        reply->center = take_round(fake, REPLICA_CENTER, beat->round_center);
    }
}

int64_t fake_newest_cut(struct fake_coordinator *fake)
{
    for (int64_t version = TINY_STEPS; version > 0; version--) {
        int64_t unit = 0;
        while (unit < TINY_UNITS && count_copies(fake, version, unit) > 0) {
            unit++;
        }
        if (unit == TINY_UNITS) {
            return version;
        }
    }
    return 0;
}
