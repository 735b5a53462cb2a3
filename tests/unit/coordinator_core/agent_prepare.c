/* How an agent gets ready: it takes units from their sources, and reaches the stages it calls. */
#include <string.h>

#include "tests/unit/coordinator_core/world.h"

/* What a worker loads of units that others keep is no copy. */
static void keep(struct agent *agent, int64_t unit)
{
    const struct assignment_run *run = &agent->assignment.run;
    if (unit >= run->first && unit < run->end) {
        agent_hold(agent, agent, run->resume_version, unit);
    }
}

/* Take one unit from where the assignment says. */
static bool take_unit(struct world *world, struct agent *agent, const struct source *source)
{
    const struct assignment_run *run = &agent->assignment.run;
    char sha256[SHA256_SIZE];
    unit_sha256(sha256, run->resume_version, source->unit);
    switch ((enum source_from)source->from) {
    case SOURCE_SEED: assert_int_equal(run->resume_version, 0); return true;
    case SOURCE_CHECKPOINT:
        assert_int_equal(run->resume_version, 0);
        assert_string_equal(source->sha256, run->data.checkpoint_sha256);
        return core_may_read_blob(world->core, agent->id.text, source->sha256);
    case SOURCE_SELF:
        assert_true(agent_holds(agent, run->job.text, run->resume_version, source->unit));
        return true;
    case SOURCE_DEVICE: {
        const struct agent *other = world_agent_of(world, source->device.text);
        assert_string_equal(source->sha256, sha256);
        if (!agent_reaches(agent, other) ||
            !agent_holds(other, run->job.text, run->resume_version, source->unit)) {
            return false;
        }
        keep(agent, source->unit);
        return true;
    }
    case SOURCE_CENTER:
        assert_string_equal(source->sha256, sha256);
        if (!core_may_read_blob(world->core, agent->id.text, sha256)) {
            return false;
        }
        keep(agent, source->unit);
        return true;
    }
    return false;
}

static bool reaches_stage(struct world *world, const struct agent *agent, const struct peer *peer)
{
    return !world->reports || agent_answers(agent, world_agent_of(world, peer->device.text));
}

void agent_get_ready(struct world *world, struct agent *agent)
{
    const struct assignment_run *run = &agent->assignment.run;
    size_t first, end;
    assignment_loads(run, &first, &end);
    assert_int_equal(run->source_count, end - first);
    bool all = !agent->stuck &&
               (!run->has_previous || reaches_stage(world, agent, &run->previous)) &&
               (!run->has_next || reaches_stage(world, agent, &run->next));
    for (size_t s = 0; s < run->stages_listed; s++) {
        const struct peer *peer = &run->stage[s].peer;
        all = all && (peer->url[0] == '\0' || reaches_stage(world, agent, peer));
    }
    for (size_t i = 0; i < run->source_count; i++) {
        const int64_t unit = run->source[i].unit;
        assert_int_equal(unit, first + i);
        agent->has[unit] = agent->has[unit] || take_unit(world, agent, &run->source[i]);
        all = all && agent->has[unit];
    }
    if (all) {
        struct session_event event = {.type = SESSION_PREPARED};
        agent->ready = true;
        agent_event(world, agent, &event);
    }
}
