/* agent_parts.h: what the files of the simple agents offer each other. For them only. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_AGENT_PARTS_H
#define TESTS_UNIT_COORDINATOR_CORE_AGENT_PARTS_H

#include "tests/unit/coordinator_core/world.h"

/* Replaced unless the generation is older. */
void agent_hold(struct agent *agent, const char *job, int64_t generation, int64_t version,
                int64_t unit);
void agent_drop(struct agent *agent, const struct drop *drop);
/* A new generation starts from the version: newer versions are discarded. */
void agent_cut_off(struct agent *agent, const char *job, int64_t version);
/* Whether the other agent lets this one in: it goes by the assignment it has itself. */
bool agent_lets_in(const struct agent *other, const struct agent *agent);
/* Stage 0 opens the rounds that are due at the step it begins. */
void agent_open_rounds(struct agent *agent, int64_t step);
/* Every stage takes the snapshot right after the step that stage 0 has marked. */
void agent_take_snapshots(struct world *world, struct agent *agent);
/* Stage 0 learns from the reply what became of its rounds. */
void agent_take_rounds(struct world *world, struct agent *agent);
/* false: it was refused. */
bool agent_send_center(struct world *world, struct agent *agent, int64_t version, int64_t unit);

#endif
