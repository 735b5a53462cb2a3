/* What an agent of an older protocol can follow. */
#include <string.h>

#include "base/assert.h"
#include "tests/sim/check.h"

#define PROTOCOL_OF_VIEWS 3 /* the first version that has them */
#define PROTOCOL_OF_MIXES 6 /* and parts in mixes */

static bool is_plain(bool present, const struct peer *peer)
{
    return !present || peer->codec[0] == '\0' || strcmp(peer->codec, "none") == 0;
}

/* A coordinator that was restored knows the version of the agent then, until it enrols again. */
void check_protocol(const struct world *world, const struct agent *agent)
{
    const bool known = agent->desired->has_run && world->check->backups == 0;
    const struct assignment_run *run = known ? &agent->desired->run : NULL;
    if (run && agent->protocol == 1) {
        ASSERT(run->job_spec.pipeline == JOB_SYNC && !run->strict);
        ASSERT(is_plain(run->has_previous, &run->previous) && is_plain(run->has_next, &run->next));
    }
    if (run && agent->protocol < PROTOCOL_OF_VIEWS) {
        ASSERT(!run->job_spec.has_view);
    }
    if (run && agent->protocol < PROTOCOL_OF_MIXES) {
        ASSERT(!run->has_mix);
    }
}
