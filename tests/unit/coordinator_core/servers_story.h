/* servers_story.h: stories of jobs of the strategy parameter_server. One thread. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_SERVERS_STORY_H
#define TESTS_UNIT_COORDINATOR_CORE_SERVERS_STORY_H

#include "tests/unit/coordinator_core/story.h"

/* What a stage of a story keeps and computes. */
struct servers_stage_of {
    size_t agent;
    int64_t first, end, share_first, share_end;
};

/* A job of so many steps, of 4 micro-batches, without evaluations. */
struct job_spec servers_spec(int64_t steps);
/* Answer the open question by these stages, whatever the planner says. */
void servers_answer(struct world *world, const struct servers_stage_of *stage, size_t count);
/* Devices a, b, c and d; the first three run the job: a serves units [0, 2), b serves the others
 * and computes the last two micro-batches, c computes the first two. */
void servers_run(struct world *world, char id[ID_SIZE], const struct job_spec *spec);
/* The stage of the job's plan that is on the agent. */
const struct plan_stage *servers_stage(const struct world *world, const char *id,
                                       const struct agent *agent);

#endif
